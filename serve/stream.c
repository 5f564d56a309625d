/* Answers as they grow: server-sent events, a piece of JSON each. See serve_impl.h.
 *
 * The engine's thread sends a piece itself where it can: a packet of its own costs a token less
 * than waking the HTTP thread, which on a busy machine takes the processor from the engine. It may,
 * since a connection that is suspended after the greeting has been written out, and only the
 * engine's thread resumes it. What does not fit the socket at once is the library's to send. */
#include "serve/dialect.h"

#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/array.h"

/* Bytes that are a segment of their own in any network: a socket where none waits to be sent takes
 * them as a whole, or nothing. */
enum { SEGMENT = 1200 };

int stream_words(struct job *job, const char *word, ...)
{
	va_list args;
	int rc = 0;

	va_start(args, word);
	for (; word && !rc; word = va_arg(args, const char *))
		rc = array_text(&job->out, &job->n_out, &job->cap_out, word, strlen(word)) ? 0 : -1;
	va_end(args);
	return rc;
}

int stream_json(
	struct job *job, const char *event, const char *lead, struct json *j, const char *after)
{
	size_t size;
	char *text = json_take(j, &size);
	const bool failed = !text || (event && stream_words(job, "event: ", event, "\n", NULL)) ||
						stream_words(job, "data: ", lead, text, after, NULL);

	free(text);
	return failed ? -1 : 0;
}

static const char *object_name(const struct job *job)
{
	return job->query.kind == QUERY_CHAT ? "chat.completion.chunk" : "text_completion";
}

/* What all pieces begin with is made once. */
static int make_lead(struct job *job)
{
	struct json j = { 0 };
	size_t size;

	reply_head(&j, job, object_name(job));
	json_array(&j, "choices");
	job->lead = json_take(&j, &size);
	if (!job->lead)
		return -1;
	job->lead[size - 2] = '\0'; /* "]}", which follow the choice */
	return 0;
}

/* A piece with one choice. */
static int send_choice(struct job *job, struct json *choice)
{
	return stream_json(
		job, NULL, job->lead, choice, job->query.usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static int greet(struct job *job)
{
	job->greeted = true;
	if (make_lead(job))
		return -1;
	for (int32_t i = 0; job->query.kind == QUERY_CHAT && i < job->n_choices; i++) {
		struct json j = { 0 };

		json_put(&j, "{'index': %d, 'delta': {'role': 'assistant', 'content': ''}", i);
		json_put(&j, "'logprobs': null, 'finish_reason': null}");
		if (send_choice(job, &j))
			return -1;
	}
	return 0;
}

static bool has_more_args(const struct choice *c)
{
	return c->calls_sent && c->parts.call[c->calls_sent - 1].args.n > c->args_sent;
}

/* Calls since the last piece: of each its head once, then its arguments as they come. */
static void put_calls(struct json *j, struct choice *c)
{
	const struct parts *p = &c->parts;
	size_t i = c->calls_sent - has_more_args(c);

	json_array(j, "tool_calls");
	for (; i < p->n_calls && p->call[i].name.n; i++) {
		const bool begins = i >= c->calls_sent;

		json_put(j, "{'index': %zu", i);
		reply_call(j, c, i, begins, begins ? 0 : c->args_sent);
		c->calls_sent = i + 1;
		c->args_sent = p->call[i].args.n;
	}
	json_end(j);
}

static bool calls_grew(const struct choice *c)
{
	const struct parts *p = &c->parts;

	return has_more_args(c) || (p->n_calls > c->calls_sent && p->call[c->calls_sent].name.n);
}

/* Of a conversation, what grew. */
static void put_delta(struct json *j, struct choice *c)
{
	const struct parts *p = &c->parts;

	json_object(j, "delta");
	if (p->thoughts.n > c->thought_sent)
		json_bytes(j, "reasoning_content", p->thoughts.text + c->thought_sent,
			p->thoughts.n - c->thought_sent);
	if (p->text.n > c->text_sent)
		json_bytes(j, "content", p->text.text + c->text_sent, p->text.n - c->text_sent);
	if (calls_grew(c))
		put_calls(j, c);
	json_end(j);
	c->thought_sent = p->thoughts.n;
	c->text_sent = p->text.n;
}

static bool grew(const struct choice *c)
{
	return c->job->query.kind == QUERY_CHAT ? c->parts.thoughts.n > c->thought_sent ||
												  c->parts.text.n > c->text_sent || calls_grew(c)
											: c->n_text > c->text_sent;
}

/* The text since the last piece, and the tokens of a range. */
static int send_piece(struct choice *c, size_t from, size_t to)
{
	struct json j = { 0 };

	json_put(&j, "{'index': %d", c->index);
	if (c->job->query.kind == QUERY_CHAT) {
		put_delta(&j, c);
	} else {
		json_bytes(&j, "text", c->text ? c->text + c->text_sent : "", c->n_text - c->text_sent);
		c->text_sent = c->n_text;
	}
	reply_logprobs(&j, c, from, to);
	json_put(&j, "'finish_reason': null}");
	return send_choice(c->job, &j);
}

static int send_last(struct choice *c)
{
	struct json j = { 0 };

	c->ended = true;
	json_put(&j, "{'index': %d", c->index);
	json_put(&j, c->job->query.kind == QUERY_CHAT ? "'delta': {}" : "'text': ''");
	json_put(&j, "'logprobs': null, 'finish_reason': %s, 'hash': %lx, 'request': %ld",
		reply_reason(c), c->hash, c->request);
	reply_replica(&j, c->replica);
	json_put(&j, "}");
	return send_choice(c->job, &j);
}

static int grow(struct choice *c, bool last)
{
	const size_t from = c->sent, n = reply_tokens(c), to = n > from ? n : from;

	reply_grow(c, last);
	if ((grew(c) || (c->job->query.logprobs && to > from)) && send_piece(c, from, to))
		return -1;
	return last && !c->ended ? send_last(c) : 0;
}

static int send_usage(struct job *job)
{
	struct json j = { 0 };

	reply_head(&j, job, object_name(job));
	json_put(&j, "'choices': []");
	reply_usage(&j, job);
	return stream_json(job, NULL, "", &j, "\n\n");
}

int stream_grow(struct job *job, bool last)
{
	if (job->query.dialect)
		return dialect_grow(job, last);
	if (!job->greeted && greet(job))
		return -1;
	for (int32_t i = 0; i < job->n_choices; i++)
		if (grow(&job->choice[i], last))
			return -1;
	if (!last || job->done)
		return 0;
	job->done = true;
	if (job->query.usage && send_usage(job))
		return -1;
	return stream_words(job, "data: [DONE]\n\n", NULL);
}

/* As one chunk of HTTP/1.1. False: nothing was sent. */
static bool send_chunk(const struct job *job)
{
	char head[24];
	const int n = snprintf(head, sizeof head, "%zx\r\n", job->n_out), end = 2;
	struct iovec part[] = { { head, (size_t)n }, { job->out, job->n_out },
		{ "\r\n", (size_t)end } };
	const struct msghdr m = { .msg_iov = part, .msg_iovlen = 3 };
	int unsent;
	ssize_t sent;

	if (job->n_out > SEGMENT || ioctl(job->client->fd, SIOCOUTQNSD, &unsent) || unsent)
		return false;
	sent = sendmsg(job->client->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0 && (size_t)sent < n + job->n_out + end)
		shutdown(job->client->fd, SHUT_RDWR); /* out of memory: the rest of a chunk cannot be made
												 up for */
	return sent > 0;
}

bool stream_send(struct job *job)
{
	if (!job->chunked || !job->greeted)
		return false;
	job_take(job);
	if (stream_grow(job, false))
		job->failed = true;
	if (job->failed || (job->n_out && !send_chunk(job)))
		return false;
	job->n_out = 0;
	return true;
}
