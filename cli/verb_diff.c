/* cutaway diff: two recordings side by side. Thread: main's. */
#include "base/json.h"
#include "cli/chat_open.h"
#include "cli/interrupt.h"
#include "cli/open.h"
#include "cli/out.h"
#include "sessions/diff/diff.h"

static struct diff_opts {
	bool side_by_side, deep;
} opts;

static const struct setting diff_own[] = {
	OWN(FLAG, diff_opts, deep, "deep", "Output",
		"compute the divergence exactly, with the model (or both models, over the tokens of A)"),
	OWN(FLAG, diff_opts, side_by_side, "side-by-side", "Screen",
		"both texts side by side in the terminal"),
	{ 0 },
};

static void add_distance(struct json *j, const char *name, const struct diff_distance *m)
{
	if (!m->n)
		return;
	json_object(j, name);
	json_put(j, "'positions': %d, 'same_token': %d, 'best_known': %d, 'same_best': %d", m->n,
		m->same, m->n_top, m->top);
	if (m->n_kl)
		json_put(j, "'kl': %.15g, 'kl_largest': %.15g", m->kl, m->kl_max);
	json_end(j);
}

static void add_side(struct json *j, struct diff *d, const struct diff_pair *p, int side)
{
	const struct diff_side *s = &p->side[side];
	int32_t at = p->from[side] + p->at;
	char text[400];

	if (!s->request)
		return;
	json_object(j, side ? "b" : "a");
	json_put(j, "'request': %ld, 'prompt': %d, 'tokens': %d", s->request->number, s->n_prompt,
		s->n - s->n_prompt);
	if (p->cause != DIFF_EQUAL && p->cause != DIFF_ALONE && at < s->n) {
		json_int(j, "id", s->ids[at]);
		diff_describe_draw(d, p, side, text, sizeof text);
		json_text(j, "drew", text);
	}
	json_end(j);
}

static void add_pair(
	struct json *j, struct diff *d, const struct diff_pair *p, const struct diff_distance *deep)
{
	char text[400];

	diff_describe(d, p, text, sizeof text);
	json_put(j, "{'cause': %s, 'text': %s", diff_cause_names[p->cause], text);
	if (p->cause != DIFF_EQUAL && p->cause != DIFF_ALONE)
		json_int(j, "pos", p->from[0] + p->at);
	add_side(j, d, p, 0);
	add_side(j, d, p, 1);
	json_int(j, "hunks", p->n_hunks);
	add_distance(j, "before", &p->before);
	add_distance(j, "after", &p->after);
	if (deep)
		add_distance(j, "deep", deep);
	json_end(j);
}

static int print_json(struct diff *d, const struct diff_distance *deep, struct err *e)
{
	struct json j = { 0 };

	json_put(&j, "{'equal': %hhd, 'same_model': %hhd, 'session': %s, 'requests': [",
		(bool)(d->n_equal == d->n_pairs), d->same_model, d->session);
	for (int32_t i = 0; i < d->n_pairs; i++)
		add_pair(&j, d, &d->pair[i], deep ? &deep[i] : NULL);
	return json_print(&j, e);
}

/* ---- with the models ---- */

static void on_progress(void *arg, int32_t done, int32_t all)
{
	(void)arg;
	out_progress("diff: %d of %d rows …", done, all);
	if (done == all)
		out_progress_end();
}

static void print_deep(
	const struct diff *d, const struct diff_pair *p, const struct diff_distance *m)
{
	if (!m->n)
		return;
	printf("A %lld B %lld, with the model%s (%s): %d positions, the same best token at %d, KL %.6g "
		   "nats (largest %.4g)\n",
		(long long)p->side[0].request->number, (long long)p->side[1].request->number,
		d->same_model ? "" : "s",
		d->same_model ? "each after its own text" : "both over the tokens of A", m->n, m->top,
		m->kl, m->kl_max);
}

static int deep(const struct cli *c, struct diff *d, struct diff_distance *out, struct err *e)
{
	struct diff_deep_options o = {
		.engine = { c->engine, c->engine }, .stop = &interrupted, .progress = on_progress
	};
	char *path[2] = { NULL, NULL };
	int rc = 0;

	interrupt_catch(SIGINT, (int)SA_RESETHAND | SA_RESTART);
	for (int s = 0; !rc && s < 2; s++) {
		rc = model_find_recorded(c, d->h[s], d->same_model ? c->engine.model : NULL, &path[s], e);
		o.engine[s].model = path[s];
	}
	rc = rc ? rc : diff_deep(d, &o, out, e);
	free(path[0]);
	free(path[1]);
	return rc;
}

static int print(const struct cli *c, struct diff *d, struct err *e)
{
	struct diff_distance *m = opts.deep ? calloc((size_t)d->n_pairs + 1, sizeof *m) : NULL;
	int rc = 0;

	if (opts.deep && !m)
		return err_set(e, ERR_MEMORY, "out of memory");
	if (opts.deep)
		rc = deep(c, d, m, e);
	if (!rc && c->json) {
		rc = print_json(d, m, e);
	} else if (!rc) {
		diff_print(d, stdout);
		for (int32_t i = 0; m && i < d->n_pairs; i++)
			print_deep(d, &d->pair[i], &m[i]);
	}
	free(m);
	return rc;
}

static int diff_verb(const struct cli *c, struct err *e)
{
	struct tui_options o = chat_screen(c);
	struct diff *d;
	int rc;

	if (diff_open(&d, c->operand[0], c->operand[1], e))
		return -1;
	rc = opts.side_by_side ? tui_diff(d, &o, e) : print(c, d, e);
	if (!rc && out_flush(e))
		rc = -1;
	if (!rc && d->n_equal != d->n_pairs) /* the output explains it: no error text */
		e->code = ERR_DIFFERS;
	diff_close(d);
	return e->code ? -1 : rc;
}

const struct verb verb_diff = {
	VERB(diff, "A B", "model|Kernels|json|Screen"),
	OPERANDS(2, 2, "RECORDING"),
};
