/* One answer: the request goes out, its stream of pieces becomes tokens. See attach_impl.h. */
#include "base/array.h"
#include "base/text.h"
#include "sessions/attach/attach_impl.h"

enum { TOKEN_BYTES = 256, ANSWER_TOKENS = 1 << 18, ANSWER_TEXT = 16 << 20 };

/* ---- the request ---- */

static void put_messages(struct json *j, const struct attach *a)
{
	json_array(j, "messages");
	for (int32_t i = a->system ? -1 : 0; i < a->n_messages; i++)
		json_put(j, "{'role': %s, 'content': %s}",
			i < 0                ? "system"
			: a->message[i].user ? "user"
								 : "assistant",
			i < 0 ? a->system : a->message[i].text);
	json_end(j);
}

static void put_settings(struct json *j, const struct attach_answer *r)
{
	const struct attach_server *s = r->a->server;
	const struct sample_params *p = &r->settings.params;
	char *const *stop = r->settings.stop.text;

	json_real(j, "temperature", (double)p->temperature, 6);
	json_real(j, "top_p", (double)p->top_p, 6);
	if (s->samples) {
		json_int(j, "top_k", p->top_k ? p->top_k : s->top_k_off);
		json_real(j, "min_p", (double)p->min_p, 6);
	}
	if (p->seed) /* 0: the server draws one */
		json_int(j, "seed", (int64_t)p->seed);
	if (r->settings.max_tokens)
		json_int(j, "max_tokens", r->settings.max_tokens);
	if (*stop) {
		json_array(j, "stop");
		for (; *stop; stop++)
			json_text(j, NULL, *stop);
		json_end(j);
	}
}

static char *body_of(const struct attach_answer *r)
{
	const struct attach *a = r->a;
	struct json j = { 0 };
	size_t size;

	json_object(&j, NULL);
	json_text(&j, "model", a->reported.model);
	put_messages(&j, a);
	put_settings(&j, r);
	json_put(&j, "'stream': true, 'stream_options': {'include_usage': true}");
	if (r->asked_logprobs) {
		json_bool(&j, "logprobs", true);
		json_int(&j, "top_logprobs", ATTACH_TOP);
	}
	if (a->server->ask)
		a->server->ask(&j);
	return json_take(&j, &size);
}

/* ---- pieces ---- */

static bool fail(struct attach_answer *r, const char *what, const char *detail)
{
	const bool first = !r->why[0];
	char clean[ATTACH_WHY];

	r->reason = EV_FINISH_lost;
	if (first)
		snprintf(r->why, sizeof r->why, "%s", what);
	if (first && *detail)
		text_append(r->why, sizeof r->why, ": ", "%s",
			text_cleaned(clean, sizeof clean, detail, strnlen(detail, 160)));
	return false;
}

/* Its bytes where they are told, since a token may end within a character; else its text. */
static void read_token(struct attach_token *t, const cJSON *o, char *room)
{
	const cJSON *text = foreign_member(o, "token"), *b;
	const cJSON *p = foreign_member(o, "logprob");
	size_t n = 0;

	*t = (struct attach_token){ .id = attach_int(o, "id"), .bytes = "", .p = (double)NAN };
	if (cJSON_IsNumber(p) && p->valuedouble <= 0)
		t->p = exp(p->valuedouble);
	cJSON_ArrayForEach(b, foreign_member(o, "bytes"))
	{
		if (n == TOKEN_BYTES || !cJSON_IsNumber(b) || b->valueint < 0 || b->valueint > 255)
			break;
		room[n++] = (char)b->valueint;
	}
	if (n && !b) {
		t->bytes = room;
		t->size = n;
	} else if (cJSON_IsString(text)) {
		t->bytes = text->valuestring;
		t->size = strlen(text->valuestring);
	}
}

/* ends: the server says that with it the turn ended, and that it gave no text. */
static int add_token(struct attach_answer *r, const cJSON *o, const cJSON *id, bool ends)
{
	struct attach_token t, top[ATTACH_TOP];
	char room[TOKEN_BYTES], rooms[ATTACH_TOP][TOKEN_BYTES];
	const cJSON *k;
	int n = 0;

	read_token(&t, o, room);
	t.is_end = ends;
	if (t.id == EV_NULL_I && cJSON_IsNumber(id) && id->valuedouble >= 0 &&
		id->valuedouble < EV_OWN_IDS)
		t.id = id->valueint;
	cJSON_ArrayForEach(k, foreign_member(o, "top_logprobs"))
	{
		if (n == ATTACH_TOP)
			break;
		read_token(&top[n], k, rooms[n]);
		const bool same = top[n].size == t.size && !memcmp(top[n].bytes, t.bytes, t.size);

		/* where only what was drawn has an id, it is the same token with the same text */
		if (top[n].id == EV_NULL_I && same)
			top[n].id = t.id;
		/* llama-server tells a character of several tokens with the id of the last */
		else if (top[n].id == t.id && !same)
			t.id = EV_NULL_I;
		n++;
	}
	return attach_emit_token(r, &t, top, n, EV_SOURCE_remote);
}

static bool ended_turn(const cJSON *choice)
{
	char reason[ATTACH_WORD], text[ATTACH_WORD], stop[ATTACH_WORD];

	attach_word(choice, "finish_reason", reason, sizeof reason);
	attach_word(choice, "stop_reason", stop, sizeof stop);
	attach_word(foreign_member(choice, "delta"), "content", text, sizeof text);
	return !strcmp(reason, "stop") && !*text && !*stop;
}

/* Tokens as log-probabilities tell them. Returns how many; -1: no memory. */
static int add_tokens(struct attach_answer *r, const cJSON *choice)
{
	const cJSON *logprobs = foreign_member(choice, "logprobs");
	const cJSON *list = foreign_member(logprobs, "content"), *o;
	const cJSON *ids = foreign_member(choice, "token_ids");
	const bool reported = cJSON_GetArraySize(ids) == cJSON_GetArraySize(list);
	const cJSON *id = reported && ids ? ids->child : NULL;
	const bool ends = ended_turn(choice);
	int n = 0;

	cJSON_ArrayForEach(o, list)
	{
		if (add_token(r, o, id, ends && !o->next))
			return -1;
		id = id ? id->next : NULL;
		n++;
	}
	r->any_logprobs |= n > 0;
	return n;
}

static bool add_text(struct attach_answer *r, const cJSON *delta)
{
	const cJSON *content = foreign_member(delta, "content");
	const char *text = cJSON_IsString(content) ? content->valuestring : "";
	size_t n = strlen(text);

	if (!n)
		return true;
	if (!array_text(&r->text, &r->n_text, &r->cap_text, text, n))
		return false;
	if (r->a->o.text)
		r->a->o.text(r->a->o.arg, text, n);
	return true;
}

static void read_reason(struct attach_answer *r, const cJSON *choice)
{
	static const char *const keys[] = { "stop_reason", "matched_stop" }; /* vLLM, SGLang */
	char word[ATTACH_WORD], stop[ATTACH_WORD] = "";
	bool says = false;

	attach_word(choice, "finish_reason", word, sizeof word);
	if (!*word)
		return;
	r->over = true;
	for (size_t i = 0; i < 2 && !says; i++) {
		says = cJSON_HasObjectItem(choice, keys[i]);
		attach_word(choice, keys[i], stop, sizeof stop);
	}
	if (!strcmp(word, "abort") || !strcmp(word, "error")) /* vLLM's words, and our own server's */
		fail(r, "the server says", word);
	else if (!strcmp(word, "length"))
		r->reason = EV_FINISH_length;
	else if (strcmp(word, "stop") != 0)
		r->reason = EV_FINISH_ended;
	else
		r->reason = *stop                             ? EV_FINISH_stop
					: says || !*r->settings.stop.text ? EV_FINISH_end
													  : EV_FINISH_ended;
	if (r->reason == EV_FINISH_ended)
		snprintf(r->why, sizeof r->why, "the server says: %s", word);
	else if (*stop)
		snprintf(r->why, sizeof r->why, "%s", stop);
}

static void read_usage(struct attach_answer *r, const cJSON *usage)
{
	const cJSON *details = foreign_member(usage, "prompt_tokens_details");
	struct attach_extra x = { attach_int(usage, "prompt_tokens"),
		attach_int(details, "cached_tokens"), false };
	const int64_t n = attach_int(usage, "completion_tokens");

	attach_emit_extra(r, &x);
	r->generated = n != EV_NULL_I ? n : r->generated;
}

static bool read_choice(struct attach_answer *r, const cJSON *choice)
{
	const size_t had = r->n_text;
	int n = add_tokens(r, choice);
	struct attach_token piece = { .id = EV_NULL_I, .p = (double)NAN };

	if (n < 0 || !add_text(r, foreign_member(choice, "delta")))
		return fail(r, "no memory for what the server answered", "");
	/* A server that does not tell its tokens: text is all there is. */
	if (r->a->server == &attach_openai && !r->any_logprobs && !n && r->n_text > had)
		r->asked_logprobs = r->a->logprobs = false;
	if (!r->asked_logprobs && r->n_text > had) {
		piece.bytes = r->text + had;
		piece.size = r->n_text - had;
		if (attach_emit_token(r, &piece, NULL, 0, EV_SOURCE_piece))
			return fail(r, "no memory for what the server answered", "");
		n = 0;
	}
	if (n || r->n_text > had)
		attach_emit_step(r->a, n);
	read_reason(r, choice);
	if (r->n_text > ANSWER_TEXT || r->n_tokens + r->n_pieces > ANSWER_TOKENS)
		return fail(r, "cut: the server's answer does not end", "");
	return true;
}

/* An error in a stream or as an answer: {"error": {"message": …}}, {"error": "…"}, {"message": …}.
 */
static bool read_error(const cJSON *o, char *out, size_t cap)
{
	const cJSON *error = foreign_member(o, "error");

	attach_word(
		cJSON_IsObject(error) ? error : o, cJSON_IsString(error) ? "error" : "message", out, cap);
	if (!*out)
		attach_word(o, "detail", out, cap);
	return (error && !cJSON_IsNull(error)) || *out;
}

static bool on_event(void *who, char *data, size_t size)
{
	struct attach_answer *r = who;
	struct attach_extra x = { EV_NULL_I, EV_NULL_I, false };
	char error[ATTACH_WHY];
	cJSON *o;
	bool ok;

	if (!strcmp(data, "[DONE]"))
		return r->done = true;
	r->any_event = true;
	o = foreign_json_parse(data, size);
	if (!cJSON_IsObject(o)) {
		cJSON_Delete(o);
		return fail(r, "the server's stream has an event that is no JSON object", data);
	}
	if (read_error(o, error, sizeof error)) {
		cJSON_Delete(o);
		return fail(r, "the server broke off", error);
	}
	if (r->a->server->extra)
		r->a->server->extra(&x, o);
	attach_emit_extra(r, &x);
	read_usage(r, foreign_member(o, "usage"));
	ok = true;
	if (cJSON_GetArraySize(foreign_member(o, "choices")) > 0)
		ok = read_choice(r, foreign_member(o, "choices")->child);
	cJSON_Delete(o);
	return ok;
}

static bool on_piece(void *who, int status, const char *bytes, size_t size)
{
	struct attach_answer *r = who;
	size_t room = sizeof r->body - 1 - r->n_body;

	if (status < 400) {
		if (sse_feed(&r->sse, bytes, size, on_event, r))
			return true;
		return fail(r, "the server's stream has an event of more than 1 MiB, or does not end", "");
	}
	size = size < room ? size : room;
	memcpy(r->body + r->n_body, bytes, size);
	r->n_body += size;
	return true;
}

/* ---- its end ---- */

static void free_answer(struct attach_answer *r)
{
	sse_free(&r->sse);
	setting_stops_free(&r->settings.stop);
	free(r->text);
	free(r->gap);
	free(r);
}

/* What came stays in the conversation; a turn of which nothing came leaves it. */
static void keep_text(struct attach_answer *r)
{
	struct attach *a = r->a;

	if (r->n_text && ARRAY_ROOM(a->message, a->cap_messages, a->n_messages + 1)) {
		a->message[a->n_messages++] = (struct attach_message){ false, r->text };
		r->text = NULL;
	} else if (a->n_messages && a->message[a->n_messages - 1].user) {
		free(a->message[--a->n_messages].text);
	}
}

static void end_answer(struct attach_answer *r)
{
	struct attach *a = r->a;
	struct attach_token rest = { .id = EV_NULL_I, .p = (double)NAN };

	/* log-probabilities were asked for and never came: the text is not lost for that */
	if (r->asked_logprobs && !r->any_logprobs && r->n_text) {
		rest.bytes = r->text;
		rest.size = r->n_text;
		attach_emit_token(r, &rest, NULL, 0, EV_SOURCE_piece);
		a->logprobs = false;
	}
	keep_text(r);
	attach_emit_finish(r);
	attach_emit_step(a, 0);
	pthread_mutex_lock(&a->lock);
	a->ended = (int)r->reason;
	snprintf(a->ended_why, sizeof a->ended_why, "%s", r->why);
	pthread_mutex_unlock(&a->lock);
	a->n_orders--;
	a->answer = NULL;
	free_answer(r);
}

static bool send(struct attach_answer *r);

static void status_words(struct attach_answer *r, const struct client_end *end)
{
	char error[ATTACH_WHY] = "", what[64];
	cJSON *o = foreign_json_parse(r->body, r->n_body);

	if (!o || !read_error(o, error, sizeof error))
		snprintf(error, sizeof error, "%.*s", (int)r->n_body, r->body);
	cJSON_Delete(o);
	snprintf(what, sizeof what, "the server answers with status %d", end->status);
	fail(r, what, error);
	if (end->retry_after_s)
		text_append(r->why, sizeof r->why, "", " (again in %d s)", end->retry_after_s);
}

static void on_end(void *who, const struct client_end *end)
{
	struct attach_answer *r = who;

	r->call = NULL;
	if (end->status == 400 && r->asked_logprobs && memmem(r->body, r->n_body, "logprob", 7)) {
		r->asked_logprobs = r->a->logprobs = false;
		r->n_body = 0;
		attach_emit_setting(r->a, "logprobs", "off");
		if (send(r))
			return;
	}
	if (end->status >= 400)
		status_words(r, end);
	else if (end->error)
		fail(r, "the answer broke off", end->error);
	else if (!r->any_event && !r->over)
		fail(r, "the server sent no event", "is that URL the root of an OpenAI interface?");
	else if (!r->over && !r->done)
		fail(r, "the stream ended before the answer did", "");
	end_answer(r);
}

static bool send(struct attach_answer *r)
{
	char *body = body_of(r);
	struct client_handler h = { r, on_piece, on_end };

	if (body)
		r->call = client_begin(r->a->client, "/v1/chat/completions", body, h);
	free(body);
	if (!r->call)
		fail(r, "no memory for the request", "");
	return r->call;
}

bool attach_answer_begin(
	struct attach *a, enum ev_code_request_kind kind, const char *text, struct answer_settings *s)
{
	struct attach_answer *r = calloc(1, sizeof *r);

	if (!r)
		return false;
	*r = (struct attach_answer){ .a = a,
		.settings = *s,
		.prompt = EV_NULL_I,
		.cached = EV_NULL_I,
		.generated = EV_NULL_I,
		.asked_logprobs = a->logprobs,
		.reason = EV_FINISH_ended };
	s->stop = (struct setting_stops){ { NULL } };
	a->answer = r;
	attach_emit_request(r, kind, text);
	if (!send(r))
		end_answer(r);
	return true;
}

void attach_answer_cancel(struct attach *a)
{
	struct attach_answer *r = a->answer;
	struct event ev;

	if (!r)
		return;
	client_cancel(r->call);
	ev_init(&ev, EV_cancel);
	ev.u.cancel.request = r->request;
	stream_emit(&a->stream, &ev);
	r->reason = EV_FINISH_cancelled;
	r->why[0] = '\0';
	end_answer(r);
}
