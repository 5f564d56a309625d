/* See template_probe.h. A conversation here is texts in turn: a system's if there is one, a user's,
 * an answer, a user's …; the last is a user's, and an answer is opened. */
#include "engine/text/template_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/jinja/jinja.h"

enum { PART_BYTES = 8192, TEXTS_MOST = 6, DATE = 1721952000 /* 26 July 2024 */ };

struct probe {
	struct jinja *j;
	struct err *e;
	char *store;
	size_t used;
	const char *eos_name; /* or "" */
	const char *reopened; /* what stands before an earlier answer, in place of user_after */
	bool differs, dated;
	const char *first; /* what stands before the first turn */
	bool moved;        /* its system text is elsewhere, or in the last turn */
	bool unopened;     /* for now, no answer is to be opened */
	bool endless;      /* an answer is ended by the next turn's opening alone */
};

struct conversation {
	bool system;
	const char *text[TEXTS_MOST + 1]; /* NULL after the last */
};

/* --- rendering --- */

/* The template's text, malloc'd, or NULL with *p->e set. */
static char *render(struct probe *p, const struct conversation *c, const char *eos)
{
	char messages[1024] = "[", quoted[64], *out = NULL;
	size_t n = 1, size;

	for (int i = 0; c->text[i]; i++) {
		int turn = i - c->system;

		n += (size_t)snprintf(messages + n, sizeof messages - n,
			"%s{'role': '%s', 'content': '%s'}", i ? ", " : "",
			turn < 0   ? "system"
			: turn % 2 ? "assistant"
					   : "user",
			c->text[i]);
	}
	n += (size_t)snprintf(messages + n, sizeof messages - n, "]");
	snprintf(quoted, sizeof quoted, "'%s'", eos);
	if (!jinja_set(p->j, "messages", messages, n, p->e) &&
		!jinja_set(p->j, "add_generation_prompt", p->unopened ? "0" : "1", 1, p->e) &&
		!jinja_set(p->j, "bos_token", "'{bos}'", 7, p->e) &&
		!jinja_set(p->j, "eos_token", quoted, strlen(quoted), p->e))
		jinja_render(p->j, &out, &size, p->e);
	return out;
}

static int open_jinja(struct probe *p, const char *text, size_t size)
{
	struct jinja_options o = { .steps = 500000, .bytes = 8 << 20, .output = 1 << 18 };
	static const struct conversation one = { false, { "Hi" } };
	char *out;

	if (jinja_open(&p->j, text, size, &o, p->e))
		return -1;
	out = render(p, &one, "{eos}");
	free(out);
	if (out || !strstr(p->e->text, "strftime_now"))
		return out ? 0 : -1;
	jinja_close(p->j);
	*p->e = (struct err){ 0 };
	o.now = DATE;
	p->dated = true;
	return jinja_open(&p->j, text, size, &o, p->e);
}

/* --- what pieces make of a conversation --- */

struct spelled {
	char text[PART_BYTES];
	size_t n;
};

/* eos: what "{eos}" stands for. */
static void spell(struct spelled *s, const char *piece, const char *eos)
{
	for (; *piece && s->n < PART_BYTES - 1; piece++) {
		if (strncmp(piece, "{eos}", 5)) {
			s->text[s->n++] = *piece;
			continue;
		}
		s->n += (size_t)snprintf(s->text + s->n, PART_BYTES - s->n, "%s", eos);
		s->n = s->n < PART_BYTES ? s->n : PART_BYTES - 1;
		piece += 4;
	}
	s->text[s->n] = '\0';
}

static void spell_text(struct spelled *s, const struct chat_template *c, const char *text)
{
	size_t n = strlen(text);

	for (; c->trim && n && text[n - 1] == ' '; n--)
		;
	for (; c->trim && n && *text == ' '; n--)
		text++;
	n = n < PART_BYTES - s->n - 1 ? n : PART_BYTES - s->n - 1;
	memcpy(s->text + s->n, text, n);
	s->n += n;
	s->text[s->n] = '\0';
}

/* Keep it like template_begin, template_user and template_close. */
static void spell_all(struct spelled *s, const struct probe *p, const struct chat_template *c,
	const struct conversation *of, const char *eos)
{
	const char *const *text = of->text, *system = of->system ? *text++ : c->default_system;
	bool open = system && c->system_in_user;

	s->n = 0;
	spell(s, system && c->system_opens ? "" : c->bos, eos);
	if (system) {
		spell(s, c->system_before, eos);
		spell_text(s, c, system);
		spell(s, c->system_after, eos);
	}
	for (int turn = 0; text[turn]; turn++) {
		if (turn % 2) {
			spell(s, text[turn], eos);
			spell(s, c->end_before ? c->end_before : "", eos);
			spell(s, *c->end ? c->end : p->endless ? "" : "{eos}", eos);
			spell(s, c->answer_after, eos);
			continue;
		}
		spell(s, open ? "" : c->user_before, eos);
		open = false;
		spell_text(s, c, text[turn]);
		spell(s, text[turn + 1] && p->reopened ? p->reopened : c->user_after, eos);
		spell(s, text[turn + 1] && p->reopened ? "" : c->answer_before, eos);
	}
}

static bool says_the_same(
	struct probe *p, const struct chat_template *c, const struct conversation *of, const char *eos)
{
	struct spelled *s = malloc(sizeof *s);
	char *theirs = s ? render(p, of, eos) : NULL;
	bool same = false;

	if (theirs) {
		spell_all(s, p, c, of, eos);
		same = !strcmp(s->text, theirs);
	}
	free(theirs);
	free(s);
	return same;
}

static bool says_all_the_same(
	struct probe *p, const struct chat_template *c, bool system, const char *eos)
{
	static const struct conversation of[] = {
		{ false, { "Qa1Z" } },
		{ false, { "  Qa1Z   b ", "Qc2Z", "Qd3Z  ", "Qe4Z <b>", "Qf5Z" } },
		{ true, { "Qg6Z", " Qa1Z" } },
		{ true, { "Qg6Z. Qh7Z", "Qa1Z", "Qc2Z", "Qd3Z", "Qe4Z", "Qf5Z" } },
	};

	for (size_t i = 0; i < (system ? 4 : 2); i++)
		if (!says_the_same(p, c, &of[i], eos))
			return false;
	return true;
}

/* --- pieces cut out --- */

static const char *store(struct probe *p, const char *from, size_t n)
{
	char *to = p->store + p->used;

	if (n >= TEMPLATE_STORE - p->used)
		n = TEMPLATE_STORE - p->used - 1; /* what is cut off is found when it is compared */
	memcpy(to, from, n);
	to[n] = '\0';
	p->used += n + (p->used + n + 1 < TEMPLATE_STORE);
	return to;
}

/* What stands before, between and after a conversation's texts; kept in the store. */
static int take_apart(struct probe *p, const struct conversation *c, const char **part)
{
	char *all = render(p, c, "{eos}"), *at = all;
	int i;

	for (i = 0; all && c->text[i]; i++) {
		char *found = strstr(at, c->text[i]);

		if (!found)
			break;
		part[i] = store(p, at, (size_t)(found - at));
		at = found + strlen(c->text[i]);
	}
	if (all && !c->text[i])
		part[i] = store(p, at, strlen(at));
	else if (all)
		err_set(
			p->e, ERR_INPUT, "it leaves out the text of a %s", c->system && !i ? "system" : "turn");
	free(all);
	return all && !c->text[i] ? 0 : -1;
}

/* The end-of-turn token that a text begins with: "{eos}", a word in angle brackets, or the
 * vocabulary's name, which a template may spell out: MiniMax-M2's is [e~[. */
static size_t end_token(const struct probe *p, const char *text)
{
	const char *close = strchr(text, '>');
	const size_t n = strlen(p->eos_name);

	if (n && !strncmp(text, p->eos_name, n))
		return n;
	return !strncmp(text, "{eos}", 5) ? 5 : *text == '<' && close ? (size_t)(close + 1 - text) : 0;
}

/* Bytes of the token that ends an answer, after *before bytes of white space; 0: none. endless: the
 * opening of a user's turn follows at once, which is no end: it opens the first turn, too, and does
 * not follow users' texts. */
static size_t end_of_answers(
	struct probe *p, const char *after, const char *first, const char *user_after, size_t *before)
{
	const char *mark = after + strspn(after, "\n ");
	size_t n = end_token(p, mark);

	p->endless = n && *mark == '<' && memmem(first, strlen(first), mark, n) &&
				 !memmem(user_after, strlen(user_after), mark, n);
	*before = n && !p->endless ? (size_t)(mark - after) : 0;
	return p->endless ? 0 : n;
}

/* Bytes at the ends of both that are the same, and begin outside a word in angle brackets. */
static size_t same_end(const char *a, const char *b)
{
	size_t n = 0, na = strlen(a), nb = strlen(b);
	const char *from, *open, *close;

	while (n < na && n < nb && a[na - 1 - n] == b[nb - 1 - n])
		n++;
	from = a + na - n;
	open = memrchr(a, '<', na - n);
	if (open && !memchr(open, '>', (size_t)(from - open)) && (close = strchr(from, '>')))
		from = close + 1;
	while ((*from & 0xc0) == 0x80)
		from++;
	return (size_t)(a + na - from);
}

static void system_into_turn(const struct probe *p, struct chat_template *c)
{
	c->system_opens = c->system_in_user = true;
	c->system_before = p->first;
	c->system_after = "\n\n";
}

/* With a system text; refused or left out: it goes into the first user's turn. */
static bool cut_system(struct probe *p, struct chat_template *c)
{
	static const struct conversation of = { true, { "Qs0Z", "Qu1Z" } };
	const char *part[3];
	size_t n = strlen(c->user_before), size;
	struct err ignored = { 0 }, *e = p->e;
	int failed;

	p->e = &ignored;
	failed = take_apart(p, &of, part);
	p->e = e;
	c->system_opens = true;
	if (failed) {
		system_into_turn(p, c);
		return false;
	}
	size = strlen(part[1]);
	c->system_before = part[0];
	c->system_in_user = size < n || memcmp(part[1] + size - n, c->user_before, n) || (!n && size);
	c->system_after = c->system_in_user ? part[1] : store(p, part[1], size - n);
	return true;
}

/* A template that ignores add_generation_prompt leaves it to the model to open its answer. */
static int opens_answers(struct probe *p, const struct conversation *one, const char *after)
{
	const char *part[2];
	int failed;

	p->unopened = true;
	failed = take_apart(p, one, part);
	p->unopened = false;
	if (failed || strcmp(part[1], after))
		return failed;
	return err_set(p->e, ERR_INPUT, "it does not open answers");
}

static int cut_pieces(struct probe *p, struct chat_template *c, bool *system)
{
	static const struct conversation one = { false, { "Qu1Z" } },
									 three = { false, { "Qu1Z", "Qa2Z", "Qv3Z" } };
	const char *alone[2], *part[4];
	size_t n_end, before, n;
	const char *end, *rest;

	if (take_apart(p, &one, alone) || take_apart(p, &three, part))
		return -1;
	if (strcmp(alone[0], part[0]) || strcmp(alone[1], part[3]))
		return err_set(p->e, ERR_INPUT, "what it writes around a turn depends on other turns");
	p->differs = strcmp(part[1], alone[1]);
	if (p->differs && opens_answers(p, &one, alone[1]))
		return -1;
	n_end = end_of_answers(p, part[2], part[0], part[1], &before);
	end = part[2] + before;
	rest = end + n_end;
	if (!n_end && !p->endless)
		return err_set(p->e, ERR_INPUT, "it ends answers without a token");
	p->reopened = part[1];
	n = same_end(part[0], rest);
	c->end = !n_end || *end == '{' ? "" : store(p, end, n_end);
	c->end_before = before ? store(p, part[2], before) : NULL;
	c->user_before = part[0] + strlen(part[0]) - n;
	c->answer_after = store(p, rest, strlen(rest) - n);
	c->bos = store(p, part[0], strlen(part[0]) - n);
	c->user_after = alone[1];
	c->answer_before = "";
	p->first = part[0];
	*system = cut_system(p, c);
	if (c->system_in_user && *c->bos && strcmp(c->bos, "{bos}"))
		return err_set(p->e, ERR_INPUT, "its first turn is opened in a way of its own");
	return 0;
}

static const char *note_of(
	struct probe *p, const struct chat_template *c, bool system, const char *eos)
{
	static const struct conversation thoughts = { false,
		{ "Qu1Z", "<think>Qt2Z</think>Qa3Z", "Qv4Z" } };
	char text[400];
	size_t n;

	snprintf(text, sizeof text, "%s%s%s%s%s", p->dated ? "; its date is fixed, 26 July 2024" : "",
		p->differs ? "; earlier answers keep their opening, which it changes" : "",
		p->endless ? "; answers keep their end-of-text token, which it does not write" : "",
		!says_the_same(p, c, &thoughts, eos)
			? "; earlier answers keep thoughts, which it drops or changes"
			: "",
		p->moved ? "; a system text opens the first turn here, not the last"
		: system ? ""
				 : "; it has no system text, which opens the first turn here");
	n = strlen(text);
	return n ? store(p, text + 2, n - 2) : NULL;
}

/* As texts stand, or without the white space around them. */
static bool fits(struct probe *p, struct chat_template *c, bool system)
{
	c->trim = false;
	if (says_all_the_same(p, c, system, "{eos}"))
		return true;
	c->trim = true;
	return says_all_the_same(p, c, system, "{eos}");
}

static int probe_pieces(struct probe *p, struct chat_template *out)
{
	struct chat_template c = { .name = "jinja", .doc = "the file's own template" };
	bool system = false;

	if (cut_pieces(p, &c, &system))
		return -1;
	if (!fits(p, &c, system)) {
		p->moved = system;
		system_into_turn(p, &c);
		system = false;
		if (!p->moved || !fits(p, &c, false))
			return err_set(
				p->e, ERR_INPUT, "it cannot be taken apart into pieces around each turn");
	}
	c.note = note_of(p, &c, system, "{eos}");
	*out = c;
	return 0;
}

int template_probe(struct chat_template *out, char *kept, const struct chat_template *family,
	const char *jinja, size_t size, const char *eos_name, struct err *e)
{
	struct probe p = { .e = e, .store = kept, .eos_name = eos_name };
	const char *eos = *family->end ? family->end : "{eos}";
	struct err ignored = { 0 };
	int failed = open_jinja(&p, jinja, size);

	if (!failed) {
		p.e = &ignored;
		*out = *family;
		if (says_all_the_same(&p, family, true, eos)) {
			out->note = note_of(&p, family, true, eos);
		} else {
			p.e = e;
			failed = probe_pieces(&p, out);
		}
	}
	jinja_close(p.j);
	return failed;
}
