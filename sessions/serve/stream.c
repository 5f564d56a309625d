/* Answers as they grow: server-sent events, a piece of JSON each. See serve_impl.h. */
#include "sessions/serve/serve_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static int append(struct job *job, const char *text, size_t size)
{
	if (!ARRAY_ROOM(job->out, job->cap_out, job->n_out + size))
		return -1;
	memcpy(job->out + job->n_out, text, size);
	job->n_out += size;
	return 0;
}

static int send_event(struct job *job, struct json *j)
{
	size_t size;
	char *text = json_take(j, &size);
	const int rc =
		!text || append(job, "data: ", 6) || append(job, text, size) || append(job, "\n\n", 2) ? -1
																							   : 0;

	free(text);
	return rc;
}

static void head(struct json *j, const struct job *job)
{
	reply_head(j, job, job->ask.kind == ASK_CHAT ? "chat.completion.chunk" : "text_completion");
	json_array(j, "choices");
}

/* After the list of choices. */
static int end(struct json *j, struct job *job)
{
	json_end(j);
	if (job->ask.usage)
		json_null(j, "usage");
	return send_event(job, j);
}

static int greet(struct job *job)
{
	job->greeted = true;
	for (int32_t i = 0; job->ask.kind == ASK_CHAT && i < job->n_choices; i++) {
		struct json j = { 0 };

		head(&j, job);
		json_object(&j, NULL);
		json_int(&j, "index", i);
		json_object(&j, "delta");
		json_text(&j, "role", "assistant");
		json_text(&j, "content", "");
		json_end(&j);
		json_null(&j, "logprobs");
		json_null(&j, "finish_reason");
		json_end(&j);
		if (end(&j, job))
			return -1;
	}
	return 0;
}

/* The text since the last piece, and the tokens from `from` on. */
static int send_piece(struct choice *c, size_t from)
{
	struct json j = { 0 };
	const char *text = c->text ? c->text + c->text_told : "";
	const size_t size = c->n_text - c->text_told;

	head(&j, c->job);
	json_object(&j, NULL);
	json_int(&j, "index", c->index);
	if (c->job->ask.kind == ASK_CHAT) {
		json_object(&j, "delta");
		json_bytes(&j, "content", text, size);
		json_end(&j);
	} else {
		json_bytes(&j, "text", text, size);
	}
	reply_logprobs(&j, c, from, c->n);
	json_null(&j, "finish_reason");
	json_end(&j);
	c->text_told = c->n_text;
	return end(&j, c->job);
}

static int send_last(struct choice *c)
{
	struct json j = { 0 };

	c->ended = true;
	head(&j, c->job);
	json_object(&j, NULL);
	json_int(&j, "index", c->index);
	if (c->job->ask.kind == ASK_CHAT) {
		json_object(&j, "delta");
		json_end(&j);
	} else {
		json_text(&j, "text", "");
	}
	json_null(&j, "logprobs");
	json_text(&j, "finish_reason", reply_reason(c));
	json_hash(&j, "hash", c->hash);
	json_int(&j, "request", c->request);
	json_end(&j);
	return end(&j, c->job);
}

static int grow(struct choice *c, bool last)
{
	const size_t from = c->told;

	reply_grow(c, last);
	if ((c->n_text > c->text_told || (c->job->ask.logprobs && c->n > from)) && send_piece(c, from))
		return -1;
	return last && !c->ended ? send_last(c) : 0;
}

static int send_usage(struct job *job)
{
	struct json j = { 0 };

	head(&j, job);
	json_end(&j);
	reply_usage(&j, job);
	return send_event(job, &j);
}

int stream_grow(struct job *job, bool last)
{
	if (!job->greeted && greet(job))
		return -1;
	for (int32_t i = 0; i < job->n_choices; i++)
		if (grow(&job->choice[i], last))
			return -1;
	if (!last || job->done)
		return 0;
	job->done = true;
	if (job->ask.usage && send_usage(job))
		return -1;
	return append(job, "data: [DONE]\n\n", 14);
}
