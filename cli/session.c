/* Opens and closes an engine with its recording. Thread: main's. */
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "cli/model.h"
#include "cli/out.h"
#include "kernels/kernels.h"
#include "trace/ring.h"
#include "trace/writer.h"

static int open_recording(struct session *s, const char *path, struct err *e)
{
	if (ring_open(&s->ring, RING_BYTES, e) || writer_open(&s->writer, path, s->ring, e) ||
		engine_add_sink(s->engine, ring_push, s->ring)) {
		writer_close(s->writer, NULL);
		if (s->ring)
			ring_close(s->ring);
		s->writer = NULL;
		s->ring = NULL;
		return err_set(e, ERR_MEMORY, "%s: the recording could not be begun", path);
	}
	return 0;
}

/* The recording that the command line asks for, if any. */
static int record(struct session *s, const struct cli *c, struct err *e)
{
	struct err why = {0};
	char *path = NULL;
	if (c->no_record)
		return 0;
	s->wanted = c->record != NULL;
	if (c->record)
		return open_recording(s, c->record, e);
	if (paths_new_recording(&path, &why) || open_recording(s, path, &why)) {
		out_complain("not recorded: %s", why.text);
		if (path)
			paths_drop_recording(path);
	}
	free(path);
	return 0;
}

static void note_fallback(const struct cli *c, const struct engine *e)
{
	const char *why = engine_info(e)->fallback;

	if (*why && (cli_given(c, "backend") || k_devices(NULL, 0, NULL) > 0))
		out_complain("computing on the CPU: %s", why);
}

static void note_inexact(const struct engine *e)
{
	if (!engine_state(e).exact)
		fprintf(stderr, "cutaway: exact is off: logits depend on more than the tokens, and nobody can verify "
						"them\n");
}

int session_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e)
{
	char sha256[SHA256_HEX];
	*s = (struct session){0};
	if (model_find(c, &s->model, e))
		return -1;
	struct engine_options o = c->engine;
	o.model = s->model;
	if (engine_open(&s->engine, &o, e))
		goto fail;
	note_fallback(c, s->engine);
	note_inexact(s->engine);
	if (sink && engine_add_sink(s->engine, sink, arg)) {
		err_set(e, ERR_MEMORY, "the engine takes no more sinks");
		goto fail;
	}
	if (record(s, c, e))
		goto fail;
	if (!s->writer)
		engine_observe(s->engine, false);
	struct err why = {0};
	bool hashed = s->writer && !engine_hash_model(s->engine, NULL, sha256, &why);
	if (why.code)
		out_complain("the recording does not know the model's hash: %s", why.text);
	engine_begin(s->engine, hashed ? sha256 : NULL);
	return 0;
fail:
	session_close(s, NULL);
	return -1;
}

int session_close(struct session *s, struct err *e)
{
	struct err why = {0};
	int status = 0;
	if (s->engine)
		engine_close(s->engine);
	if (s->writer && writer_close(s->writer, &why)) {
		if (s->wanted)
			status = err_set(e, why.code, "the recording is not whole: %s", why.text);
		else
			out_complain("the recording is not whole: %s", why.text);
	}
	if (s->ring)
		ring_close(s->ring);
	free(s->model);
	*s = (struct session){0};
	return status;
}

int session_encode(const struct tokenizer *t, const char *text, size_t size, int32_t **ids,
				   size_t *n, struct err *e)
{
	size_t cap = 1;
	*n = 0;
	*ids = malloc(sizeof **ids);
	if (!*ids)
		return err_set(e, ERR_MEMORY, "out of memory for the text");
	if (tokenizer_adds_bos(t) && tokenizer_bos(t) >= 0)
		(*ids)[(*n)++] = tokenizer_bos(t);
	return tokenizer_encode(t, text, size, true, ids, n, &cap, e);
}

void session_note_template(const struct cli *c, const struct engine *engine)
{
	if (!c->raw && !engine_info(engine)->chat_known)
		fprintf(stderr, "cutaway: the file's chat template is not known; a plain one is used\n");
}

int session_prompt(const struct cli *c, const struct engine *engine, const char *text, size_t size,
				   int32_t **ids, size_t *n, struct err *e)
{
	const struct engine_info *info = engine_info(engine);
	const struct tokenizer *t = engine_tokenizer(engine);
	const char *system = c->system ? c->system : info->default_system;
	size_t cap = 0;
	*ids = NULL;
	*n = 0;
	if (c->raw) {
		if (session_encode(t, text, size, ids, n, e))
			return -1;
		return *n ? 0
				  : err_set(e, ERR_USAGE,
							"the prompt is empty: with --raw a token is needed to go on from");
	}
	if (template_begin(info->chat, t, system, ids, n, &cap, e))
		return -1;
	return template_user(info->chat, t, text, size, ids, n, &cap, e);
}

size_t session_find_stop(const char *const *stop, const char *text, size_t size)
{
	size_t first = size;
	for (; *stop; stop++) {
		const char *at = memmem(text, size, *stop, strlen(*stop));
		if (at && (size_t)(at - text) < first)
			first = (size_t)(at - text);
	}
	return first;
}

char *session_answer(const struct cli *c, const struct tokenizer *t, const int32_t *ids, size_t n, size_t *size)
{
	size_t cap = 1, used = 0;
	for (size_t i = 0; i < n; i++)
		cap += tokenizer_bytes(t, ids[i]).size;
	char *text = malloc(cap);
	for (size_t i = 0; text && i < n; i++) {
		struct gguf_text b = i || c->raw ? tokenizer_bytes(t, ids[i]) : tokenizer_first_bytes(t, ids[i]);
		if (tokenizer_is_special(t, ids[i]) || tokenizer_is_end(t, ids[i]))
			continue;
		memcpy(text + used, b.data, b.size);
		used += b.size;
	}
	*size = text ? session_find_stop(c->stop, text, used) : 0;
	return text;
}
