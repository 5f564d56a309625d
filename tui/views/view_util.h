/* What the views share: names and colours of requests, forms of tokens and numbers, what is in
 * focus. Thread: the UI's; no state. */
#pragma once

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/range.h"
#include "base/text.h"
#include "engine/lossy.h"
#include "fold/formulas_sheet.h"
#include "tui/views/table.h"
#include "tui/views/views.h"

enum { VIEW_TEXT = 320, VIEW_TOKEN = 96, VIEW_ASKS = 160 };

/* What a number, a token or a few words are on a screen. Functions return it by value, so that
 * view_count(n).text is an argument like any other; it lives as long as the statement. */
struct view_text {
	char text[VIEW_TEXT];
};
/* As printf's; what is too long is cut. */
struct view_text view_form(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Adds to it. */
void view_add(struct view_text *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A request's label and colour: the same in every view, live and in a replay. a … z, aa … zz, aaa
 * …: no two requests have the same; 8 colours. */
struct view_text view_label(int64_t request);
int view_label_width(int64_t request);
enum ink view_ink(int64_t request);

/* The request in focus: the chosen one, else the conversation's newest, else the newest of all.
 * NULL: none. */
const struct tl_request *view_request(const struct timeline *t, const struct view_state *s);
/* The request whose branch the conversation continues, whatever is selected. NULL: none. */
const struct tl_request *view_active(const struct timeline *t, const struct view_state *s);
/* The same for views of what is computed: while a search runs and nothing is selected, its oldest
 * running branch. */
const struct tl_request *view_computing(const struct timeline *t, const struct view_state *s);
/* The request that computed r: for a search's answer, which never ran itself, the winning branch;
 * else r. */
const struct tl_request *view_drew(const struct timeline *t, const struct tl_request *r);
/* The token under the cursor with all that is known of its draw: for a search's answer, from the
 * events of its branch; NULL: none. It is in *buf or lives until the next call of
 * timeline_whole(). */
const struct tl_token *view_drawn(const struct timeline *t, const struct tl_request *r,
	const struct view_state *s, struct tl_token *buf);
/* Index of its token in focus, -1: it has none. The end-of-turn token counts. */
int32_t view_token_index(const struct tl_request *r, const struct view_state *s);
const struct tl_token *view_token(const struct tl_request *r, const struct view_state *s);
/* Walks over the tokens of the conversation: left and right one token, from one answer to the next;
 * beyond the last one the cursor follows the newest again. True if it was such a key. */
bool view_walk_tokens(int key, const struct timeline *t, struct view_state *s);
/* For each request whether the chat shows it: the branch that the conversation continues, its
 * siblings (/fork N, /retry), running requests, and conversations before /new. Abandoned ones are
 * only counted. malloc'd. */
bool *view_shown(const struct timeline *t, const struct view_state *s, int *n_left);
/* Is it part of the conversation, which the chat shows? Background requests are not. */
bool view_is_chat(const struct tl_request *r);
/* Waiting and preempted requests, at most n; returns how many there are. In the policy's order, as
 * the log told it; then those that it has not told of, in order of arrival. */
int view_waits(const struct timeline *t, const struct tl_request **out, int n);

bool view_is_waiting(const struct tl_request *r); /* or preempted; false for NULL */
/* What the log told of its place in that order last; NULL: nothing. */
const struct ev_queued *view_queued(const struct timeline *t, int64_t request);
/* The first of the newest steps that fit so many columns. */
int32_t view_first_step(const struct timeline *t, int columns);

/* Tokens of a page, a possible number whatever a file says. */
int64_t view_page_size(const struct timeline *t);
/* Pages in a request's block table: fewer than its blocks where pages out of sight went back. */
int32_t view_pages_held(const struct tl_request *r);

/* Whether a request's settings include penalties on earlier tokens. */
bool view_penalised(const struct ev_request *q);

/* The lossy settings as they stand. */
struct lossy_settings view_lossy(const struct timeline *t);
/* The session's model has no attention at all: its layers keep recurrent states. */
bool view_no_attention(const struct timeline *t);
#define VIEW_FAR_BACK "its steps lie too far back; look back at them"
#define VIEW_NO_ATTENTION                                                                          \
	"this model has no attention: a layer reads its own state, which stands for all tokens so far"

/* Formatted numbers; what is absent is "–" ("-" in ASCII after the canvas has cleaned it). */
struct view_text view_count(int64_t n);      /* 1,024 */
struct view_text view_ns(double ns);         /* 870 us, 3.48 ms, 41 ms, 1.25 s */
struct view_text view_bytes(double bytes);   /* 1.5 MB */
struct view_text view_rate(double bytes_s);  /* 33.6 GB/s */
struct view_text view_percent(double part);  /* 86 % of 1; 0.4 % below one per cent */
struct view_text view_tokens_s(double rate); /* 287 tok/s */

/* A control token, which is no text. */
bool view_is_special(const struct timeline *t, int32_t id);
/* Adds a token to a text of `used` bytes for one line: control tokens are left out, line breaks are
 * spaces. Returns the bytes used then. */
size_t view_add_token(const struct timeline *t, int32_t id, char *out, size_t cap, size_t used);
/* A token in readable form, on one line: the space before a word as ␣ ("_"), line breaks as \n; dim
 * where it is not the text itself, and control tokens by their names. Clipped to w columns; returns
 * the columns used. */
int view_put_token(struct pen *p, int x, int y, int w, const struct timeline *t, int32_t id);
/* The same in quotes for a sentence: ' gas', '\n'. Less than VIEW_TOKEN bytes. */
struct view_text view_quote(const struct timeline *t, int32_t id);
/* The same of any bytes. */
struct view_text view_quote_bytes(const char *text, int32_t size);
/* Without the spaces before it, for lists of words; a token of nothing but spaces is quoted. */
struct view_text view_word(const struct timeline *t, int32_t id);

/* Keys of a list that is shown from its end: *below is the number of lines below the last one
 * shown, 0 … most. */
bool view_scroll(int key, int64_t *below, int page, int64_t most);
/* Pieces of drawing, which leave the pen as it was. They return the columns used. */
/* A text cut to w columns. */
int view_clip(struct pen *p, int x, int y, int w, enum ink ink, const char *text);
int view_put(struct pen *p, int x, int y, enum ink ink, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The same in several inks: each IN_x in the form, or in what is put into it, begins one. (So a
 * name in a foreign recording may choose among these three.) */
int view_say(struct pen *p, int x, int y, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
#define IN_TEXT "\1" /* 1 more than INK_TEXT, … */
#define IN_BRIGHT "\2"
#define IN_DIM "\3"
int view_put_right(struct pen *p, int x, int y, enum ink ink, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* A bar of `part` (0 … 1) of w columns, lower than the line, so that bars one above the other stay
 * apart. A part above 0 is at least one cell. */
void view_bar(struct pen *p, int x, int y, int w, enum ink ink, double part);
/* A bar of `part` cells from the bottom of rows y … y + rows - 1 up; at least an eighth if above 0.
 */
void view_stack(struct pen *p, int x, int y, int rows, enum ink ink, double part);
/* One cell of it. */
void view_spark(struct pen *p, int x, int y, enum ink ink, double part);
/* What a request asks, on one line: a client's with its name before. Into buf, or its text. */
const char *view_asks(const struct tl_request *r, char *buf, size_t cap);
/* Label of a request in its colour, bold. Returns the columns used. */
int view_put_label(struct pen *p, int x, int y, int64_t request);
/* Where a row of a tree stands; the rest follows from the rows below it. */
struct view_rail {
	int depth;     /* below 64 */
	bool straight; /* it only goes on from the row above, in its column */
	bool last;     /* of its parent's children */
	uint64_t open; /* bit d: a line goes on at depth d */
};
/* From the last row up, with what it returned for the row below; 0 for the last one. */
uint64_t view_rail(struct view_rail *r, uint64_t below);
/* The lines of the tree before a row, 3 columns a level, up to column `end`. Returns the column
 * where they end. */
int view_rails(struct pen *p, int x, int y, int end, const struct view_rail *r);
/* The cursor in a list: the whole row reversed, in one colour. */
void view_mark_row(struct pen *p, int y);
/* Whether w columns of a line, relative to the pen, were clicked; once. */
bool view_clicked(struct view_state *s, const struct pen *p, int x, int y, int w);
/* pen_head with the figure as printf's. */
void view_head(struct pen *p, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Dim, below the head of an empty view: what would fill it, by which command. The canvas knows it
 * then. Returns the lines used. */
int view_nothing(struct pen *p, const char *text);
/* The same with the head, which has no figure then. */
void view_empty(struct pen *p, const char *name, const char *text);

/* Heat: a share of attention as amber, on one fixed scale for all views, so that equal colours mean
 * equal shares and a page's colour does not depend on other pages. */
#define VIEW_HEAT_FULL 0.3

/* 0 … 1. The brightest amber stands for three tenths of a row's attention and more. The scale is
 * not linear, because most pages get a few hundredths and would all look black. NaN: no heat. */
static inline double view_heat(double share)
{
	double heat = share > 0 ? pow(share / VIEW_HEAT_FULL, 0.75) : 0;

	return heat < 1 ? heat : 1;
}

static inline enum ink view_heat_ink(double share)
{
	return (enum ink)(INK_HEAT_0 + (int)(15 * view_heat(share) + 0.5));
}

/* What the views show of a session whose answers are another server's. */

/* Draws a view, or, where the server of the session tells nothing of what it shows, that. */
void view_draw(int view, struct pen *p, const struct timeline *t, struct view_state *s);
/* Views of which such a server tells nothing: bit i for view i. */
uint64_t view_unreported(const struct timeline *t);
/* The server's slots and queue, with the head of the view "batch". Returns the line after them. */
int view_attached_slots(struct pen *p, const struct timeline *t);
/* Its KV cache and prefix cache as sums, with the head of the view "KV pages". */
void view_attached_cache(struct pen *p, const struct timeline *t);

/* What a lesson does to the screen besides its own view. */

/* A cursor that asks for what is new from its beginning, where the end would not show all of it. */
enum { VIEW_LESSON_NEWEST = 1 << 20 };

/* The view that it looks at, the texts in it that it points at, one a line, and whether it wants
 * the whole run in it. -1: none. */
int view_lesson_look(const struct timeline *t, char *text, size_t cap, bool *all);
/* Underlines these texts where they stand in the pen's rectangle. */
void view_lesson_point(struct pen *p, const char *text);

/* view_pages_map.c: the map of the pool of KV pages. */

/* cursor[VIEW_PAGES]: PAGES_ROW times the pages per row of the last drawing, plus which pages it
 * left out. */
enum { PAGES_ROW = 4 };

bool page_is_free(const struct tl_page *p);
/* The i-th newest event of the page's history, from 0; NULL: not kept. */
const struct tl_page_event *page_history(const struct tl_page *p, int i);

/* Draws the map over the whole pen, with the page `shown` marked (-1: none). cursor[VIEW_PAGES] and
 * scroll[VIEW_PAGES] are its own. Returns the rows used. */
int pages_map_draw(struct pen *p, const struct timeline *t, struct view_state *s, int32_t shown);
/* Rows that the map needs on w columns for the pages up to the last one in use. */
int pages_map_least(const struct timeline *t, int w);
/* The page `by` pages on from `at` (-1: before the first) in the map that was drawn last; it ends
 * where the map does. */
int64_t pages_map_on(const struct timeline *t, const struct view_state *s, int64_t at, int64_t by);

/* Parts of the view "ranks". */

/* Whether any rank told what it did when. */
bool view_ranks_have_lanes(const struct timeline *t);
/* Lines that n of them take, each `rows` high, with legend and axis. */
int view_ranks_lanes_lines(int n, int rows);
/* n ranks from `first` on, from line y on. */
void view_ranks_lanes(struct pen *p, int y, const struct timeline *t, int first, int n, int rows);

/* The table of requests and each of them over time, which the views "requests" and "batch" show. */
enum { VIEW_TABLE_HEAD = 2 };

/* Columns of the labels at the left of both. */
int view_requests_indent(const struct timeline *t);
/* What a request does or how it ended, in a word or two. */
struct view_text view_requests_state(const struct timeline *t, const struct tl_request *r);
/* From row y on: the table, and where the view fills the screen and there is room, the time. */
void view_requests_draw(struct pen *p, const struct timeline *t, struct view_state *s, int y);
/* Keys that choose a request. */
bool view_requests_key(int key, const struct timeline *t, struct view_state *s);
/* The requests of the busy period of the chosen one over time, from row y to the end of the pen; x:
 * width of their labels. */
void view_requests_gantt(
	struct pen *p, const struct timeline *t, const struct tl_request *chosen, int x, int y);

/* Numbers of a sheet of formulas as text: for the view and for `cutaway formulas`. */

/* What is absent is "–". */
struct view_text view_formula_number(enum formula_unit unit, double value);
/* What the letters in the formulas stand for. */
extern const char view_formula_letters[];
