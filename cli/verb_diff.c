/* cutaway diff: two recordings side by side. Thread: main's. */
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "sessions/diff.h"
#include "sessions/verify.h"
#include "tui/tui.h"

static struct diff_said {
	bool view, deep;
} said;

static const struct setting diff_own[] = {
	OWN(FLAG, diff_said, deep, .name = "deep", .group = "Output",
		.doc = "compute the divergence exactly, with the model (or both models, over the tokens of A)"),
	OWN(FLAG, diff_said, view, .name = "view", .group = "Screen", .doc = "both texts side by side in the terminal"),
	{ 0 },
};

static void add_distance(cJSON *o, const char *name, const struct diff_distance *m)
{
	cJSON *d = m->n ? cJSON_AddObjectToObject(o, name) : NULL;

	if (!d)
		return;
	cJSON_AddNumberToObject(d, "positions", m->n);
	cJSON_AddNumberToObject(d, "same_token", m->same);
	cJSON_AddNumberToObject(d, "best_known", m->n_top);
	cJSON_AddNumberToObject(d, "same_best", m->top);
	if (m->n_kl) {
		cJSON_AddNumberToObject(d, "kl", m->kl);
		cJSON_AddNumberToObject(d, "kl_largest", m->kl_max);
	}
}

static void add_side(cJSON *o, struct diff *d, const struct diff_pair *p, int side)
{
	const struct diff_side *s = &p->side[side];
	int32_t at = p->from[side] + p->at;
	cJSON *j;
	char text[400];

	if (!s->request)
		return;
	j = cJSON_AddObjectToObject(o, side ? "b" : "a");
	cJSON_AddNumberToObject(j, "request", (double)s->request->number);
	cJSON_AddNumberToObject(j, "prompt", s->n_prompt);
	cJSON_AddNumberToObject(j, "tokens", s->n - s->n_prompt);
	if (p->cause != DIFF_EQUAL && p->cause != DIFF_ALONE && at < s->n) {
		cJSON_AddNumberToObject(j, "id", s->ids[at]);
		diff_describe_draw(d, p, side, text, sizeof text);
		cJSON_AddStringToObject(j, "drew", text);
	}
}

static cJSON *pair_json(struct diff *d, const struct diff_pair *p, const struct diff_distance *deep)
{
	cJSON *o = cJSON_CreateObject();
	char text[400];

	diff_describe(d, p, text, sizeof text);
	cJSON_AddStringToObject(o, "cause", diff_cause_names[p->cause]);
	cJSON_AddStringToObject(o, "text", text);
	if (p->cause != DIFF_EQUAL && p->cause != DIFF_ALONE)
		cJSON_AddNumberToObject(o, "pos", p->from[0] + p->at);
	add_side(o, d, p, 0);
	add_side(o, d, p, 1);
	cJSON_AddNumberToObject(o, "hunks", p->n_hunks);
	add_distance(o, "before", &p->before);
	add_distance(o, "after", &p->after);
	if (deep)
		add_distance(o, "deep", deep);
	return o;
}

static void print_json(struct diff *d, const struct diff_distance *deep)
{
	cJSON *o = cJSON_CreateObject(), *pairs;
	char *text;

	cJSON_AddBoolToObject(o, "equal", d->n_equal == d->n_pairs);
	cJSON_AddBoolToObject(o, "same_model", d->same_model);
	cJSON_AddStringToObject(o, "session", d->session);
	pairs = cJSON_AddArrayToObject(o, "requests");
	for (int32_t i = 0; i < d->n_pairs; i++)
		cJSON_AddItemToArray(pairs, pair_json(d, &d->pair[i], deep ? &deep[i] : NULL));
	text = cJSON_Print(o);
	printf("%s\n", text ? text : "null");
	cJSON_free(text);
	cJSON_Delete(o);
}

/* ---- with the models ---- */

static atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

static void on_progress(void *arg, int32_t done, int32_t all)
{
	(void)arg;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Kdiff: %d of %d rows …%s", done, all, done == all ? "\r\033[K" : "");
}

static void print_deep(const struct diff *d, const struct diff_pair *p, const struct diff_distance *m)
{
	if (!m->n)
		return;
	printf("A %lld B %lld, with the model%s (%s): %d positions, the same best token at %d, KL %.6g nats "
		   "(largest %.4g)\n",
		   (long long)p->side[0].request->number, (long long)p->side[1].request->number, d->same_model ? "" : "s",
		   d->same_model ? "each after its own text" : "both over the tokens of A", m->n, m->top, m->kl, m->kl_max);
}

static int deep(const struct cli *c, struct diff *d, struct diff_distance *out, struct err *e)
{
	struct sigaction action = { .sa_handler = on_sigint, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };
	struct diff_deep_options o = { .engine = { c->engine, c->engine }, .stop = &interrupted,
								   .progress = on_progress };
	char *path[2] = { NULL, NULL }, *fallback = NULL;
	int rc = 0;

	sigaction(SIGINT, &action, NULL);
	if (model_find(c, &fallback, NULL))
		fallback = NULL;
	for (int s = 0; !rc && s < 2; s++) {
		rc = verify_model(d->h[s], d->same_model ? c->engine.model : NULL, fallback, &path[s], e);
		o.engine[s].model = path[s];
	}
	rc = rc ? rc : diff_deep(d, &o, out, e);
	free(path[0]);
	free(path[1]);
	free(fallback);
	return rc;
}

static int print(const struct cli *c, struct diff *d, struct err *e)
{
	struct diff_distance *m = said.deep ? calloc((size_t)d->n_pairs + 1, sizeof *m) : NULL;
	int rc = 0;

	if (said.deep && !m)
		return err_set(e, ERR_MEMORY, "out of memory");
	if (said.deep)
		rc = deep(c, d, m, e);
	if (!rc && c->json) {
		print_json(d, m);
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
	struct tui_options o = { .ascii = c->ascii, .no_color = !strcmp(c->theme, "mono"),
							 .light = !strcmp(c->theme, "light"), .dark = !strcmp(c->theme, "dark") };
	struct diff *d;
	int rc;

	if (diff_open(&d, c->operand[0], c->operand[1], e))
		return -1;
	rc = said.view ? tui_diff(d, &o, e) : print(c, d, e);
	if (!rc && out_flush(e))
		rc = -1;
	if (!rc && d->n_equal != d->n_pairs) /* the output has said all: no more words */
		e->code = ERR_DIFFERS;
	diff_close(d);
	return e->code ? -1 : rc;
}

const struct verb verb_diff = {
	.name = "diff",
	.operands = "A B",
	.summary = "two recordings: the first token that differs, and why",
	.doc = "Lays the requests of two recordings side by side, matched by prompt and order. Of each pair "
		   "that parts: the first token that differs and its cause (the logits, a setting of the draw, a "
		   "token that the user put there, the prompt, the end of one), what each drew there, and how far "
		   "they go apart after it. --view shows both texts in columns: n and N go to the next and previous "
		   "difference, [ and ] to other requests, q quits. --deep loads the model and gives the divergence "
		   "exactly. Exit status 0 if all requests are equal, 1 if not.",
	.example = "cutaway diff --view monday.db tuesday.db",
	.takes = "model|Kernels|json|Screen",
	.min_operands = 2,
	.max_operands = 2,
	.run = diff_verb,
	.completes = "FILE",
	.own = diff_own,
	.said = &said,
};
