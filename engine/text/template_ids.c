/* The text and the ids of a conversation. See template.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/array.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/text/jinja/jinja.h"
#include "engine/text/template.h"

/* ---- the text ---- */

/* Bytes that the template is not to see are written as characters of their own, U+10FE00 and on (of
 * private use), and are bytes again in what it made: those that are no UTF-8, which no string of
 * Jinja has; such characters themselves; and the first character of each control token that a
 * message spells out, so that it stays text. */
enum { HIDDEN = 0x10fe00, HIDDEN_BYTES = 4 };

static void hide(FILE *f, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const unsigned char b = (unsigned char)text[i];

		fprintf(f, "\xf4\x8f%c%c", 0xb8 | b >> 6, 0x80 | (b & 0x3f));
	}
}

static bool is_hidden(const char *text, size_t size)
{
	return size >= HIDDEN_BYTES && !memcmp(text, "\xf4\x8f", 2) &&
		   ((unsigned char)text[2] & 0xfc) == 0xb8;
}

/* In place; returns the size. */
static size_t reveal(char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; n++)
		if (is_hidden(text + i, size - i)) {
			text[n] =
				(char)(((unsigned char)text[i + 2] & 3) << 6 | ((unsigned char)text[i + 3] & 0x3f));
			i += HIDDEN_BYTES;
		} else {
			text[n] = text[i++];
		}
	return n;
}

/* Bytes at the beginning that a string of Jinja holds as they are. */
static size_t plain_bytes(const char *text, size_t size)
{
	utf8proc_int32_t c;
	size_t n = 0;

	while (n < size) {
		const utf8proc_ssize_t used =
			utf8proc_iterate((const utf8proc_uint8_t *)text + n, (utf8proc_ssize_t)(size - n), &c);

		if (used < 1 || (c >= HIDDEN && c < HIDDEN + 256))
			break;
		n += (size_t)used;
	}
	return n;
}

static void write_plain(FILE *f, const char *text, size_t size)
{
	for (;;) {
		const size_t n = plain_bytes(text, size);

		fwrite(text, 1, n, f);
		if (n == size)
			return;
		hide(f, text + n, 1);
		text += n + 1;
		size -= n + 1;
	}
}

/* The first control token that the text spells: its id, or -1. A user-defined one is a token
 * wherever it stands. */
static int32_t find_control(
	const struct tokenizer *t, const char *text, size_t size, size_t *at, size_t *used)
{
	int32_t id;

	for (size_t from = 0;; from = *at + *used) {
		id = tokenizer_find_special(t, text + from, size - from, at, used);
		*at += from;
		if (id < 0 || tokenizer_is_special(t, id))
			return id;
	}
}

/* Messages as they are written for the template. */
struct writer {
	const struct chat_input *of;
	bool spelled; /* the control tokens of texts are hidden */
	bool answers; /* also those of the answers that a client sends */
	int n_spelled;
	FILE *f;
};

/* Bytes of the first character. */
static size_t first_of(const char *text, size_t size)
{
	size_t n = 1;

	while (n < size && ((unsigned char)text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

static void write_text(struct writer *w, const char *text, size_t size, bool hidden)
{
	size_t at, used, n;

	while (find_control(w->of->t, text, size, &at, &used) >= 0) {
		n = first_of(text + at, size - at);
		write_plain(w->f, text, at);
		if (hidden)
			hide(w->f, text + at, n);
		else
			fwrite(text + at, 1, n, w->f);
		text += at + n;
		size -= at + n;
		w->n_spelled++;
	}
	write_plain(w->f, text, size);
}

/* Control tokens that were drawn are themselves, those that text tokens spell are text. */
static void write_drawn(struct writer *w, const struct chat_message *m)
{
	const int32_t *ids = m->ids;
	const size_t n = m->n_ids;
	const struct tokenizer *t = w->of->t;

	for (size_t i = 0, to; i < n; i = to) {
		char *run = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&run, &size);

		for (to = i; f && to < n && !tokenizer_is_special(t, ids[to]); to++) {
			const struct gguf_text b = to > i || (!to && m->after_text)
										   ? tokenizer_bytes(t, ids[to])
										   : tokenizer_first_bytes(t, ids[to]);
			fwrite(b.data, 1, b.size, f);
		}
		if (f && !fclose(f))
			write_text(w, run, size, w->spelled);
		free(run);
		if (to < n) {
			const struct gguf_text b = tokenizer_bytes(t, ids[to++]);
			fwrite(b.data, 1, b.size, w->f);
		}
	}
}

/* The messages as JSON, malloc'd. */
static char *messages_json(struct writer *w, size_t *size)
{
	struct json j = { 0 };

	json_array(&j, NULL);
	for (size_t i = 0; i < w->of->n; i++) {
		const struct chat_message *m = &w->of->message[i];
		char *text = NULL;
		size_t n = 0;

		w->f = open_memstream(&text, &n);
		if (w->f && m->ids)
			write_drawn(w, m);
		else if (w->f)
			write_text(
				w, m->text, m->size, w->spelled && (w->answers || strcmp(m->role, "assistant")));
		j.failed |= !w->f || fclose(w->f);
		json_object(&j, NULL);
		json_text(&j, "role", m->role);
		json_bytes(&j, "content", text ? text : "", text ? n : 0);
		json_end(&j);
		free(text);
	}
	return json_take(&j, size);
}

static int set_token(
	struct jinja *j, const struct chat_input *of, const char *name, int32_t id, struct err *e)
{
	struct json text = { 0 };
	const struct gguf_text bytes = tokenizer_bytes(of->t, id);
	char *value;
	size_t size;
	int rc;

	json_bytes(&text, NULL, bytes.data, bytes.size);
	value = json_take(&text, &size);
	rc = value ? jinja_set(j, name, value, size, e) : err_set(e, ERR_MEMORY, "no memory");
	free(value);
	return rc;
}

/* A template's own words may hold anything. */
static void clean(struct err *e)
{
	char *text = text_clean(e->text, strlen(e->text), false, NULL);

	snprintf(e->text, sizeof e->text, "%s", text ? text : "the chat template failed");
	free(text);
}

static char *render_json(
	const struct chat_input *of, const char *messages, size_t n, size_t *size, struct err *e)
{
	const struct jinja_options o = {
		.steps = 20000000, .bytes = 256 << 20, .output = 64 << 20, .now = of->now > 0 ? of->now : 1
	};
	struct jinja *j = NULL;
	char *out = NULL;

	if (!jinja_open(&j, of->c->jinja, strlen(of->c->jinja), &o, e) &&
		!jinja_set(j, "messages", messages, n, e) &&
		!jinja_set(j, "add_generation_prompt", of->open ? "true" : "false", of->open ? 4 : 5, e) &&
		!set_token(j, of, "bos_token", tokenizer_bos(of->t), e) &&
		!set_token(j, of, "eos_token", tokenizer_eos(of->t), e))
		jinja_render(j, &out, size, e);
	jinja_close(j);
	if (!out)
		clean(e);
	return out;
}

static char *render(struct writer *w, size_t *size, struct err *e)
{
	size_t n;
	char *messages, *out;

	w->n_spelled = 0;
	messages = messages_json(w, &n);
	if (!messages) {
		err_set(e, ERR_MEMORY, "no memory for the conversation");
		return NULL;
	}
	out = render_json(w->of, messages, n, size, e);
	free(messages);
	return out;
}

/* ---- its pieces: texts and control tokens by turns ---- */

struct piece {
	const char *text;
	size_t size;
	int32_t id; /* -1: text */
};

struct pieces {
	char *all; /* the texts lie in it */
	struct piece *piece;
	size_t n, cap;
};

static int add_piece(struct pieces *p, const char *text, size_t size, int32_t id, struct err *e)
{
	if (id < 0 && !size)
		return 0;
	if (!ARRAY_ROOM(p->piece, p->cap, p->n + 1))
		return err_set(e, ERR_MEMORY, "no memory for the conversation");
	p->piece[p->n++] = (struct piece){ text, size, id };
	return 0;
}

static int cut(struct pieces *p, const struct chat_input *of, size_t size, struct err *e)
{
	char *text = p->all, *end = text + size;
	size_t at, used;
	int32_t id;

	while ((id = find_control(of->t, text, (size_t)(end - text), &at, &used)) >= 0) {
		if (add_piece(p, text, reveal(text, at), -1, e) || add_piece(p, NULL, 0, id, e))
			return -1;
		text += at + used;
	}
	return add_piece(p, text, reveal(text, (size_t)(end - text)), -1, e);
}

/* Whether what is hidden changes what the template makes: it looks for a control token in a
 * message. */
static bool looks(const char *hidden, size_t size, char *plain, size_t n)
{
	char *copy = malloc(size + 1);
	bool same = false;

	if (copy) {
		memcpy(copy, hidden, size);
		size = reveal(copy, size);
		same = size == reveal(plain, n) && !memcmp(copy, plain, size);
	}
	free(copy);
	return !same;
}

/* The text with control tokens of messages hidden, in place of the one without. Where the template
 * takes an answer apart at them (a thought's end), those of answers are themselves. */
static int hide_spelled(struct writer *w, char **text, size_t *size, struct err *e)
{
	char *plain = *text;
	const size_t n = *size;

	w->spelled = w->answers = true;
	*text = render(w, size, e);
	if (*text && looks(*text, *size, plain, n)) {
		w->answers = false;
		free(*text);
		*text = render(w, size, e);
	}
	free(plain);
	return *text ? 0 : -1;
}

static int pieces_of(struct pieces *p, const struct chat_input *of, struct err *e)
{
	struct writer w = { .of = of };
	size_t size;

	p->all = render(&w, &size, e);
	if (!p->all || (w.n_spelled && hide_spelled(&w, &p->all, &size, e)))
		return -1;
	return cut(p, of, size, e);
}

/* ---- what is kept of the ids of before ---- */

struct place {
	size_t piece, at; /* at: bytes into a text */
};

/* Goes over the id, if it says what stands at the place. */
static bool goes_on(
	const struct chat_input *of, const struct pieces *p, struct place *w, int32_t id)
{
	const struct piece *now = w->piece < p->n ? &p->piece[w->piece] : NULL;
	const bool first = !w->at;
	struct gguf_text bytes;

	if (!now)
		return false;
	if (tokenizer_is_special(of->t, id)) {
		if (now->id != id)
			return false;
		*w = (struct place){ w->piece + 1, 0 };
		return true;
	}
	bytes = first ? tokenizer_first_bytes(of->t, id) : tokenizer_bytes(of->t, id);
	if (now->id >= 0 || !bytes.size || bytes.size > now->size - w->at ||
		memcmp(now->text + w->at, bytes.data, bytes.size))
		return false;
	w->at += bytes.size;
	if (w->at == now->size)
		*w = (struct place){ w->piece + 1, 0 };
	return true;
}

/* How many of the kept ids stay; *w: where the text goes on after them. A text that parts within
 * its words is encoded whole, from the control token before it on; where an answer ended, by a
 * token of its own or because it was cut, its ids stay. */
static size_t keep(const struct chat_input *of, const struct pieces *p, const int32_t *kept,
	size_t n, struct place *w)
{
	struct place sound = { 0, 0 };
	size_t i = 0, n_sound = 0;

	*w = sound;
	while (i < n && goes_on(of, p, w, kept[i])) {
		i++;
		if (tokenizer_is_special(of->t, kept[i - 1])) {
			sound = *w;
			n_sound = i;
		}
	}
	if (i == n || tokenizer_is_end(of->t, kept[i]))
		return i;
	*w = sound;
	return n_sound;
}

static int append(
	int32_t **ids, size_t *n, size_t *cap, const int32_t *more, size_t n_more, struct err *e)
{
	if (!ARRAY_ROOM(*ids, *cap, *n + n_more))
		return err_set(e, ERR_MEMORY, "no memory for %zu token ids", *n + n_more);
	if (n_more)
		memcpy(*ids + *n, more, n_more * sizeof *more);
	*n += n_more;
	return 0;
}

static int encode(const struct chat_input *of, const struct pieces *p, struct place w,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	for (; w.piece < p->n; w = (struct place){ w.piece + 1, 0 }) {
		const struct piece *now = &p->piece[w.piece];

		if (now->id >= 0 ? append(ids, n, cap, &now->id, 1, e)
						 : tokenizer_encode(
							   of->t, now->text + w.at, now->size - w.at, false, ids, n, cap, e))
			return -1;
	}
	return 0;
}

int template_ids(const struct chat_input *of, const int32_t *kept, size_t n_kept, int32_t **ids,
	size_t *n, size_t *cap, struct err *e)
{
	struct pieces p = { 0 };
	struct place w;
	size_t n_stay;
	int rc = pieces_of(&p, of, e);

	if (!rc) {
		n_stay = keep(of, &p, kept, n_kept, &w);
		rc = append(ids, n, cap, kept, n_stay, e) || encode(of, &p, w, ids, n, cap, e) ? -1 : 0;
	}
	free(p.piece);
	free(p.all);
	return rc;
}

bool template_takes(const struct chat_template *c, const char *system)
{
	return system && (*system || c->default_system);
}

int template_first(const struct chat_input *of, const char *system, const char *text, size_t size,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	const bool has = template_takes(of->c, system);
	const struct chat_message both[] = {
		{ .role = "system", .text = system, .size = has ? strlen(system) : 0 },
		{ .role = "user", .text = text, .size = size },
	};
	struct chat_input one = *of;

	one.message = both + !has;
	one.n = has ? 2 : 1;
	one.open = true;
	return template_ids(&one, NULL, 0, ids, n, cap, e);
}
