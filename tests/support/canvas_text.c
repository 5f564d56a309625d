/* See canvas_text.h. */
#include "tests/support/canvas_text.h"

#include <stdlib.h>
#include <string.h>

static size_t row_text(const struct cell *cell, int w, char *out)
{
	size_t n = 0, keep = 0;

	for (int x = 0; x < w; x++) {
		size_t size = strlen(cell[x].text);

		memcpy(out + n, cell[x].text, size);
		n += size;
		if (strcmp(cell[x].text, " ") != 0)
			keep = n;
	}
	return keep;
}

char *canvas_to_text(const struct canvas *c)
{
	size_t row = (size_t)c->w * sizeof c->cell->text + 1, n = 0;
	char *out = malloc(row * (size_t)c->h + 1);

	if (!out)
		return NULL;
	for (int y = 0; y < c->h; y++) {
		n += row_text(c->cell + (size_t)y * (size_t)c->w, c->w, out + n);
		out[n++] = '\n';
	}
	out[n] = '\0';
	return out;
}
