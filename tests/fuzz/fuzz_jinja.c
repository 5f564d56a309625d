/* Any bytes as a chat template, rendered twice over a conversation: text
 * within its limits, or an error with a reason. */
#include <string.h>

#include "engine/text/jinja/jinja.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char messages[] =
		"[{\"role\": \"system\", \"content\": \" S \"}, {\"role\": \"user\", \"content\": "
		"\"\xf0\x9f\x99\x82 <think>a</think>\", \"n\": [1, 2.5, null, true, {\"k\": []}]}]";
	const struct jinja_options o = {
		.steps = 200000, .bytes = 4 << 20, .output = 1 << 16, .now = 1721952000
	};
	struct err e = { 0 };
	struct jinja *j;
	char *out = NULL;
	size_t n = 0;

	if (jinja_open(&j, (const char *)data, size, &o, &e)) {
		FUZZ_CHECK(e.code && *e.text && !j);
		return 0;
	}
	FUZZ_CHECK(!jinja_set(j, "messages", messages, sizeof messages - 1, &e));
	for (int i = 0; i < 2; i++) {
		e = (struct err){ 0 };
		if (jinja_render(j, &out, &n, &e))
			FUZZ_CHECK(e.code && *e.text);
		else
			FUZZ_CHECK(n <= o.output && !out[n]);
		free(out);
		out = NULL;
	}
	jinja_close(j);
	return 0;
}
