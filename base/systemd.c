/* See systemd.h. */
#include "base/systemd.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum { FIRST_FD = 3 };

static bool is_listening_tcp(int fd)
{
	int type, domain, listens;
	socklen_t n = sizeof type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_STREAM &&
		   !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) &&
		   (domain == AF_INET || domain == AF_INET6) &&
		   !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) && listens;
}

int systemd_socket(int *fd, struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	const bool ours = pid && n && strtol(pid, NULL, 10) == getpid() && strtol(n, NULL, 10) > 0;
	const long sockets = ours ? strtol(n, NULL, 10) : 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	*fd = ours ? FIRST_FD : -1;
	if (ours && (sockets > 1 || !is_listening_tcp(FIRST_FD)))
		return err_set(e, ERR_USAGE,
			"LISTEN_FDS: one listening TCP socket is served, and %ld were passed, the first of %s",
			sockets, is_listening_tcp(FIRST_FD) ? "this kind" : "another kind");
	if (ours && (fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) ||
					fcntl(FIRST_FD, F_SETFL, fcntl(FIRST_FD, F_GETFL) | O_NONBLOCK)))
		return err_set(e, ERR_IO, "LISTEN_FDS: the socket cannot be prepared");
	return 0;
}

/* Nothing depends on whether it arrives. A name that begins with @ is one of no file. */
void systemd_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const size_t n = path ? strlen(path) : 0;
	int fd;

	if (!n || n >= sizeof to.sun_path || !strchr("/@", *path))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	memcpy(to.sun_path, *path == '@' ? "" : "/", 1);
	memcpy(to.sun_path + 1, path + 1, n - 1);
	sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	close(fd);
}

void systemd_notify_reload(void)
{
	char state[64];

	snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now_ns() / 1000);
	systemd_notify(state);
}
