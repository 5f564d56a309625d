/* Internals of the server, for the files of serve alone.
 *
 * A job is one HTTP request; it has as many choices as it asks for continuations, each a request of
 * an engine: those of one prompt of the same. A job is freed when nobody refers to it: its
 * connection, and each call that an engine's thread has yet to run. serve.lock guards the list of
 * jobs and what comments say. "The engine's thread" is that of a choice's replica. */
#pragma once

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include <cjson/cJSON.h>
#include <microhttpd.h>

#include "base/json.h"
#include "base/router.h"
#include "engine/text/fit.h"
#include "engine/text/held.h"
#include "engine/text/parts.h"
#include "engine/text/template.h"
#include "base/foreign_json.h"
#include "serve/metrics.h"
#include "serve/serve.h"

enum {
	QUERY_PROMPTS = 64,
	QUERY_CHOICES = 64,
	QUERY_TOP = SAMPLE_TOP,
	QUERY_STOP_IDS = 64,
	QUERY_VARIABLES = 32,
	QUERY_TOOLS = 128,
	REPLY_CALL_ID = 10,
	ROUTE_ALLOW = 32
};

/* ---- what a request asks for (query.c) ---- */

struct query_prompt {
	int32_t *ids; /* malloc'd */
	size_t n, cap;
	bool begun; /* the first id is the model's own, before the text */
};
static inline int query_append(struct query_prompt *p, const int32_t *ids, size_t n, struct err *e)
{
	return tokenizer_append(&p->ids, &p->n, &p->cap, ids, n, e);
}
enum query_kind {
	QUERY_CHAT,
	QUERY_TEXT,
	QUERY_SCORE,
	QUERY_EMBED,
	QUERY_INFILL,
	QUERY_PIN,
	QUERY_UNPIN,
	QUERY_TOKENIZE,
	QUERY_DETOKENIZE
};

struct query {
	enum query_kind kind;
	const struct dialect *dialect; /* dialect.h; NULL: OpenAI's of today */
	cJSON *asked;                  /* of a dialect: the request */
	struct query_prompt prompt[QUERY_PROMPTS];
	int32_t n_prompts;
	int32_t pin[QUERY_PROMPTS]; /* tokens of each that are declared stable */
	int64_t pin_ttl_ns;
	struct fit_left left;       /* of the conversation, out of its prompt */
	struct answer_settings set; /* its stops are malloc'd */
	bool seeded, logprobs, stream, usage, ignore_end;
	bool tell_stop; /* the stop string is told at the answer's end */
	int32_t stop_id[QUERY_STOP_IDS], n_stop_ids;
	bool echo, silent;       /* echo: the prompt comes first; silent: and nothing after it */
	int32_t dimensions;      /* of vectors, the first ones */
	bool base64;             /* they are told so */
	bool cut;                /* of what is around the gap not all fits the context */
	int32_t n, best_of, top; /* of each prompt; top: candidates to tell with each token */
	char label[64];          /* first words, for the views */
	char *grammar;           /* what set.grammar points to, if the request binds its answer */
	char user[64];           /* what set.user points to, if the request says whose it is */
	/* of a conversation: what its template is given, and what its answer is taken apart into */
	struct chat_variable variable[QUERY_VARIABLES]; /* malloc'd names and values */
	int32_t n_variables;
	cJSON *tools; /* functions: name, parameters; NULL: none */
	bool must_call, one_call, no_call;
	bool calls;            /* its answer may have them */
	bool thoughtless;      /* it asks for no thought */
	const char *call_name; /* of the function to call, in tools; or NULL */
	bool apart, begun;     /* apart: thoughts are told as such; begun: the prompt ends within one */
	int32_t budget;        /* tokens of its thought; 0: any */
};
/* Whether log-probabilities of the prompts are computed, each by a request of its own. */
static inline bool query_scores(const struct query *a)
{
	return a->echo && (a->logprobs || a->silent);
}
/* -1 with ERR_USAGE: what is wrong, in words for the client. free with query_free() in any case. */
int query_read(struct query *a, enum query_kind kind, const struct dialect *d,
	const struct serve *s, const char *body, size_t size, struct err *e);
void query_free(struct query *a);
/* The member of that name; NULL: it is absent or null. */
static inline const cJSON *query_member(const cJSON *o, const char *name)
{
	const cJSON *v = foreign_member(o, name);

	return cJSON_IsNull(v) ? NULL : v;
}
/* A whole number from low to high; absent or null: *out stays. */
int query_int(
	const cJSON *o, const char *name, double low, double high, int32_t *out, struct err *e);
/* query_prompt.c: its prompts as ids, and its label. */
int query_prompts(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
int query_ids(struct query_prompt *p, const cJSON *list, const char *field, const struct serve *s,
	struct err *e);
/* Ids of a text as a prompt of /v1/completions has them. */
int query_encode(
	const struct tokenizer *t, const char *text, struct query_prompt *ids, struct err *e);
/* query_grammar.c: what its answer is bound to; field: that which binds it. */
int query_grammar(struct query *a, const cJSON *o, struct err *e);
int query_bound(struct query *a, const char *field, char *spec, struct err *e); /* takes spec */
/* query_tools.c: the functions that may be called. */
int query_tools(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
/* query_thought.c: whether and how long the model thinks, and the template's variables. */
int query_thought(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
int query_variable(struct query *a, const char *name, const cJSON *value, struct err *e);
/* query_tools.c, once its prompt is known: the grammar of a turn with thoughts and calls. */
int query_parts(struct query *a, const struct serve *s, struct err *e);
/* The tool calls of a message as JSON, with their arguments as objects or as texts, malloc'd. */
char *query_calls(const cJSON *list, bool as_text, struct err *e);
/* embed.c: how vectors are made and told. */
int query_embedding(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
/* infill.c: the prompt of a gap: of /infill; of /v1/completions, once its prompts are known. */
int query_infill(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
int query_suffix(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
/* query_pin.c: what it declares stable, after its prompts. */
int query_pins(struct query *a, const cJSON *o, const struct serve *s, struct err *e);
/* cache_control of o: 1, and *ttl_ns is set; 0: it has none; -1 with the error. */
int query_cache_control(const cJSON *o, int64_t *ttl_ns, struct err *e);
/* The body as an object; NULL with the error. */
cJSON *query_object(const char *body, size_t size, struct err *e);
/* query_fields.c: refuses the fields that are not served, unless they ask for nothing, and those
 * that nobody knows. */
int query_check(enum query_kind kind, const cJSON *o, struct err *e);
/* Whether a value, which may be NULL, is null, empty or among "one|or|another"; none NULL: or
 * false.
 */
bool query_nothing(const cJSON *v, const char *none);
/* query.c: the model's adapter of this name; NULL: there is none. */
const char *query_adapter(const struct serve *s, const char *name);
/* The setting of an answer that a field is, or NULL. */
const struct setting *query_setting(const char *field);
/* Length of the field's name that a message begins with; 0: it begins with none. */
size_t query_param(const char *message);

/* ---- jobs (job.c) ---- */

/* A token, drawn or of the prompt. logp: before bias, penalties, temperature and cuts; that of
 * another token of its row is logp + (its logit - logit). */
struct served {
	int32_t id;
	float logit;
	double logp;
	uint64_t hash;
	bool is_end;
	int32_t n_top;
	struct k_draw_entry top[QUERY_TOP]; /* the greatest logits of the row, in order */
};

/* A pin, as the events have it. */
struct served_pin {
	int64_t pin; /* 0: none */
	int64_t asked, tokens, pages, bytes;
	int64_t ttl_ns, ends_ns; /* ends_ns: by now_ns(); INT64_MAX: never */
	int64_t prompts, given;
	bool whole, renewed;
};
enum { SERVED_PINS = 64 };

struct served_vector {
	float *v; /* malloc'd; NULL: there is none */
	int32_t n;
	enum ev_code_pooling pooling;
	uint64_t hash;
};

struct choice {
	struct job *job;
	struct replica *replica; /* whose request it is */
	int32_t index;
	bool scores; /* no answer: its tokens are those of the prompt after the first */
	/* under the lock: */
	int64_t request;     /* 0: not submitted */
	struct served *come; /* tokens that the connection has not taken yet */
	size_t n_come, cap_come;
	bool finished;
	enum ev_code_finish reason;
	char why[480];
	int64_t generated, hit, pinned;
	bool looked_up;        /* its prompt, in the prefix cache */
	struct served_pin pin; /* that it asked for */
	char refused[160];     /* why it has none */
	struct served_vector vector;
	/* the HTTP thread's; while its connection is suspended, the engine's thread's: */
	struct served *token; /* all that were taken */
	size_t n, cap, sent;  /* told: of them in pieces of the stream */
	struct held_text held;
	struct utf8_stream utf8;
	char *text;
	size_t n_text, cap_text, text_sent;
	struct parts parts;                         /* of a conversation: its text taken apart */
	size_t thought_sent, calls_sent, args_sent; /* told: bytes; calls begun; bytes of the last */
	int64_t thought_tokens;
	/* of a dialect's stream: the part that is told, of those that there may be and of those that
	 * there were; bytes of it */
	size_t stage, told;
	int32_t n_told;
	bool telling;
	double logp; /* of all tokens */
	uint64_t hash;
	bool echoed; /* the prompt is in its text */
	bool ended;  /* its last piece was made */
};

/* A connection; but for its fd the HTTP thread's alone. */
struct client {
	TAILQ_ENTRY(client) link; /* the one waited for longest first */
	int fd;
	bool served, closed; /* served: its request is whole, and the reply is being made */
	int64_t since;       /* ns: it has been waited for, to send or to take */
	size_t bytes;        /* so many of them that it has longer */
};

/* Of a prompt, where there are several replicas: why it went where it went. */
struct job_route {
	struct router_why why;
	char *loads; /* malloc'd; see event route */
};

struct job {
	struct serve *s;
	struct MHD_Connection *connection;
	struct client *client;   /* NULL: its connection has ended */
	char *asked;             /* "METHOD PATH", as the client said them */
	const char *rest;        /* of the path, where the route ends with any */
	char allow[ROUTE_ALLOW]; /* methods of the path, where that is to be told */
	const struct route *route;
	char *body;
	size_t n_body, cap_body;
	bool too_large, replied;
	bool sent, missing; /* in the log; what it names is not there */
	struct query query;
	struct choice *choice; /* the answers, then of each prompt the one that scores it */
	int32_t n_choices, n_all;
	struct job_route *routed; /* [query.n_prompts]; NULL: there is one engine */
	bool spread;              /* over several replicas */
	int64_t number, created;  /* created: seconds since 1970 */
	char id[48], lossy[128];
	/* under the lock: */
	LIST_ENTRY(job) link;
	int32_t refs, n_open;         /* n_open: choices that have not finished */
	int32_t unsettled;            /* replicas that have not seen it */
	int32_t removed;              /* pins */
	bool submitted, settled;      /* settled: all have */
	bool suspended, gone, failed; /* gone: the client went away */
	bool deferred, due;           /* its body is large: read when it is its turn; it is */
	struct err error;
	char peer[INET6_ADDRSTRLEN]; /* address of the client; "": this machine */
	/* as the choices' text, of a stream: */
	bool chunked;     /* its client speaks HTTP/1.1 */
	char *out, *lead; /* lead: what each piece begins with */
	size_t n_out, cap_out, at_out;
	bool greeted, done;
	int64_t n_events;
};

/* One of the engines. */
struct replica {
	struct serve *s;
	int32_t index;
	struct session *session;
	/* under the lock: */
	bool failed;          /* it computes nothing any more */
	struct choice **live; /* those that the engine has and that have not finished */
	size_t n_live, cap_live;
	struct choice *submitting; /* engine_submit() runs for it */
	struct metrics metrics;
	struct served_pin pin[SERVED_PINS]; /* [n_pins], those that live */
	int32_t n_pins;
};

/* A call of an engine's thread. */
struct job_call {
	struct job *job;
	struct replica *replica;
};

struct serve {
	struct serve_options o;
	const char *name;        /* of the model, as clients are told */
	struct replica *replica; /* [n_replicas] */
	int32_t n_replicas;
	struct router router;           /* of several; under the lock */
	int64_t n_routed;               /* prompts */
	const struct engine_info *info; /* of the first; the others are opened alike */
	const struct tokenizer *tokenizer;
	struct MHD_Daemon *daemon;
	struct sockaddr_storage at;
	char host[INET6_ADDRSTRLEN]; /* of o.socket */
	char fingerprint[48];        /* arithmetic and model */
	char session_id[12];         /* part of each answer's id */
	int64_t started;             /* seconds since 1970 */
	pthread_mutex_t lock, turn;  /* turn: the HTTP thread's, while it handles requests */
	pthread_t thread;
	bool running;
	int wake_fd;                               /* readable: a connection was resumed */
	atomic_bool draining, closing, held, used; /* see serve_hold(), serve_used() */
	TAILQ_HEAD(clients, client) clients;
	int32_t n_clients;
	int64_t looked_ns;
	int hurry; /* turns that wait for nothing */
	LIST_HEAD(jobs, job) jobs;
	struct MHD_Connection *waking; /* to be resumed once the lock is free */
	atomic_int resuming;           /* calls that do so now */
	int32_t n_open;                /* choices of all jobs that have not finished */
	int32_t n_deferred;            /* jobs; the HTTP thread's */
	int64_t n_jobs;
	struct metrics_http http;
};

struct job *job_new(
	struct serve *s, struct MHD_Connection *c, const char *method, const char *path);
void job_unref(struct job *j);
/* Whether the queue has room for n answers, `before` others taken first; else one more is refused.
 */
bool jobs_room(struct serve *s, int32_t n, int32_t before);
/* Hands its prompts to engines. False: the queue is full; nothing was done. */
bool job_submit(struct job *j);
/* Has fn called on the thread of a replica's engine, with a struct job_call whose reference to the
 * job is its own. False: the engine takes no more calls. */
bool job_post(struct job *j, struct replica *r, void (*fn)(struct engine *e, void *arg));
/* Under the lock, which it frees: one more replica has seen the job. */
void job_settle(struct job *j);
/* Under the lock, which it frees: resumes the connection. */
void job_resume(struct job *j);
/* Under the lock: it has ended, and its connection has maybe something to do. */
void choice_end(struct choice *c, enum ev_code_finish reason);
/* Frees the lock, and resumes the connection that has something to do since it was taken. */
void jobs_unlock(struct serve *s);
/* The client went away: whatever runs for it is cancelled. */
void job_leave(struct job *j);
/* Suspends the connection until there is more to do, unless there is already: then false. stream:
 * tokens are something, else only the end is. */
bool job_wait(struct job *j, bool stream);
/* Takes what has come; true: all choices have finished. */
bool job_take(struct job *j);

/* ---- replicas (replicas.c) ---- */

int32_t replicas_live(const struct serve *s); /* under the lock: that have not failed */
/* Chooses the replica of each of its choices, which are open from now on. */
int job_route(struct job *j, struct err *e);
void routes_free(struct job *j);
/* Whether some of its choices are of this replica. */
bool job_uses(const struct job *j, const struct replica *r);
/* Under the lock: an answer of it has ended. */
void replica_ended(struct replica *r, const struct choice *c);
/* The engine's thread: logs why the request came here. */
void replica_note(struct engine *engine, const struct choice *c);
/* The replica of an answer, where there are several. */
void reply_replica(struct json *j, const struct replica *r);

/* Suspends the connection of a job whose body takes long to read (parsing, tokens), until it is its
 * turn, or for which an engine is needed while such wait; false: it goes on. */
bool job_defer(struct job *j);
/* Gives the least deferred job its turn, and those whose clients `left`. */
void jobs_turn(struct serve *s, bool (*left)(const struct job *j));
/* job_leave() for those of which that is true, a few at a time; asked under the lock. */
void jobs_leave(struct serve *s, bool (*which)(const struct job *j));

/* ---- replies (reply.c, stream.c) ---- */

static inline const struct query_prompt *choice_prompt(const struct choice *c)
{
	return &c->job->query.prompt[c->index / c->job->query.best_of];
}
/* What is told of a job, as JSON; else job.error says why there is nothing. */
typedef void reply_fn(struct job *j, struct json *out);
/* Makes a choice's text of the tokens that were taken since; last: what was held back, too. */
void reply_grow(struct choice *c, bool last);
reply_fn reply_whole, reply_score;
reply_fn reply_infill;     /* infill.c */
reply_fn reply_embeddings; /* embed.c */
/* Appends words, up to NULL, to job.out. */
int stream_words(struct job *j, const char *word, ...) __attribute__((sentinel));
/* Appends an event, of a name or NULL: its data are lead, the JSON, which it takes, and after. */
int stream_json(
	struct job *j, const char *event, const char *lead, struct json *data, const char *after);
/* Appends to job.out what can be told by now. */
int stream_grow(struct job *j, bool last);
/* The engine's thread, of a suspended connection, without the lock: makes and sends what can be
 * told by now. False: the connection is to be resumed and does the rest. */
bool stream_send(struct job *j);
/* Tokens of the answer that log-probabilities tell: not the one that ended the turn. */
size_t reply_tokens(const struct choice *c);
/* A call, from byte `from` of its arguments on; head: what comes before these, too. */
void reply_call(struct json *j, const struct choice *c, size_t call, bool head, size_t from);
void reply_logprobs(struct json *j, const struct choice *c, size_t from, size_t to);
void reply_head(struct json *j, const struct job *job, const char *object);
void reply_usage(struct json *j, const struct job *job);
const char *reply_reason(const struct choice *c); /* the interface's word for why it ended */
/* The id of a choice's call. */
void reply_call_id(const struct choice *c, size_t call, char id[REPLY_CALL_ID]);

/* ---- pins (pins.c) ---- */

/* Under the lock: of all requests, and of the choice that asked (or NULL). */
void pins_add(struct replica *r, struct choice *c, const struct event *ev);
void reply_pin(struct json *j, const struct job *job); /* of an answer */
reply_fn pins_made;                                    /* the answer to POST /pin */
reply_fn pins_list, pins_removed;                      /* the answers to GET, DELETE /pins */
void pins_remove(struct job *j);                       /* asks the engines to */

/* ---- routes (routes.c) ---- */

struct route {
	const char *method, *path;
	enum query_kind kind;
	reply_fn *reply;    /* once the engine has answered, as a whole */
	const char *prefix; /* of the ids of answers */
	reply_fn *at_once;  /* in place of these: a reply without the engine */
	bool open;          /* without a key */
	bool plain;         /* its reply is the text of *out, not JSON */
	const struct dialect *dialect;
};
/* NULL: the path takes other methods, or there is none. allow: those that it takes; "": no such
 * path. *rest: of a path that ends with anything, what; else NULL. */
const struct route *route_find(
	const char *method, const char *path, char allow[ROUTE_ALLOW], const char **rest);

/* ---- HTTP (http.c, listen.c) ---- */
enum MHD_Result http_request(void *serve, struct MHD_Connection *c, const char *path,
	const char *method, const char *version, const char *data, size_t *size, void **job);
void http_end(
	void *arg, struct MHD_Connection *c, void **job, enum MHD_RequestTerminationCode code);
int http_open(struct serve *s, struct err *e);
int http_start(struct serve *s, struct err *e); /* and a thread for it */
void http_stop(struct serve *s);
/* Waits for something to do, and does it. */
void http_turn(struct serve *s, int most_ms);
void http_wake(struct serve *s); /* any thread: there is something to do */
/* The job's client is waited for from now on, and has longer for so many bytes. */
void client_turn(struct job *j, size_t bytes);

/* ---- who is answered (enter.c) ---- */
/* The status with which a request for its route is refused; 0: it is answered. */
unsigned enter_refused(const struct job *j, const char **why);
/* Whether a body of its type and coding is read; else why not. */
bool enter_takes(const struct job *j, const char **why);
/* The origin of the page that asks, if --cors lets it read replies; or NULL. */
const char *enter_origin(const struct job *j);

/* ---- addresses (where.c) ---- */
/* In figures; "" for one of this machine alone. An IPv4 address in an IPv6 one is told as IPv4. */
void where_text(const struct sockaddr *a, char out[INET6_ADDRSTRLEN]);
