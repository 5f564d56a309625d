/* Any bytes on a connection: heads, addresses, bodies, pipelined requests. Each is answered or
 * closed, and without the key nothing but /health is. What needs an engine is refused here
 * (fuzz_query reads those bodies). FUZZ_OPTIONS: -max_len=8192 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fuzz/serve_fixture.h"

/* A head that is not whole is waited for as long as --idle says; here for so many turns in which
 * nothing comes: what can be answered is, in the first few. */
enum { PATIENCE = 8 };
static const char rest[] = "\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static struct serve *server(void)
{
	struct serve *s = fuzz_serve("k3y");
	struct err e = { 0 };

	s->draining = true;
	FUZZ_CHECK(!http_open(s, &e));
	return s;
}

/* What the server says until it closes, or says no more; size in *n. */
static char *exchange(struct serve *s, const uint8_t *data, size_t size, size_t *n)
{
	static char reply[1 << 20];
	const struct sockaddr_un from = { .sun_family = AF_UNIX };
	int fd[2];
	ssize_t got;

	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	FUZZ_CHECK(write(fd[0], data, size) == (ssize_t)size);
	FUZZ_CHECK(write(fd[0], rest, sizeof rest - 1) == sizeof rest - 1);
	MHD_add_connection(s->daemon, fd[1], (const struct sockaddr *)&from, sizeof from);
	*n = 0;
	for (int quiet = 0; quiet < PATIENCE && *n < sizeof reply - 1; quiet++) {
		http_turn(s, 0);
		got = recv(fd[0], reply + *n, sizeof reply - 1 - *n, MSG_DONTWAIT);
		if (!got)
			break;
		if (got > 0) {
			*n += (size_t)got;
			quiet = 0;
		}
	}
	close(fd[0]);
	http_turn(s, 0);
	reply[*n] = '\0';
	return reply;
}

static bool has(const uint8_t *data, size_t size, const char *word)
{
	return memmem(data, size, word, strlen(word));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct serve *s;
	size_t n;
	const char *reply;
	const uint8_t *end = memmem(data, size, "\r\n\r\n", 4);

	if (!s)
		s = server();
	if (!size)
		return 0;
	reply = exchange(s, data, size, &n);
	FUZZ_CHECK(!n || !strncmp(reply, "HTTP/1.", 7));
	if (strstr(reply, "HTTP/1.1 200") == reply)
		FUZZ_CHECK(has(data, size, "k3y"));
	/* the key is told to nobody; an unknown field's name is told again, whatever it is */
	FUZZ_CHECK(!strstr(reply, "k3y") || (end && has(end, size - (size_t)(end - data), "k3y")));
	pthread_mutex_lock(&s->lock);
	FUZZ_CHECK(!s->n_open && !s->replica[0].n_live);
	pthread_mutex_unlock(&s->lock);
	return 0;
}
