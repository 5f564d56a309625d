/* cutaway serve: the OpenAI interface over HTTP, in front of a session's engine, or of several
 * engines of the same model, its replicas, behind a router (base/router.h).
 *
 * Any request becomes requests of an engine (kind served), whose tokens a sink collects; so all is
 * recorded, shown, verified and explained as in any session. An answer depends on its tokens and
 * its seed, and never on what else runs. Threads: one runs the HTTP library, which reads and
 * writes, and looks for clients that went away; each engine's thread calls serve_sink(), which
 * sends pieces of streams. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sessions/session.h"

enum { SERVE_REPLICAS = 64 };

struct serve_options {
	int32_t replicas;   /* 1 … SERVE_REPLICAS */
	const char *router; /* of several */
	const char *host;   /* address to listen at */
	int32_t port;       /* 0: a free one */
	int socket; /* in place of these, one that listens; the server's from serve_start(). -1: none */
	const char *api_key;              /* NULL: none is asked for */
	const struct setting_stops *cors; /* origins of pages that may read replies; "*": any */
	const char *name;                 /* of the model, as clients are told; NULL: its own */
	int32_t queue;                    /* choices that wait, at most; more are refused with 429 */
	int32_t connections;              /* at once */
	int32_t idle_s;   /* a connection that neither sends nor takes anything for so long is closed */
	int32_t body_kib; /* largest body */
	const struct answer_settings *answer; /* what a request does not say */
	/* One line about a request that has ended, without its text, on some thread; or NULL. */
	void (*note)(void *arg, const char *line);
	void *arg;
};

struct serve;

/* Before the sessions. The sink of each is serve_sink(), with its replica as argument. */
int serve_open(struct serve **s, const struct serve_options *o, struct err *e);
void *serve_replica(struct serve *s, int32_t i);
void serve_sink(void *replica, const struct event *ev);
/* The sessions [replicas] have begun, with actors, and stay where they are: connections are taken
 * from now on. */
int serve_start(struct serve *s, struct session *session, struct err *e);
/* The engine's thread, from the actor's on_stop: replica i cannot go on, and its requests have
 * failed. True: others do, and get what comes. */
bool serve_failed(struct serve *s, int32_t i, const struct err *why);
int32_t serve_port(const struct serve *s);
/* where.c: "http://ADDRESS:PORT/v1", with an address of this machine where it listens at all. */
void serve_url(const struct serve *s, char *out, size_t cap);
/* Other machines can reach it, and it asks for no key. */
bool serve_is_open(const struct serve *s);
/* From here to serve_drain(): main's thread. No request is open at this moment. */
bool serve_idle(struct serve *s);
bool serve_used(struct serve *s); /* its sessions had a request */
/* From now on what comes waits, within --queue, until serve_release(). True: all others have ended,
 * after so many milliseconds at most. */
bool serve_hold(struct serve *s, int32_t ms);
void serve_release(struct serve *s);
/* The requests that run; and closes the connections that have not taken their answers. */
void serve_cancel(struct serve *s);
/* After serve_hold() was true: other sessions take what comes, as in serve_start(). The actors of
 * those before have stopped then, and they are to be closed. -1: nothing has changed. */
int serve_renew(struct serve *s, struct session *session, struct err *e);
/* Takes no more requests, and waits for those that run; after so many seconds, or once `hurry` is
 * set, they are cancelled. The sessions must still be open. */
void serve_drain(struct serve *s, int32_t seconds, const atomic_bool *hurry);
void serve_close(struct serve *s); /* after serve_drain(), before or after the sessions are closed
									*/
