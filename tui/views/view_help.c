/* The texts of F1. See views.h. */
#include "base/embed.h"
#include "tui/views/views.h"

#define X(NAME, name) EMBED(view_help_##name, "tui/views/help/" #name ".txt");
VIEWS(X)
#undef X
