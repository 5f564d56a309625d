/* HTTP from the client's side, by libcurl's multi interface (the one place that sees it): any
 * number of calls at once on the caller's thread, whose answers arrive in pieces. `cutaway load`,
 * `attach` and `pin` speak through it.
 *
 * A path is appended to the server's root, which is the URL without a trailing "/v1": so one URL
 * gives "/v1/chat/completions" and "/metrics" alike. http and https; redirections are not followed,
 * and a server on this machine is never asked through a proxy.
 *
 * Thread: one owns a client and all its calls; client_wake() may be called by any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct client;
struct client_call;

struct client_options {
	const char *url;     /* "http://127.0.0.1:8080/v1"; without a scheme http is meant */
	const char *api_key; /* sent as "Authorization: Bearer KEY"; NULL: none */
	int connections;     /* at most so many at once, more calls wait for one; 0: no limit */
	int idle_s;          /* a call ends with an error after so long without a byte; 0: 60 */
};

/* How a call ended. */
struct client_end {
	int status;        /* of HTTP; 0: there was none */
	int retry_after_s; /* what Retry-After said; 0: nothing */
	const char *error; /* one line without newline, NULL: the answer came to its end */
};

/* Both are called within client_poll() and client_fetch(). */
struct client_handler {
	void *who;
	/* Some bytes of the body, also of one that reports an error. false ends the call with an error.
	 */
	bool (*piece)(void *who, int status, const char *bytes, size_t size);
	/* Once for each call; the call is freed afterwards. May begin other calls. */
	void (*end)(void *who, const struct client_end *end);
};

/* -1: the URL is not one (ERR_USAGE), or no memory. Nothing is connected yet. */
int client_open(struct client **c, const struct client_options *options, struct err *e);
/* Ends all calls without a word to their handlers. NULL is allowed. */
void client_close(struct client *c);
/* The server's root without user and password, for messages and recordings. */
const char *client_root(const struct client *c);

/* Begins GET path, or with a body (JSON, copied) POST path. NULL: no memory. */
struct client_call *client_begin(
	struct client *c, const char *path, const char *body, struct client_handler handler);
/* Ends a call; its handler is not called. Not from a handler's `piece`. */
void client_cancel(struct client_call *call);

/* Moves all calls on, and waits at most timeout_ms for something to do. Returns the number of calls
 * that have not ended. */
int client_poll(struct client *c, int timeout_ms);
/* Ends the wait of client_poll(). Thread: any. */
void client_wake(struct client *c);

/* One answer as a whole. */
struct client_answer {
	int status;
	char *text; /* malloc'd, ends with a zero byte that size does not count; the caller frees it */
	size_t size;
};

/* Asks and waits for the answer of at most most_bytes; other calls move on meanwhile. `method`
 * NULL: GET, or with a body POST. A status of 400 and more is no error here. */
int client_fetch(struct client *c, const char *method, const char *path, const char *body,
	size_t most_bytes, struct client_answer *answer, struct err *e);
