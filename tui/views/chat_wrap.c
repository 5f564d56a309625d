/* See chat_turn.h. Greedy wrapping over graphemes; a line breaks after blanks, and on either side
 * of wide characters. */
#include "tui/views/chat_turn.h"

#include "base/array.h"
#include "engine/text/parts.h"

void wrap_free(struct wrap *w)
{
	free(w->text);
	free(w->owner);
	free(w->style);
	free(w->line);
	*w = (struct wrap){ 0 };
}

/* One of the arrays, grown to cap bytes of each size; NULL stays NULL unless it is wanted. */
static void grow(struct wrap *w, void *array, bool wanted, size_t bytes)
{
	void **at = array, *grown = wanted ? realloc(*at, bytes) : *at;

	w->failed |= wanted && !grown;
	*at = grown ? grown : *at;
}

static bool reserve(struct wrap *w, size_t more, bool owned, bool styled)
{
	size_t cap = w->cap ? w->cap : 256;

	while (cap < w->size + more)
		cap *= 2;
	if (cap == w->cap)
		return true;
	grow(w, &w->text, true, cap);
	grow(w, &w->owner, owned, cap * sizeof *w->owner);
	grow(w, &w->style, styled, cap);
	w->cap = w->failed ? w->cap : cap;
	return !w->failed;
}

static void add(struct wrap *w, const char *text, size_t size, int32_t owner)
{
	if (w->failed || !size || !reserve(w, size, owner != WRAP_NOBODY || w->owner, w->style))
		return;
	memcpy(w->text + w->size, text, size);
	for (size_t i = 0; owner != WRAP_NOBODY && i < size; i++)
		w->owner[w->size + i] = owner;
	w->size += size;
}

void wrap_add_styled(
	struct wrap *w, const char *text, size_t size, const int32_t *owner, uint8_t style)
{
	if (w->failed || !size || !reserve(w, size, true, true))
		return;
	memcpy(w->text + w->size, text, size);
	memset(w->style + w->size, style, size);
	for (size_t i = 0; i < size; i++)
		w->owner[w->size + i] = owner ? owner[i] : WRAP_NOBODY;
	w->size += size;
}

void wrap_add_piece(struct wrap *w, const struct wrap *from, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++)
		wrap_add_styled(w, from->text + i, 1, from->owner + i, from->style[i]);
}

static void wrap_drop(struct wrap *w, size_t size)
{
	w->size -= size;
	memmove(w->text, w->text + size, w->size);
	if (w->owner)
		memmove(w->owner, w->owner + size, w->size * sizeof *w->owner);
	if (w->style)
		memmove(w->style, w->style + size, w->size);
}

void wrap_add_text(struct wrap *w, const char *text, size_t size)
{
	add(w, text, size, WRAP_NOBODY);
}

/* Bytes at the end that begin a character without ending it. */
static size_t unfinished(const char *text, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char c = (unsigned char)text[size - back];

		if ((c & 0xc0) == 0x80)
			continue;
		return (c >= 0xf0 && back < 4) || (c >= 0xe0 && back < 3) || (c >= 0xc0 && back < 2) ? back
																							 : 0;
	}
	return 0;
}

void wrap_add_given(
	struct wrap *w, const struct timeline *t, const struct tl_request *r, int32_t open)
{
	for (int32_t i = open; i < r->n_prompt; i++) {
		int32_t size;
		const char *bytes = timeline_token_bytes(t, r->prompt[i], &size);

		add(w, bytes, (size_t)size, WRAP_GIVEN - i);
	}
}

void wrap_add_tokens(struct wrap *w, const struct timeline *t, const struct tl_request *r)
{
	for (int32_t i = 0; i < r->n_tokens; i++) {
		int32_t size;
		const char *bytes = timeline_token_bytes(t, r->token[i].id, &size);

		if (!r->token[i].is_end)
			add(w, bytes, (size_t)size, i);
	}
	if (!r->finished)
		w->size -= unfinished(w->text, w->size);
}

static bool line_end(struct wrap *w, size_t from, size_t to, int indent)
{
	if (!ARRAY_ROOM(w->line, w->cap_lines, w->n_lines + 1)) {
		w->failed = true;
		return false;
	}
	w->line[w->n_lines++] = (struct wrap_line){ from, to, indent };
	return true;
}

/* Columns before the text of a line: of blanks, and of a bullet or a number. A line that goes on
 * begins below it. */
static int hang_of(const struct wrap *w, size_t at, int width)
{
	static const char *const bullet[] = { "• ", "- ", "* ", "│ ", "| " };
	const size_t begin = at;
	size_t digits = 0, odd = 0; /* odd: bytes beyond one a column */

	for (; at < w->size && w->text[at] == ' '; at++)
		;
	for (size_t i = 0; i < sizeof bullet / sizeof *bullet; i++)
		if (w->size - at > strlen(bullet[i]) &&
			!memcmp(w->text + at, bullet[i], strlen(bullet[i]))) {
			at += strlen(bullet[i]);
			odd = strlen(bullet[i]) - 2;
			break;
		}
	while (at + digits < w->size && w->text[at + digits] >= '0' && w->text[at + digits] <= '9')
		digits++;
	if (digits && digits < 4 && at + digits + 1 < w->size &&
		!memcmp(w->text + at + digits, ". ", 2))
		at += digits + 2;
	return (int)(at - begin - odd) <= width / 2 ? (int)(at - begin - odd) : 0;
}

/* The run at an offset. Most text is plain ASCII with nothing combining after it, and is not looked
 * up. */
static struct glyph_run run_at(const struct wrap *w, size_t at, bool ascii)
{
	unsigned char c = (unsigned char)w->text[at];
	unsigned char next = at + 1 < w->size ? (unsigned char)w->text[at + 1] : 0;

	if (c >= 0x20 && c < 0x7f && next < 0x80)
		return (struct glyph_run){ .width = 1, .used = 1 };
	return text_next(w->text + at, w->size - at, ascii);
}

void wrap_lines(struct wrap *w, int width, bool ascii)
{
	size_t from = 0, at = 0, brk = 0; /* brk: where the line may end; from: nowhere yet */
	int x = 0, x_brk = 0;             /* columns up to at, and up to brk */
	int hang = hang_of(w, 0, width), indent = 0; /* of lines that go on; of this one */

	w->n_lines = 0;
	while (at < w->size) {
		struct glyph_run g = run_at(w, at, ascii);
		bool blank = g.tab || w->text[at] == ' ';
		int cols = g.newline ? 0 : at_least(g.width, 1);

		if (!g.used)
			break;
		/* blanks may extend beyond the edge; anything else goes to the next line, with its whole
		 * word if there is one */
		if (!blank && x + cols > width && at > from) {
			size_t to = brk > from ? brk : at;

			if (!line_end(w, from, to, indent))
				return;
			x = (brk > from ? x - x_brk : 0) + (indent = hang);
			from = brk = to;
		}
		if (cols == 2 && at > from)
			brk = at, x_brk = x;
		at += g.used, x += cols;
		if (blank || cols == 2)
			brk = at, x_brk = x;
		if (g.newline) {
			if (!line_end(w, from, at, indent))
				return;
			from = brk = at;
			x = x_brk = indent = 0;
			hang = hang_of(w, at, width);
		}
	}
	if (at > from)
		line_end(w, from, at, indent);
}

int32_t wrap_find(const struct wrap *w, int32_t owner)
{
	for (int32_t i = 0; w->owner && i < w->n_lines; i++)
		for (size_t b = w->line[i].from; b < w->line[i].to; b++)
			if (owner >= 0 ? w->owner[b] >= owner : w->owner[b] <= owner)
				return i;
	return -1;
}

/* --- the thought of an answer --- */

/* The end of the prompt before position `open`. */
static size_t prompt_tail(
	const struct timeline *t, const struct tl_request *r, int32_t open, char text[PARTS_TAIL])
{
	size_t from = PARTS_TAIL;

	for (int32_t i = at_most(open, r->n_prompt); i > 0; i--) {
		int32_t size;
		const char *bytes = timeline_token_bytes(t, r->prompt[i - 1], &size);

		if ((size_t)size > from)
			break;
		from -= (size_t)size;
		memcpy(text + from, bytes, (size_t)size);
	}
	memmove(text, text + from, PARTS_TAIL - from);
	return PARTS_TAIL - from;
}

/* Of the answer's first tokens, from when it was asked for. */
static int64_t time_of(const struct tl_request *r, int32_t tokens)
{
	int64_t ns = 0;

	for (int32_t i = 0; i < tokens && i < r->n_tokens; i++)
		ns += at_least(r->token[i].ns, 0);
	return ns;
}

/* tokens: of the thought; whole: it has ended. */
static struct view_text tell(const struct tl_request *r, int32_t open, int32_t tokens, bool whole)
{
	const int32_t given = r->n_prompt - open;
	const int64_t spent = time_of(r, tokens - given);

	if (whole)
		return view_form("thought: %s of %s tokens%s (/thoughts)", view_count(tokens).text,
			view_count(given + r->n_tokens).text,
			spent > 0 ? view_form(", %s of %s", view_ns((double)spent).text,
							view_ns((double)time_of(r, r->n_tokens)).text)
							.text
					  : "");
	return view_form("%s: %s tokens%s%s (/thoughts)",
		r->finished ? "a thought without end" : "thinking", view_count(tokens).text,
		spent > 0 ? ", " : "", spent > 0 ? view_ns((double)spent).text : "");
}

void thought_fold(struct wrap *w, const struct timeline *t, const struct tl_request *r,
	int32_t open, struct view_text *words)
{
	char prompt[PARTS_TAIL];
	const size_t n = prompt_tail(t, r, open, prompt);
	const struct parts_thought *h = parts_thought_in(prompt, n, w->text, w->size);
	const char *close;
	size_t end = w->size;
	int32_t tokens;

	if (!h || !w->owner || !w->size)
		return;
	close = memmem(w->text, w->size, h->close, strlen(h->close));
	if (close)
		end = (size_t)(close - w->text) + strlen(h->close);
	tokens = w->owner[end - 1] <= WRAP_GIVEN ? WRAP_GIVEN - w->owner[end - 1] - open + 1
											 : r->n_prompt - open + w->owner[end - 1] + 1;
	*words = tell(r, open, tokens, close);
	while (end < w->size && strchr(" \n", w->text[end]))
		end++;
	wrap_drop(w, end);
}
