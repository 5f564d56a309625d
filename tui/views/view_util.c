/* See view_util.h. */
#include "tui/views/view_util.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tui/views/views.h"

/* Numbers of base 26 without a zero. */
struct view_label view_label(int64_t request)
{
	struct view_label label = { " " };
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

int64_t view_labelled(const char *text, size_t n)
{
	int64_t request = 0;

	for (size_t i = 0; i < n; i++) {
		if (text[i] < 'a' || text[i] > 'z' || request > TL_INT_MAX / 26 - 1)
			return 0;
		request = 26 * request + text[i] - 'a' + 1;
	}
	return request;
}

enum ink view_ink(int64_t request)
{
	return request > 0 ? (enum ink)(INK_REQUEST_0 + (request - 1) % 8) : INK_DIM;
}

const struct tl_request *view_request(const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = s->request > 0 ? timeline_request(t, s->request) : NULL;

	if (!r && s->branch > 0)
		r = timeline_request(t, s->branch);
	if (!r)
		r = timeline_chat(t);
	if (!r && t->n_requests)
		r = &t->request[t->n_requests - 1];
	return r;
}

const struct tl_request *view_computing(const struct timeline *t, const struct view_state *s)
{
	const struct tl_search *q = s->request > 0 ? NULL : timeline_search(t, 0);
	const struct tl_request *r;

	for (int32_t i = 0; q && !q->over && i < q->n_members; i++) {
		r = q->member[i].ended ? NULL : timeline_request(t, q->member[i].request);
		if (r)
			return r;
	}
	return view_request(t, s);
}

int32_t view_token_index(const struct tl_request *r, const struct view_state *s)
{
	if (!r || !r->n_tokens)
		return -1;
	if (s->token < 0 || s->token >= r->n_tokens)
		return r->n_tokens - 1;
	return (int32_t)s->token;
}

const struct tl_token *view_token(const struct tl_request *r, const struct view_state *s)
{
	int32_t i = view_token_index(r, s);

	return i < 0 ? NULL : &r->token[i];
}

const struct tl_request *view_drew(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *branch = r && r->parent ? timeline_request(t, r->parent) : NULL;

	return branch && branch->kind == EV_REQUEST_KIND_search && r->kind != EV_REQUEST_KIND_search ? branch : r;
}

/* The branch that computed the same row of logits; whoever went on from it with another token has the same candidates. */
static const struct tl_token *drawn_in_branch(const struct timeline *t, const struct tl_token *k)
{
	for (int32_t i = t->n_requests; i-- > 0;) {
		const struct tl_request *r = &t->request[i];
		int64_t at = k->pos - r->n_prompt;
		const struct tl_token *found =
			r->kind == EV_REQUEST_KIND_search && at >= 0 && at < r->n_tokens ? timeline_whole(t, &r->token[at]) : NULL;

		if (found && found->hash == k->hash && found->pos == k->pos && found->n_candidates)
			return found;
	}
	return NULL;
}

const struct tl_token *view_drawn(const struct timeline *t, const struct tl_request *r, const struct view_state *s,
								  struct tl_token *buf)
{
	const struct tl_token *k = timeline_whole(t, view_token(r, s)), *drawn;
	struct tl_token told;

	if (!k || k->source != EV_SOURCE_taken || k->n_candidates)
		return k;
	told = *k;
	drawn = drawn_in_branch(t, &told);
	*buf = drawn ? *drawn : told;
	if (drawn && drawn->id != told.id) { /* its stages are those of the other one's draw */
		buf->staged = false;
		buf->p_draw = NAN;
	}
	buf->id = told.id;
	buf->p = told.p;
	buf->is_end = told.is_end;
	return buf;
}

bool view_is_chat(const struct tl_request *r)
{
	return r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork ||
		   r->kind == EV_REQUEST_KIND_run;
}

/* The next request of the conversation that has tokens and is shown, before or behind r; NULL: none. */
static const struct tl_request *chat_neighbour(const struct timeline *t, const struct view_state *s,
											   const struct tl_request *r, int direction)
{
	int64_t i = r - t->request;
	int n_left;
	bool *shown = view_shown(t, s, &n_left);

	for (i += direction; shown && i >= 0 && i < t->n_requests; i += direction)
		if (shown[i] && t->request[i].n_tokens)
			break;
	free(shown);
	return i >= 0 && i < t->n_requests ? &t->request[i] : NULL;
}

/* A fork from within an answer goes on from tokens of the request before it. */
static void walk_left(const struct timeline *t, struct view_state *s, const struct tl_request *r)
{
	int64_t at = s->token < 0 || s->token >= r->n_tokens ? r->n_tokens : s->token;

	if (at == 0 && timeline_within_answer(t, r) && r->stem.future < 0 &&
		r->stem.pos > timeline_request(t, r->stem.request)->n_prompt) {
		at = r->stem.pos;
		r = timeline_request(t, r->stem.request);
		at -= r->n_prompt;
	} else if (at == 0) {
		r = chat_neighbour(t, s, r, -1);
		if (!r)
			return;
		at = r->n_tokens;
	}
	s->request = r->id;
	s->token = at - 1;
}

/* The fork on the shown branch that leaves r behind its token at `at`; NULL: none. */
static const struct tl_request *leaves_here(const struct timeline *t, const struct view_state *s,
											const struct tl_request *r, int64_t at)
{
	const struct view_state newest = { .branch = s->branch, .token = -1 };
	const struct tl_request *f = view_request(t, &newest);

	while (f && timeline_within_answer(t, f)) {
		if (f->stem.request == r->id && f->stem.future < 0 && f->stem.pos == r->n_prompt + at + 1 && f->n_tokens)
			return f;
		f = timeline_request(t, f->stem.request);
	}
	return NULL;
}

static void walk_right(const struct timeline *t, struct view_state *s, const struct tl_request *r)
{
	const struct tl_request *fork;

	if (s->token < 0)
		return;
	fork = leaves_here(t, s, r, s->token);
	if (!fork && s->token + 1 < r->n_tokens) {
		s->token++;
		return;
	}
	r = fork ? fork : chat_neighbour(t, s, r, 1);
	s->request = r ? r->id : 0;
	s->token = r ? 0 : -1;
}

bool view_walk_tokens(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	if (key == KEY_ESC && s->token >= 0) {
		s->request = 0;
		s->token = -1;
		return true;
	}
	if (!r || (key != KEY_LEFT_ && key != KEY_RIGHT_))
		return false;
	if (key == KEY_LEFT_)
		walk_left(t, s, r);
	else
		walk_right(t, s, r);
	return true;
}

int view_queue(const struct timeline *t, const struct tl_request **out, int n)
{
	int total = 0;

	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		if (r->state != TL_WAITING && r->state != TL_PREEMPTED)
			continue;
		if (total < n)
			out[total] = r;
		total++;
	}
	return total;
}

static const char *absent(char *buf)
{
	snprintf(buf, VIEW_NUM, "–");
	return buf;
}

const char *view_count(char *buf, int64_t n)
{
	char digits[VIEW_NUM];
	size_t len, at = 0;

	if (n == EV_NULL_I)
		return absent(buf);
	len = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
	if (n < 0)
		buf[at++] = '-';
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

/* Three digits that count, with a unit. */
static const char *scaled(char *buf, double v, const char *unit)
{
	int decimals = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

	if (v < 1e9)
		snprintf(buf, VIEW_NUM, "%.*f %s", decimals, v, unit);
	else
		snprintf(buf, VIEW_NUM, "%.2g %s", v, unit);
	return buf;
}

const char *view_ns(char *buf, double ns)
{
	if (!(ns >= 0) || isinf(ns))
		return absent(buf);
	if (ns < 999500)
		snprintf(buf, VIEW_NUM, "%.0f us", ns / 1e3);
	else if (ns < 999.5e6)
		return scaled(buf, ns / 1e6, "ms");
	else if (ns < 599.5e9)
		return scaled(buf, ns / 1e9, "s");
	else
		return scaled(buf, ns / 60e9, "min");
	return buf;
}

static const char *decimal(char *buf, double v, const char *const unit[5])
{
	int i = 0;

	if (!(v >= 0) || isinf(v))
		return absent(buf);
	for (; v >= 999.5 && i < 4; i++)
		v /= 1000;
	if (!i) {
		snprintf(buf, VIEW_NUM, "%.0f %s", v, unit[0]);
		return buf;
	}
	return scaled(buf, v, unit[i]);
}

const char *view_bytes(char *buf, double bytes)
{
	static const char *const unit[] = { "B", "KB", "MB", "GB", "TB" };

	return decimal(buf, bytes, unit);
}

const char *view_rate(char *buf, double bytes_s)
{
	static const char *const unit[] = { "B/s", "KB/s", "MB/s", "GB/s", "TB/s" };

	return decimal(buf, bytes_s, unit);
}

const char *view_percent(char *buf, double part)
{
	if (!(part >= 0) || part > 1e6)
		return absent(buf);
	snprintf(buf, VIEW_NUM, "%.*f %%", part > 0 && part < 0.00995 ? 1 : 0, part * 100);
	return buf;
}

const char *view_tokens_s(char *buf, double rate)
{
	if (!(rate >= 0) || isinf(rate))
		return absent(buf);
	snprintf(buf, VIEW_NUM, "%.*f tok/s", rate < 9.95 ? 1 : 0, rate < 1e9 ? rate : 1e9);
	return buf;
}

/* What is not drawn as itself: white space, and the second form of it for terminals without UTF-8. */
static const char *white_form(const struct glyph_run *g, const char *text, bool ascii)
{
	if (g->newline)
		return "\\n";
	if (g->tab)
		return "\\t";
	if (*text == ' ')
		return ascii ? "_" : "␣";
	return NULL;
}

int view_put_token(struct pen *p, int x, int y, int w, const struct timeline *t, int32_t id)
{
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);
	bool special = id >= 0 && id < t->n_vocab && t->vocab[id].special;
	struct pen in = pen_sub(p, (struct rect){ x, y, w, 1 });
	int at = 0;

	if (!size)
		return view_put(&in, 0, 0, INK_DIM, "#%d", id);
	while (size > 0 && at < in.r.w) {
		struct glyph_run g = text_next(text, (size_t)size, p->c->ascii);
		const char *form = white_form(&g, text, p->c->ascii);
		int width = form ? text_width(form, strlen(form), p->c->ascii) : g.width;

		if (!g.used)
			break;
		if (at + width + (g.used < (size_t)size) > in.r.w) {
			at += view_put(&in, at, 0, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
			break;
		}
		in.ink = form || special ? INK_DIM : p->ink;
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
		const char *form = g.newline ? "\\n" : g.tab ? "\\t" : g.text;
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

const char *view_quote(char *buf, const struct timeline *t, int32_t id)
{
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);

	if (size)
		return view_quote_bytes(buf, text, size);
	snprintf(buf, VIEW_TOKEN, "#%d", id);
	return buf;
}

const char *view_quote_bytes(char *buf, const char *text, int32_t size)
{
	size_t n;

	buf[0] = '\'';
	n = copy_visible(buf + 1, VIEW_TOKEN - 2, text, size);
	buf[n + 1] = '\'';
	buf[n + 2] = '\0';
	return buf;
}

const char *view_word(char *buf, const struct timeline *t, int32_t id)
{
	int32_t size;
	const char *text = timeline_token_bytes(t, id, &size);

	while (size > 0 && *text == ' ')
		text++, size--;
	if (!size)
		return view_quote(buf, t, id);
	copy_visible(buf, VIEW_TOKEN, text, size);
	return buf;
}

int view_put(struct pen *p, int x, int y, enum ink ink, const char *fmt, ...)
{
	struct pen in = *p;
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	in.ink = (uint8_t)ink;
	return pen_clip(&in, x, y, p->r.w - x, line, -1);
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
	*below = *below < 0 ? 0 : *below > most ? most : *below;
	return true;
}

int32_t view_pages_held(const struct tl_request *r)
{
	int32_t n = 0;

	for (int32_t b = 0; b < r->n_pages; b++)
		n += r->pages[b] >= 0;
	return n;
}

bool view_no_attention(const struct timeline *t)
{
	return t->session.n_layers > 0 && !t->session.n_heads;
}

bool view_penalised(const struct ev_request *q)
{
	return (q->repeat_penalty > 0 && q->repeat_penalty != 1) || fabs(q->frequency_penalty) > 0 ||
		   fabs(q->presence_penalty) > 0;
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

void view_bar(struct pen *p, int x, int y, int w, double part)
{
	int n = part >= 1 ? w : part > 0 ? (int)(part * w + 0.5) : 0;

	if (part > 0 && n < 1)
		n = 1;
	for (int i = 0; i < n && i < w; i++)
		pen_spark(p, x + i, y, 0.75);
}

int view_put_label(struct pen *p, int x, int y, int64_t request)
{
	struct pen in = *p;

	in.ink = (uint8_t)view_ink(request);
	in.attr |= ATTR_BOLD;
	return pen_printf(&in, x, y, "%s", view_label(request).text);
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
	struct pen in = *p;

	in.ink = INK_DIM;
	return pen_wrap(&in, 0, 1, p->r.w, p->r.h - 1, text);
}

int view_of_digit(int key, int now)
{
	if (key == '0')
		return now >= 9 && now + 1 < VIEW_N ? now + 1 : 9;
	return key > '0' && key <= '9' ? key - '1' : -1;
}
