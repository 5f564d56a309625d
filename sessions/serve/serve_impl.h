/* Internals of the server, for the files of sessions/serve alone.
 *
 * A job is one HTTP request; it has as many choices as it asks for continuations, each a request of
 * the engine. A job is freed when nobody refers to it: its connection, and each call that the
 * engine's thread has yet to run. serve.lock guards the list of jobs and what comments say. */
#ifndef CUTAWAY_SESSIONS_SERVE_IMPL_H
#define CUTAWAY_SESSIONS_SERVE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <cjson/cJSON.h>
#include <microhttpd.h>

#include "base/json.h"
#include "engine/text/held.h"
#include "sessions/serve/metrics.h"
#include "sessions/serve/serve.h"

enum { ASK_PROMPTS = 64, ASK_CHOICES = 64, ASK_TOP = SAMPLE_CANDIDATES - 1 };

/* ---- what a request asks for (ask.c) ---- */

struct ask_prompt {
	int32_t *ids; /* malloc'd */
	size_t n, cap;
};
enum ask_kind { ASK_CHAT, ASK_TEXT, ASK_SCORE };

struct ask {
	enum ask_kind kind;
	struct ask_prompt prompt[ASK_PROMPTS];
	int32_t n_prompts;
	struct answer_settings set; /* its stops are malloc'd */
	bool seeded, logprobs, stream, usage;
	int32_t n, best_of, top; /* of each prompt; top: candidates to tell with each token */
	char label[64];          /* first words, for the views */
	char user[64];           /* "": as the settings say */
};
/* -1 with ERR_USAGE: what is wrong, in words for the client. free with ask_free() in any case. */
int ask_read(struct ask *a, enum ask_kind kind, const struct serve *s, const char *body,
	size_t size, struct err *e);
void ask_free(struct ask *a);
/* ask_prompt.c: its prompts as ids, and its label. */
int ask_prompts(struct ask *a, const cJSON *o, const struct serve *s, struct err *e);
int ask_ids(struct ask_prompt *p, const cJSON *list, const struct serve *s, struct err *e);
/* Ids of a text as a prompt of /v1/completions has them; `ids` has room for more. */
int ask_encode(const struct tokenizer *t, const char *text, struct ask_prompt *ids, struct err *e);
/* The body as an object; NULL with the error. */
cJSON *ask_object(const char *body, size_t size, struct err *e);

/* ---- jobs (job.c) ---- */

struct served {
	int32_t id;
	float p; /* score: log-probability */
	uint64_t hash;
	bool is_end;
	int32_t n_candidates;
	struct ev_candidate candidate[SAMPLE_CANDIDATES];
};

struct choice {
	struct job *job;
	int32_t index;
	/* under the lock: */
	int64_t request;     /* 0: not submitted */
	struct served *come; /* tokens that the connection has not taken yet */
	size_t n_come, cap_come;
	bool finished;
	enum ev_code_finish reason;
	char why[160];
	int64_t generated, hit;
	/* the HTTP thread's: */
	struct served *token; /* all that were taken */
	size_t n, cap, told;  /* told: of them in pieces of the stream */
	struct held_text held;
	struct utf8_stream utf8;
	char *text;
	size_t n_text, cap_text, text_told;
	double logp; /* of all tokens */
	uint64_t hash;
	bool ended; /* its last piece was made */
};

struct job {
	struct serve *s;
	struct MHD_Connection *connection;
	const struct route *route;
	char *body;
	size_t n_body, cap_body, n_come; /* n_come: bytes of it that came, kept or dropped */
	bool too_large, replied;
	struct ask ask;
	struct choice *choice;
	int32_t n_choices;
	int64_t number, created; /* created: seconds since 1970 */
	char id[48], lossy[128];
	/* under the lock: */
	struct job *next, **at;
	int32_t refs, n_open;         /* n_open: choices that have not finished */
	bool submitted, settled;      /* settled: the engine has seen it */
	bool suspended, gone, failed; /* gone: the client went away */
	struct err error;
	int fd;
	/* the HTTP thread's, of a stream: */
	char *out;
	size_t n_out, cap_out, at_out;
	bool greeted, done;
};

struct serve {
	struct serve_options o;
	struct session *session;
	const struct engine_info *info;
	const struct tokenizer *tokenizer;
	struct MHD_Daemon *daemon;
	char fingerprint[48]; /* arithmetic and model */
	char session_id[12];  /* part of each answer's id */
	int64_t started;      /* seconds since 1970 */
	pthread_mutex_t lock;
	pthread_t watch;
	bool watching;
	atomic_bool draining, closing;
	struct job *jobs;
	struct choice **live; /* those that the engine has and that have not finished */
	size_t n_live, cap_live;
	struct choice *submitting; /* engine_submit() runs for it */
	int32_t n_open;            /* choices of all jobs that have not finished */
	int64_t n_jobs, n_unseeded;
	struct metrics metrics;
};

struct job *job_new(struct serve *s, struct MHD_Connection *c);
void job_unref(struct job *j);
/* Hands its prompts to the engine. False: the queue is full; nothing was done. */
bool job_submit(struct job *j);
/* The client went away: whatever runs for it is cancelled. */
void job_leave(struct job *j);
/* Suspends the connection until there is more to do, unless there is already: then false. stream:
 * tokens are something, else only the end is. */
bool job_wait(struct job *j, bool stream);
/* Takes what has come; true: all choices have finished. */
bool job_take(struct job *j);
void serve_look(struct serve *s); /* for clients that went away while they wait */

/* ---- replies (reply.c, stream.c) ---- */

/* Makes a choice's text of the tokens that were taken since; last: what was held back, too. */
void reply_grow(struct choice *c, bool last);
char *reply_whole(struct job *j, size_t *size);
char *reply_score(struct job *j, size_t *size);
/* Appends to job.out what can be told by now. */
int stream_grow(struct job *j, bool last);
void reply_logprobs(struct json *j, const struct choice *c, size_t from, size_t to);
void reply_head(struct json *j, const struct job *job, const char *object);
void reply_usage(struct json *j, const struct job *job);
const char *reply_reason(const struct choice *c); /* the interface's word for why it ended */

/* ---- routes (routes.c) ---- */

struct route {
	const char *method, *path;
	bool open; /* without a key */
	enum ask_kind kind;
	/* Answers at once: text of *size bytes, malloc'd; NULL with the error. NULL: a job of `kind`.
	 */
	char *(*answer)(struct job *j, size_t *size, struct err *e);
	const char *type; /* of what it answers */
};
/* NULL: *allowed is the method that the path takes, or NULL if there is no such path. */
const struct route *route_find(const char *method, const char *path, const char **allowed);

/* ---- HTTP (http.c) ---- */
int http_start(struct serve *s, struct err *e);

#endif
