/* HTTP, by libmicrohttpd: one thread for all connections. A connection that waits for the engine is
 * suspended, and meanwhile the engine's thread may send to it (stream.c). See serve_impl.h. */
#include "serve/dialect.h"

#include <stdarg.h>

#include "base/array.h"
#include "base/text.h"

#define JSON "application/json"
enum { PIECE = 16 << 10, DROPPED = 16 };

/* ---- replies ---- */

/* A line of the log: which request, of whom, for what, and what became of it. */
__attribute__((format(printf, 2, 3))) static void note(struct job *j, const char *format, ...)
{
	char line[800];
	char *clean;
	va_list args;
	int n;

	if (!j->s->o.note || j->sent)
		return;
	j->sent = true;
	n = snprintf(line, sizeof line, "%lld %s %.200s: ", (long long)j->number,
		*j->peer ? j->peer : "localhost", j->asked);
	va_start(args, format);
	vsnprintf(line + n, sizeof line - (size_t)n, format, args);
	va_end(args);
	clean = text_clean(line, strlen(line), false, NULL);
	if (clean)
		j->s->o.note(j->s->o.arg, clean);
	free(clean);
}

static enum MHD_Result send_reply(
	struct job *j, unsigned status, const char *type, struct MHD_Response *r)
{
	const char *origin = enter_origin(j); /* of a page that --cors names */
	enum MHD_Result rc;

	if (!r)
		return MHD_NO;
	if (type)
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	if (origin) {
		MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
		MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
	}
	if (*j->allow)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, j->allow);
	if (status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE)
		MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	j->replied = true;
	rc = MHD_queue_response(j->connection, status, r);
	MHD_destroy_response(r);
	return rc;
}

/* text is malloc'd, and the reply's from now on. */
static enum MHD_Result send_text(
	struct job *j, unsigned status, const char *type, char *text, size_t size)
{
	client_turn(j, size);
	return send_reply(
		j, status, type, MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE));
}

/* Of a path that is of a dialect, or would be. */
static bool types_errors(const struct job *j)
{
	const char *path = strchr(j->asked, ' ') + 1;

	return j->route ? j->route->dialect && j->route->dialect->types_errors
					: !strncmp(path, "/v1/messages", strlen("/v1/messages"));
}

static const char *type_of(const struct job *j, unsigned status)
{
	if (!types_errors(j))
		return status < 500 ? "invalid_request_error" : "server_error";
	switch (status) {
	case MHD_HTTP_UNAUTHORIZED: return "authentication_error";
	case MHD_HTTP_FORBIDDEN: return "permission_error";
	case MHD_HTTP_NOT_FOUND: return "not_found_error";
	case MHD_HTTP_CONTENT_TOO_LARGE: return "request_too_large";
	case MHD_HTTP_TOO_MANY_REQUESTS: return "rate_limit_error";
	case MHD_HTTP_SERVICE_UNAVAILABLE: return "overloaded_error";
	default: return status < 500 ? "invalid_request_error" : "api_error";
	}
}

static enum MHD_Result send_error(struct job *j, unsigned status, const char *code, const char *why)
{
	const size_t field = code || status >= 500 ? 0 : query_param(why);
	struct json out = { 0 };
	size_t size;
	char *text;

	note(j, "%u, %s", status, why);
	j->s->http.errors++;
	json_put(&out, "{");
	if (types_errors(j))
		json_put(&out, "'type': 'error'");
	json_put(&out, "'error': {'message': %s, 'type': %s", why, type_of(j, status));
	if (field)
		json_bytes(&out, "param", why, field);
	else
		json_null(&out, "param");
	json_put(&out, "'code': %s", code);
	text = json_take(&out, &size);
	return text ? send_text(j, status, JSON, text, size) : MHD_NO;
}

static enum MHD_Result send_err(struct job *j)
{
	return send_error(j,
		j->missing                         ? MHD_HTTP_NOT_FOUND
		: j->error.code == ERR_USAGE       ? MHD_HTTP_BAD_REQUEST
		: j->error.code == ERR_INTERRUPTED ? MHD_HTTP_SERVICE_UNAVAILABLE
										   : MHD_HTTP_INTERNAL_SERVER_ERROR,
		NULL, j->error.text);
}

/* Makes a reply, unless there is an error, and sends the one or the other. */
static enum MHD_Result send_made(struct job *j, reply_fn *make)
{
	struct json out = { 0 };
	size_t size;
	char *text;

	if (!j->error.code)
		make(j, &out);
	text = json_take(&out, &size);
	if (text && !j->error.code)
		return send_text(
			j, MHD_HTTP_OK, j->route->plain ? "text/plain; version=0.0.4" : JSON, text, size);
	free(text);
	err_set(&j->error, ERR_MEMORY, "out of memory for the answer");
	return send_err(j);
}

/* ---- a stream ---- */

/* Copies what is ready; asks for more as long as something comes. */
static ssize_t read_stream(void *arg, uint64_t pos, char *buf, size_t most)
{
	struct job *j = arg;
	size_t n;

	(void)pos;
	while (j->at_out == j->n_out) {
		j->at_out = j->n_out = 0;
		if (j->done)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (stream_grow(j, job_take(j)) || j->failed)
			return MHD_CONTENT_READER_END_WITH_ERROR;
		if (j->done)
			client_turn(j, j->n_out);
		if (!j->n_out && job_wait(j, true))
			return 0;
	}
	n = j->n_out - j->at_out < most ? j->n_out - j->at_out : most;
	memcpy(buf, j->out + j->at_out, n);
	j->at_out += n;
	return (ssize_t)n;
}

static enum MHD_Result begin_stream(struct job *j)
{
	struct MHD_Response *r =
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, read_stream, j, NULL);

	if (r)
		MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
	return send_reply(j, MHD_HTTP_OK, "text/event-stream", r);
}

/* ---- jobs of the engine ---- */

/* This and the next: under the lock. */
static const struct choice *refused(const struct job *j)
{
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->choice[i].finished && j->choice[i].reason == EV_FINISH_refused)
			return &j->choice[i];
	return NULL;
}

/* It was stopped, and nothing came of it by then, or what is told as a whole alone: Anthropic's
 * interface has no word for a text that breaks off. */
static bool is_stopped(const struct choice *c)
{
	const struct query *a = &c->job->query;

	return c->finished && c->reason == EV_FINISH_cancelled &&
		   (!c->n || c->scores || a->kind == QUERY_SCORE ||
			   (a->dialect && a->dialect->types_errors));
}

/* Everything has ended, or a stream has something to tell. */
static enum MHD_Result answer(struct job *j)
{
	const bool all = job_take(j);
	const struct choice *none;

	pthread_mutex_lock(&j->s->lock);
	for (int32_t i = 0; i < j->n_all; i++)
		if (is_stopped(&j->choice[i]))
			err_set(&j->error, ERR_INTERRUPTED, "it was stopped before it was answered; ask again");
	none = refused(j);
	pthread_mutex_unlock(&j->s->lock);
	if (j->error.code)
		return send_err(j);
	if (none)
		return send_error(j, MHD_HTTP_BAD_REQUEST,
			j->query.kind == QUERY_PIN ? "pin_refused" : "context_length_exceeded", none->why);
	if (j->query.stream)
		return begin_stream(j);
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->failed || j->choice[i].reason == EV_FINISH_failed)
			return send_error(j, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
				*j->choice[i].why ? j->choice[i].why
								  : "the arithmetic gave a NaN, or memory ran out");
	if (!all)
		err_set(&j->error, ERR_MEMORY, "out of memory for the answer");
	return send_made(j, j->route->reply);
}

static enum MHD_Result send_full(struct job *j)
{
	return send_error(j, MHD_HTTP_TOO_MANY_REQUESTS, "queue_full",
		"the queue is full: see --queue of cutaway serve, or try again");
}

/* Before the body is read. MHD_YES without a reply: it waits for its turn. */
static bool is_put_off(struct job *j, enum MHD_Result *rc)
{
	*rc = MHD_YES;
	if (j->gone)
		*rc = MHD_NO;
	else if (j->s->draining && !j->route->at_once)
		*rc = send_error(j, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "the server ends");
	else if (!j->route->at_once && !j->due &&
			 !jobs_room(j->s, j->route->kind != QUERY_UNPIN, j->s->n_deferred))
		*rc = send_full(j);
	else
		return job_defer(j);
	return true;
}

static enum MHD_Result begin(struct job *j)
{
	enum MHD_Result rc;

	if (is_put_off(j, &rc))
		return rc;
	if (j->route->at_once)
		return send_made(j, j->route->at_once);
	if (j->route->kind == QUERY_UNPIN) {
		pins_remove(j);
		return job_wait(j, false) ? MHD_YES : answer(j);
	}
	if (query_read(
			&j->query, j->route->kind, j->route->dialect, j->s, j->body, j->n_body, &j->error))
		return send_err(j);
	free(j->body); /* it may wait long */
	j->body = NULL;
	snprintf(j->id, sizeof j->id, "%s-%.8s-%lld", j->route->prefix, j->s->session_id,
		(long long)j->number);
	if (!job_submit(j))
		return send_full(j);
	return job_wait(j, j->query.stream) ? MHD_YES : answer(j);
}

/* ---- connections ---- */

/* What a page asks before it sends what is not a form's: whether it may. */
static enum MHD_Result send_options(struct job *j)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	const char *headers = MHD_lookup_connection_value(
		j->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);

	if (r && enter_origin(j)) {
		MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, j->allow);
		if (headers)
			MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, headers);
		MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
	}
	return send_reply(j, MHD_HTTP_NO_CONTENT, NULL, r);
}

/* Before the body is read. MHD_YES without a reply: it is to be read. */
static enum MHD_Result check(struct job *j, const char *method)
{
	const char *why;
	unsigned status;

	j->route = route_find(method, j->asked + strlen(method) + 1, j->allow, &j->rest);
	status = enter_refused(j, &why);
	if (status)
		return send_error(
			j, status, status == MHD_HTTP_UNAUTHORIZED ? "invalid_api_key" : NULL, why);
	if (!j->route && !*j->allow)
		return send_error(j, MHD_HTTP_NOT_FOUND, NULL, "there is no such path here");
	if (!strcmp(method, MHD_HTTP_METHOD_OPTIONS))
		return send_options(j);
	if (!j->route)
		return send_error(j, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, "this path takes another method");
	if (!enter_takes(j, &why))
		return send_error(j, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL, why);
	*j->allow = '\0';
	return MHD_YES;
}

/* A body that is too large is read to its end and dropped, so that its client, which reads only
 * then, sees the reply; one that does not end soon is cut off: false. */
static bool read_body(struct job *j, const char *data, size_t size)
{
	const size_t most = (size_t)j->s->o.body_kib << 10;

	j->too_large = j->too_large || j->client->bytes > most ||
				   !array_text(&j->body, &j->n_body, &j->cap_body, data, size);
	return !j->too_large || j->client->bytes <= DROPPED * most;
}

/* Called for the head, for each part of the body, at its end, and after the connection was
 * resumed. */
enum MHD_Result http_request(void *arg, struct MHD_Connection *c, const char *path,
	const char *method, const char *version, const char *data, size_t *size, void **state)
{
	struct job *j = *state;

	if (!j) {
		*state = j = job_new(arg, c, method, path);
		if (!j)
			return MHD_NO;
		j->chunked = !strcmp(version, MHD_HTTP_VERSION_1_1);
		return check(j, method);
	}
	j->client->bytes += *size;
	if (*size) {
		const bool go_on = j->replied || read_body(j, data, *size);

		*size = 0;
		return go_on ? MHD_YES : MHD_NO;
	}
	if (j->replied)
		return MHD_YES;
	if (j->too_large)
		return send_error(j, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "the body is too large");
	j->client->served = true;
	return j->submitted ? answer(j) : begin(j);
}

static void note_served(struct job *j, bool whole)
{
	int64_t prompt = 0, generated = 0, hit = 0;
	char where[32] = "", left[48] = "";

	pthread_mutex_lock(&j->s->lock);
	for (int32_t i = 0; i < j->n_choices; i++) {
		prompt += (int64_t)j->query.prompt[i / j->query.best_of].n;
		generated += j->choice[i].generated;
		hit += j->choice[i].hit;
	}
	pthread_mutex_unlock(&j->s->lock);
	if (j->routed)
		snprintf(where, sizeof where, j->spread ? ", several replicas" : ", replica %d",
			j->choice[0].replica->index);
	if (j->query.left.messages)
		snprintf(left, sizeof left, ", %zu message%s left out", j->query.left.messages,
			plural((int64_t)j->query.left.messages));
	note(j, "%lld prompt token%s (%lld cached), %lld generated%s%s%s", (long long)prompt,
		plural(prompt), (long long)hit, (long long)generated, left, where,
		whole ? "" : ", the client went away");
}

void http_end(
	void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
	struct job *j = *state;

	(void)arg, (void)c;
	if (!j)
		return;
	client_turn(j, 0);
	j->client = NULL;
	job_leave(j);
	if (j->n_all)
		note_served(j, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	else if (j->due && !j->replied)
		note(j, "the client went away");
	job_unref(j);
	*state = NULL;
}
