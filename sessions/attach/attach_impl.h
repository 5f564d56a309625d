/* Inside of sessions/attach: see attach.h. */
#pragma once

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "event/stream.h"
#include "sessions/attach/attach.h"
#include "sessions/client/client.h"
#include "sessions/client/sse.h"
#include "sessions/session.h"
#include "base/foreign_json.h"

enum {
	ATTACH_TOP = 7,
	ATTACH_WHY = 240,
	ATTACH_WORD = 128,
	ATTACH_BODY = 1 << 20,
	ATTACH_SLOTS = 4096
};

/* ---- who the server is ---- */

/* What a server said when it was asked who it is; absent: EV_NULL_I or "". */
struct attach_server_info {
	char url[ATTACH_WHY], version[ATTACH_WORD], model[ATTACH_WHY];
	int64_t ctx, slots, pages, page_size;
	bool has_metrics, has_slots;
};

/* What a piece of a stream says beyond the OpenAI interface. Absent: EV_NULL_I. */
struct attach_extra {
	int64_t prompt, cached; /* tokens of the prompt; of them from the prefix cache */
	bool works;             /* the server has begun to compute: the request left its queue */
};

/* A kind of server: a file, and a line in server.c. All but name may be NULL. */
struct attach_server {
	const char *name;
	const char *owner;   /* what /v1/models says in owned_by */
	const char *metrics; /* how the names of its metrics begin */
	const char *info;    /* path of a JSON object that learn() reads */
	const char *slots;   /* path of a JSON array of slots */
	const char *p;       /* what its probabilities are: the column p of `attached` */
	bool samples;        /* takes top_k and min_p */
	int top_k_off;       /* its word for no top-k */
	void (*learn)(struct attach_server_info *reported, const cJSON *info);
	/* from its metrics at the start, likewise */
	void (*learn_metrics)(struct attach_server_info *reported, const char *metrics);
	void (*ask)(struct json *j); /* fields of its own in a request */
	void (*extra)(struct attach_extra *x, const cJSON *chunk);
	void (*poll)(struct ev_polled *p, const char *metrics);
	void (*slot)(struct ev_slot *s, const cJSON *slot);
};
extern const struct attach_server attach_llama_server, attach_vllm, attach_sglang, attach_cutaway,
	attach_openai;
/* By what it said; never NULL. */
const struct attach_server *attach_which(const char *owner, const char *metrics);

/* ---- reading ---- */

/* A count: a whole number from 0 on; else EV_NULL_I. */
int64_t attach_int(const cJSON *o, const char *key);
/* The text of a key into out; "" if there is none. */
void attach_word(const cJSON *o, const char *key, char *out, size_t cap);
/* A metric of the Prometheus text format: the sum of its series, or the largest; NaN: there is
 * none. Of ranks of one engine, which all tell the same, the first counts. */
double attach_metric(const char *text, const char *name, bool largest);
int64_t attach_count(const char *text, const char *name);
/* The value of a label of its first series, as a number. */
int64_t attach_label(const char *text, const char *name, const char *label);

/* ---- one answer ---- */

struct attach_message {
	bool user;
	char *text;
};

struct attach_answer {
	struct attach *a;
	struct client_call *call;
	struct sse sse;
	struct answer_settings settings; /* its texts are not valid but stop, which is ours */
	int64_t request, began_ns, last_ns, last_step, first_ns, n_tokens, n_pieces;
	int64_t prompt, cached, generated; /* as told; EV_NULL_I */
	bool works, looked_up, asked_logprobs, any_logprobs, any_event, over, done;
	enum ev_code_finish reason;
	char why[ATTACH_WHY];
	char *text; /* what came of it */
	size_t n_text, cap_text;
	double *gap; /* ns between tokens */
	int32_t n_gaps, cap_gaps;
	char body[1024]; /* of an error */
	size_t n_body;
};

/* ---- all ---- */

enum attach_what { ATTACH_ASK, ATTACH_RETRY, ATTACH_NEW, ATTACH_STOP, ATTACH_NOTE };
struct attach_order {
	struct attach_order *next;
	enum attach_what what;
	enum ev_code_request_kind kind;
	struct answer_settings settings;
	char *text, *name;
};

struct attach_body { /* of a poll */
	char *text;
	size_t n, cap;
	struct attach *open; /* whose call it is; NULL: none is under way */
	const char *path;
};

struct attach {
	struct attach_options o;
	const struct attach_server *server;
	struct attach_server_info reported;
	char says[2 * ATTACH_WORD];
	struct client *client;
	struct stream stream;
	struct session session; /* of that stream */

	pthread_t thread;
	bool started;
	atomic_bool stop;
	atomic_int n_orders;  /* not done yet */
	pthread_mutex_t lock; /* of what follows up to the blank line */
	struct attach_order *first, *last;
	int ended; /* how the newest answer ended, or -1 */
	char ended_why[ATTACH_WHY];

	char *system;
	struct attach_message *message;
	int32_t n_messages, cap_messages;
	struct attach_answer *answer; /* or NULL */
	bool logprobs;                /* asked for; until the server refuses them */
	int64_t n_requests, step;     /* step: the number of the open one */

	struct attach_body metrics, slots;
	struct ev_polled polled; /* the newest that was told; .error is not valid */
	char poll_error[ATTACH_WHY], poll_told[ATTACH_WHY];
	bool polled_once;
	struct ev_slot *slot; /* as told, without their steps */
	int32_t n_slots, cap_slots;
	int64_t poll_at_ns;

	uint32_t *known; /* [EV_OWN_IDS] hash of the text that this id of the server's has; 0: none yet
					  */
	void *own;       /* a tree of texts without an id (tsearch) */
	int32_t n_own;
};

/* tell.c: events */
void attach_emit_session(struct attach *a);
void attach_emit_setting(struct attach *a, const char *name, const char *value);
void attach_emit_request(struct attach_answer *r, enum ev_code_request_kind kind, const char *text);
/* Those of the answer, as far as they are new. */
void attach_emit_extra(struct attach_answer *r, const struct attach_extra *x);
/* -1: no memory for its text. p NaN: not told. */
struct attach_token {
	int64_t id; /* the server's, or EV_NULL_I */
	const char *bytes;
	size_t size;
	double p;
	bool is_end; /* it ended the turn, and is no text */
};
int attach_emit_token(struct attach_answer *r, const struct attach_token *t,
	const struct attach_token *top, int n_top, enum ev_code_source source);
void attach_emit_finish(struct attach_answer *r);
void attach_emit_step(struct attach *a, int64_t tokens);
void attach_emit_free(struct attach *a);

/* answer.c; false: no memory. The settings' stop strings are taken. */
bool attach_answer_begin(
	struct attach *a, enum ev_code_request_kind kind, const char *text, struct answer_settings *s);
void attach_answer_cancel(struct attach *a);

/* poll.c */
int attach_meet(struct attach *a, struct err *e); /* who the server is */
void attach_poll_first(struct attach *a);         /* tells what that gave */
void attach_poll(struct attach *a);               /* if it is time */
void attach_poll_free(struct attach *a);
