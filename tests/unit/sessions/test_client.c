/* sessions/client against a server of raw sockets that says what it is told, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sessions/client/client.h"
#include "sessions/client/sse.h"

/* ---- server-sent events ---- */

static char seen[256];

static bool note(void *who, char *data, size_t size)
{
	(void)who;
	assert_int_equal(strlen(data), size);
	strcat(strcat(seen, data), "|");
	return strcmp(data, "stop") != 0;
}

static void an_event_is_the_same_however_it_is_cut(void **state)
{
	const char *text = ": hello\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\n\n\n"
					   "data\n\nid: 3\rdata:  [DONE]\r\rdata: without a blank line\n";

	(void)state;
	for (size_t first = 0; first <= strlen(text); first++)
		for (size_t each = 1; each < 9; each++) {
			struct sse s = { 0 };
			size_t at = first;

			seen[0] = 0;
			assert_true(sse_feed(&s, text, first, note, NULL));
			for (; at < strlen(text); at += each) {
				size_t n = strlen(text) - at < each ? strlen(text) - at : each;

				assert_true(sse_feed(&s, text + at, n, note, NULL));
			}
			assert_string_equal(seen, "one|two\nlines|| [DONE]|");
			sse_free(&s);
		}
}

static void a_stream_ends_when_asked_and_when_too_long(void **state)
{
	struct sse s = { 0 };
	size_t most = (1 << 20) + 64;
	char *line = malloc(most);

	(void)state;
	seen[0] = 0;
	assert_false(sse_feed(&s, "data: stop\n\ndata: more\n\n", 24, note, NULL));
	assert_string_equal(seen, "stop|");
	sse_free(&s);
	memset(line, 'x', most);
	assert_false(sse_feed(&s, line, most, note, NULL));
	sse_free(&s);
	free(line);
}

/* ---- the client ---- */

struct server {
	int fd, port;
	const char *answer; /* what it sends; then it closes, unless it hangs */
	bool hangs;
	char asked[4096];
	pthread_t thread;
};

static void *serve(void *s_)
{
	struct server *s = s_;
	int fd = accept(s->fd, NULL, NULL);
	size_t n = 0;
	ssize_t got;

	while (!strstr(s->asked, "\r\n\r\n") || (strstr(s->asked, "POST") && !strchr(s->asked, '}'))) {
		got = read(fd, s->asked + n, sizeof s->asked - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
		s->asked[n] = 0;
	}
	for (const char *c = s->answer; *c; c++)
		if (write(fd, c, 1) != 1)
			break;
	while (s->hangs && read(fd, s->asked, sizeof s->asked) > 0)
		;
	close(fd);
	return NULL;
}

static struct client *start(struct server *s, const char *after, struct client_options o)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof a;
	struct client *c;
	char url[64];

	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->fd, (void *)&a, size), 0);
	assert_int_equal(listen(s->fd, 1), 0);
	assert_int_equal(getsockname(s->fd, (void *)&a, &size), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
	snprintf(url, sizeof url, "127.0.0.1:%d%s", s->port, after);
	o.url = url;
	assert_int_equal(client_open(&c, &o, NULL), 0);
	return c;
}

static void stop(struct server *s, struct client *c)
{
	client_close(c);
	pthread_join(s->thread, NULL);
	close(s->fd);
}

static void an_answer_comes_as_a_whole(void **state)
{
	struct server s = { .answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" };
	struct client *c = start(&s, "/v1/", (struct client_options){ .api_key = "sesame" });
	struct client_answer a;

	(void)state;
	assert_int_equal(client_fetch(c, NULL, "/v1/x", "{}", 100, &a, NULL), 0);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.text, "hello");
	assert_memory_equal(s.asked, "POST /v1/x HTTP/1.1\r\n", 21);
	assert_non_null(strstr(s.asked, "Authorization: Bearer sesame\r\n"));
	assert_non_null(strstr(s.asked, "Content-Type: application/json\r\n"));
	free(a.text);
	stop(&s, c);
}

static void a_refusal_is_an_answer_and_a_long_one_an_error(void **state)
{
	const char *answer = "HTTP/1.1 404 No\r\nConnection: close\r\n\r\nnot here";
	struct client_answer a;

	(void)state;
	for (int most = 100; most >= 4; most -= 96) {
		struct server s = { .answer = answer };
		struct client *c = start(&s, "", (struct client_options){ 0 });
		struct err e = { 0 };

		assert_int_equal(
			client_fetch(c, NULL, "/metrics", NULL, (size_t)most, &a, &e), most > 9 ? 0 : -1);
		assert_int_equal(a.status, 404);
		assert_int_equal(e.code, most > 9 ? ERR_NONE : ERR_INPUT);
		free(a.text);
		stop(&s, c);
	}
}

struct heard {
	size_t bytes;
	int ends, status, retry;
	char error[256];
};

static bool hear(void *h_, int status, const char *bytes, size_t size)
{
	struct heard *h = h_;

	(void)bytes;
	assert_true(status >= 200);
	h->bytes += size;
	return true;
}

static void hear_end(void *h_, const struct client_end *end)
{
	struct heard *h = h_;

	h->ends++;
	h->status = end->status;
	h->retry = end->retry_after_s;
	snprintf(h->error, sizeof h->error, "%s", end->error ? end->error : "");
}

static void one_that_is_sent_away_hears_for_how_long(void **state)
{
	struct server s = { .answer =
							"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n" };
	struct client *c = start(&s, "", (struct client_options){ 0 });
	struct heard h = { 0 };

	(void)state;
	assert_non_null(client_begin(c, "/v1/x", "{}", (struct client_handler){ &h, hear, hear_end }));
	while (client_poll(c, 1000))
		;
	assert_int_equal(h.ends, 1);
	assert_int_equal(h.status, 429);
	assert_int_equal(h.retry, 7);
	assert_string_equal(h.error, "");
	stop(&s, c);
}

static void an_answer_that_breaks_off_or_hangs_is_an_error(void **state)
{
	(void)state;
	for (int hangs = 0; hangs < 2; hangs++) {
		struct server s = { .hangs = hangs,
			.answer = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello" };
		struct client *c = start(&s, "", (struct client_options){ .idle_s = 1 });
		struct heard h = { 0 };

		client_begin(c, "/v1/x", NULL, (struct client_handler){ &h, hear, hear_end });
		while (client_poll(c, 1000))
			;
		assert_int_equal(h.ends, 1);
		assert_int_equal(h.bytes, 5);
		assert_non_null(strstr(h.error, hangs ? "sent nothing for 1 s" : "127.0.0.1"));
		stop(&s, c);
	}
}

static void a_cancelled_call_is_silent(void **state)
{
	struct server s = { .hangs = true,
		.answer = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello" };
	struct client *c = start(&s, "", (struct client_options){ 0 });
	struct heard h = { 0 };
	struct client_call *call =
		client_begin(c, "/v1/x", NULL, (struct client_handler){ &h, hear, hear_end });

	(void)state;
	while (h.bytes < 5)
		assert_int_equal(client_poll(c, 1000), 1);
	client_cancel(call);
	assert_int_equal(client_poll(c, 0), 0);
	assert_int_equal(h.ends, 0);
	stop(&s, c);
}

static void a_url_is_checked_and_a_dead_server_named(void **state)
{
	static const char *const bad[] = { "", "file:///etc/passwd", "ftp://x", "http://", "a b" };
	struct client_options o = { .url = "https://bob:s3cret@user.example:8443/base/v1/?q#f" };
	struct client_answer a;
	struct client *c;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(client_open(&c, &o, NULL), 0);
	assert_string_equal(client_root(c), "https://user.example:8443/base");
	client_close(c);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e.code = ERR_NONE;
		o.url = bad[i];
		assert_int_equal(client_open(&c, &o, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	e.code = ERR_NONE;
	o.url = "http://bob:s3cret@127.0.0.1:9/v1";
	assert_int_equal(client_open(&c, &o, NULL), 0);
	assert_int_equal(client_fetch(c, NULL, "/health", NULL, 10, &a, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.text, "http://127.0.0.1:9 does not answer"));
	client_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_the_same_however_it_is_cut),
		cmocka_unit_test(a_stream_ends_when_asked_and_when_too_long),
		cmocka_unit_test(an_answer_comes_as_a_whole),
		cmocka_unit_test(a_refusal_is_an_answer_and_a_long_one_an_error),
		cmocka_unit_test(one_that_is_sent_away_hears_for_how_long),
		cmocka_unit_test(an_answer_that_breaks_off_or_hangs_is_an_error),
		cmocka_unit_test(a_cancelled_call_is_silent),
		cmocka_unit_test(a_url_is_checked_and_a_dead_server_named),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
