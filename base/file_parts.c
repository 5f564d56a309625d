/* See file_parts.h. */
#include "base/file_parts.h"

#include <stdio.h>
#include <string.h>

#define TAIL ((int)sizeof "-00001-of-00003.gguf" - 1)

int file_parts(const char *path, int *no)
{
	const int stem = (int)strlen(path) - TAIL;
	int i = 1, n = 1, end = 0;

	if (stem < 0 || sscanf(path + stem, "-%5d-of-%5d.gguf%n", &i, &n, &end) != 2 || end != TAIL ||
		i < 1 || i > n)
		i = n = 1;
	if (no)
		*no = i - 1;
	return n;
}

char *file_part_path(const char *path, int no)
{
	const int n = file_parts(path, NULL), stem = (int)strlen(path) - TAIL;
	char *out;

	if (n == 1)
		return strdup(path);
	return asprintf(&out, "%.*s-%05d-of-%05d.gguf", stem, path, no + 1, n) < 0 ? NULL : out;
}
