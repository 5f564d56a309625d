/* The setting `twin`, as a hook of the step (event price): each token that is drawn or given also
 * gets its row from the exact twin (twin.h), and what separates both is told. Nothing here changes
 * a token, a page or a plan; the twin's time is in the step's. A token that a search chose is not
 * drawn from a row of the step, and has no price. Thread: the engine's. */
#include "base/models.h"
#include "engine/core/engine_impl.h"
#include "engine/observe/twin.h"

struct twinned {
	int64_t request;
	int32_t pos, id, out;
};
struct twinning {
	struct twin *twin;             /* NULL: off */
	char name[512];                /* text of the setting */
	struct twinned *drawn, *ended; /* [most] of the step */
	int32_t n_drawn, n_ended, most;
	struct twin_cost cost;
};

extern const struct step_hooks twin_hooks;

/* ---- the setting ---- */

static int twinning_open(struct engine *e, void **state, struct err *err)
{
	struct twinning *s = *state;

	s->most = e->sched.max_out;
	s->drawn = calloc((size_t)s->most, sizeof *s->drawn);
	s->ended = calloc((size_t)s->most, sizeof *s->ended);
	return s->drawn && s->ended ? 0 : err_no_memory(err, "a twin");
}

static void twinning_close(struct engine *e, void *state)
{
	struct twinning *s = state;

	(void)e;
	twin_close(s->twin);
	free(s->drawn);
	free(s->ended);
}

/* *path stays NULL where the engine's own weights serve, which they do not if this rank has a part
 * of them: then the whole file is opened once more. */
static int twins_file(const struct engine *e, const char *name, char **path, struct err *err)
{
	if (strcmp(name, "on") != 0)
		return models_find(name, path, err);
	if (!e->model || !e->model->parted)
		return 0;
	*path = strdup(e->model_path);
	return *path ? 0 : err_no_memory(err, "the name of the twin's file");
}

int engine_apply_twin(struct engine *e, struct engine_options *to, struct err *err)
{
	struct twinning *s = engine_hook_state(e, &twin_hooks);
	const char *name = to->twin && *to->twin ? to->twin : "off";
	struct twin *opened = NULL;
	char *path = NULL;
	int failed = 0;

	if (strcmp(name, "off") != 0 && e->model && e->model->diffusion.on)
		return err_set(err, ERR_USAGE,
			"twin %.40s: it follows token by token, but a diffusion model has no next token", name);
	if (strcmp(name, "off") != 0 && strcmp(name, "on") != 0 && e->model && e->model->adapters)
		return err_set(err, ERR_USAGE, "twin %.40s: adapters are this model's: --twin on", name);
	if (!s) /* a table of hooks without this one */
		return strcmp(name, "off") != 0
				   ? err_set(err, ERR_USAGE, "twin %.40s: this program has no twin", name)
				   : 0;
	if (strlen(name) >= sizeof s->name)
		return err_set(err, ERR_USAGE, "the name of the twin's file is too long");
	if (strcmp(name, "off") != 0)
		failed = twins_file(e, name, &path, err) ||
				 twin_open(&opened, &e->draft.env, path, s->most, err);
	free(path);
	if (failed)
		return -1;
	twin_close(s->twin);
	s->twin = opened;
	e->whole_rows = opened;
	memmove(s->name, name, strlen(name) + 1);
	to->twin = s->name;
	return 0;
}

/* ---- the step ---- */

/* Not while a step's rows are wanted: a request of the same step might take the place. */
static void forget_ended(struct twinning *s)
{
	for (int32_t i = 0; i < s->n_ended; i++)
		twin_forget(s->twin, s->ended[i].request);
	s->n_ended = 0;
}

static void twinning_begin(struct engine *e, void *state)
{
	struct twinning *s = state;

	(void)e;
	s->cost = (struct twin_cost){ 0 };
	s->n_drawn = 0;
	if (s->twin)
		forget_ended(s);
}

static void twinning_drawn(
	struct engine *e, void *state, const struct request *r, int32_t pos, int32_t id, int32_t out)
{
	struct twinning *s = state;

	(void)e;
	if (!s->twin || s->n_drawn == s->most)
		return;
	twin_want(s->twin, r->id, r->adapter, r->ids, pos);
	s->drawn[s->n_drawn++] = (struct twinned){ r->id, pos, id, out };
}

static void emit(void *arg, int32_t nth, const float *row, const struct k_logit_stats *exact)
{
	struct engine *e = arg;
	const struct twinning *s = engine_hook_state(e, &twin_hooks);
	const struct twinned *d = &s->drawn[nth];
	const struct k_logit_stats *lossy = &e->stats[d->out];
	const int32_t vocab = e->info.vocab;
	const struct price p = price_of(
		row, exact, e->forward.logits + (size_t)d->out * (size_t)vocab, lossy, vocab, d->id);

	STREAM_EMIT(&e->stream, price, .step = e->n_steps, .request = d->request, .pos = d->pos,
		.id = d->id, .kl = p.kl, .logp = p.logp, .exact_logp = p.exact_logp, .rank = p.rank,
		.best = lossy->argmax, .exact_best = exact->argmax, .hash = (int64_t)exact->hash);
}

static void twinning_done(struct engine *e, void *state)
{
	struct twinning *s = state;

	if (!s->twin)
		return;
	twin_run(s->twin, emit, e, &s->cost, &e->lost); /* a lost device ends the next step */
	forget_ended(s);
}

static void twinning_fill(struct engine *e, void *state, struct ev_step *step)
{
	const struct twinning *s = state;

	(void)e;
	if (!s->twin)
		return;
	step->twin_rows = s->cost.rows;
	step->twin_ns = s->cost.ns;
	step->twin_bytes = s->cost.bytes;
	step->twin_ops = s->cost.ops;
}

static void twinning_forget(struct engine *e, void *state, int64_t request)
{
	struct twinning *s = state;

	(void)e;
	if (s->twin && s->n_ended < s->most)
		s->ended[s->n_ended++].request = request;
}

const struct step_hooks twin_hooks = {
	.name = "twin",
	.size = sizeof(struct twinning),
	.open = twinning_open,
	.close = twinning_close,
	.begin = twinning_begin,
	.drawn = twinning_drawn,
	.done = twinning_done,
	.fill = twinning_fill,
	.forget = twinning_forget,
};
