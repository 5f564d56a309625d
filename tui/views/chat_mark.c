/* See chat_turn.h. md4c hands out its texts as pointers into the source, which is how a byte's
 * token is found again; what it makes itself (a line's end) belongs to nobody. */
#include "tui/views/chat_turn.h"

#include <md4c.h>

#include "base/array.h"

enum { DEPTH = 16, COLUMNS = 32, INDENT = 2, BULLETS = -1 };

struct mark_cell { /* of a table: bytes of the text, which wait there to be put in place */
	size_t from, to;
};

/* What stands in place of marks. */
struct shapes {
	const char *bullet, *bar, *rule, *column, *line, *cross;
};
static const struct shapes drawn = { "• ", "│ ", "───\n", " │ ", "─", "─┼─" },
						   plain = { "- ", "| ", "---\n", " | ", "-", "-+-" };

struct marking {
	const struct wrap *source;
	const struct shapes *as;
	struct wrap out;
	uint8_t style;
	int next[DEPTH]; /* of each list the number of its next item; BULLETS: it has none */
	int n_lists, n_quotes;
	char bullet[16]; /* of the item that begins with the next text */
	bool in_code, gap /* an empty line before the next text */, failed;
	struct mark_cell *cell; /* of the table that is read, by rows */
	int n_cells, cap_cells, columns, width;
	size_t table; /* where the texts of its cells begin */
};

/* ---- putting bytes ---- */

static void put(struct marking *m, const char *text, size_t n, unsigned style)
{
	wrap_add_styled(&m->out, text, n, NULL, (uint8_t)style);
}

static void put_shape(struct marking *m, const char *shape)
{
	put(m, shape, strlen(shape), MARK_DIM);
}

static bool at_line_begin(const struct marking *m)
{
	return !m->out.size || m->out.text[m->out.size - 1] == '\n';
}

static void end_line(struct marking *m)
{
	if (!at_line_begin(m))
		put(m, "\n", 1, 0);
}

/* What stands before the text of a line: bars of quotations, the indentation of lists, a bullet. */
static void begin_line(struct marking *m)
{
	const int depth = m->n_lists > 0 ? m->n_lists - 1 : 0;

	if (!at_line_begin(m))
		return;
	if (m->gap && m->out.size)
		put(m, "\n", 1, 0);
	m->gap = false;
	for (int i = 0; i < m->n_quotes; i++)
		put_shape(m, m->as->bar);
	for (int i = 0; i < depth * INDENT; i++)
		put(m, " ", 1, 0);
	if (*m->bullet)
		put(m, m->bullet, strlen(m->bullet), MARK_DIM);
	else if (m->n_lists)
		put(m, "  ", INDENT, 0);
	*m->bullet = '\0';
	if (m->in_code)
		put(m, "  ", INDENT, MARK_CODE | MARK_BLOCK);
}

/* A piece of the source, or of md4c's own. */
static void put_piece(struct marking *m, const char *text, size_t n)
{
	const struct wrap *s = m->source;
	const bool ours = text >= s->text && text <= s->text + s->size;
	const unsigned style = m->style | (m->in_code ? MARK_CODE | MARK_BLOCK : 0);

	if (ours && n > s->size - (size_t)(text - s->text))
		n = s->size - (size_t)(text - s->text);
	if (ours && s->owner)
		wrap_add_styled(&m->out, text, n, s->owner + (text - s->text), (uint8_t)style);
	else
		put(m, text, n, style);
}

/* ---- tables ---- */

static int cell_width(const struct marking *m, const struct mark_cell *c)
{
	return text_width(m->out.text + c->from, c->to - c->from, false);
}

/* Widths of the columns; false: the table is too wide to be aligned. */
static bool measure(const struct marking *m, int width[COLUMNS])
{
	int sum = 0;

	memset(width, 0, COLUMNS * sizeof *width);
	for (int i = 0; i < m->n_cells; i++) {
		const int w = cell_width(m, &m->cell[i]), x = i % m->columns;

		width[x] = at_least(w, width[x]);
	}
	for (int x = 0; x < m->columns; x++)
		sum += width[x] + (x ? 3 : 0);
	return sum <= m->width;
}

static void put_rule(struct marking *m, const int width[COLUMNS])
{
	for (int x = 0; x < m->columns; x++) {
		if (x)
			put_shape(m, m->as->cross);
		for (int i = 0; i < width[x]; i++)
			put_shape(m, m->as->line);
	}
	put(m, "\n", 1, 0);
}

static void put_row(struct marking *m, const struct wrap *from, const struct mark_cell *row,
	const int width[COLUMNS], bool aligned)
{
	for (int x = 0; x < m->columns; x++) {
		const struct mark_cell *c = &row[x];
		const int w = text_width(from->text + c->from, c->to - c->from, false);

		if (x)
			put_shape(m, m->as->column);
		wrap_add_piece(&m->out, from, c->from, c->to);
		for (int i = w; aligned && x + 1 < m->columns && i < width[x]; i++)
			put(m, " ", 1, 0);
	}
	put(m, "\n", 1, 0);
}

/* The cells have been put one after the other; now they are put as rows. */
static void end_table(struct marking *m)
{
	int width[COLUMNS];
	const bool aligned = measure(m, width);
	struct wrap cells = { 0 };

	wrap_add_piece(&cells, &m->out, m->table, m->out.size);
	for (int i = 0; i < m->n_cells; i++) {
		m->cell[i].from -= m->table;
		m->cell[i].to -= m->table;
	}
	m->out.size = m->table;
	for (int i = 0; i + m->columns <= m->n_cells && !m->failed; i += m->columns) {
		put_row(m, &cells, &m->cell[i], width, aligned);
		if (!i && aligned)
			put_rule(m, width);
	}
	wrap_free(&cells);
	m->n_cells = m->columns = 0;
	m->gap = true;
}

static void begin_table(struct marking *m, const MD_BLOCK_TABLE_DETAIL *d)
{
	begin_line(m);
	m->n_cells = 0;
	m->columns = (int)(at_most(d->col_count, COLUMNS));
	m->table = m->out.size;
}

/* Of rows that are wider than can be shown the last cells run on. */
static void begin_cell(struct marking *m)
{
	if (ARRAY_ROOM(m->cell, m->cap_cells, m->n_cells + 1))
		m->cell[m->n_cells++] = (struct mark_cell){ m->out.size, m->out.size };
	else
		m->failed = true;
}

/* ---- what md4c finds ---- */

/* What its calls return: not 0 ends the parsing. */
static int broken(const struct marking *m)
{
	return m->failed || m->out.failed;
}

static void begin_list(struct marking *m, int first)
{
	if (m->n_lists < DEPTH)
		m->next[m->n_lists] = first;
	m->n_lists++;
}

static void begin_item(struct marking *m)
{
	const int i = m->n_lists - 1 < DEPTH ? m->n_lists - 1 : DEPTH - 1;

	end_line(m);
	if (m->next[i] == BULLETS)
		snprintf(m->bullet, sizeof m->bullet, "%s", m->as->bullet);
	else
		snprintf(m->bullet, sizeof m->bullet, "%d. ", m->next[i]++);
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct marking *m = arg;

	switch (type) {
	case MD_BLOCK_QUOTE: m->n_quotes++; break;
	case MD_BLOCK_UL: begin_list(m, BULLETS); break;
	case MD_BLOCK_OL: begin_list(m, (int)(((MD_BLOCK_OL_DETAIL *)detail)->start & 0xffffff)); break;
	case MD_BLOCK_LI: begin_item(m); break;
	case MD_BLOCK_H: m->style |= MARK_BOLD; break;
	case MD_BLOCK_CODE: m->in_code = true; break;
	case MD_BLOCK_TABLE: begin_table(m, detail); break;
	case MD_BLOCK_TH:
		m->style |= MARK_BOLD;
		begin_cell(m);
		break;
	case MD_BLOCK_TD: begin_cell(m); break;
	case MD_BLOCK_HR:
		begin_line(m);
		put_shape(m, m->as->rule);
		m->gap = true;
		break;
	default: break;
	}
	return broken(m);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct marking *m = arg;

	(void)detail;
	switch (type) {
	case MD_BLOCK_TH:
	case MD_BLOCK_TD:
		m->style &= (uint8_t)~MARK_BOLD;
		m->cell[m->n_cells - 1].to = m->out.size;
		return broken(m);
	case MD_BLOCK_THEAD:
	case MD_BLOCK_TBODY:
	case MD_BLOCK_TR: return broken(m);
	case MD_BLOCK_TABLE: end_table(m); return broken(m);
	case MD_BLOCK_QUOTE: m->n_quotes--; break;
	case MD_BLOCK_UL:
	case MD_BLOCK_OL: m->n_lists--; break;
	case MD_BLOCK_H: m->style &= (uint8_t)~MARK_BOLD; break;
	default: break;
	}
	end_line(m);
	m->in_code &= type != MD_BLOCK_CODE;
	m->gap |= type != MD_BLOCK_LI && !(m->n_lists && (type == MD_BLOCK_UL || type == MD_BLOCK_OL));
	return broken(m);
}

static int enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
	struct marking *m = arg;

	(void)detail;
	m->style |= type == MD_SPAN_STRONG ? MARK_BOLD : type == MD_SPAN_CODE ? MARK_CODE : 0;
	return broken(m);
}

static int leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
	struct marking *m = arg;

	(void)detail;
	m->style &= (uint8_t) ~(type == MD_SPAN_STRONG ? MARK_BOLD
							: type == MD_SPAN_CODE ? MARK_CODE
												   : 0);
	return broken(m);
}

static int text(MD_TEXTTYPE type, const MD_CHAR *words, MD_SIZE size, void *arg)
{
	struct marking *m = arg;

	if (type == MD_TEXT_BR || type == MD_TEXT_SOFTBR) {
		put(m, m->columns ? " " : "\n", 1, 0);
		return broken(m);
	}
	if (!m->columns && (*words != '\n' || m->gap)) /* an empty line of code has no indentation */
		begin_line(m);
	put_piece(m, words, size);
	return broken(m);
}

void mark_down(struct wrap *w, int width, bool ascii)
{
	static const char end[8] = "\n";
	static const MD_PARSER parser = { 0, MD_FLAG_TABLES | MD_FLAG_NOHTML, enter_block, leave_block,
		enter_span, leave_span, text, NULL, NULL };
	struct marking m = { .source = w, .as = ascii ? &plain : &drawn, .width = width };
	const size_t size = w->size;

	/* md4c 0.4.8 reads beyond a text that does not end with a line's end */
	wrap_add_text(w, end, sizeof end);
	w->size = size;
	m.failed = w->failed || !size || md_parse(w->text, (MD_SIZE)size + 1, &parser, &m) ||
			   broken(&m) || !m.out.size; /* of marks alone */
	free(m.cell);
	if (m.failed) {
		wrap_free(&m.out);
		return;
	}
	while (m.out.size && m.out.text[m.out.size - 1] == '\n')
		m.out.size--;
	wrap_free(w);
	*w = m.out;
}
