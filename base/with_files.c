/* See with_files.h. A file is sent as
 *
 *     `NAME`:
 *     ```
 *     content
 *     ```
 *
 * and an empty line, with more backquotes than any line of it begins with. */
#include "base/with_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

enum { FENCE = 3, NAME = 4096 };

/* ---- reading ---- */

/* Of what is no file a FIFO would keep its reader waiting. */
static FILE *open_text(const char *path, const char *what, struct err *e)
{
	FILE *f = NULL;
	struct stat s;

	if (stat(path, &s) || (S_ISREG(s.st_mode) && !(f = fopen(path, "r"))))
		err_set(e, ERR_INPUT, "%s %.200s: %s", what, path, strerror(errno));
	else if (!f)
		err_set(e, ERR_INPUT, "%s %.200s: that is no file", what, path);
	return f;
}

char *with_files_read(const char *path, const char *what, size_t *size, struct err *e)
{
	FILE *f = open_text(path, what, e);
	char *text = f ? malloc(WITH_FILES_BYTES + 2) : NULL;
	size_t n = text ? fread(text, 1, WITH_FILES_BYTES + 1, f) : 0;

	if (!f)
		return NULL;
	if (!text || ferror(f))
		err_set(e, ERR_INPUT, "%s %.200s: %s", what, path, strerror(errno));
	else if (n > WITH_FILES_BYTES || !n)
		err_set(e, ERR_INPUT, "%s %.200s: a text of 1 to %d bytes is needed", what, path,
			WITH_FILES_BYTES);
	else if (memchr(text, 0, n) || !text_is_utf8(text, n))
		err_set(e, ERR_INPUT, "%s %.200s: that is no text (UTF-8)", what, path);
	fclose(f);
	if (e->code) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	if (size)
		*size = n;
	return text;
}

/* ---- putting before ---- */

/* The next word @NAME or @"NAME" at or after `at`, which begins the text or follows a blank; its
 * name and where it ends. NULL: none. */
static const char *next_name(const char *typed, const char *at, char *name, const char **end)
{
	for (; (at = strchr(at, '@')); at++) {
		const bool quoted = at[1] == '"';
		const char *begin = at + 1 + quoted;
		const size_t n = strcspn(begin, quoted ? "\"" : " \t\n");

		if ((at != typed && !strchr(" \t\n", at[-1])) || !n || n >= NAME || (quoted && !begin[n]))
			continue;
		memcpy(name, begin, n);
		name[n] = '\0';
		*end = begin + n + quoted;
		return at;
	}
	return NULL;
}

static bool is_there(const char *name)
{
	struct stat s;

	return !stat(name, &s) && !S_ISDIR(s.st_mode);
}

/* "really, @notes.txt?": what ends a sentence is part of no name, unless a file is called so. */
static bool is_file(char *name)
{
	size_t n = strlen(name);

	if (is_there(name))
		return true;
	while (n > 1 && strchr(".,;:!?)", name[n - 1]))
		n--;
	if (!name[n])
		return false;
	name[n] = '\0';
	return is_there(name);
}

static bool is_named_before(const char *typed, const char *here, const char *name)
{
	char other[NAME];
	const char *end = typed, *at;

	while ((at = next_name(typed, end, other, &end)) && at < here)
		if (is_file(other) && !strcmp(other, name))
			return true;
	return false;
}

static size_t fence_of(const char *text)
{
	size_t most = FENCE - 1;

	for (const char *line = text; *line; line += *line == '\n') {
		const size_t n = strspn(line, "`");

		most = n > most ? n : most;
		line += strcspn(line, "\n");
	}
	return most + 1;
}

static void put_fence(FILE *out, size_t n)
{
	while (n--)
		fputc('`', out);
	fputc('\n', out);
}

static int put_file(FILE *out, const char *name, struct err *e)
{
	size_t size, fence;
	char *text;

	if (strchr(name, '`') || strchr(name, '\n'))
		return err_set(e, ERR_INPUT, "@%.200s: a name without backquotes is needed", name);
	text = with_files_read(name, "@", &size, e);
	if (!text)
		return -1;
	fence = fence_of(text);
	fprintf(out, "`%s`:\n", name);
	put_fence(out, fence);
	fprintf(out, "%s%s", text, text[size - 1] == '\n' ? "" : "\n");
	put_fence(out, fence);
	fputc('\n', out);
	free(text);
	return 0;
}

char *with_files(const char *typed, char *unknown, size_t cap, struct err *e)
{
	char *text = NULL, name[NAME];
	const char *end = typed, *at;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = out ? 0 : err_no_memory(e, "a text with files");

	*unknown = '\0';
	while (!rc && (at = next_name(typed, end, name, &end))) {
		const bool is = is_file(name);

		if (is && !is_named_before(typed, at, name))
			rc = put_file(out, name, e);
		else if (!is && !*unknown)
			snprintf(unknown, cap, "%s", name);
	}
	if (out)
		fprintf(out, "%s", typed);
	if (out && fclose(out) && !rc)
		rc = err_no_memory(e, "a text with files");
	if (!rc)
		return text;
	free(text);
	return NULL;
}

/* ---- finding again ---- */

/* The line of `fence` backquotes alone; NULL: none. */
static const char *closing(const char *text, size_t fence, int *lines)
{
	*lines = 0;
	for (const char *line = text; *line; line++) {
		if (strspn(line, "`") == fence && line[fence] == '\n')
			return line;
		line = strchr(line, '\n');
		if (!line)
			break;
		++*lines;
	}
	return NULL;
}

size_t with_files_next(const char *text, struct with_file *out)
{
	const size_t n = *text == '`' ? strcspn(text + 1, "`\n") : 0;
	const char *open = text + 1 + n, *end;
	size_t fence;

	if (!n || strncmp(open, "`:\n", 3) != 0)
		return 0;
	open += 3;
	fence = strspn(open, "`");
	if (fence < FENCE || open[fence] != '\n')
		return 0;
	open += fence + 1;
	*out = (struct with_file){ .name = text + 1, .name_size = n };
	end = closing(open, fence, &out->lines);
	if (!end || end[fence + 1] != '\n')
		return 0;
	out->size = (size_t)(end - open);
	return (size_t)(end - text) + fence + 2;
}

const char *with_files_typed(const char *text)
{
	struct with_file f;
	size_t n;

	while ((n = with_files_next(text, &f)))
		text += n;
	return text;
}
