/* cutaway verify: recomputes a recording and compares. Thread: main's. */
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/open.h"
#include "cli/out.h"
#include "sessions/verify/verify.h"

static struct verify_opts {
	const char *range; /* steps */
} opts;

static const struct setting verify_own[] = {
	OWN(TEXT, verify_opts, range, "range", "Recording",
		"verify the rows of these steps alone: A:B, A:, :B or one step", .arg = "A:B"),
	{ 0 },
};

struct report {
	struct history *h;
	struct json *json; /* in the array of requests; NULL: text */
	int64_t start_ns;
};

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

static void on_progress(void *arg, int64_t rows, int64_t all, const char *what)
{
	struct report *r = arg;

	if (now_ns() - r->start_ns < 1000000000)
		return;
	if (all)
		out_progress("verify: %lld of %lld rows …", (long long)rows, (long long)all);
	else
		out_progress("verify: bisecting, %s …", what);
}

/* ---- a request ---- */

static const char *verdict(const struct verify_result *v)
{
	if (v->first.what != VERIFY_NOTHING)
		return "DIFFERS";
	return v->request->broken[0] ? "part" : v->rows ? "ok" : "-";
}

/* Why not every row was compared. */
static const char *note_of(const struct verify_result *v)
{
	const struct history_request *q = v->request;

	if (q->broken[0])
		return q->broken;
	if (v->outside)
		return "outside the range";
	if (!v->rows && v->given)
		return "of another model";
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
		ev_code_name("request_kind", q->kind), (long long)v->rows, plural(v->rows),
		(long long)v->draws, plural(v->draws));
	if (v->hash_alone)
		printf(
			", %lld drawn by rejection, chosen by a search or of an earlier session (hash alone)",
			(long long)v->hash_alone);
	if (v->given)
		printf(", %lld given and not compared", (long long)v->given);
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

static void add_difference(struct json *j, const struct history *h, const struct verify_result *v)
{
	static const char *const names[] = {
		[VERIFY_HASH] = "hash",
		[VERIFY_ID] = "id",
		[VERIFY_P] = "p",
		[VERIFY_P_DRAW] = "p_draw",
		[VERIFY_ENTROPY] = "entropy",
		[VERIFY_LOGP] = "logp",
		[VERIFY_SURVIVORS] = "survivors",
		[VERIFY_FAILED] = "failed",
	};
	const struct history_row *row = &v->request->row[v->first.row];
	char text[300];

	verify_describe(h, v, text, sizeof text);
	json_put(j, "'difference': {'what': %s, 'pos': %d, 'step': %ld, 'seq': %ld, 'text': %s}",
		names[v->first.what], row->pos, row->step, row->seq, text);
}

static void add_result(struct json *j, const struct report *r, const struct verify_result *v)
{
	json_put(j,
		"{'request': %ld, 'kind': %s, 'verdict': %s, 'note': %s, 'rows': %ld, 'draws': %ld, "
		"'hash_alone': %ld, 'given': %ld, 'takes': %d, 'differ': %ld",
		v->request->number, ev_code_name("request_kind", v->request->kind), verdict(v), note_of(v),
		v->rows, v->draws, v->hash_alone, v->given, v->request->n_takes, v->n_differ);
	if (v->first.what != VERIFY_NOTHING)
		add_difference(j, r->h, v);
	json_end(j);
}

static void on_result(void *arg, const struct verify_result *v)
{
	struct report *r = arg;

	out_progress_end();
	if (r->json)
		add_result(r->json, r, v);
	else
		print_result(r, v);
}

/* ---- the whole ---- */

static void print_summary(
	const struct report *r, const struct verify_summary *s, const struct err *e)
{
	char given[60] = "";

	if (e->code == ERR_DIFFERS) {
		putchar('\n');
		verify_explain(r->h, s, stdout);
		return;
	}
	if (!s->threads) {
		printf("nothing to compute again: 0 rows of %d request%s\n", s->n_requests,
			plural(s->n_requests));
		return;
	}
	if (s->given)
		snprintf(given, sizeof given, ", %lld given and not compared", (long long)s->given);
	printf("%s: %lld row%s of %d request%s, %lld draw%s%s, on %s %s, %d thread%s: %.2f s (the "
		   "recording's steps took %.2f s)\n",
		e->code ? "what is there is equal" : "all equal", (long long)s->rows, plural(s->rows),
		s->n_requests, plural(s->n_requests), (long long)s->draws, plural(s->draws), given,
		s->backend, s->isa, s->threads, plural(s->threads), s->seconds, s->recorded_seconds);
}

static void add_bisect(struct json *j, const struct bisect *b)
{
	char name[40];

	json_object(j, "bisect");
	json_array(j, "back_ends");
	for (int i = 0; i < b->n_ends; i++) {
		json_object(j, NULL);
		bisect_describe_end(&b->end[i], name, sizeof name);
		json_put(j, "'name': %s, 'ran': %hhd, 'unasked': %hhd, 'rows': %d", name, b->end[i].ran,
			b->end[i].unasked, b->end[i].rows);
		if (b->end[i].ran && b->end[i].rows == b->n)
			json_hash(j, "hash", b->end[i].hash);
		json_bool(j, "as_recorded", b->end[i].matches);
		json_end(j);
	}
	json_end(j);
	json_bool(j, "agree", b->agree);
	if (!b->found)
		return;
	json_put(j,
		"'pos': %d, 'layer': %d, 'stage': %s, 'part': %s, 'index': %d, 'values_differ': %d, "
		"'value_a': %.15g, 'value_b': %.15g",
		b->pos, b->layer, b->stage, b->part, b->index, b->n_differ, b->value_a, b->value_b);
	bisect_describe_end(&b->end[b->a], name, sizeof name);
	json_text(j, "a", name);
	bisect_describe_end(&b->end[b->b], name, sizeof name);
	json_text(j, "b", name);
}

/* The array of requests is already written. */
static int print_json(const struct report *r, const struct verify_summary *s, struct err *e)
{
	struct json *j = r->json;

	json_put(j, "], 'equal': %hhd, 'error': %s, 'backend': %s, 'isa': %s, 'threads': %d",
		(bool)(e->code == ERR_NONE), e->text, s->backend, s->isa, s->threads);
	json_put(j,
		"'rows': %ld, 'draws': %ld, 'given': %ld, 'differ': %d, 'incomplete': %d, 'orphans': %ld, "
		"'texts_differ': %ld, 'seconds': %.15g, 'recorded_seconds': %.15g",
		s->rows, s->draws, s->given, s->n_differ, s->n_broken, r->h->n_orphans, s->texts,
		s->seconds, s->recorded_seconds);
	if (s->first.first.what == VERIFY_HASH)
		add_bisect(j, &s->bisect);
	return json_print(j, e);
}

static int verify_and_report(const struct cli *c, struct report *r, struct err *e)
{
	struct verify_options o = { .engine = c->engine, .stop = &interrupted, .to = INT64_MAX };
	struct verify_summary sum;
	char *model = NULL, *lora = NULL;
	int rc;

	if (opts.range && parse_range(opts.range, &o.from, &o.to, e))
		return -1;
	rc = verify_arith(r->h, e) || model_find_recorded(c, r->h, c->engine.model, &model, e) ||
				 verify_adapters(r->h, c->engine.lora, &lora, e)
			 ? -1
			 : 0;
	o.engine.model = model;
	o.engine.lora = lora;
	if (!rc) {
		rc = verify_run(r->h, &o, on_result, on_progress, r, &sum, e);
		out_progress_end();
		if (e->code == ERR_NONE || e->code == ERR_DIFFERS || e->code == ERR_INPUT) {
			if (r->json)
				print_json(r, &sum, e);
			else if (sum.n_requests || e->code == ERR_NONE)
				print_summary(r, &sum, e);
		}
	}
	free(model);
	free(lora);
	return rc;
}

static int verify_verb(const struct cli *c, struct err *e)
{
	struct report r = { .start_ns = now_ns() };
	struct json json = { 0 };
	int rc;

	if (history_open(&r.h, c->operand[0], e))
		return -1;
	interrupt_catch(SIGINT, (int)SA_RESETHAND | SA_RESTART);
	if (c->json) {
		r.json = &json;
		json_object(r.json, NULL);
		json_array(r.json, "requests");
	}
	rc = verify_and_report(c, &r, e);
	json_drop(&json);
	history_close(r.h);
	return rc;
}

const struct verb verb_verify = {
	VERB(verify, "FILE", "model|lora|Kernels|json"),
	OPERANDS(1, 1, "RECORDING"),
};
