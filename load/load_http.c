/* A load on a server of the OpenAI interface, streamed: see load.h. Times are those at this end: a
 * token has come when the piece of the answer that has its text was read. How many tokens there
 * were is what the server's usage says at the end: those beyond one a piece came together with
 * another, so their gaps are 0, whichever pieces they were in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sessions/client/client.h"
#include "sessions/client/sse.h"
#include "base/foreign_json.h"
#include "load/load.h"

enum { LIMIT = 4096 - 64, ANSWER_BYTES = 1 << 20, MOST_TOKENS = 1 << 20, PIECES = 64 };

struct http {
	const struct load_options *o;
	const struct load_server *by;
	struct workload_options load;
	struct workload *workload;
	struct client *client;
	struct load_point *p;
	char model[128];
	int64_t n_open, start_ns;
	struct call *calls; /* those under way, linked */
};

struct call {
	struct http *h;
	struct call *next, **from;
	struct tally_request r;
	struct arrival a;
	struct sse sse;
	int32_t usage;   /* tokens that the server says it generated; -1: it did not say */
	bool ended;      /* with a token that has no text */
	bool whole;      /* the server said that it ended, and not that it broke off */
	bool endless;    /* far more pieces than tokens were asked for */
	bool refused;    /* an error came in place of an answer */
	char error[160]; /* its beginning */
};

static double clock_s(const struct http *h)
{
	return (double)(now_ns() - h->start_ns) * 1e-9;
}

static int32_t count_at(const cJSON *o, const char *name)
{
	const cJSON *v = foreign_member(o, name);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= MOST_TOKENS
			   ? (int32_t)v->valuedouble
			   : -1;
}

/* ---- answers ---- */

static bool has_text(const cJSON *choice)
{
	const cJSON *delta = foreign_member(choice, "delta");
	const char *text[] = { foreign_text(choice, "text"), foreign_text(delta, "content"),
		foreign_text(delta, "reasoning_content"), foreign_text(delta, "reasoning") };

	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (text[i] && *text[i])
			return true;
	return false;
}

static void take_usage(struct call *c, const cJSON *usage)
{
	const cJSON *details = foreign_member(usage, "prompt_tokens_details");
	const int32_t n = count_at(usage, "prompt_tokens");

	c->usage = count_at(usage, "completion_tokens");
	c->r.n_cached = count_at(details, "cached_tokens");
	c->r.n_prompt = n >= 0 ? n : c->r.n_prompt;
}

static bool on_data(void *who, char *data, size_t size)
{
	struct call *c = who;
	const cJSON *usage, *choice;
	const char *reason;
	cJSON *o;

	if (!strcmp(data, "[DONE]"))
		return true;
	o = foreign_json_parse(data, size);
	usage = foreign_member(o, "usage");
	if (!o || foreign_member(o, "error")) {
		c->refused = true;
		snprintf(c->error, sizeof c->error, "%s", data);
	}
	choice = foreign_member(o, "choices");
	choice = choice ? choice->child : NULL;
	reason = foreign_text(choice, "finish_reason");
	if (reason) {
		c->ended = !strcmp(reason, "stop");
		c->whole = strcmp(reason, "abort") != 0;
	}
	if (has_text(choice))
		tally_tokens(&c->h->p->tally, &c->r, 1, clock_s(c->h));
	if (cJSON_IsObject(usage))
		take_usage(c, usage);
	cJSON_Delete(o);
	c->endless = c->r.n_output > 4 * (c->a.n_output + PIECES);
	return !c->endless;
}

static bool on_piece(void *who, int status, const char *bytes, size_t size)
{
	struct call *c = who;
	const size_t used = strlen(c->error), room = sizeof c->error - 1 - used;

	if (status == 200)
		return !(c->endless |= !sse_feed(&c->sse, bytes, size, on_data, c));
	memcpy(c->error + used, bytes, size < room ? size : room);
	return true;
}

static void note_failure(struct call *c, const struct client_end *end)
{
	struct load_point *p = c->h->p;
	char why[sizeof p->why];

	if (*p->why)
		return;
	if (end->status && end->status != 200)
		snprintf(why, sizeof why, "status %d: %s", end->status, c->error);
	else
		snprintf(why, sizeof why, "%.190s",
			c->refused      ? c->error
			: c->endless    ? "the answer does not end where max_tokens said"
			: end->error    ? end->error
			: c->r.n_output ? "the answer broke off"
							: "the answer has no text");
	text_cleaned(p->why, sizeof p->why, why, strlen(why)); /* it is a line of a report */
}

static void drop_call(struct call *c)
{
	*c->from = c->next;
	if (c->next)
		c->next->from = c->from;
	c->h->n_open--;
	sse_free(&c->sse);
	free(c);
}

static void on_end(void *who, const struct client_end *end)
{
	struct call *c = who;
	struct http *h = c->h;
	const double now = clock_s(h);
	const bool failed =
		end->status != 200 || end->error || c->refused || !c->whole || !c->r.n_output;

	if (failed)
		note_failure(c, end);
	if (c->usage >= 0 && c->r.n_output) {
		tally_tokens(&h->p->tally, &c->r, c->usage - c->ended - c->r.n_output, c->r.newest_s);
		c->r.n_output = c->usage;
	}
	tally_ended(&h->p->tally, &c->r, failed, now);
	workload_ended(h->workload, c->a.user, now);
	drop_call(c);
}

/* ---- requests ---- */

static void add_message(struct json *j, const char *role, const char *text)
{
	json_put(j, "{'role': %s, 'content': %s}", role, text);
}

static void add_messages(struct json *j, const struct workload_prompt *p)
{
	json_array(j, "messages");
	if (p->system)
		add_message(j, "system", p->system);
	for (int32_t i = 0; i < p->n; i++)
		add_message(j, i % 2 ? "assistant" : "user", p->text[i]);
	json_end(j);
}

/* All of it as one text. */
static void add_text(struct json *j, const struct workload_prompt *p)
{
	char *all = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&all, &size);

	for (int32_t i = p->system ? -1 : 0; out && i < p->n; i++)
		fprintf(out, "%s%s", i < 0 ? p->system : p->text[i], i + 1 < p->n ? "\n\n" : "");
	if (out && !fclose(out))
		json_bytes(j, "prompt", all, size);
	free(all);
}

static char *body_of(const struct http *h, const struct arrival *a, struct err *e)
{
	const struct sample_params *s = &h->o->answer->params;
	struct workload_prompt p;
	struct json j = { 0 };
	char user[16];
	size_t size;

	if (workload_prompt(&h->load, a, &p, e))
		return NULL;
	snprintf(user, sizeof user, "%d", (int)a->user);
	json_object(&j, NULL);
	json_text(&j, "model", h->model);
	if (h->by->completions)
		add_text(&j, &p);
	else
		add_messages(&j, &p);
	json_put(&j,
		"'max_tokens': %d, 'temperature': %.6g, 'top_p': %.6g, 'seed': %ld, 'user': %s, "
		"'stream': true, 'stream_options': {'include_usage': true}",
		a->n_output, (double)s->temperature, (double)s->top_p,
		(int64_t)((s->seed + (uint64_t)a->number) & 0x7fffffff), user);
	if (!h->o->natural)
		json_bool(&j, "ignore_eos", true);
	json_end(&j);
	workload_prompt_free(&p);
	return json_take(&j, &size);
}

static int submit(struct http *h, const struct arrival *a, struct err *e)
{
	struct call *c = calloc(1, sizeof *c);
	char *body = c ? body_of(h, a, e) : NULL;
	const struct client_handler handler = { c, on_piece, on_end };

	if (!body) {
		free(c);
		return err_no_memory(e, "a request of a load");
	}
	*c = (struct call){ .h = h, .next = h->calls, .from = &h->calls, .a = *a, .usage = -1 };
	tally_arrived(&h->p->tally, &c->r, a->number, a->at_s);
	c->r.user = a->user;
	c->r.n_prompt = a->n_prompt; /* until usage says how many there are */
	if (c->next)
		c->next->from = &c->next;
	h->calls = c;
	h->n_open++;
	if (!client_begin(h->client, h->by->completions ? "/v1/completions" : "/v1/chat/completions",
			body, handler))
		err_no_memory(e, "a request of a load");
	free(body);
	return e->code ? -1 : 0;
}

/* ---- the run ---- */

static int drive(struct http *h, struct err *e)
{
	struct arrival a;

	for (;;) {
		const double when = workload_when(h->workload), rest = when - clock_s(h);

		if (rest <= 0) {
			if (workload_next(h->workload, &a, e) < 0 || submit(h, &a, e))
				return -1;
			continue;
		}
		if (!h->n_open && !isfinite(when))
			return 0;
		client_poll(h->client, rest < 0.05 ? (int)(rest * 1000) : 50);
		h->p->stopped = h->o->progress && !h->o->progress(h->o->arg, &h->p->tally, clock_s(h));
		if (h->p->stopped)
			return 0;
	}
}

/* The server's model: its first. */
static int find_model(struct http *h, struct err *e)
{
	struct client_answer answer = { 0 };
	struct err why = { 0 };
	const cJSON *data;
	const char *id;
	cJSON *o = NULL;

	if (!client_fetch(h->client, NULL, "/v1/models", NULL, ANSWER_BYTES, &answer, &why))
		o = foreign_json_parse(answer.text, answer.size);
	data = foreign_member(o, "data");
	id = foreign_text(data ? data->child : NULL, "id");
	if (id)
		snprintf(h->model, sizeof h->model, "%s", id);
	else if (answer.status == 401 || answer.status == 403)
		err_set(e, ERR_USAGE, "%s asks for a key: give it in the variable CUTAWAY_API_KEY",
			client_root(h->client));
	else
		err_set(e, why.code ? why.code : ERR_INPUT,
			"%s/v1/models does not list a model: is this a server of the OpenAI interface?%s%s",
			client_root(h->client), why.code ? " " : "", why.text);
	text_cleaned(h->p->model, sizeof h->p->model - 64, h->model, strlen(h->model));
	text_append(h->p->model, sizeof h->p->model, " at ", "%.60s", client_root(h->client));
	cJSON_Delete(o);
	free(answer.text);
	return id ? 0 : -1;
}

int load_http(
	const struct load_options *o, const struct load_server *by, struct load_point *p, struct err *e)
{
	struct http h = { .o = o, .by = by, .load = o->workload, .p = p };
	const struct client_options co = { .url = by->url, .api_key = by->api_key, .idle_s = 600 };
	int rc;

	if (!h.load.limit)
		h.load.limit = LIMIT;
	tally_open(&p->tally, &o->tally);
	rc = client_open(&h.client, &co, e) || find_model(&h, e) ||
		 workload_open(&h.workload, &h.load, e);
	h.start_ns = now_ns();
	rc = rc || drive(&h, e);
	if (!rc)
		rc = tally_result(&p->tally, clock_s(&h), &p->result, e);
	p->n_cut = h.workload ? workload_n_cut(h.workload) : 0;
	client_close(h.client);
	while (h.calls)
		drop_call(h.calls);
	workload_close(h.workload);
	return rc ? -1 : 0;
}
