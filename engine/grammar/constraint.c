/* See constraint.h. */
#include "engine/grammar/constraint.h"

#include <stdio.h>

#include "base/clock.h"
#include "engine/grammar/readers.h"

/* States and stacks that a shared automaton may have gathered before the next request of its
 * grammar gets one of its own, so that it never fills. */
enum { GATHERED_STATES = AUTOMATON_MOST_STATES / 4, GATHERED_FRAMES = AUTOMATON_MOST_FRAMES / 4 };
enum { KEPT = 4 }; /* grammars that nobody uses now, and that are kept for the next request */

/* ---- grammars ---- */

static const struct scheme {
	const char *name;
	grammar_reader *read;
} schemes[] = {
	{ "json", json_read },
	{ "schema:", schema_read },
	{ "regex:", regex_read },
	{ "choice:", choice_read },
	{ "gbnf:", gbnf_read },
};

static const struct scheme *scheme_of(const char *spec)
{
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		const size_t n = strlen(schemes[i].name);

		if (!strncmp(spec, schemes[i].name, n) && (schemes[i].name[n - 1] == ':' || !spec[n]))
			return &schemes[i];
	}
	return NULL;
}

void spec_read(struct grammar *g, const char *spec)
{
	const struct scheme *s = scheme_of(spec);
	const char *text = s ? spec + strlen(s->name) : "";

	if (!s)
		grammar_fail(
			g, ERR_USAGE, "%.40s: json, schema:, regex:, choice: or gbnf: is needed", spec);
	else if (strlen(text) > GRAMMAR_MOST_TEXT)
		grammar_fail(g, ERR_USAGE, "it is longer than %d bytes", GRAMMAR_MOST_TEXT);
	else
		s->read(g, text, strlen(text));
}

static int compile(const char *spec, struct program *out, struct err *e)
{
	struct grammar g = { 0 };
	struct err why = { 0 };
	int rc;

	spec_read(&g, spec);
	rc = grammar_compile(&g, out, &why);
	grammar_free(&g);
	return rc ? err_set(e, why.code, "grammar: %s", why.text) : 0;
}

/* And where each first byte leads: what is too ambiguous mostly shows there. */
int constraint_check(const char *spec, struct err *e)
{
	struct automaton a;
	struct program p;
	struct err why = { 0 };
	int rc;

	if (compile(spec, &p, e))
		return -1;
	if (automaton_open(&a, &p, &why))
		return err_set(e, why.code, "grammar: %s", why.text);
	a.most = a.work + MASK_WORK;
	for (int byte = 0; byte < 256; byte++)
		automaton_next(&a, a.start, (unsigned char)byte);
	rc = a.failed ? err_set(e, ERR_USAGE, "grammar: %s", a.failed) : 0;
	automaton_close(&a);
	return rc;
}

/* ---- those that are open ---- */

/* Control tokens by the byte that no text has, and their names; what follows it in a token of bytes
 * is none. */
static char *spell_controls(struct gguf_text *text, const struct tokenizer *t, int32_t vocab)
{
	char *all = NULL, *at;
	size_t size = 1;

	for (int32_t i = 0; i < vocab; i++)
		size += tokenizer_is_special(t, i) ? tokenizer_bytes(t, i).size + 1 : 0;
	at = all = malloc(size);
	for (int32_t i = 0; all && i < vocab; i++) {
		const struct gguf_text name = tokenizer_bytes(t, i);

		if (!tokenizer_is_special(t, i) || tokenizer_is_end(t, i))
			continue;
		*at = (char)GRAMMAR_CONTROL;
		memcpy(at + 1, name.data, name.size);
		text[i] = (struct gguf_text){ at, name.size + 1 };
		at += name.size + 1;
	}
	return all;
}

static int spell(struct constraints *c, const struct tokenizer *t, struct err *e)
{
	const int32_t vocab = tokenizer_n_vocab(t);
	struct gguf_text *text = calloc((size_t)vocab, sizeof *text);
	int rc;

	c->end = calloc((size_t)vocab, sizeof *c->end);
	for (int32_t i = 0; text && c->end && i < vocab; i++) {
		if (tokenizer_is_end(t, i))
			c->end[c->n_ends++] = i;
		else if (!tokenizer_is_special(t, i))
			text[i] = tokenizer_bytes(t, i);
		if (text[i].size && (unsigned char)*text[i].data == GRAMMAR_CONTROL)
			text[i].size = 0;
	}
	c->controls = text && c->end ? spell_controls(text, t, vocab) : NULL;
	rc = c->controls ? spell_open(&c->spell, text, vocab, e)
					 : err_no_memory(e, "the grammar's tokens");
	free(text);
	if (rc)
		constraints_close(c); /* the next request tries again */
	c->spelled = !rc;
	return rc;
}

static void close_one(struct constraint *k)
{
	masks_close(&k->masks);
	automaton_close(&k->automaton);
	free(k->spec);
	free(k);
}

static int open_one(struct constraints *c, const char *spec, struct constraint **out, struct err *e)
{
	struct constraint *k = calloc(1, sizeof *k);
	struct program p = { 0 };
	int rc = -1;

	if (!k || !(k->spec = strdup(spec)))
		err_no_memory(e, "a grammar");
	else if (!compile(spec, &p, e) && !automaton_open(&k->automaton, &p, e))
		rc = masks_open(&k->masks, &c->spell, c->end, c->n_ends, &k->automaton, e);
	program_free(&p);
	if (rc && k)
		close_one(k);
	*out = rc ? NULL : k;
	return rc;
}

/* Drops those that nobody uses, but for the newest. */
static void thin_out(struct constraints *c)
{
	int32_t idle = 0;

	for (struct constraint **at = &c->open; *at;) {
		struct constraint *k = *at;

		if (k->users || ++idle <= KEPT) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		close_one(k);
	}
}

static bool is_fresh(const struct constraint *k)
{
	return !k->automaton.failed && k->automaton.n_states < GATHERED_STATES &&
		   k->automaton.n_frames < GATHERED_FRAMES;
}

/* An open one of this spec, or a new one. */
static int get(struct constraints *c, const struct tokenizer *t, const char *spec,
	struct constraint **out, struct err *e)
{
	if (!c->spelled && spell(c, t, e))
		return -1;
	for (struct constraint *k = c->open; k; k = k->next)
		if (!strcmp(k->spec, spec) && is_fresh(k)) {
			*out = k;
			return 0;
		}
	if (open_one(c, spec, out, e))
		return -1;
	(*out)->next = c->open;
	c->open = *out;
	return 0;
}

int bound_open(struct bound **out, struct constraints *c, const struct tokenizer *t,
	const char *spec, int32_t from, struct err *e)
{
	struct bound *b = calloc(1, sizeof *b);

	*out = NULL;
	if (!b)
		return err_no_memory(e, "a grammar");
	if (get(c, t, spec, &b->constraint, e)) {
		free(b);
		return -1;
	}
	b->constraint->users++;
	b->home = c;
	b->from = from;
	b->at = -1;
	*out = b;
	return 0;
}

void bound_close(struct bound *b)
{
	if (!b)
		return;
	b->constraint->users--;
	thin_out(b->home);
	free(b);
}

void constraints_close(struct constraints *c)
{
	for (struct constraint *k = c->open, *next; k; k = next) {
		next = k->next;
		close_one(k);
	}
	spell_close(&c->spell);
	free(c->controls);
	free(c->end);
	*c = (struct constraints){ 0 };
}

/* ---- what a request asks ---- */

/* Past the grammar's limit of tokens its limited rules are left as soon as they can be: before a
 * whole character. */
static int32_t within_limit(const struct bound *b, int32_t state, int32_t pos)
{
	struct automaton *a = &b->constraint->automaton;

	return state >= 0 && a->program.limit && pos - b->from >= a->program.limit
			   ? automaton_leave(a, state)
			   : state;
}

int32_t bound_next(const struct bound *b, int32_t state, int32_t id, int32_t pos)
{
	return within_limit(b, masks_next(&b->constraint->masks, state, id), pos + 1);
}

int32_t bound_state(struct bound *b, const int32_t *ids, int32_t n)
{
	if (b->at < b->from || b->at > n) { /* it went back */
		b->at = b->from;
		b->state = b->constraint->automaton.start;
	}
	for (; b->at < n; b->at++)
		b->state = bound_next(b, b->state, ids[b->at], b->at);
	return b->state;
}

const struct mask *bound_mask(struct bound *b, int32_t state, const char **why)
{
	struct masks *masks = &b->constraint->masks;
	const int64_t start = now_ns(), made = masks->made;
	const struct mask *m = mask_of(masks, state);

	b->ns += now_ns() - start;
	b->made += masks->made - made;

	if (m && m->n)
		return m;
	*why = b->constraint->automaton.failed ? b->constraint->automaton.failed
		   : state < 0                     ? "the text so far does not follow the grammar"
		   : m                             ? "no token of the vocabulary follows the grammar here"
										   : "no memory for what the grammar allows";
	return NULL;
}

int32_t bound_forbids(const struct bound *b, int32_t state, int32_t id, const char **rule)
{
	struct automaton *a = &b->constraint->automaton;
	const struct spell *s = b->constraint->masks.spell;
	int32_t n = 0;

	*rule = automaton_rule(a, state);
	for (; n < s->size[id]; n++) {
		state = automaton_next(a, state, s->bytes[id][n]);
		if (state == STATE_DEAD)
			return n;
		if (*automaton_rule(a, state))
			*rule = automaton_rule(a, state);
	}
	return n;
}
