/* The tables of settings, and a request by them. See options.h, settings.h. */
#include "engine/settings/options.h"

#include <stddef.h>

#include "kernels/op/round.h"

/* What completion offers comes from tables of other folders, of which this one includes none. */
extern const char *const prefix_policies[];
const char *arch_name(int i);
const char *sched_policy_name(int i);
const char *draft_offer(int i);
const char *visible_offer(int i);

#define ROW(home, type_, field, ...)                                                               \
	{ .type = SETTING_##type_,                                                                     \
		.at = offsetof(struct home, field),                                                        \
		.size = sizeof(SETTING_C_##type_),                                                         \
		__VA_ARGS__ },

const struct setting engine_settings[] = {
#define ENGINE(type, field, initial, apply, ...) ROW(engine_options, type, field, __VA_ARGS__)
#include "engine/settings/settings.def"
	{ 0 },
};

const struct setting answer_settings[] = {
#define SAMPLE(type, field, initial, apply, ...)                                                   \
	ROW(answer_settings, type, params.field, __VA_ARGS__)
#define ANSWER(type, field, initial, apply, ...) ROW(answer_settings, type, field, __VA_ARGS__)
#include "engine/settings/settings.def"
	{ 0 },
};

#define INITIAL(type, field, initial, ...) .field = initial,

const struct engine_options engine_defaults = {
#define ENGINE INITIAL
#include "engine/settings/settings.def"
};

const struct sample_params sample_defaults = {
#define SAMPLE INITIAL
#include "engine/settings/settings.def"
};

const struct answer_settings answer_defaults = {
#define SAMPLE(type, field, initial, ...) .params.field = initial,
#define ANSWER INITIAL
#include "engine/settings/settings.def"
};

struct engine_request engine_answer_request(const struct answer_settings *a)
{
	return (struct engine_request){ .max_tokens = a->max_tokens,
		.params = a->params,
		.stop = setting_stops(&a->stop),
		.grammar = a->grammar,
		.adapter = a->adapter,
		.user = a->user,
		.priority = a->priority,
		.deadline = a->deadline,
		.pooling = setting_choice(&answer_settings[ANSWER_AT_pooling], a) };
}

struct engine_request engine_own_request(enum ev_code_request_kind kind, const int32_t *ids,
	int32_t n_ids, int32_t n_generated, const char *text)
{
	return (struct engine_request){ .kind = kind,
		.ids = ids,
		.n_ids = n_ids,
		.max_tokens = n_generated,
		.params = SAMPLE_DEFAULTS,
		.text = text,
		.ignore_end = n_generated > 0 };
}
