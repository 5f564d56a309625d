/* cutaway verify: a recording computed again and compared. Thread: main's. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "sessions/verify.h"

static struct verify_said {
	const char *range; /* steps */
} said;

static const struct setting verify_own[] = {
	OWN(TEXT, verify_said, range, .name = "range", .group = "Recording", .arg = "A:B",
		.doc = "verify the rows of these steps alone: A:B, A:, :B or one step"),
	{ 0 },
};

struct report {
	struct history *h;
	cJSON *requests; /* NULL: text */
	bool tty, line;	 /* a line of progress stands on standard error */
	int64_t start_ns;
};

static atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

/* "A:B", "A:", ":B" or "A": steps. */
static int parse_range(const char *text, int64_t *from, int64_t *to, struct err *e)
{
	const char *colon = strchr(text, ':'), *second = colon ? colon + 1 : text;
	char *end = NULL;

	*from = 0;
	*to = INT64_MAX;
	errno = 0;
	if (text != colon) {
		*from = strtoll(text, &end, 10);
		if (end == text || (*end && end != colon))
			goto bad;
	}
	if (*second) {
		*to = strtoll(second, &end, 10);
		if (end == second || *end)
			goto bad;
	}
	if (!errno && *text && *from >= 0 && *from <= *to && strcmp(text, ":"))
		return 0;
bad:
	return err_set(e, ERR_USAGE, "--range %s: steps from A to B as A:B, A:, :B, or one step", text);
}

/* ---- progress ---- */

static void clear_line(struct report *r)
{
	if (r->line)
		fprintf(stderr, "\r\033[K");
	r->line = false;
}

static void on_progress(void *arg, int64_t rows, int64_t all, const char *what)
{
	struct report *r = arg;

	if (!r->tty || now_ns() - r->start_ns < 1000000000)
		return;
	clear_line(r);
	if (all)
		fprintf(stderr, "verify: %lld of %lld rows …", (long long)rows, (long long)all);
	else
		fprintf(stderr, "verify: bisecting, %s …", what);
	fflush(stderr);
	r->line = true;
}

/* ---- a request ---- */

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

static const char *verdict(const struct verify_result *v)
{
	if (v->first.what != VERIFY_NOTHING)
		return "DIFFERS";
	return v->request->broken[0] ? "part" : v->rows ? "ok" : "-";
}

/* Why nothing, or not all, was compared. */
static const char *note_of(const struct verify_result *v)
{
	const struct history_request *q = v->request;

	if (q->broken[0])
		return q->broken;
	if (v->outside)
		return "outside the range";
	if (q->kind == EV_REQUEST_KIND_verify)
		return "a verification itself: the tokens it was given are not recorded";
	if (!v->rows)
		return q->finish == EV_FINISH_refused ? "refused" : "nothing was drawn";
	return q->finish < 0 ? "cut off" : "";
}

static void print_result(const struct report *r, const struct verify_result *v)
{
	const struct history_request *q = v->request;
	const char *note = note_of(v);
	char text[300];

	printf("%-7s request %lld  %-5s %6lld row%s, %lld draw%s", verdict(v), (long long)q->number,
		   ev_code_name("request_kind", q->kind), (long long)v->rows, plural(v->rows), (long long)v->draws,
		   plural(v->draws));
	if (v->unjudged)
		printf(", %lld drawn by rejection or chosen by a search (hash alone)", (long long)v->unjudged);
	if (q->n_takes > 1)
		printf(", %d takes", q->n_takes);
	if (*note)
		printf("; %s", note);
	if (v->first.what != VERIFY_NOTHING) {
		verify_describe(r->h, v, text, sizeof text);
		printf("; %s", text);
	}
	putchar('\n');
	fflush(stdout);
}

static void add_difference(cJSON *o, const struct history *h, const struct verify_result *v)
{
	static const char *const names[] = {
		[VERIFY_HASH] = "hash",		  [VERIFY_ID] = "id",				[VERIFY_P] = "p",
		[VERIFY_P_DRAW] = "p_draw",	  [VERIFY_ENTROPY] = "entropy",		[VERIFY_LOGP] = "logp",
		[VERIFY_SURVIVORS] = "survivors", [VERIFY_FAILED] = "failed",
	};
	const struct history_row *row = &v->request->row[v->first.row];
	cJSON *d = cJSON_AddObjectToObject(o, "difference");
	char text[300];

	verify_describe(h, v, text, sizeof text);
	cJSON_AddStringToObject(d, "what", names[v->first.what]);
	cJSON_AddNumberToObject(d, "pos", row->pos);
	cJSON_AddNumberToObject(d, "step", (double)row->step);
	cJSON_AddNumberToObject(d, "seq", (double)row->seq);
	cJSON_AddStringToObject(d, "text", text);
}

static void add_result(const struct report *r, const struct verify_result *v)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "request", (double)v->request->number);
	cJSON_AddStringToObject(o, "kind", ev_code_name("request_kind", v->request->kind));
	cJSON_AddStringToObject(o, "verdict", verdict(v));
	cJSON_AddStringToObject(o, "note", note_of(v));
	cJSON_AddNumberToObject(o, "rows", (double)v->rows);
	cJSON_AddNumberToObject(o, "draws", (double)v->draws);
	cJSON_AddNumberToObject(o, "hash_alone", (double)v->unjudged);
	cJSON_AddNumberToObject(o, "takes", v->request->n_takes);
	cJSON_AddNumberToObject(o, "differ", (double)v->n_differ);
	if (v->first.what != VERIFY_NOTHING)
		add_difference(o, r->h, v);
	cJSON_AddItemToArray(r->requests, o);
}

static void on_result(void *arg, const struct verify_result *v)
{
	struct report *r = arg;

	clear_line(r);
	if (r->requests)
		add_result(r, v);
	else
		print_result(r, v);
}

/* ---- the whole ---- */

static void print_summary(const struct report *r, const struct verify_summary *s, const struct err *e)
{
	if (e->code == ERR_DIFFERS) {
		putchar('\n');
		verify_explain(r->h, s, stdout);
		return;
	}
	printf("%s: %lld row%s of %d request%s, %lld draw%s, on %s %s, %d thread%s: %.2f s (the recording's steps took "
		   "%.2f s)\n",
		   e->code ? "what is there is equal" : "all equal", (long long)s->rows, plural(s->rows), s->n_requests,
		   plural(s->n_requests), (long long)s->draws, plural(s->draws), s->backend, s->isa, s->threads,
		   plural(s->threads), s->seconds, s->recorded_seconds);
}

static void add_bisect(cJSON *o, const struct bisect *b)
{
	cJSON *d = cJSON_AddObjectToObject(o, "bisect"), *ends = cJSON_AddArrayToObject(d, "back_ends");
	char name[40], hash[17];

	for (int i = 0; i < b->n_ends; i++) {
		cJSON *end = cJSON_CreateObject();

		bisect_describe_end(&b->end[i], name, sizeof name);
		snprintf(hash, sizeof hash, "%016llx", (unsigned long long)b->end[i].hash);
		cJSON_AddStringToObject(end, "name", name);
		cJSON_AddBoolToObject(end, "ran", b->end[i].ran);
		cJSON_AddBoolToObject(end, "unasked", b->end[i].unasked);
		cJSON_AddNumberToObject(end, "rows", b->end[i].rows);
		if (b->end[i].ran && b->end[i].rows == b->n)
			cJSON_AddStringToObject(end, "hash", hash);
		cJSON_AddBoolToObject(end, "as_recorded", b->end[i].matches);
		cJSON_AddItemToArray(ends, end);
	}
	cJSON_AddBoolToObject(d, "agree", b->agree);
	if (!b->found)
		return;
	cJSON_AddNumberToObject(d, "pos", b->pos);
	cJSON_AddNumberToObject(d, "layer", b->layer);
	cJSON_AddStringToObject(d, "stage", b->stage);
	cJSON_AddStringToObject(d, "part", b->part);
	cJSON_AddNumberToObject(d, "index", b->index);
	cJSON_AddNumberToObject(d, "values_differ", b->n_differ);
	cJSON_AddNumberToObject(d, "value_a", (double)b->value_a);
	cJSON_AddNumberToObject(d, "value_b", (double)b->value_b);
	bisect_describe_end(&b->end[b->a], name, sizeof name);
	cJSON_AddStringToObject(d, "a", name);
	bisect_describe_end(&b->end[b->b], name, sizeof name);
	cJSON_AddStringToObject(d, "b", name);
}

static void print_json(const struct report *r, const struct verify_summary *s, const struct err *e)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	cJSON_AddBoolToObject(o, "equal", !s->n_differ && !s->n_broken);
	cJSON_AddStringToObject(o, "error", e->text);
	cJSON_AddStringToObject(o, "backend", s->backend);
	cJSON_AddStringToObject(o, "isa", s->isa);
	cJSON_AddNumberToObject(o, "threads", s->threads);
	cJSON_AddNumberToObject(o, "rows", (double)s->rows);
	cJSON_AddNumberToObject(o, "draws", (double)s->draws);
	cJSON_AddNumberToObject(o, "differ", s->n_differ);
	cJSON_AddNumberToObject(o, "incomplete", s->n_broken);
	cJSON_AddNumberToObject(o, "seconds", s->seconds);
	cJSON_AddNumberToObject(o, "recorded_seconds", s->recorded_seconds);
	cJSON_AddItemReferenceToObject(o, "requests", r->requests);
	if (s->first.first.what == VERIFY_HASH)
		add_bisect(o, &s->bisect);
	text = cJSON_Print(o);
	printf("%s\n", text ? text : "null");
	cJSON_free(text);
	cJSON_Delete(o);
}

static int run(const struct cli *c, struct report *r, struct err *e)
{
	struct verify_options o = { .engine = c->engine, .stop = &interrupted, .to = INT64_MAX };
	struct verify_summary sum;
	char *fallback = NULL, *model = NULL;
	int rc;

	if (said.range && parse_range(said.range, &o.from, &o.to, e))
		return -1;
	if (model_find(c, &fallback, NULL))
		fallback = NULL;
	rc = verify_arith(r->h, e) || verify_model(r->h, c->engine.model, fallback, &model, e) ? -1 : 0;
	o.engine.model = model;
	if (!rc) {
		rc = verify_run(r->h, &o, on_result, on_progress, r, &sum, e);
		clear_line(r);
		if (e->code == ERR_NONE || e->code == ERR_DIFFERS || e->code == ERR_INPUT) {
			if (r->requests)
				print_json(r, &sum, e);
			else if (sum.n_requests || e->code == ERR_NONE)
				print_summary(r, &sum, e);
		}
		if (out_flush(e))
			rc = -1;
	}
	free(model);
	free(fallback);
	return rc;
}

static int verify_verb(const struct cli *c, struct err *e)
{
	struct sigaction action = { .sa_handler = on_sigint, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };
	struct report r = { .tty = isatty(STDERR_FILENO), .start_ns = now_ns() };
	int rc;

	if (history_open(&r.h, c->operand[0], e))
		return -1;
	sigaction(SIGINT, &action, NULL);
	r.requests = c->json ? cJSON_CreateArray() : NULL;
	rc = run(c, &r, e);
	cJSON_Delete(r.requests);
	history_close(r.h);
	return rc;
}

const struct verb verb_verify = {
	.name = "verify",
	.operands = "FILE",
	.summary = "compute a recording again, compare every hash",
	.doc = "Gives the recorded tokens of each request to a fresh engine, many rows at a time, and compares "
		   "the hash of every row of logits, and every token that the race or the best logit chose with its "
		   "probability. The model must be the recorded one (by its SHA-256). One line a request; of a "
		   "difference, which back ends of this machine give the recorded hash, and the first layer and "
		   "stage at which two of them part, with both values. Exit status 0 only if all are equal.",
	.example = "cutaway verify session.db",
	.takes = "model|Kernels|json",
	.min_operands = 1,
	.max_operands = 1,
	.run = verify_verb,
	.completes = "FILE",
	.own = verify_own,
	.said = &said,
};
