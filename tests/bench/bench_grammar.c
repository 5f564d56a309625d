/* What it takes to find the tokens that a grammar allows. Not part of `make test`.
 *
 *     build/tests/bench_grammar VOCABULARY.gguf SPEC [TEXT]
 *
 * TEXT, which SPEC must take (without it: a text drawn by a walk along the grammar), is cut into
 * tokens, each the longest that is allowed. The time of each mask is told at the first reading,
 * when states are met for the first time, and at a second, when they are known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/median.h"
#include "engine/grammar/constraint.h"

enum { MOST = 4096, WALK = 300 };

struct times {
	double us[MOST];
	int n;
};

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "bench_grammar: %s\n", why);
	exit(1);
}

/* A random token that is allowed, by a fixed seed. */
static int32_t any(const struct mask *m, int32_t vocab, uint64_t *seed)
{
	int32_t id;

	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	id = (int32_t)((*seed >> 33) % (uint64_t)vocab);
	while (!(m->word[id / 64] >> (id % 64) & 1))
		id = (id + 1) % vocab;
	return id;
}

/* The longest token that is allowed and that the text goes on with. */
static int32_t longest(const struct spell *s, const struct mask *m, const char *text, size_t left)
{
	int32_t best = -1;

	for (int32_t id = 0; id < s->vocab; id++)
		if ((m->word[id / 64] >> (id % 64) & 1) && s->size[id] && (size_t)s->size[id] <= left &&
			!memcmp(s->bytes[id], text, (size_t)s->size[id]) &&
			(best < 0 || s->size[id] > s->size[best]))
			best = id;
	return best;
}

static void read_text(struct bound *b, const char *text, struct times *t)
{
	const struct spell *s = b->constraint->masks.spell;
	int32_t state = b->constraint->automaton.start;
	uint64_t seed = 1;

	t->n = 0;
	for (size_t at = 0; t->n < MOST && (text ? at < strlen(text) : t->n < WALK);) {
		const int64_t start = now_ns();
		const char *why;
		const struct mask *m = bound_mask(b, state, &why);
		int32_t id;

		t->us[t->n++] = (double)(now_ns() - start) / 1e3;
		if (!m)
			fail(why);
		id = text ? longest(s, m, text + at, strlen(text) - at) : any(m, s->vocab, &seed);
		if (id < 0)
			fail("the grammar does not take the text");
		if (!s->size[id]) /* the end, or the text begins anew */
			state = b->constraint->automaton.start;
		else
			state = bound_next(b, state, id, b->from);
		at += (size_t)s->size[id];
		if (automaton_is_whole(&b->constraint->automaton, state))
			state = b->constraint->automaton.start;
	}
}

static void tell(const char *name, struct times *t)
{
	const double *v = sorted_of(t->us, t->n);

	printf("%-7s %4d tokens: p50 %.1f us, p90 %.1f us, p99 %.1f us, most %.1f us\n", name, t->n,
		quantile_of(v, t->n, 0.5), quantile_of(v, t->n, 0.9), quantile_of(v, t->n, 0.99),
		quantile_of(v, t->n, 1));
}

int main(int argc, char **argv)
{
	static struct times first, second;
	struct constraints c = { 0 };
	struct tokenizer *t;
	struct gguf *g;
	struct bound *b;
	struct err e = { 0 };
	int64_t start;

	if (argc < 3)
		fail("VOCABULARY.gguf SPEC [TEXT]");
	if (gguf_open(&g, argv[1], &e) || tokenizer_open(&t, g, &e))
		fail(e.text);
	start = now_ns();
	if (bound_open(&b, &c, t, argv[2], 0, &e))
		fail(e.text);
	printf("%d tokens in the vocabulary, spelled and compiled in %.1f ms\n", tokenizer_n_vocab(t),
		(double)(now_ns() - start) / 1e6);
	read_text(b, argc > 3 ? argv[3] : NULL, &first);
	read_text(b, argc > 3 ? argv[3] : NULL, &second);
	tell("first", &first);
	tell("again", &second);
	bound_close(b);
	constraints_close(&c);
	tokenizer_close(t);
	gguf_close(g);
	return 0;
}
