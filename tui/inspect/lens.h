/* A deep look (engine/run/probe.h) on a thread of its own, so that the screen never waits for it.
 *
 * In a chat it runs on the engine's thread, between two steps, and gives way when the person wants
 * something of the engine: then it begins again after that. In a replay the model of the recording
 * is opened for it, its file checked against the SHA-256 in the log, and kept open for the next
 * look. Thread: the UI's, but for the look itself; lens_fd becomes readable when it has something
 * new. */
#ifndef CUTAWAY_TUI_LENS_H
#define CUTAWAY_TUI_LENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/run/probe.h"
#include "engine/lossy.h"
#include "engine/text/tokenizer.h"

struct actor;
struct lens;

enum lens_state { LENS_NOTHING, LENS_WORKS, LENS_FAILED, LENS_DONE };

/* What a view shows. */
struct lens_look {
	enum lens_state state;
	char words[512];           /* what goes on, or the error */
	int32_t done, all;         /* tokens, while it computes; else 0 */
	int64_t request;           /* whose token is looked at */
	int32_t n, token;          /* its position (the look sees so many tokens), and its id */
	int64_t hash;              /* of its row of logits as the engine told it; EV_NULL_I: none */
	const struct probe *probe; /* of a look that is done */
	const int32_t *ids;        /* [n] */
	const struct tokenizer *tokenizer;
};

struct lens_ask {
	const int32_t *ids; /* [n], copied */
	int32_t n, token;
	int64_t request, hash;
	struct lossy_settings lossy; /* of a replay: as its log says */
};

/* Of a chat. The actor must outlive it. */
int lens_open(
	struct lens **l, struct actor *actor, const struct tokenizer *tokenizer, struct err *e);
/* Of a replay: model and sha256 (or NULL: it cannot be checked) as the log says; or else_model (may
 * be NULL), if only that is there and has this SHA-256. Files are looked at when a look is asked
 * for. */
int lens_open_file(
	struct lens **l, const char *model, const char *else_model, const char *sha256, struct err *e);
void lens_close(struct lens *l); /* NULL is fine; stops what runs */
int lens_fd(const struct lens *l);
/* Begins a look; one that runs is given up. */
int lens_ask(struct lens *l, const struct lens_ask *ask, struct err *e);
/* Takes over what the thread has done. True if something changed. */
bool lens_feed(struct lens *l);
const struct lens_look *lens_look(const struct lens *l);

/* Bytes of any token, also one that the session never had. */
struct gguf_text lens_bytes(const struct lens_look *look, int32_t id);

#endif
