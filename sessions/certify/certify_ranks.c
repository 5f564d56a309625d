/* The axis of ranks. See certify_private.h. Thread: any; no state. */
#include "sessions/certify/certify_private.h"

/* Of a value of the axis. */
struct axis_ranks {
	const char *value;
	int32_t tensor, pipeline, sequence;
	bool by_expert;
	const char *exchange;
	int32_t prefill;
};
static const struct axis_ranks ranks[] = { { "1", 1, 1, 1, false, "q8", 0 },
	{ "tensor 2", 2, 1, 1, false, "q8", 0 }, { "pipeline 2", 1, 2, 1, false, "q8", 0 },
	{ "sequence 2", 1, 1, 2, false, "q8", 0 }, { "prompts 1", 1, 1, 1, false, "q8", 1 },
	{ "tensor 3 in f32", 3, 1, 1, false, "f32", 0 },
	{ "tensor 2 x pipeline 2", 2, 2, 1, false, "q8", 0 }, { "experts 2", 2, 1, 1, true, "q8", 0 },
	{ "tensor 4", 4, 1, 1, false, "q8", 0 }, { "sequence 3", 1, 1, 3, false, "q8", 0 } };

static const struct axis_ranks *ranks_of(const char *value)
{
	const struct axis_ranks *r = ranks;

	while (strcmp(r->value, value) != 0)
		r++;
	return r;
}

/* What a lossy `exchange` of all cases says stays. */
void ranks_set_options(struct engine_options *o, const char *value)
{
	const struct axis_ranks *r = ranks_of(value);

	o->tensor_parallel = r->tensor;
	o->pipeline_parallel = r->pipeline;
	o->sequence_parallel = r->sequence;
	o->expert_parallel = r->by_expert;
	o->prefill_ranks = r->prefill;
	o->prefill_least = 1;
	if (strcmp(o->exchange, "f16") != 0)
		o->exchange = r->exchange;
}

void ranks_fill(struct axis_values *a)
{
	for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
		a->value[a->n++] = ranks[i].value;
	a->n_quick = 5;
}

/* Those that the model's layers allow; experts are other ranks than tensor's only where it has
 * any. */
void ranks_fit(struct axes *axes, bool experts)
{
	struct axis_values *a = &axes->axis[AXIS_RANKS];
	const struct axis_values all = *a;

	a->n = 1;
	for (int i = 1; i < all.n; i++) {
		struct engine_options o = ENGINE_DEFAULTS;
		struct err ignored = { 0 };
		struct engine *e = NULL;

		o.model = axes->o->model;
		o.threads = 1;
		lossy_put(&axes->o->lossy, &o, &ignored);
		ranks_set_options(&o, all.value[i]);
		if ((!o.expert_parallel || experts) && !engine_open(&e, &o, &ignored))
			a->value[a->n++] = all.value[i];
		engine_close(e);
	}
	a->n_quick = a->n < all.n_quick ? a->n : all.n_quick;
}

bool ranks_of_prompts(const char *value)
{
	return ranks_of(value)->prefill > 0;
}

bool ranks_have_parts(const char *value)
{
	return ranks_of(value)->tensor > 1 || ranks_of(value)->pipeline > 1;
}
