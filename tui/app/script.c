/* See script.h. */
#include "tui/app/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/poll.h>
#include <unistd.h>

enum { READ_BYTES = 4096, LINE_MOST = 1 << 20 };

struct script {
	int fd;
	char *path, *buf; /* [n]: bytes read and not yet returned */
	size_t n;
	bool ended;
};

int script_open(struct script **out, const char *path, struct err *e)
{
	struct script *s = calloc(1, sizeof *s);

	if (s)
		s->path = strdup(path);
	if (!s || !s->path) {
		free(s);
		return err_no_memory(e, "%s", path);
	}
	s->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd < 0)
		err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	else if (isatty(s->fd))
		err_set(
			e, ERR_USAGE, "--commands %s: that is a terminal; type into the prompt instead", path);
	if (e->code) {
		script_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

void script_close(struct script *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s->buf);
	free(s);
}

int script_fd(const struct script *s)
{
	return s->fd;
}

/* A pipe that has had no writer yet reads as at its end, but poll() reports no hang-up. */
static bool will_come(const struct script *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

/* False: no input now. */
static bool more(struct script *s, struct err *e)
{
	char *grown = s->n < LINE_MOST ? realloc(s->buf, s->n + READ_BYTES + 1) : NULL;
	ssize_t n;

	if (!grown) {
		s->ended = true;
		err_set(e, ERR_INPUT, "%s: a line is longer than %d bytes", s->path, LINE_MOST);
		return false;
	}
	s->buf = grown;
	n = read(s->fd, s->buf + s->n, READ_BYTES);
	if (n > 0) {
		s->n += (size_t)n;
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0)
		err_set(e, ERR_IO, "%s: %s", s->path, strerror(errno));
	s->ended = n < 0 || !will_come(s);
	return false;
}

/* Returns the first `size` bytes as a line; removes `used`. */
static int take(struct script *s, size_t size, size_t used, char **line, struct err *e)
{
	while (size && s->buf[size - 1] == '\r')
		size--;
	*line = strndup(s->buf, size);
	if (!*line)
		return err_no_memory(e, "a line of %s", s->path);
	s->n -= used;
	memmove(s->buf, s->buf + used, s->n);
	return 1;
}

int script_line(struct script *s, char **line, struct err *e)
{
	do {
		const char *end = s->n ? memchr(s->buf, '\n', s->n) : NULL;

		if (end)
			return take(s, (size_t)(end - s->buf), (size_t)(end - s->buf) + 1, line, e);
	} while (!s->ended && more(s, e));
	if (!s->ended)
		return 0;
	return s->n && !e->code ? take(s, s->n, s->n, line, e) : -1;
}
