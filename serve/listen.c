/* The HTTP thread: where it listens, the library's loop, and whose connection is closed. See
 * serve_impl.h.
 *
 * The library closes what is idle, and takes nobody while it has as many connections as it may. So
 * here a client has a deadline for its request however its bytes drip, and where connections run
 * out, the one that has been waited for longest gives way: half a request locks nobody out. The
 * waiting is done here, too: the library's own, woken with a full batch of events, waits for
 * another before it looks at the first. */
#include "serve/serve_impl.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOOK_MS = 50, HEAD_BYTES = 32 << 10, LEAST_RATE = 16 << 10, SPARE_FILES = 32 };

static const int64_t SECOND = 1000000000;

/* ---- clients ---- */

static void on_client(
	void *arg, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode code)
{
	struct serve *s = arg;
	struct client *k = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = k = calloc(1, sizeof *k);
		if (!k)
			return;
		k->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		k->since = now_ns();
		TAILQ_INSERT_TAIL(&s->clients, k, link);
		s->n_clients++;
	} else if (k) {
		TAILQ_REMOVE(&s->clients, k, link);
		s->n_clients--;
		free(k);
	}
}

void client_turn(struct job *j, size_t bytes)
{
	struct client *k = j->client;

	k->served = false;
	k->since = now_ns();
	k->bytes = bytes;
	TAILQ_REMOVE(&j->s->clients, k, link);
	TAILQ_INSERT_TAIL(&j->s->clients, k, link);
}

/* Those that are late, and as many as are too many, but for the newest. The library finds a socket
 * that is shut down at its end, and closes it in one turn; in the next it takes others. */
static void close_waiting(struct serve *s)
{
	const int64_t now = now_ns();
	int32_t over = s->n_clients - s->o.connections;
	struct client *k;

	TAILQ_FOREACH(k, &s->clients, link) {
		const int64_t allowed = (s->o.idle_s + (int64_t)k->bytes / LEAST_RATE) * SECOND;

		if (k->served || (now - k->since <= allowed && (over <= 0 || !TAILQ_NEXT(k, link))))
			continue;
		over--;
		if (k->closed)
			continue;
		shutdown(k->fd, SHUT_RDWR);
		k->closed = true;
		s->http.closed++;
		s->hurry = 2;
	}
}

/* A suspended connection is not polled: whether its client is still there is asked here. */
static bool client_left(const struct job *j)
{
	char byte;

	return j->suspended && !recv(j->client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* ---- the loop ---- */

static void wait_for_work(struct serve *s, int most_ms)
{
	const union MHD_DaemonInfo *events = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd p[] = { { .fd = events->epoll_fd, .events = POLLIN },
		{ .fd = s->wake_fd, .events = POLLIN } };
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t n;

	if (MHD_get_timeout(s->daemon, &ms) != MHD_YES || ms > (unsigned)most_ms)
		ms = (unsigned)most_ms;
	if (poll(p, 2, (int)ms) > 0 && p[1].revents && read(s->wake_fd, &n, sizeof n) < 0)
		return; /* somebody else read it: there is none */
}

void http_wake(struct serve *s)
{
	const uint64_t one = 1;

	if (write(s->wake_fd, &one, sizeof one) < 0)
		return; /* its count is full: it wakes */
}

void http_turn(struct serve *s, int most_ms)
{
	const bool due = now_ns() - s->looked_ns > LOOK_MS * SECOND / 1000;

	wait_for_work(s, s->hurry ? 0 : most_ms);
	pthread_mutex_lock(&s->turn);
	s->hurry -= s->hurry > 0;
	MHD_run(s->daemon);
	if (due || s->n_clients > s->o.connections)
		close_waiting(s);
	if (due) {
		jobs_leave(s, client_left);
		s->looked_ns = now_ns();
	}
	jobs_turn(s, client_left);
	pthread_mutex_unlock(&s->turn);
}

static void *run(void *arg)
{
	struct serve *s = arg;

	while (!atomic_load(&s->closing))
		http_turn(s, LOOK_MS);
	return NULL;
}

static void quiet(void *arg, const char *format, va_list args)
{
	(void)arg, (void)format, (void)args;
}

/* Where the socket that was given listens. */
static int given_address(struct serve *s, struct err *e)
{
	socklen_t n = sizeof s->at;
	char port[8];

	if (getsockname(s->o.socket, (struct sockaddr *)&s->at, &n) ||
		getnameinfo((struct sockaddr *)&s->at, n, s->host, sizeof s->host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV))
		return err_set(e, ERR_IO, "the socket that was passed has no address");
	s->o.host = s->host;
	s->o.port = atoi(port);
	return 0;
}

static int address(const struct serve *s, struct sockaddr_storage *to, struct err *e)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%d", s->o.port);
	rc = getaddrinfo(s->o.host, port, &hints, &found);
	if (rc)
		return err_set(e, ERR_USAGE, "--host %.80s: %s", s->o.host, gai_strerror(rc));
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* A process may open so many files: one that may open too few takes fewer connections, rather than
 * fail at each. */
static void fit_files(struct serve *s)
{
	const rlim_t want = (rlim_t)s->o.connections + SPARE_FILES;
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most) || most.rlim_cur >= want)
		return;
	most.rlim_cur = want < most.rlim_max ? want : most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	if (most.rlim_cur < want)
		s->o.connections = most.rlim_cur > SPARE_FILES ? (int32_t)(most.rlim_cur - SPARE_FILES) : 1;
}

/* One connection more than may be: that for which another gives way. */
int http_open(struct serve *s, struct err *e)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem at[] = { { MHD_OPTION_SOCK_ADDR, 0, &s->at },
		{ MHD_OPTION_END, 0, NULL } };

	TAILQ_INIT(&s->clients);
	fit_files(s);
	if (s->o.socket >= 0 ? given_address(s, e) : address(s, &s->at, e))
		return -1;
	if (s->o.socket >= 0)
		at[0] = (struct MHD_OptionItem){ MHD_OPTION_LISTEN_SOCKET, s->o.socket, NULL };
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return err_set(e, ERR_IO, "the server: %s", strerror(errno));
	if (s->at.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, http_request, s, MHD_OPTION_EXTERNAL_LOGGER,
		quiet, NULL, MHD_OPTION_ARRAY, at, MHD_OPTION_NOTIFY_COMPLETED, http_end, NULL,
		MHD_OPTION_NOTIFY_CONNECTION, on_client, s, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)s->o.connections + 1, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->o.idle_s,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_END);
	if (!s->daemon)
		return err_set(e, ERR_IO, "%.80s, port %d: %s", s->o.host, s->o.port,
			errno ? strerror(errno) : "it cannot be listened at");
	return 0;
}

int http_start(struct serve *s, struct err *e)
{
	if (http_open(s, e))
		return -1;
	s->running = !pthread_create(&s->thread, NULL, run, s);
	if (s->running)
		pthread_setname_np(s->thread, "http");
	return s->running ? 0 : err_set(e, ERR_MEMORY, "no thread for the server");
}

void http_stop(struct serve *s)
{
	atomic_store(&s->closing, true);
	if (s->running)
		pthread_join(s->thread, NULL);
	s->running = false;
	MHD_stop_daemon(s->daemon);
	s->daemon = NULL;
	close(s->wake_fd);
}
