/* Checked standard output, whole files in. Thread: main's. */
#include "cli/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

enum { IN_MOST = 256 << 20 }; /* no prompt is larger: a text of that size is a mistake */

int out_flush(struct err *e)
{
	bool failed_before = ferror(stdout);
	if (!fflush(stdout) && !failed_before)
		return 0;
	if (errno != EPIPE)
		return err_set(e, ERR_IO, "standard output: %s", strerror(errno));
	if (!e->code)
		e->code = ERR_IO;
	return -1;
}

void out_text(const char *text, size_t size)
{
	static int terminal = -1;
	if (terminal < 0)
		terminal = isatty(STDOUT_FILENO);
	if (!terminal) {
		fwrite(text, 1, size, stdout);
		return;
	}
	size_t n;
	char *clean = text_clean(text, size, true, &n);
	if (clean)
		fwrite(clean, 1, n, stdout);
	free(clean);
}

int in_read(const char *path, char **data, size_t *size, struct err *e)
{
	const char *name = path ? path : "standard input";
	FILE *f = path ? fopen(path, "rb") : stdin;
	char *buf = NULL;
	size_t n = 0, cap = 0;
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", name, strerror(errno));
	for (;;) {
		if (cap - n < 2) {
			cap = cap ? cap * 2 : 1 << 16;
			char *more = cap <= IN_MOST ? realloc(buf, cap) : NULL;
			if (!more) {
				err_set(e, ERR_MEMORY, "%s: too large for one text (%zu bytes read)", name, n);
				goto out;
			}
			buf = more;
		}
		size_t got = fread(buf + n, 1, cap - n - 1, f);
		n += got;
		if (!got)
			break;
	}
	if (ferror(f)) {
		err_set(e, ERR_IO, "%s: %s", name, strerror(errno));
		goto out;
	}
	buf[n] = 0;
	*data = buf;
	*size = n;
	buf = NULL;
out:
	if (path)
		fclose(f);
	free(buf);
	return e->code ? -1 : 0;
}
