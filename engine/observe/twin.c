/* See twin.h. */
#include "engine/observe/twin.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/arch/open.h"
#include "engine/draft/file.h"
#include "engine/draft/slots.h"
#include "engine/run/forward.h"
#include "kernels/arith.h"

enum { ROWS = 256 }; /* of a pass, at least */

struct wanted {
	struct slot *slot;
	int32_t pos;
};
struct twin {
	const struct model *model;
	struct model *own; /* NULL: the engine's is used */
	struct slots slots;
	struct forward forward;
	struct wanted *wanted; /* [most] */
	int32_t n_wanted, most;
	/* the pass that is laid out */
	int32_t n_seqs, first_out; /* sequences; which of the wanted its first output is */
	const struct slot *last;   /* whose row is the last */
};

/* ---- opening ---- */

static int open_model(struct twin *t, const struct draft_env *env, const char *path, struct err *e)
{
	struct model_options o = { .cache = WEIGHTS_CACHE_AUTO };
	struct gguf *g = NULL, *engines = NULL;
	int32_t ctx = env->ctx;
	int failed;

	t->model = env->model;
	if (!path && ctx > t->model->config.ctx_train)
		return err_set(e, ERR_USAGE,
			"no exact twin in a context of %d: beyond %d tokens this model is not what it was made "
			"to be",
			ctx, t->model->config.ctx_train);
	if (!path)
		return 0;
	failed = gguf_open(&g, path, e) || gguf_open(&engines, env->model_path, e) ||
			 draft_same_vocab(g, engines, e) || model_open(&t->own, g, env->kernels, &o, &ctx, e);
	t->model = t->own;
	gguf_close(g);
	gguf_close(engines);
	return failed ? -1 : 0;
}

static int open_parts(struct twin *t, const struct draft_env *env, const char *path, struct err *e)
{
	const struct forward_sizes most = {
		.rows = t->most > ROWS ? t->most : ROWS, .out = t->most, .ctx = env->ctx
	};

	if (!env->model)
		return err_set(e, ERR_USAGE, "a twin computes beside a model, and there is no model here");
	if (open_model(t, env, path, e))
		return -1;
	if (memory_has_states(&t->model->memory))
		return err_set(e, ERR_USAGE,
			"no twin for this model: its layers keep states, and a twin keeps keys and values "
			"alone");
	if (t->model->n_encoder)
		return err_set(e, ERR_USAGE,
			"no twin for this model: a twin computes row by row, an encoder its input as a whole");
	t->wanted = calloc((size_t)t->most, sizeof *t->wanted);
	if (!t->wanted)
		return err_no_memory(e, "a twin");
	return slots_open(&t->slots, env, &t->model->memory, 0, e) ||
				   forward_open(&t->forward, t->model, t->slots.store, most, e)
			   ? -1
			   : 0;
}

int twin_open(
	struct twin **out, const struct draft_env *env, const char *path, int32_t most, struct err *e)
{
	struct twin *t = calloc(1, sizeof *t);
	struct err own = { 0 };

	if (!t)
		return err_no_memory(e, "a twin");
	t->most = most;
	if (open_parts(t, env, path, &own)) {
		twin_close(t);
		return err_set(e, own.code, "%s", own.text);
	}
	*out = t;
	return 0;
}

void twin_close(struct twin *t)
{
	if (!t)
		return;
	forward_close(&t->forward);
	slots_close(&t->slots);
	model_close(t->own);
	free(t->wanted);
	free(t);
}

/* ---- passes ---- */

void twin_want(struct twin *t, int64_t request, int32_t adapter, const int32_t *ids, int32_t pos)
{
	struct slot *slot = slots_take(&t->slots, request, ids, pos);

	if (slot->adapter != adapter) /* its entries are another's, of whom it was */
		slot_cut(slot, 0);
	slot->adapter = adapter;

	if (t->n_wanted < t->most)
		t->wanted[t->n_wanted++] = (struct wanted){ slot, pos };
}

static void begin_pass(struct twin *t, int32_t first_out)
{
	struct forward *f = &t->forward;

	f->n_rows = f->n_out = f->n_items = 0;
	t->n_seqs = 0;
	t->last = NULL;
	t->first_out = first_out;
}

static void add_row(struct twin *t, struct slot *slot, bool out)
{
	struct forward *f = &t->forward;
	const int32_t row = f->n_rows++, pos = slot->n;

	if (slot != t->last) {
		for (int32_t g = 0; g < t->model->memory.n; g++)
			f->pages[g][t->n_seqs] = slot->table;
		f->item_row[f->n_items++] = row;
		t->n_seqs++;
		t->last = slot;
	}
	f->ids[row] = slot->ids[pos];
	f->rows[row] =
		(struct k_row){ .pos = pos, .seq = t->n_seqs - 1, .observe = -1, .adapter = slot->adapter };
	if (out)
		f->out_row[f->n_out++] = row;
	slot->at[slot->n++] = pos;
}

static int run_pass(struct twin *t, twin_fn *fn, void *arg, struct twin_cost *cost, struct err *e)
{
	struct forward *f = &t->forward;
	const int64_t start = now_ns();

	if (!f->n_rows)
		return 0;
	if (forward_run(f, false, e))
		return -1;
	cost->ns += now_ns() - start;
	cost->rows += f->n_rows;
	for (int s = 0; s < K_N_STAGES; s++) {
		cost->bytes += (int64_t)f->cost.stage[s].bytes;
		cost->ops += (int64_t)f->cost.stage[s].ops;
	}
	for (int32_t i = 0; i < f->n_out; i++)
		fn(arg, t->first_out + i, f->logits + (size_t)i * (size_t)t->model->config.vocab,
			&f->stats[i]);
	return 0;
}

int twin_run(struct twin *t, twin_fn *fn, void *arg, struct twin_cost *cost, struct err *e)
{
	int failed = 0;

	*cost = (struct twin_cost){ 0 };
	begin_pass(t, 0);
	for (int32_t i = 0; !failed && i < t->n_wanted; i++) {
		struct slot *slot = t->wanted[i].slot;
		const int32_t pos = t->wanted[i].pos;

		if (slot->n >= pos) /* the row is computed again for its logits */
			slot_cut(slot, pos - 1);
		while (!failed && slot->n < pos) {
			if (t->forward.n_rows == t->forward.max_rows) {
				failed = run_pass(t, fn, arg, cost, e);
				begin_pass(t, i);
			}
			add_row(t, slot, slot->n == pos - 1);
		}
	}
	failed = failed || run_pass(t, fn, arg, cost, e);
	t->n_wanted = 0;
	return failed ? -1 : 0;
}

void twin_forget(struct twin *t, int64_t request)
{
	slots_end(&t->slots, request);
}

/* ---- what separates two rows ---- */

/* log of the sum of exp(l - max), by the integer mass of rule 15. */
static double log_mass(const struct k_logit_stats *s)
{
	return k_log64(ldexp((double)s->mass, -40));
}

struct price price_of(const float *exact, const struct k_logit_stats *of_exact, const float *lossy,
	const struct k_logit_stats *of_lossy, int32_t vocab, int32_t id)
{
	const double p_mass = log_mass(of_exact), q_mass = log_mass(of_lossy);
	struct price out = { .rank = 1 };
	double sum = 0;

	for (int32_t i = 0; i < vocab; i++) {
		const float p_depth = k_logit_depth(exact[i], of_exact->max);
		const float q_depth = k_logit_depth(lossy[i], of_lossy->max);

		sum += (double)k_exp(p_depth) * (((double)p_depth - p_mass) - ((double)q_depth - q_mass));
		out.rank += exact[i] > exact[id] || (exact[i] == exact[id] && i < id);
	}
	sum /= ldexp((double)of_exact->mass, -40);
	out.kl = sum > 0 ? sum : 0; /* roundings may leave a little less */
	out.exact_logp = (double)(exact[id] - of_exact->max) - p_mass;
	out.logp = (double)(lossy[id] - of_lossy->max) - q_mass;
	return out;
}
