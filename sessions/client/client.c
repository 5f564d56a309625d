/* See client.h. A call is a transfer of libcurl whose private pointer is the call; calls are
 * linked, so that closing the client finds them. */
#include "sessions/client/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"

enum { CONNECT_MS = 10000, IDLE_S = 60, ROOT_BYTES = 1024 };

struct client {
	CURLM *multi;
	struct curl_slist *headers;
	char base[ROOT_BYTES]; /* what is asked; root: without "user:password@", for messages */
	char root[ROOT_BYTES];
	bool local; /* the server is on this machine: no proxy */
	int idle_s;
	int n_calls;
	struct client_call *first;
};

struct client_call {
	struct client *client;
	struct client_call *next, **self; /* *self == this */
	CURL *easy;
	struct client_handler handler;
	char error[CURL_ERROR_SIZE];
};

/* ---- the client ---- */

/* Without "/v1" and "/" at the end. */
static bool put_root(CURLU *u, char root[ROOT_BYTES])
{
	char *whole = NULL;
	bool ok = !curl_url_get(u, CURLUPART_URL, &whole, 0) && strlen(whole) < ROOT_BYTES &&
			  (!strncmp(whole, "http://", 7) || !strncmp(whole, "https://", 8));
	size_t n;

	if (ok) {
		n = strlen(strcpy(root, whole));
		while (n && root[n - 1] == '/')
			root[--n] = 0;
		if (n > 3 && !strcmp(root + n - 3, "/v1"))
			root[n - 3] = 0;
	}
	curl_free(whole);
	return ok;
}

/* The root of a URL: its scheme, host, port and path. */
static bool read_root(struct client *c, const char *url)
{
	CURLU *u = curl_url();
	char *host = NULL;
	bool ok = u && !curl_url_set(u, CURLUPART_URL, url, CURLU_GUESS_SCHEME) &&
			  !curl_url_set(u, CURLUPART_QUERY, NULL, 0) &&
			  !curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) &&
			  !curl_url_get(u, CURLUPART_HOST, &host, 0) && put_root(u, c->base) &&
			  !curl_url_set(u, CURLUPART_USER, NULL, 0) &&
			  !curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) && put_root(u, c->root);

	c->local = ok && (!strcasecmp(host, "localhost") || !strncmp(host, "127.", 4) ||
						 !strcmp(host, "[::1]"));
	curl_free(host);
	curl_url_cleanup(u);
	return ok;
}

static bool add_header(struct client *c, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 1;
	char *line = malloc(size);
	struct curl_slist *more;

	if (!line)
		return false;
	snprintf(line, size, "%s%s", name, value);
	more = curl_slist_append(c->headers, line);
	free(line);
	if (more)
		c->headers = more;
	return more != NULL;
}

int client_open(struct client **out, const struct client_options *o, struct err *e)
{
	struct client *c = calloc(1, sizeof *c);

	*out = NULL;
	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) || !(c->multi = curl_multi_init())) {
		free(c);
		return err_no_memory(e, "an HTTP client");
	}
	c->idle_s = o->idle_s ? o->idle_s : IDLE_S;
	curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)o->connections);
	if (!read_root(c, o->url)) {
		client_close(c);
		return err_set(e, ERR_USAGE,
			"'%.200s' is not a URL of http or https, such as http://127.0.0.1:8080/v1", o->url);
	}
	/* without "Expect:" a body of more than 1 MiB would wait for the server's consent */
	if (!add_header(c, "Content-Type: ", "application/json") || !add_header(c, "Expect:", "") ||
		(o->api_key && !add_header(c, "Authorization: Bearer ", o->api_key))) {
		client_close(c);
		return err_no_memory(e, "an HTTP client");
	}
	*out = c;
	return 0;
}

const char *client_root(const struct client *c)
{
	return c->root;
}

static void call_free(struct client_call *call)
{
	struct client *c = call->client;

	if (call->next)
		call->next->self = call->self;
	*call->self = call->next;
	c->n_calls--;
	curl_multi_remove_handle(c->multi, call->easy);
	curl_easy_cleanup(call->easy);
	free(call);
}

void client_close(struct client *c)
{
	if (!c)
		return;
	while (c->first)
		call_free(c->first);
	curl_multi_cleanup(c->multi);
	curl_slist_free_all(c->headers);
	free(c);
}

/* ---- calls ---- */

static size_t take_piece(char *bytes, size_t one, size_t size, void *call_)
{
	struct client_call *call = call_;
	long status = 0;

	(void)one;
	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	return call->handler.piece(call->handler.who, (int)status, bytes, size) ? size : 0;
}

static bool set_up(struct client_call *call, const char *method, const char *path, const char *body)
{
	const struct client *c = call->client;
	CURL *easy = call->easy;
	char url[ROOT_BYTES + 256];

	snprintf(url, sizeof url, "%s%s", c->base, path);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_piece);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, c->headers);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)c->idle_s);
	if (c->local)
		curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	if (method)
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
	return !curl_easy_setopt(easy, CURLOPT_URL, url) &&
		   (!body || !curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body));
}

/* Any other method, e.g. "DELETE". */
static struct client_call *client_begin_method(struct client *c, const char *method,
	const char *path, const char *body, struct client_handler handler)
{
	struct client_call *call = calloc(1, sizeof *call);

	if (!call)
		return NULL;
	*call = (struct client_call){
		.client = c, .next = c->first, .self = &c->first, .handler = handler
	};
	call->easy = curl_easy_init();
	if (!call->easy || !set_up(call, method, path, body) ||
		curl_multi_add_handle(c->multi, call->easy)) {
		curl_easy_cleanup(call->easy);
		free(call);
		return NULL;
	}
	if (c->first)
		c->first->self = &call->next;
	c->first = call;
	c->n_calls++;
	return call;
}

struct client_call *client_begin(
	struct client *c, const char *path, const char *body, struct client_handler handler)
{
	return client_begin_method(c, NULL, path, body, handler);
}

void client_cancel(struct client_call *call)
{
	call_free(call);
}

/* ---- progress ---- */

static const char *words_of(const struct client_call *call, CURLcode code, char *line, size_t size)
{
	if (code == CURLE_OK)
		return NULL;
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
		snprintf(line, size, "%s does not answer (%s); is the server running?", call->client->root,
			call->error);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		snprintf(line, size, "%s sent nothing for %d s", call->client->root, call->client->idle_s);
	else
		snprintf(line, size, "%s: %s", call->client->root,
			call->error[0] ? call->error : curl_easy_strerror(code));
	return line;
}

static void call_end(struct client_call *call, CURLcode code)
{
	struct client_handler h = call->handler;
	char line[ROOT_BYTES + CURL_ERROR_SIZE + 64];
	struct client_end end = { .error = words_of(call, code, line, sizeof line) };
	long status = 0;
	curl_off_t retry = 0;

	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry);
	end.status = (int)status;
	end.retry_after_s = retry > 3600 ? 3600 : (int)retry;
	call_free(call);
	h.end(h.who, &end);
}

int client_poll(struct client *c, int timeout_ms)
{
	CURLMsg *m;
	int running, left;

	curl_multi_perform(c->multi, &running);
	if (running == c->n_calls && timeout_ms > 0) {
		curl_multi_poll(c->multi, NULL, 0, timeout_ms, NULL);
		curl_multi_perform(c->multi, &running);
	}
	while ((m = curl_multi_info_read(c->multi, &left))) {
		struct client_call *call = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &call);
		call_end(call, m->data.result);
	}
	return c->n_calls;
}

void client_wake(struct client *c)
{
	curl_multi_wakeup(c->multi);
}

/* ---- a whole answer ---- */

struct fetch {
	struct client_answer *answer;
	size_t most, cap;
	bool ended, too_long;
	struct err *e;
	int rc;
};

static bool fetch_piece(void *f_, int status, const char *bytes, size_t size)
{
	struct fetch *f = f_;
	struct client_answer *a = f->answer;

	(void)status;
	f->too_long = a->size + size > f->most;
	return !f->too_long && array_text(&a->text, &a->size, &f->cap, bytes, size);
}

static void fetch_end(void *f_, const struct client_end *end)
{
	struct fetch *f = f_;

	f->ended = true;
	f->answer->status = end->status;
	if (f->too_long)
		f->rc = err_set(f->e, ERR_INPUT, "an answer of more than %zu bytes", f->most);
	else if (end->error)
		f->rc = err_set(f->e, ERR_IO, "%s", end->error);
}

int client_fetch(struct client *c, const char *method, const char *path, const char *body,
	size_t most_bytes, struct client_answer *answer, struct err *e)
{
	struct fetch f = { .answer = answer, .most = most_bytes, .e = e };

	*answer = (struct client_answer){ .text = calloc(1, 1) };
	if (!answer->text || !client_begin_method(c, method, path, body,
							 (struct client_handler){ &f, fetch_piece, fetch_end }))
		f.rc = err_no_memory(e, "a request");
	else
		while (!f.ended)
			client_poll(c, 1000);
	if (f.rc) {
		free(answer->text);
		*answer = (struct client_answer){ .status = answer->status };
	}
	return f.rc;
}
