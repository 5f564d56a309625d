/* The engine: a model, its KV pages, and the requests that share them, step by step.
 *
 * One step = plan (sched/plan.c: which requests get rows; touches no tensors) → program (forward.c)
 * → kernels → draws (sampler.c) → events. It emits everything it does to the sinks as events
 * (event.h), and nothing else leaves it: text comes from the token events and the tokenizer.
 *
 * Thread: all calls from one thread (see actor.h for an engine on a thread of its own). A decode
 * step allocates nothing. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "event/event.h"
#include "engine/sample/sampler.h"
#include "engine/settings/options.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"

struct engine;
struct memory_specs;

/* Replaces the model when the tokens that it would draw are known: nothing is computed. */
struct engine_given {
	void *arg;
	/* memory groups of a sequence, of which only pages are counted; NULL: one paged group */
	const struct memory_specs *memory;
	/* The next token of the request. False: not known yet; next() is called again in the next
	 * step. */
	bool (*next)(void *arg, int64_t request, int32_t *id);
	/* Called after a token, or after next() had none: -1, or why the request ends there (enum
	 * ev_code_finish). */
	int (*end)(void *arg, int64_t request);
	/* The token after the next n, if all these are the only ones that its grammar allows; -1: they
	 * are not. NULL: there are no grammars. */
	int32_t (*only)(void *arg, int64_t request, int32_t n);
	/* Of an encoder-decoder model: the id of the token that begins an answer, and 1; else 0. */
	int32_t start;
};

/* A declared prefix that is kept, or is being computed. */
struct engine_pin {
	int64_t pin;           /* its number: that of the request that asked for it */
	int32_t asked, tokens; /* declared; kept, in whole pages */
	int32_t pages;         /* that it keeps, some of them maybe with other pins */
	int64_t bytes;
	bool whole;              /* all of it is computed */
	int64_t ttl_ns, left_ns; /* INT64_MAX: until engine_unpin() */
	int64_t prompts, given;  /* that began with it; tokens that it gave them */
};

/* What is fixed once an engine is open. Any thread may read it. */
struct engine_info {
	char name[192]; /* "SmolLM2-135M-Instruct Q4_1" */
	const char *backend, *isa;
	const char *device;   /* "NVIDIA H200"; "" on a CPU */
	const char *fallback; /* why "auto" took the CPU, or "" */
	int32_t threads, n_layers, n_heads, n_kv_heads, head_dim, dim, vocab;
	int32_t ctx, slots;
	size_t model_bytes, weight_bytes, pair_bytes;
	bool from_packed_cache; /* the packed weights were read from the cache */
	int64_t params;         /* weights of the model, each counted once */
	int64_t memory_bytes;   /* of the machine; 0: not known, as on a device */
	const struct chat_template *chat;
	bool chat_known;
	bool diffusion; /* it answers by denoising (engine/diffuse/canvas.h): there is no next token */
	bool experts;   /* some layers are mixtures */
	bool states;    /* a sequence's memory has a fixed size: no layer has keys and values */
	const char *const *adapters; /* names, in the order of --lora; ends with NULL */
	int32_t start; /* of an encoder-decoder model: the token that begins an answer; else -1 */
	const char *default_system; /* of this file's template, or NULL */
	int64_t now; /* the session's day, as seconds since 1970: what chat templates show */
};

/* What settings may change. */
struct engine_state {
	int32_t pages, page_size; /* of the pool; tokens of a page */
	size_t page_bytes;
	/* sequence length from which some pages are visible to no later row; INT32_MAX: never */
	int32_t unseen_from;
};

/* Fills what they leave to the machine, which is a GPU or not: rows of a step. engine_open() and
 * engine_set() do it. */
void engine_fit_steps(struct engine_options *o, bool device);

int engine_open(struct engine **e, const struct engine_options *o, struct err *err);
void engine_close(struct engine *e);
/* Nobody waits for the step that may run: a rank that hangs is given up soon. Thread: any. */
void engine_abandon(struct engine *e);

const struct engine_info *engine_info(const struct engine *e);
/* Its chat template, tokenizer and day, without messages; valid as long as the engine. */
struct chat_input engine_chat(const struct engine *e);
struct engine_state engine_state(const struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);

/* At most 8 sinks, added before engine_begin(), which emits the session event and the settings
 * as they stand. */
int engine_add_sink(struct engine *e, ev_sink *sink, void *arg);
void engine_begin(struct engine *e, const char *model_sha256 /* or NULL */);
/* SHA-256 of the file that was opened; ERR_INPUT if it has changed, or its name now refers to
 * another file. stop (or NULL): hashing ends when it becomes true. */
int engine_hash_model(
	const struct engine *e, const atomic_bool *stop, char out[SHA256_HEX], struct err *err);

/* Returns the number of the request (from 1), or -1. A request that can never fit is accepted and
 * finished at once with reason refused, so that the log contains it. */
int64_t engine_submit(struct engine *e, const struct engine_request *r, struct err *err);
/* True if it was running or waiting. Takes effect before the next step. */
bool engine_cancel(struct engine *e, int64_t request);

/* Takes a running or waiting request back to its first `keep` tokens, at least its prompt; what
 * follows is drawn again, and gives the same tokens if nothing is changed (draws are keyed by
 * position). Pages after them are released; nothing is computed again but the newest token. forced:
 * a token id to put after them, or -1; it may end the request. Takes effect before the next
 * step. */
int engine_rewind(struct engine *e, int64_t request, int32_t keep, int32_t forced, struct err *err);

/* At most `cap` of the pins, the oldest first; returns how many there are, at most 64. */
int32_t engine_pins(struct engine *e, struct engine_pin *out, int32_t cap);
/* False: there is no such pin. */
bool engine_unpin(struct engine *e, int64_t pin);
/* What can wait until nobody asks for anything: pins whose time is over end, which every step does,
 * too, and if nothing runs hooks work (rest of step_hooks.h), less than a second. Nanoseconds until
 * the next pin's end; INT64_MAX: there is none. */
int64_t engine_rest(struct engine *e);

/* Runs one step. 1: done; 0: nothing to do; -1: the engine cannot go on: its device failed, and all
 * requests have ended with reason failed. */
int engine_step(struct engine *e, struct err *err);
bool engine_idle(const struct engine *e);
int64_t engine_steps(const struct engine *e);

/* Changes a setting of engine_settings while the engine runs. ERR_USAGE, with the setting's name
 * first: out of range, fixed when the engine was opened, or to be changed only while nothing runs.
 * Every change is an event. */
int engine_set(struct engine *e, const char *name, const char *value, struct err *err);
/* Writes the value as text, "-" if it has none. -1 if there is no such setting. */
int engine_get(const struct engine *e, const char *name, char *buf, size_t cap);
/* Emits the event of a setting that is not the engine's own (temperature, seed …). */
void engine_note_setting(struct engine *e, const char *name, const char *value);

/* Emits an answer that was computed elsewhere as a request of q's kind, which never runs: its
 * tokens with what is known of each (id, p, p_draw, entropy, hash, survivors, source; the rest is
 * filled in), and how it ended. Nothing is computed. arrival_ns: by the session's clock; EV_NULL_I:
 * now. Returns its number, or -1. */
int64_t engine_note_answer(struct engine *e, const struct engine_request *q,
	const struct ev_token *token, int32_t n, enum ev_code_finish reason, int64_t arrival_ns,
	struct err *err);

/* Emits an event of what the user did that is none of the engine's: lesson, answer. */
void engine_note(struct engine *e, struct event *ev);
/* Emits the event that the conversation dropped its oldest turns to fit the context. */
void engine_note_trim(struct engine *e, int64_t request, int64_t tokens, int64_t turns);

/* Turns the observations (attention shares, candidates) on or off; off is --no-record of `run`. */
void engine_observe(struct engine *e, bool on);

/* Observes every row of the next step, whatever attention-every says: for single-stepping. */
void engine_look_closely(struct engine *e);
