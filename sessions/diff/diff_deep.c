/* Compares two distributions over the whole vocabulary, row by row. See diff_deep in diff.h. */
#include "engine/observe/probe.h"
#include "engine/observe/twin.h"
#include "sessions/diff/diff_impl.h"

struct deep {
	struct diff *d;
	const struct diff_deep_options *o;
	struct engine *engine[2]; /* the same engine twice if the models are equal */
	int32_t done, all;
};

/* The part of a pair that is computed: rows [first, first + n) of each side's tokens. */
struct stretch {
	const int32_t *ids[2];
	int32_t first[2], n;
};

static bool stretch_of(const struct diff *d, const struct diff_pair *p, struct stretch *s)
{
	memset(s, 0, sizeof *s);
	if (p->cause == DIFF_ALONE || (d->same_model && (p->cause == DIFF_EQUAL || !d->same_vocab)))
		return false;
	for (int i = 0; i < 2; i++) {
		const struct diff_side *side = &p->side[d->same_model ? i : 0];
		int32_t first =
			d->same_model && p->cause != DIFF_PROMPT ? p->from[i] + p->at : side->n_prompt - 1;
		int32_t n = side->n - 1 - first;

		s->ids[i] = side->ids;
		s->first[i] = first;
		s->n = i && s->n < n ? s->n : n;
	}
	return s->n > 0 && s->first[0] >= 0 && s->first[1] >= 0;
}

static int compare_rows(struct deep *k, struct probe_rows *a, struct probe_rows *b, int32_t n,
	struct diff_distance *out, struct err *e)
{
	int32_t vocab = engine_info(k->engine[0])->vocab;

	for (int32_t i = 0; i < n; i++) {
		struct k_logit_stats sa, sb;
		const float *la = probe_rows_next(a, &sa, e), *lb = la ? probe_rows_next(b, &sb, e) : NULL;
		double kl;

		if (!lb)
			return -1;
		if (k->o->stop && atomic_load(k->o->stop))
			return err_set(e, ERR_INTERRUPTED, "stopped");
		kl = sa.hash == sb.hash ? 0 : price_of(la, &sa, lb, &sb, vocab, 0).kl;
		out->n++;
		out->n_top++;
		out->top += sa.argmax == sb.argmax;
		out->kl += (kl - out->kl) / ++out->n_kl;
		out->kl_max = fmax(out->kl_max, kl);
		if (k->o->progress && (++k->done % 16 == 0 || k->done == k->all))
			k->o->progress(k->o->arg, k->done, k->all);
	}
	return 0;
}

/* What a row attends to is a setting, and may be the difference between the two. */
static int compute_as_recorded(struct deep *k, int side, struct err *e)
{
	const struct lossy_settings l = history_lossy(k->d->h[side], NULL);

	return lossy_apply(&l, k->engine[side], e);
}

/* Its engines are opened without adapters. */
static int check_adapters(const struct diff *d, struct err *e)
{
	for (int i = 0; i < 2; i++)
		if (d->h[i]->n_adapters)
			return err_set(e, ERR_USAGE,
				"%s was recorded with adapters (--lora), whose rows diff --deep cannot compute",
				d->h[i]->path);
	return 0;
}

static int compare_pair(
	struct deep *k, const struct stretch *s, struct diff_distance *out, struct err *e)
{
	struct probe_rows *rows[2] = { NULL, NULL };
	int rc = 0;

	for (int i = 0; !rc && i < 2; i++)
		rc = compute_as_recorded(k, i, e) ||
			 probe_rows_open(&rows[i], k->engine[i], s->ids[i], s->first[i] + s->n, s->first[i], e);
	if (!rc)
		rc = compare_rows(k, rows[0], rows[1], s->n, out, e);
	probe_rows_close(rows[0]);
	probe_rows_close(rows[1]);
	return rc;
}

static int open_engines(struct deep *k, int32_t longest, struct err *e)
{
	for (int i = 0; i < (k->d->same_model ? 1 : 2); i++) {
		const struct lossy_settings l = history_lossy(k->d->h[i], NULL);
		struct engine_options o = k->o->engine[i];

		o.ctx = longest + 1;
		o.slots = 1;
		o.page_size = K_GROUP;
		o.pages = 4; /* a probe allocates its own */
		o.spec = "off";
		o.abandon = k->o->stop;
		if (lossy_put(&l, &o, e) || engine_open(&k->engine[i], &o, e))
			return -1;
	}
	if (k->d->same_model)
		k->engine[1] = k->engine[0];
	for (int i = 0; i < 2; i++)
		if (engine_info(k->engine[i])->vocab != k->d->h[0]->vocab)
			return err_set(e, ERR_INPUT,
				"%s: --deep needs models of one vocabulary, but that of %s has %d tokens, not %lld",
				k->d->h[i]->path, engine_info(k->engine[i])->name, engine_info(k->engine[i])->vocab,
				(long long)k->d->h[0]->vocab);
	return 0;
}

int diff_deep(
	struct diff *d, const struct diff_deep_options *o, struct diff_distance *out, struct err *e)
{
	struct deep k = { .d = d, .o = o };
	struct stretch s;
	int32_t longest = 0;
	int rc = 0;

	memset(out, 0, (size_t)d->n_pairs * sizeof *out);
	for (int32_t i = 0; i < d->n_pairs; i++)
		if (stretch_of(d, &d->pair[i], &s)) {
			k.all += s.n;
			for (int side = 0; side < 2; side++)
				longest = s.first[side] + s.n > longest ? s.first[side] + s.n : longest;
		}
	if (!longest)
		return 0;
	rc = check_adapters(d, e) || open_engines(&k, longest, e) ? -1 : 0;
	for (int32_t i = 0; !rc && i < d->n_pairs; i++)
		if (stretch_of(d, &d->pair[i], &s))
			rc = compare_pair(&k, &s, &out[i], e);
	if (k.engine[1] != k.engine[0])
		engine_close(k.engine[1]);
	engine_close(k.engine[0]);
	return rc;
}
