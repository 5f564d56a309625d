/* Reads an assistant's turn as it grows. See parts.h.
 *
 * Whatever may still turn out to be a mark is held back, so that what was told is never taken
 * back. A turn that breaks off, or does not keep to its format, is what it is so far. */
#include "engine/text/parts_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum phase {
	BEGIN,
	HEAD,
	THOUGHT,
	GAP,
	TEXT,
	OPEN,
	CALL,
	NAME,
	ARGS,
	VALUE,
	DONE,
	NEXT,
	CLOSE,
	REST
};

/* ---- parts ---- */

void parts_put(struct parts *t, struct parts_text *to, const char *text, size_t n)
{
	t->failed |= !array_text(&to->text, &to->n, &to->cap, text, n);
}

void parts_word(struct parts *t, struct parts_text *to, const char *word)
{
	parts_put(t, to, word, strlen(word));
}

enum parts_is parts_begins(const struct parts_raw *r, size_t at, const char *word)
{
	const size_t n = strlen(word), has = r->n - at < n ? r->n - at : n;

	if (memcmp(r->text + at, word, has) != 0)
		return PARTS_NOT;
	return has == n ? PARTS_WHOLE : r->last ? PARTS_NOT : PARTS_BEGUN;
}

size_t parts_find(const struct parts_raw *r, size_t from, const char *word, bool *whole)
{
	for (*whole = false; from < r->n; from++) {
		const enum parts_is is = parts_begins(r, from, word);

		*whole = is == PARTS_WHOLE;
		if (is != PARTS_NOT)
			return from;
	}
	return from;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t after_space(const struct parts_raw *r, size_t at)
{
	while (at < r->n && is_space(r->text[at]))
		at++;
	return at;
}

/* Gives the text up to a place, but for spaces at its end, which wait for what follows them. */
static void give(struct parts *t, struct parts_text *to, const struct parts_raw *r, size_t end)
{
	size_t solid = end;

	while (solid > t->at && is_space(r->text[solid - 1]))
		solid--;
	parts_put(t, to, r->text + t->at, solid - t->at);
	t->at = solid;
}

/* ---- thoughts and text ---- */

/* Each step says whether it got further. */
static bool step_begin(struct parts *t, const struct parts_raw *r)
{
	const size_t at = after_space(r, 0);
	enum parts_is is;

	if (!t->thought || t->begun || t->together) {
		t->phase = t->thought && !t->together ? HEAD : TEXT;
		return true;
	}
	is = parts_begins(r, at, t->thought->open);
	if (is == PARTS_BEGUN)
		return false;
	t->phase = is == PARTS_WHOLE ? HEAD : TEXT;
	t->at = is == PARTS_WHOLE ? at + strlen(t->thought->open) : 0;
	return true;
}

static bool step_head(struct parts *t, const struct parts_raw *r)
{
	const enum parts_is is = parts_begins(r, t->at, t->thought->head);

	if (is == PARTS_BEGUN)
		return false;
	t->at += is == PARTS_WHOLE ? strlen(t->thought->head) : 0;
	t->phase = THOUGHT;
	return true;
}

static bool step_thought(struct parts *t, const struct parts_raw *r)
{
	bool whole;
	size_t end;

	if (!t->thoughts.n)
		t->at = after_space(r, t->at);
	end = parts_find(r, t->at, t->thought->close, &whole);
	give(t, &t->thoughts, r, end);
	if (!whole)
		return false;
	t->at = end + strlen(t->thought->close);
	t->phase = GAP;
	return true;
}

static bool step_gap(struct parts *t, const struct parts_raw *r)
{
	t->at = after_space(r, t->at);
	if (t->at == r->n)
		return false;
	t->phase = TEXT;
	return true;
}

static bool step_plain(struct parts *t, const struct parts_raw *r)
{
	parts_put(t, &t->text, r->text + t->at, r->n - t->at);
	t->at = r->n;
	return false;
}

/* A text, or calls. */
static bool step_either(struct parts *t, const struct parts_raw *r)
{
	const size_t at = after_space(r, t->at);
	const enum parts_is is = parts_begins(r, at, t->calls->mark);

	if (t->text.n || is == PARTS_NOT)
		return step_plain(t, r);
	if (is == PARTS_BEGUN)
		return false;
	t->at = at;
	t->phase = OPEN;
	return true;
}

/* Spaces before calls are no text. */
static bool step_text(struct parts *t, const struct parts_raw *r)
{
	bool whole;
	size_t end;

	if (!t->calls)
		return step_plain(t, r);
	if (t->calls->first)
		return step_either(t, r);
	end = parts_find(r, t->at, t->calls->mark, &whole);
	if (!whole && r->last)
		return step_plain(t, r);
	give(t, &t->text, r, end);
	if (!whole)
		return false;
	t->at = end;
	t->phase = OPEN;
	return true;
}

/* ---- calls ---- */

/* Bytes of a mark at a place, in which PARTS_ID stands for nine; 0: not all of it has come; -1: it
 * is not there, and cannot come. */
static int mark_at(const struct parts_raw *r, size_t at, const char *mark)
{
	const size_t from = at;

	for (; *mark; mark++) {
		const size_t n = *mark == *PARTS_ID ? 9 : 1;

		if (r->n - at < n)
			return r->last ? -1 : 0;
		if (n == 1 && r->text[at] != *mark)
			return -1;
		at += n;
	}
	return (int)(at - from);
}

/* Goes over a mark that must come. */
static bool expect(struct parts *t, const struct parts_raw *r, const char *mark, enum phase then)
{
	const int n = mark_at(r, t->at, mark);

	if (n < 0)
		t->phase = REST;
	if (n < 0 || (!n && *mark))
		return n < 0;
	t->at += (size_t)n;
	t->phase = then;
	return true;
}

static bool step_call(struct parts *t, const struct parts_raw *r)
{
	if (!expect(t, r, t->calls->call, NAME))
		return false;
	if (t->phase != NAME)
		return true;
	if (!ARRAY_ROOM(t->call, t->cap_calls, t->n_calls + 1)) {
		t->failed = true;
		return false;
	}
	t->call[t->n_calls++] = (struct parts_call){ 0 };
	return true;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
		   c == '-' || c == '.';
}

/* A name that breaks off is none. */
static bool step_name(struct parts *t, const struct parts_raw *r)
{
	size_t end = t->at;

	while (end < r->n && is_name(r->text[end]))
		end++;
	if (end == r->n) {
		t->n_calls -= r->last;
		t->phase = r->last ? REST : NAME;
		return r->last;
	}
	parts_put(t, &parts_now(t)->name, r->text + t->at, end - t->at);
	t->at = end;
	t->phase = ARGS;
	return true;
}

static bool step_args(struct parts *t, const struct parts_raw *r)
{
	t->depth = 0;
	t->quoted = t->escaped = t->key = false;
	return expect(t, r, t->calls->args, VALUE);
}

static bool step_value(struct parts *t, const struct parts_raw *r)
{
	const bool whole = parts_value(t, r);

	t->phase = whole ? DONE : VALUE;
	t->n_whole += whole;
	return whole;
}

/* Another call, or the end of them. A line's end between two may be left out. */
static bool step_next(struct parts *t, const struct parts_raw *r)
{
	const char *between = t->calls->between;
	bool may_come = t->at == r->n && !r->last;
	char more[160];

	for (int skip = 0; between && skip <= (*between == '\n'); skip++) {
		snprintf(more, sizeof more, "%s%s", between + skip, t->calls->call);
		const enum parts_is is = parts_begins(r, t->at, more);

		may_come |= is != PARTS_NOT;
		if (is != PARTS_WHOLE)
			continue;
		t->at += strlen(between + skip);
		t->phase = CALL;
		return true;
	}
	t->phase = may_come ? NEXT : CLOSE;
	return !may_come;
}

static bool step(struct parts *t, const struct parts_raw *r)
{
	switch (t->phase) {
	case BEGIN: return step_begin(t, r);
	case HEAD: return step_head(t, r);
	case THOUGHT: return step_thought(t, r);
	case GAP: return step_gap(t, r);
	case TEXT: return step_text(t, r);
	case OPEN: return expect(t, r, t->calls->open, CALL);
	case CALL: return step_call(t, r);
	case NAME: return step_name(t, r);
	case ARGS: return step_args(t, r);
	case VALUE: return step_value(t, r);
	case DONE: return expect(t, r, t->calls->done, NEXT);
	case NEXT: return step_next(t, r);
	case CLOSE: return expect(t, r, t->calls->close, REST);
	default: return false; /* nothing that a client is told */
	}
}

void parts_read(struct parts *t, const char *raw, size_t n, bool last)
{
	const struct parts_raw r = { raw, n, last };

	while (!t->failed && step(t, &r))
		;
}

bool parts_in_thought(const struct parts *t)
{
	return t->phase == HEAD || t->phase == THOUGHT;
}

void parts_free(struct parts *t)
{
	for (size_t i = 0; i < t->n_calls; i++) {
		free(t->call[i].name.text);
		free(t->call[i].args.text);
	}
	free(t->call);
	free(t->thoughts.text);
	free(t->text.text);
	*t = (struct parts){ 0 };
}
