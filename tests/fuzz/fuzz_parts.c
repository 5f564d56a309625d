/* What a model may answer where it can think and call tools: any bytes as a turn of each format,
 * read as they grow and at once, which must come to the same; nothing that was told is taken back.
 * The first bytes say which format and how the turn is cut. FUZZ_OPTIONS: -max_len=2048 */
#include <string.h>

#include "engine/text/parts.h"
#include "tests/fuzz/fuzz.h"

/* What templates of the formats have; see parts_forms.c. */
static const char *const jinja[] = { "", "<|tool_call>call:", "<start_function_call>",
	"<｜tool▁sep｜>```json", "<｜tool▁sep｜>", "[TOOL_CALLS][CALL_ID][ARGS]", "[TOOL_CALLS][ARGS]",
	"[TOOL_CALLS] [", "[TOOL_CALLS][", "\"parameters\": ipython",
	"<tool_call><function=<parameter=", "<tool_call></tool_call>arguments", "tool" };
enum { FORMATS = sizeof jinja / sizeof *jinja };

static const char tools[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":"
							"\"string\"},\"b\":{\"type\":\"integer\"}}}}]";

static void check_grown(const struct parts_text *before, const struct parts_text *now)
{
	FUZZ_CHECK(now->n >= before->n);
	FUZZ_CHECK(!before->n || !memcmp(before->text, now->text, before->n));
}

static void same(const struct parts_text *a, const struct parts_text *b)
{
	FUZZ_CHECK(a->n == b->n && (!a->n || !memcmp(a->text, b->text, a->n)));
}

/* In pieces of `each` bytes, the raw text in memory of its own size each time. */
static void read_turn(struct parts *t, const char *raw, size_t size, size_t each)
{
	struct parts_text before = { 0 };

	for (size_t n = each < size ? each : size;; n = n + each < size ? n + each : size) {
		char *copy = malloc(n + !n);

		FUZZ_CHECK(copy);
		memcpy(copy, raw, n);
		parts_read(t, copy, n, n == size);
		free(copy);
		check_grown(&before, &t->text);
		free(before.text);
		before = (struct parts_text){ .text = malloc(t->text.n + 1), .n = t->text.n };
		FUZZ_CHECK(before.text && t->n_whole <= t->n_calls);
		memcpy(before.text, t->text.n ? t->text.text : "", t->text.n);
		if (n == size)
			break;
	}
	free(before.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static cJSON *list;
	const char *form, *turn = (const char *)data + 3;
	struct parts by_piece = { 0 }, whole;

	if (size < 3)
		return 0;
	list = list ? list : cJSON_Parse(tools);
	form = jinja[data[0] % FORMATS];
	by_piece.calls = parts_calls_of(form);
	by_piece.thought =
		data[1] & 1 ? parts_thought_of(data[1] & 2 ? "</think>" : "<channel|>") : NULL;
	by_piece.begun = data[1] & 4;
	by_piece.together = data[1] & 8;
	by_piece.tools = list;
	whole = by_piece;
	read_turn(&by_piece, turn, size - 3, 1u + data[2]);
	read_turn(&whole, turn, size - 3, size);
	same(&by_piece.text, &whole.text);
	same(&by_piece.thoughts, &whole.thoughts);
	FUZZ_CHECK(by_piece.n_calls == whole.n_calls && by_piece.n_whole == whole.n_whole);
	for (size_t i = 0; i < whole.n_calls; i++) {
		same(&by_piece.call[i].name, &whole.call[i].name);
		same(&by_piece.call[i].args, &whole.call[i].args);
	}
	parts_free(&by_piece);
	parts_free(&whole);
	return 0;
}
