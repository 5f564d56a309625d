/* Random sessions of an engine: settings and operations drawn from a seed, run with all invariants
 * checked after each operation, and every row, draw, vector and end compared with an engine that
 * computes one request at a time and knows neither pages found again nor drafters.
 *
 * An operation draws all that it needs from a number of its own, so a session without some of them
 * is one, too: what fails is shortened that way. A failure aborts; who wants to live forks. Thread:
 * the caller's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/core/engine.h"
#include "engine/search/search.h"
#include "tests/support/random_event.h"

enum { SESSION_CTX = 160, SESSION_OPS = 100, SESSION_SETTINGS = 64, SESSION_REQUESTS = 2000 };

struct session_op {
	int kind; /* of random_ops.c */
	bool off;
	uint64_t draw; /* what it draws with */
};

struct session {
	uint64_t seed;
	const struct session_model *model;
	struct {
		const char *name, *value;
		bool off;
	} set[SESSION_SETTINGS]; /* at the start */
	bool goes_on;            /* past a context of a 16th */
	int n_set, n_ops;
	struct session_op op[SESSION_OPS];
};

/* Files of the models and drafters, made before the first session; false: they cannot be. */
bool session_models(void);
void session_models_drop(void);

void session_draw(struct session *s, uint64_t seed);
/* On the emulated GPU (tests/cuda/shim), where a row costs a hundred times as much: shorter. */
void session_to_device(struct session *s);
void session_print(const struct session *s, FILE *to);
/* False: no engine opens with these settings. talk: says what it does. */
bool session_run(const struct session *s, bool talk);

/* ---- the parts of it ---- */

/* random_draw.c: a number below n. */
uint32_t session_below(uint64_t *state, uint32_t n);
/* A setting and a value of it; at: 0 … while it has a name. */
struct session_choice {
	const char *name;
	int percent; /* of the sessions that begin with a value of their own */
	const char *value[16];
};
extern const struct session_choice session_choices[];
extern const int session_n_choices;
const char *session_value(uint64_t *state, const struct session_choice *c, bool drafters);
/* Of the value of a setting: names of drafters' files for @eagle and the like. Kept until the next
 * call. */
const char *session_path(const char *value);
const char *session_model_path(const struct session *s);
const char *session_model_name(const struct session_model *m);
bool session_has_drafters(const struct session_model *m);
const struct session_model *session_some_model(uint64_t *state);

/* random_heard.c: what an engine told. */
struct heard_request {
	struct engine_request q;        /* as it was submitted, with own */
	int32_t given[SESSION_CTX + 8]; /* its ids */
	int32_t id[SESSION_CTX + 8], n, n_prompt;
	int64_t hash[SESSION_CTX + 8], vector;
	uint8_t source[SESSION_CTX + 8];
	bool told[SESSION_CTX + 8];       /* its row */
	char value[SESSION_SETTINGS][24]; /* of settings that change rows or draws, when it came */
	struct sample_params params;
	int64_t sample;
	enum ev_code_request_kind kind;
	int reason; /* -1: it has not ended */
	int32_t input, scored;
	bool own, back; /* submitted by an operation; went back */
};
struct heard {
	const struct engine *e;        /* NULL: its pages are not looked at */
	struct heard_request *request; /* [SESSION_REQUESTS], from 1 */
	int32_t n;
	int64_t before;                   /* requests that are forgotten */
	const struct engine_request *now; /* that is being submitted */
	char value[SESSION_SETTINGS][24];
	int64_t seq;
	/* a model of diffusion; drafts were verified by rejection; what ranks send was lossy, at least
	 * for a while; a search's request was cancelled, or ended early for few pages */
	bool canvas, rejects, halved, cut;
};
/* Opens what `request` needs. */
void heard_open(struct heard *h);
void heard_close(struct heard *h);
void heard_forget(struct heard *h);                  /* all requests so far */
void heard_event(void *arg, const struct event *ev); /* a sink */
/* The i-th setting that changes rows or draws, or NULL. */
const struct setting *heard_setting(int i);
_Noreturn void session_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* random_plain.c */
struct session_search {
	int64_t id;
	bool judged;
	char method[24];
	struct engine_request q;
	int32_t ids[SESSION_CTX + 8];
	char value[SESSION_SETTINGS][24];
};
/* Scores by the text, and takes its time. */
enum score_verdict session_judge(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e);
/* Compares what was heard with a plain engine of the same model. */
void plain_compare(struct engine *e, const struct session *s, struct heard *h,
	const struct session_search *search, int n_searches);

/* random_ops.c */
extern const int session_n_op_kinds;
const char *session_op_name(int kind);
int session_some_op(uint64_t *state);
