/* Runs a deep look (engine/observe/probe.h: a token's row recomputed layer by layer) on another
 * thread, so that the screen never waits for it.
 *
 * In a chat it runs on the engine's thread, between two steps, and is interrupted when the user
 * needs the engine; then it starts again afterwards. In a replay the model of the recording is
 * opened for it, its file checked against the SHA-256 in the log, and kept open for the next look.
 * Thread: the UI's, except for the look itself; lens_fd becomes readable when there is news. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/observe/probe.h"
#include "engine/lossy.h"
#include "engine/text/tokenizer.h"

struct actor;
struct lens;

enum lens_state { LENS_NOTHING, LENS_WORKS, LENS_FAILED, LENS_DONE };

/* What a view shows. */
struct lens_look {
	enum lens_state state;
	char words[512];           /* status text, or the error */
	int32_t done, all;         /* tokens, while it computes; else 0 */
	int64_t request;           /* the request whose token is shown */
	int32_t n, token;          /* its position (so many tokens precede it), and its id */
	int64_t hash;              /* hash of its row of logits as recorded; EV_NULL_I: none */
	const struct probe *probe; /* results of a finished look */
	const int32_t *ids;        /* [n] */
	const struct tokenizer *tokenizer;
};

struct lens_query {
	const int32_t *ids; /* [n], copied */
	int32_t n, token;
	int64_t request, hash;
	struct lossy_settings lossy; /* in a replay: as recorded */
	const char *adapter;         /* of the request; NULL: none */
};

/* For a chat. The actor must outlive it. */
int lens_open(
	struct lens **l, struct actor *actor, const struct tokenizer *tokenizer, struct err *e);
/* For a replay: model and sha256 (or NULL: it cannot be checked) from the log; else_model (may be
 * NULL) is used if only that file exists and has this SHA-256. Files are read at the first look. */
int lens_open_file(
	struct lens **l, const char *model, const char *else_model, const char *sha256, struct err *e);
void lens_close(struct lens *l); /* NULL is fine; stops what runs */
int lens_fd(const struct lens *l);
/* Begins a look; one that runs is cancelled. */
int lens_query(struct lens *l, const struct lens_query *ask, struct err *e);
/* Takes over the thread's results. True if something changed. */
bool lens_feed(struct lens *l);
const struct lens_look *lens_look(const struct lens *l);

/* Bytes of any token, even if it never occurred in the session. */
struct gguf_text lens_bytes(const struct lens_look *look, int32_t id);
