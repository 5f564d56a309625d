/* HTTP, by libmicrohttpd: one thread for all connections. A connection that waits for the engine is
 * suspended, and meanwhile the engine's thread may send to it (stream.c). See serve_impl.h. */
#include "sessions/serve/serve_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "base/array.h"

enum { HEAD_BYTES = 32 << 10, PIECE = 16 << 10, DROPPED = 16 };

/* ---- replies ---- */

static enum MHD_Result send_reply(
	struct job *j, unsigned status, const char *type, struct MHD_Response *r)
{
	enum MHD_Result rc;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
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
	return send_reply(
		j, status, type, MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result send_error(struct job *j, unsigned status, const char *code, const char *why)
{
	struct json out = { 0 };
	size_t size;
	char *text;

	json_object(&out, NULL);
	json_object(&out, "error");
	json_text(&out, "message", why);
	json_text(&out, "type", status < 500 ? "invalid_request_error" : "server_error");
	json_null(&out, "param");
	if (code)
		json_text(&out, "code", code);
	else
		json_null(&out, "code");
	text = json_take(&out, &size);
	return text ? send_text(j, status, "application/json", text, size) : MHD_NO;
}

static enum MHD_Result send_err(struct job *j, const struct err *e)
{
	return send_error(j,
		e->code == ERR_USAGE         ? MHD_HTTP_BAD_REQUEST
		: e->code == ERR_INTERRUPTED ? MHD_HTTP_SERVICE_UNAVAILABLE
									 : MHD_HTTP_INTERNAL_SERVER_ERROR,
		NULL, e->text);
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

static const struct choice *refused(const struct job *j)
{
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->choice[i].finished && j->choice[i].reason == EV_FINISH_refused)
			return &j->choice[i];
	return NULL;
}

/* Everything has ended, or a stream has something to tell. */
static enum MHD_Result answer(struct job *j)
{
	const bool all = job_take(j);
	size_t size;
	char *text;

	if (j->error.code)
		return send_err(j, &j->error);
	if (refused(j))
		return send_error(j, MHD_HTTP_BAD_REQUEST,
			j->ask.kind == ASK_PIN ? "pin_refused" : "context_length_exceeded", refused(j)->why);
	if (j->ask.stream)
		return begin_stream(j);
	for (int32_t i = 0; i < j->n_all; i++)
		if (j->failed || j->choice[i].reason == EV_FINISH_failed)
			return send_error(j, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
				"the arithmetic gave a NaN, or memory ran out");
	text = !all                       ? NULL
		   : j->ask.kind == ASK_SCORE ? reply_score(j, &size)
		   : j->ask.kind == ASK_PIN   ? pins_made(j, &size)
									  : reply_whole(j, &size);
	return text ? send_text(j, MHD_HTTP_OK, j->route->type, text, size)
				: send_error(
					  j, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory for the answer");
}

static enum MHD_Result begin(struct job *j)
{
	struct err e = { 0 };
	size_t size;
	char *text;

	if (j->route->answer) {
		text = j->route->answer(j, &size, &e);
		return text ? send_text(j, MHD_HTTP_OK, j->route->type, text, size) : send_err(j, &e);
	}
	if (j->s->draining)
		return send_error(j, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "the server ends");
	if (ask_read(&j->ask, j->route->kind, j->s, j->body, j->n_body, &e))
		return send_err(j, &e);
	free(j->body); /* it may wait long */
	j->body = NULL;
	snprintf(j->id, sizeof j->id, "%s-%.8s-%lld", j->ask.kind == ASK_CHAT ? "chatcmpl" : "cmpl",
		j->s->session_id, (long long)j->number);
	if (!job_submit(j))
		return send_error(j, MHD_HTTP_TOO_MANY_REQUESTS, "queue_full",
			"the queue is full: see --queue of cutaway serve, or try again");
	return job_wait(j, j->ask.stream) ? MHD_YES : answer(j);
}

/* ---- connections ---- */

static void digest(const char *text, uint8_t out[SHA256_DIGEST_SIZE])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, strlen(text), (const uint8_t *)text);
	sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
}

/* Keys are compared by their hashes and in constant time, so that neither length nor beginning
 * shows. */
static bool may_enter(const struct job *j)
{
	static const char word[] = "Bearer ";
	const char *given =
		MHD_lookup_connection_value(j->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	uint8_t a[SHA256_DIGEST_SIZE], b[SHA256_DIGEST_SIZE];

	if (!j->s->o.api_key || j->route->open)
		return true;
	if (!given || strncasecmp(given, word, sizeof word - 1))
		return false;
	digest(given + sizeof word - 1, a);
	digest(j->s->o.api_key, b);
	return memeql_sec(a, b, sizeof a);
}

/* Before the body is read. MHD_YES without a reply: it is to be read. */
static enum MHD_Result check(struct job *j, const char *method, const char *path)
{
	const char *allowed;

	j->route = route_find(method, path, &allowed, &j->number_of_path);
	if (!j->route)
		return send_error(j, allowed ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, NULL,
			allowed ? "this path takes another method" : "there is no such path here");
	if (!may_enter(j))
		return send_error(j, MHD_HTTP_UNAUTHORIZED, "invalid_api_key", "a valid API key is needed");
	return MHD_YES;
}

/* A body that is too large is read to its end and dropped, so that its client, which reads only
 * then, sees the reply; one that does not end soon is cut off: false. */
static bool read_body(struct job *j, const char *data, size_t size)
{
	const size_t most = (size_t)j->s->o.body_kib << 10;

	j->n_come += size;
	j->too_large |= j->n_come > most || !ARRAY_ROOM(j->body, j->cap_body, j->n_body + size);
	if (j->too_large)
		return j->n_come <= DROPPED * most;
	memcpy(j->body + j->n_body, data, size);
	j->n_body += size;
	return true;
}

/* Called for the head, for each part of the body, at its end, and after the connection was
 * resumed. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path,
	const char *method, const char *version, const char *data, size_t *size, void **state)
{
	struct job *j = *state;

	if (!j) {
		*state = j = job_new(arg, c);
		if (!j)
			return MHD_NO;
		j->chunked = !strcmp(version, MHD_HTTP_VERSION_1_1);
		return check(j, method, path);
	}
	if (*size) {
		const bool go_on = j->replied || read_body(j, data, *size);

		*size = 0;
		return go_on ? MHD_YES : MHD_NO;
	}
	if (j->replied)
		return MHD_YES;
	if (j->too_large)
		return send_error(j, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "the body is too large");
	return j->submitted ? answer(j) : begin(j);
}

static void tell(struct job *j, enum MHD_RequestTerminationCode code)
{
	int64_t prompt = 0, generated = 0, hit = 0;
	char line[200];

	if (!j->s->o.note || !j->submitted)
		return;
	for (int32_t i = 0; i < j->n_choices; i++) {
		prompt += (int64_t)j->ask.prompt[i / j->ask.best_of].n;
		generated += j->choice[i].generated;
		hit += j->choice[i].hit;
	}
	snprintf(line, sizeof line, "%lld %s: %lld prompt tokens (%lld cached), %lld generated%s",
		(long long)j->number, j->route->path, (long long)prompt, (long long)hit,
		(long long)generated,
		code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "" : ", the client went away");
	j->s->o.note(j->s->o.arg, line);
}

static void on_end(
	void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
	struct job *j = *state;

	(void)arg, (void)c;
	if (!j)
		return;
	job_leave(j);
	tell(j, code);
	job_unref(j);
	*state = NULL;
}

static void quiet(void *arg, const char *format, va_list args)
{
	(void)arg, (void)format, (void)args;
}

static int address(const struct serve *s, struct sockaddr_storage *to, struct err *e)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%d", s->o.port);
	rc = getaddrinfo(s->o.host, port, &hints, &found);
	if (rc)
		return err_set(e, ERR_USAGE, "--host %.80s: %s", s->o.host, gai_strerror(rc));
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

int http_start(struct serve *s, struct err *e)
{
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

	if (address(s, &s->at, e))
		return -1;
	if (s->at.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER,
		quiet, NULL, MHD_OPTION_SOCK_ADDR, &s->at, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->o.connections, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)s->o.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
		MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
	if (!s->daemon)
		return err_set(e, ERR_IO, "%.80s, port %d: %s", s->o.host, s->o.port,
			errno ? strerror(errno) : "it cannot be listened at");
	return 0;
}
