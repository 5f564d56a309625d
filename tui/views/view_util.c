/* See view_util.h. */
#include "tui/views/view_util.h"

#include <stdarg.h>

void view_add(struct view_text *to, const char *fmt, ...)
{
	const size_t n = strlen(to->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(to->text + n, sizeof to->text - n, fmt, ap);
	va_end(ap);
}

struct view_text view_form(const char *fmt, ...)
{
	struct view_text out;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out.text, sizeof out.text, fmt, ap);
	va_end(ap);
	return out;
}

/* Numbers of base 26 without a zero. */
struct view_text view_label(int64_t request)
{
	struct view_text label = { " " };
	int n = view_label_width(request);

	for (int i = n; request > 0 && i-- > 0; request = (request - 1) / 26)
		label.text[i] = (char)('a' + (request - 1) % 26);
	label.text[n] = '\0';
	return label;
}

int view_label_width(int64_t request)
{
	int n = 1;

	for (; request > 26; request = (request - 1) / 26)
		n++;
	return n;
}

enum ink view_ink(int64_t request)
{
	return request > 0 ? (enum ink)(INK_REQUEST_0 + (request - 1) % 8) : INK_DIM;
}

static const struct view_text absent = { "–" };

struct view_text view_count(int64_t n)
{
	const struct view_text digits = view_form("%" PRIu64, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
	const size_t len = strlen(digits.text);
	struct view_text out = { "" };
	size_t at = 0;

	if (n == EV_NULL_I)
		return absent;
	if (n < 0)
		out.text[at++] = '-';
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out.text[at++] = ',';
		out.text[at++] = digits.text[i];
	}
	return out;
}

/* Three significant digits, with a unit. */
static struct view_text scaled(double v, const char *unit)
{
	return v < 1e9 ? view_form("%.*f %s",
						 v < 9.995   ? 2
						 : v < 99.95 ? 1
									 : 0,
						 v, unit)
				   : view_form("%.2g %s", v, unit);
}

struct view_text view_ns(double ns)
{
	if (!(ns >= 0) || isinf(ns))
		return absent;
	if (ns < 999500)
		return view_form("%.0f µs", ns / 1e3);
	return ns < 999.5e6   ? scaled(ns / 1e6, "ms")
		   : ns < 599.5e9 ? scaled(ns / 1e9, "s")
						  : scaled(ns / 60e9, "min");
}

static struct view_text decimal(double v, const char *const unit[5])
{
	int i = 0;

	if (!(v >= 0) || isinf(v))
		return absent;
	for (; v >= 999.5 && i < 4; i++)
		v /= 1000;
	return i ? scaled(v, unit[i]) : view_form("%.0f %s", v, unit[0]);
}

struct view_text view_bytes(double bytes)
{
	static const char *const unit[] = { "B", "KB", "MB", "GB", "TB" };

	return decimal(bytes, unit);
}

struct view_text view_rate(double bytes_s)
{
	static const char *const unit[] = { "B/s", "KB/s", "MB/s", "GB/s", "TB/s" };

	return decimal(bytes_s, unit);
}

struct view_text view_percent(double part)
{
	if (!(part >= 0) || part > 1e6)
		return absent;
	return view_form("%.*f %%", part > 0 && part < 0.00995 ? 1 : 0, part * 100);
}

struct view_text view_tokens_s(double rate)
{
	if (!(rate >= 0) || isinf(rate))
		return absent;
	return view_form("%.*f tok/s", rate < 9.95 ? 1 : 0, fmin(rate, 1e9));
}

/* Visible forms of white space and, in hex [8], of a byte that is only a part of a character. */
static const char *visible_form(
	const struct glyph_run *g, const char *text, bool ascii, char hex[8])
{
	if (g->used == 1 && !text_is_utf8(text, 1)) {
		snprintf(hex, 8, "<%02X>", (unsigned char)*text);
		return hex;
	}
	if (g->newline)
		return "\\n";
	if (g->tab)
		return "\\t";
	if (*text == ' ')
		return ascii ? "_" : "␣";
	return NULL;
}

bool view_is_special(const struct timeline *t, int32_t id)
{
	return is_index(id, t->n_vocab) && t->vocab[id].special;
}

size_t view_add_token(const struct timeline *t, int32_t id, char *out, size_t cap, size_t used)
{
	int32_t size;
	const char *bytes = timeline_token_bytes(t, id, &size);

	for (int32_t k = 0; !view_is_special(t, id) && k < size && used + 1 < cap; k++)
		out[used++] = bytes[k] == '\n' ? ' ' : bytes[k];
	out[used] = '\0';
	return used;
}

int view_put_token(struct pen *p, int x, int y, int w, const struct timeline *t, int32_t id)
{
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);

	struct pen in = pen_sub(p, (struct rect){ x, y, w, 1 });
	int at = 0;

	if (!size)
		return view_put(&in, 0, 0, INK_DIM, "#%d", id);
	while (size > 0 && at < in.r.w) {
		struct glyph_run g = text_next(text, (size_t)size, p->c->ascii);
		char hex[8];
		const char *form = visible_form(&g, text, p->c->ascii, hex);
		int width = form ? text_width(form, strlen(form), p->c->ascii) : g.width;

		if (!g.used)
			break;
		if (at + width + (g.used < (size_t)size) > in.r.w) {
			at += view_put(&in, at, 0, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
			break;
		}
		in.ink = form || view_is_special(t, id) ? INK_DIM : p->ink;
		at += form ? pen_text(&in, at, 0, form, -1) : pen_text(&in, at, 0, text, (long)g.used);
		text += g.used;
		size -= (int32_t)g.used;
	}
	return at;
}

/* Copies text up to a bound, white space in its visible form, never a part of a grapheme. */
static size_t copy_visible(char *buf, size_t cap, const char *text, int32_t size)
{
	size_t n = 0;

	while (size > 0) {
		struct glyph_run g = text_next(text, (size_t)size, false);
		char hex[8];
		const char *white = *text == ' ' ? NULL : visible_form(&g, text, false, hex);
		const char *form = white ? white : g.text;
		size_t len = strlen(form);

		if (!g.used || n + len + 4 >= cap)
			break;
		memcpy(buf + n, form, len);
		n += len;
		text += g.used;
		size -= (int32_t)g.used;
	}
	if (size > 0 && n + 4 < cap) {
		memcpy(buf + n, "…", strlen("…"));
		n += strlen("…");
	}
	buf[n] = '\0';
	return n;
}

struct view_text view_quote(const struct timeline *t, int32_t id)
{
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);

	return size ? view_quote_bytes(text, size) : view_form("#%d", id);
}

struct view_text view_quote_bytes(const char *text, int32_t size)
{
	struct view_text out = { "'" };
	const size_t n = copy_visible(out.text + 1, VIEW_TOKEN - 2, text, size);

	strcpy(out.text + 1 + n, "'");
	return out;
}

struct view_text view_word(const struct timeline *t, int32_t id)
{
	struct view_text out;
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);

	while (size > 0 && *text == ' ')
		text++, size--;
	if (!size)
		return view_quote(t, id);
	copy_visible(out.text, VIEW_TOKEN, text, size);
	return out;
}

int view_put(struct pen *p, int x, int y, enum ink ink, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	return view_clip(p, x, y, p->r.w - x, ink, line);
}

int view_say(struct pen *p, int x, int y, const char *fmt, ...)
{
	static const char marks[] = IN_TEXT IN_BRIGHT IN_DIM;
	struct pen in = *p;
	char line[1024];
	const int from = x;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	for (const char *at = line; *at; at += strcspn(at, marks)) {
		while (*at && strchr(marks, *at))
			in.ink = (uint8_t)(*at++ - 1);
		x += pen_clip(&in, x, y, in.r.w - x, at, (long)strcspn(at, marks));
	}
	return x - from;
}

bool view_scroll(int key, int64_t *below, int page, int64_t most)
{
	switch (key) {
	case KEY_UP_: *below += 1; break;
	case KEY_DOWN_: *below -= 1; break;
	case KEY_PAGE_UP: *below += page; break;
	case KEY_PAGE_DOWN: *below -= page; break;
	case KEY_HOME_: *below = most; break;
	case KEY_END_: *below = 0; break;
	default: return false;
	}
	*below = within(*below, 0, most);
	return true;
}

int view_put_right(struct pen *p, int x, int y, enum ink ink, const char *fmt, ...)
{
	struct pen in = *p;
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	in.ink = (uint8_t)ink;
	return pen_right(&in, x, y, "%s", line);
}

int view_clip(struct pen *p, int x, int y, int w, enum ink ink, const char *text)
{
	struct pen in = *p;

	in.ink = (uint8_t)ink;
	return pen_clip(&in, x, y, w, text, -1);
}

void view_spark(struct pen *p, int x, int y, enum ink ink, double part)
{
	struct pen in = *p;

	in.ink = (uint8_t)ink;
	pen_spark(&in, x, y, part);
}

void view_bar(struct pen *p, int x, int y, int w, enum ink ink, double part)
{
	int n = part >= 1 ? w : part > 0 ? (int)(part * w + 0.5) : 0;

	if (part > 0 && n < 1)
		n = 1;
	for (int i = 0; i < n && i < w; i++)
		view_spark(p, x + i, y, ink, 0.75);
}

void view_stack(struct pen *p, int x, int y, int rows, enum ink ink, double part)
{
	for (int row = rows; row-- > 0 && part > 0; part -= 1)
		view_spark(p, x, y + row, ink, part > 1 ? 1 : part < 0.125 ? 0.125 : part);
}

const char *view_asks(const struct tl_request *r, char *buf, size_t cap)
{
	if (r->kind != EV_REQUEST_KIND_served || !r->user || !*r->user)
		return r->text ? r->text : "";
	snprintf(buf, cap, "%s: %s", r->user, r->text ? r->text : "");
	return buf;
}

int view_put_label(struct pen *p, int x, int y, int64_t request)
{
	struct pen in = *p;

	in.ink = (uint8_t)view_ink(request);
	in.attr |= ATTR_BOLD;
	return pen_printf(&in, x, y, "%s", view_label(request).text);
}

uint64_t view_rail(struct view_rail *r, uint64_t below)
{
	const uint64_t here = (uint64_t)1 << r->depth;

	r->last = !(below & here);
	r->open = below & (2 * here - 1);
	return r->straight ? r->open : r->open | here;
}

int view_rails(struct pen *p, int x, int y, int end, const struct view_rail *r)
{
	for (int d = 1; d <= r->depth && x + 3 < end; d++, x += 3) {
		if (d == r->depth && !r->straight)
			view_put(
				p, x, y, INK_RULE, "%s", glyph(p->c, r->last ? GLYPH_TREE_END : GLYPH_TREE_MID));
		else if (r->open >> d & 1)
			view_put(p, x, y, INK_RULE, "%s", glyph(p->c, GLYPH_TREE_DOWN));
	}
	return x;
}

bool view_clicked(struct view_state *s, const struct pen *p, int x, int y, int w)
{
	const int at = s->click.x - p->r.x - x;

	if (!s->click.on || s->click.y != p->r.y + y || y >= p->r.h || !is_index(at, w))
		return false;
	s->click.on = false;
	return true;
}

void view_mark_row(struct pen *p, int y)
{
	struct pen row = pen_sub(p, (struct rect){ 0, y, p->r.w, 1 });

	for (int x = 0; row.r.h && x < row.r.w; x++) {
		struct cell *cell = &p->c->cell[row.r.y * p->c->w + row.r.x + x];

		cell->ink = INK_BRIGHT;
		cell->attr |= ATTR_REVERSE;
	}
}

int view_nothing(struct pen *p, const char *text)
{
	const char *open = strchr(text, '`'), *close = open ? strchr(open + 1, '`') : NULL;
	struct pen in = *p;
	char words[512];

	in.ink = INK_DIM;
	p->c->nothing = true;
	if (close) {
		const int n = (int)(close - open) - 1;

		snprintf(p->c->offer, sizeof p->c->offer, "%.*s", n, open + 1);
		snprintf(
			words, sizeof words, "%.*s%.*s%s", (int)(open - text), text, n, open + 1, close + 1);
	}
	return pen_wrap(&in, 0, 1, p->r.w, p->r.h - 1, close ? words : text);
}

void view_head(struct pen *p, const char *name, const char *fmt, ...)
{
	char figure[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(figure, sizeof figure, fmt, ap);
	va_end(ap);
	pen_head(p, name, figure);
}

void view_empty(struct pen *p, const char *name, const char *text)
{
	pen_head(p, name, NULL);
	view_nothing(p, text);
}

int view_by_id(const char *id)
{
	int v = VIEW_N;

	while (v-- > 0 && strcmp(views[v]->id, id) != 0)
		;
	return v;
}

int view_of_digit(int key, int now)
{
	if (key == '0')
		return now >= 9 && now + 1 < VIEW_N ? now + 1 : 9;
	return key > '0' && key <= '9' ? key - '1' : -1;
}
