/* The functions that apply settings, each where its row in settings.def names it. Nothing else is
 * here: what a setting changes is in the file of that part. */
#include "engine/core/engine_impl.h"

setting_apply *const setting_table[N_ENGINE_SETTINGS] = {
#define ENGINE(type, field, initial, apply, ...) apply,
#include "engine/settings/settings.def"
};
