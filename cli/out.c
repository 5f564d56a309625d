/* See out.h. Assigning to stdout is a glibc extension. */
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/text/tokenizer.h"

enum {
	IN_MOST = 256 << 20, /* limit of a prompt: a text of that size is a mistake */
	BUFFER = 64 << 10,
	LAST_MS = 2000,
};

static struct {
	struct utf8_stream characters; /* terminal only: holds an incomplete character */
	bool terminal, held;           /* held: a carriage return whose newline may follow */
	int error;                     /* errno of the first write that failed */
} out;

static bool write_all(const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(STDOUT_FILENO, text, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			out.error = out.error ? out.error : errno;
			return false;
		}
		text += n;
		size -= (size_t)n;
	}
	return true;
}

static bool write_clean(const char *text, size_t size)
{
	size_t cap = 3 * size + 8, n = 0;
	char *whole = malloc(cap), *clean = NULL;
	bool good = false;
	if (whole) {
		whole[0] = '\r';
		n = out.held;
		n += utf8_stream_feed(&out.characters, text, size, whole + n, cap - n);
		out.held = n && whole[n - 1] == '\r';
		clean = text_clean(whole, n - out.held, true, &n);
	}
	if (clean)
		good = write_all(clean, n);
	else
		out.error = ENOMEM;
	free(clean);
	free(whole);
	return good;
}

static ssize_t write_out(void *arg, const char *text, size_t size)
{
	(void)arg;
	return (out.terminal ? write_clean(text, size) : write_all(text, size)) ? (ssize_t)size : 0;
}

int out_begin(struct err *e)
{
	FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_out });
	if (!f)
		return err_no_memory(e, "standard output");
	out.terminal = isatty(STDOUT_FILENO);
	setvbuf(f, NULL, out.terminal ? _IOLBF : _IOFBF, BUFFER);
	stdout = f;
	return 0;
}

int out_flush(struct err *e)
{
	bool failed_before = ferror(stdout);
	if (!fflush(stdout) && !failed_before)
		return 0;
	if (out.error != EPIPE)
		return err_set(e, ERR_IO, "standard output: %s", strerror(out.error));
	if (!e->code)
		e->code = ERR_IO;
	return -1;
}

void out_last(const char *fmt, ...)
{
	const char *name = ttyname(STDERR_FILENO);
	/* a new open file description: O_NONBLOCK on the inherited one would affect the shell, too */
	int fd = name ? open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int left = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (fd < 0 && left > 0)
		fputs(text, stderr);
	for (int waited = 0; fd >= 0 && left > 0 && waited < LAST_MS; waited += LAST_MS / 20) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		ssize_t n =
			poll(&p, 1, LAST_MS / 20) > 0 ? write(fd, text + strlen(text) - left, (size_t)left) : 0;
		left -= n > 0 ? (int)n : 0;
	}
	if (fd >= 0)
		close(fd);
	if (left >= 0)
		free(text);
}

void out_complain(const char *fmt, ...)
{
	char text[1024], *clean;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	clean = text_clean(text, strlen(text), false, NULL);
	out_last("cutaway: %s\n", clean ? clean : "out of memory");
	free(clean);
}

static bool progress_stands;

void out_progress(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	progress_stands = true;
}

void out_progress_end(void)
{
	if (progress_stands)
		fputs("\r\033[K", stderr);
	progress_stands = false;
}

int in_read(const char *path, char **data, size_t *size, struct err *e)
{
	const char *name = path ? path : "standard input";
	FILE *f = path ? fopen(path, "rb") : stdin, *all = f ? open_memstream(data, size) : NULL;
	char part[BUFFER];
	size_t n, whole = 0;

	if (!f)
		return err_set(e, ERR_IO, "%s: %s", name, strerror(errno));
	while (all && whole <= IN_MOST && (n = fread(part, 1, sizeof part, f)))
		whole += fwrite(part, 1, n, all);
	if (ferror(f))
		err_set(e, ERR_IO, "%s: %s", name, strerror(errno));
	if (!all || fclose(all) || whole > IN_MOST)
		err_set(e, ERR_MEMORY, "%s: too large for one text (%zu bytes read)", name, whole);
	if (path)
		fclose(f);
	if (!e->code)
		return 0;
	if (all)
		free(*data);
	*data = NULL;
	return -1;
}
