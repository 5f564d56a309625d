/* See inspect.h. */
#include "tui/inspect/inspect.h"

#include "base/array.h"

void text_column_free(struct text_column *c)
{
	free(c->text);
	free(c->start);
	free(c->line);
	*c = (struct text_column){ 0 };
}

int text_column_fill(struct text_column *c, int32_t base, const int32_t *ids, int32_t n,
	const struct ev_texts *texts, struct err *e)
{
	static const struct ev_text unknown = { "?", 1 };
	size_t size = 0;

	text_column_free(c);
	c->base = base;
	c->n = n;
	c->start = malloc(((size_t)n + 1) * sizeof *c->start);
	for (int32_t i = 0; c->start && i < n; i++) {
		const struct ev_text *t = ev_texts_get(texts, ids[i]);

		c->start[i] = size;
		size += t ? t->size : 1;
	}
	c->text = malloc(size + 1);
	if (!c->start || !c->text)
		return err_no_memory(e, "a text of %zu bytes", size);
	c->start[n] = size;
	for (int32_t i = 0; i < n; i++) {
		const struct ev_text *t = ev_texts_get(texts, ids[i]);

		t = t ? t : &unknown;
		memcpy(c->text + c->start[i], t->bytes, t->size);
	}
	for (size_t i = 0; i < size; i++)
		c->text[i] = c->text[i] ? c->text[i] : '\1'; /* shown like other control characters */
	c->text[size] = 0;
	return 0;
}

int text_column_wrap(struct text_column *c, int w, bool ascii, struct err *e)
{
	size_t pos = 0, next = 1;
	int cap = 0;

	if (c->w == w || w < 1)
		return 0;
	free(c->line);
	c->line = NULL;
	c->n_lines = 0;
	while (next && c->text && c->text[pos]) {
		if (!ARRAY_ROOM(c->line, cap, c->n_lines + 1))
			return err_no_memory(e, "%d lines", c->n_lines + 1);
		c->line[c->n_lines++] =
			(struct text_column_line){ pos, text_line(c->text + pos, w, ascii, &next) };
		pos += next;
	}
	c->w = w;
	return 0;
}

static int32_t token_at(const struct text_column *c, size_t byte)
{
	int32_t lo = 0, hi = c->n;

	while (hi - lo > 1) {
		int32_t mid = lo + (hi - lo) / 2;

		if (c->start[mid] <= byte)
			lo = mid;
		else
			hi = mid;
	}
	return c->base + lo;
}

int text_column_line(const struct text_column *c, int32_t token)
{
	const size_t byte = c->start[token - c->base];
	int i = 0;

	while (i + 1 < c->n_lines && c->line[i + 1].from <= byte)
		i++;
	return i;
}

void text_column_clamp(struct text_column *c, int rows)
{
	if (c->scroll > c->n_lines - rows)
		c->scroll = c->n_lines - rows;
	if (c->scroll < 0)
		c->scroll = 0;
}

void text_column_draw(const struct text_column *c, struct pen *pen,
	void (*style)(void *arg, int32_t token, bool standin, struct pen *pen), void *arg)
{
	for (int y = 0; y < pen->r.h && c->scroll + y < c->n_lines; y++) {
		const struct text_column_line *l = &c->line[c->scroll + y];
		struct glyph_run g;
		int x = 0;

		for (size_t at = l->from, end = l->from + l->size; at < end; at += g.used) {
			g = text_next(c->text + at, end - at, pen->c->ascii);
			if (!g.used || g.newline)
				break;
			style(arg, token_at(c, at), g.standin, pen);
			pen_text(pen, x, y, g.text, -1);
			x += g.width;
		}
	}
}
