/* A server whose engine is in a long step: the engine's thread is held until everything has been
 * done that must not wait for it; if something does, neither goes on, and the alarm ends the suite.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

#include "serve/serve.h"
#include "tests/support/tiny.h"

enum { PATIENCE_S = 100, DRAIN_S = 6 /* more than the server gives its clients */ };

static struct serve *server;
static struct session session;
static sem_t begun, go_on;

static void hold(struct engine *e, void *arg)
{
	(void)e, (void)arg;
	sem_post(&begun);
	sem_wait(&go_on);
}

static void begin_to_hold(void)
{
	assert_true(actor_post(session.actor, hold, NULL, NULL, 0));
	sem_wait(&begun);
}

/* ---- a client ---- */

static int send_request(const char *line, const char *body)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)serve_port(server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
	assert_true(dprintf(fd,
					"%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
					"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
					line, strlen(body), body) > 0);
	return fd;
}

/* All that comes, to the end of the connection. */
static const char *reply(int fd)
{
	static char text[4096];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd);
	return text;
}

static void says(int fd, int status, const char *words)
{
	const char *text = reply(fd);
	char head[24];

	snprintf(head, sizeof head, "HTTP/1.1 %d ", status);
	if (strncmp(text, head, strlen(head)) != 0 || !strstr(text, words))
		fail_msg("not %d, %s: %s", status, words, text);
}

/* ---- tests ---- */

static void test_others_are_served_while_pins_go(void **state)
{
	int all, one;

	(void)state;
	begin_to_hold();
	all = send_request("DELETE /pins", "");
	one = send_request("DELETE /pins/7", "");
	says(send_request("GET /health", ""), 200, "ok");
	says(send_request("GET /pins", ""), 200, "\"data\":[]");
	sem_post(&go_on);
	says(all, 200, "\"removed\":0");
	says(one, 404, "there is no pin 7");
	assert_true(serve_idle(server));
}

static void *drain(void *arg)
{
	static const atomic_bool hurry = true;

	serve_drain(server, 0, &hurry);
	return arg;
}

/* The library aborts if it is stopped while a connection is suspended. */
static void test_it_ends_after_the_step(void **state)
{
	pthread_t ends;
	int fd;

	(void)state;
	begin_to_hold();
	fd = send_request("POST /v1/completions", "{\"prompt\": \"Once\", \"max_tokens\": 100}");
	while (serve_idle(server))
		usleep(1000);
	assert_int_equal(pthread_create(&ends, NULL, drain, NULL), 0);
	sleep(DRAIN_S);
	sem_post(&go_on);
	pthread_join(ends, NULL);
	says(fd, 503, "it was stopped");
}

/* ---- the server ---- */

static void on_stop(void *arg, const struct err *err)
{
	(void)arg;
	fail_msg("%s", err->text);
}

static int set_up(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct session_options o = { .engine = ENGINE_DEFAULTS };
	const struct serve_options options = { .host = "127.0.0.1",
		.socket = -1,
		.replicas = 1,
		.queue = 8,
		.connections = 16,
		.idle_s = PATIENCE_S,
		.body_kib = 4,
		.answer = &answer_defaults };
	struct err e = { 0 };

	alarm(PATIENCE_S);
	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	*state = tiny_temp(&t, NULL);
	o.engine.model = *state;
	o.engine.threads = 1;
	o.engine.ctx = 256;
	if (serve_open(&server, &options, &e) || session_open(&session, &o, &e) ||
		engine_add_sink(session.engine, serve_sink, serve_replica(server, 0)) ||
		session_begin(&session, on_stop, NULL, &e) || serve_start(server, &session, &e))
		fail_msg("%s", e.text);
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(session_close(&session, NULL), 0);
	serve_close(server);
	unlink(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_are_served_while_pins_go),
		cmocka_unit_test(test_it_ends_after_the_step),
	};

	return cmocka_run_group_tests_name("serve_held", tests, set_up, tear_down);
}
