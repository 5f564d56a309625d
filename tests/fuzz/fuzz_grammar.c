/* Grammars of strangers: whatever the text of a GBNF grammar, a regular expression, a schema or a
 * choice, it is refused in words or makes an automaton; its walk over bytes stays within its
 * bounds, and every state that is not dead leads on or may end. FUZZ_OPTIONS: -max_len=2000 */
#include <string.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/readers.h"
#include "tests/fuzz/fuzz.h"

enum { BYTES = 200 };

static void walk(struct automaton *a, const uint8_t *data, size_t size)
{
	int32_t at = a->start;

	for (int i = 0; i < BYTES && at >= 0 && size; i++) {
		char told[64];
		int32_t next = STATE_DEAD;

		automaton_describe(a, at, told, sizeof told);
		FUZZ_CHECK(strlen(told) < sizeof told);
		for (int b = 0; b < 256 && next == STATE_DEAD; b++)
			next = automaton_next(a, at, (uint8_t)(data[(size_t)i % size] + b));
		FUZZ_CHECK(next != STATE_DEAD || a->failed || a->state[at].ends);
		at = next;
	}
	FUZZ_CHECK(a->n_frames <= AUTOMATON_MOST_FRAMES && a->n_states <= AUTOMATON_MOST_STATES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const read[])(struct grammar *, const char *, size_t) = { gbnf_read, regex_read,
		schema_read, choice_read };
	struct grammar g = { 0 };
	struct program p = { 0 };
	struct automaton a;
	struct err e = { 0 };

	if (!size)
		return 0;
	read[data[0] % 4](&g, (const char *)data + 1, size - 1);
	if (grammar_compile(&g, &p, &e))
		FUZZ_CHECK(*e.text);
	else if (!automaton_open(&a, &p, &e)) {
		walk(&a, data, size);
		automaton_close(&a);
	}
	program_free(&p);
	grammar_free(&g);
	return 0;
}
