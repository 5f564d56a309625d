/* Nothing is computed: the tokens that would be drawn are given (engine_options.given). Pages are
 * counted but hold nothing. Drafters that need no model work as usual. See compute.h. Thread: the
 * engine's. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

static int given_open(struct engine *e, const struct engine_options *o, struct err *err)
{
	struct engine_info *i = &e->info;

	(void)err;
	i->backend = "given";
	i->isa = i->device = i->fallback = "";
	i->n_layers = i->n_heads = i->n_kv_heads = i->head_dim = i->dim = 1;
	i->vocab = INT32_MAX;
	i->ctx = o->ctx;
	i->start = o->given->start - 1;
	e->specs = o->given->memory ? *o->given->memory : memory_paged_specs(1, 1, 1);
	e->given = o->given;
	return 0;
}

static int given_open_steps(
	struct engine *e, const struct engine_options *o, int32_t max_out, struct err *err)
{
	(void)o;
	e->stats = calloc((size_t)max_out, sizeof *e->stats);
	return e->stats ? 0 : err_no_memory(err, "the outputs of a step");
}

static void given_close(struct engine *e)
{
	free(e->stats);
}

static bool given_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out)
{
	(void)pos;
	(void)out;
	e->drawn = (struct sample_result){ .p = NAN, .p_draw = NAN, .arrival = NAN, .entropy = NAN };
	return e->given->next(e->given->arg, r->id, &e->drawn.id);
}

static int given_end(const struct engine *e, struct request *r, const char **why)
{
	int end = e->given->end(e->given->arg, r->id);

	*why = NULL;
	if (end < 0 && r->n_ids == r->limit)
		return r->limit_is_ctx ? EV_FINISH_context : EV_FINISH_length;
	return end;
}

const struct engine_compute compute_given = {
	.open = given_open,
	.open_steps = given_open_steps,
	.close = given_close,
	.draw = given_draw,
	.end = given_end,
};
