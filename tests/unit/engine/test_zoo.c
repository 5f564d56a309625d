/* The architectures that are known, against transformers and llama.cpp: see zoo.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/thorough.h"
#include "tests/support/zoo.h"

static const char *const names[] = { "llama3-rope", "qwen3", "phi3", "phi3-longrope", "mixtral",
	"gemma3", "mamba", "gemma2", "olmo2", "hunyuan", "glm4", "cohere2", "smollm3", "granitemoe",
	"gpt2", "gptneox", "bitnet", "qwen3moe", "olmoe", "gpt-oss", "deepseek2-lite", "deepseek2",
	"deepseek3", "lfm2", "mamba2", "falcon-h1", "qwen35", "minimax", "jamba", "granitehybrid",
	"lfm2moe", "gemma4", "qwen3next", "rwkv7-heads", "mixed", "mixed-states", "t5", "mend",
	"mend-small" };

/* The emulated GPU takes as long as all others together: in a run of the day it computes a third.
 */
static void test_model(void **state)
{
	const char *const *name = *state;

	zoo_check(*name, (name - names) % 3 == 0 || wants_all());
}

int main(void)
{
	struct CMUnitTest tests[sizeof names / sizeof *names];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		tests[i] = (struct CMUnitTest){
			.name = names[i], .test_func = test_model, .initial_state = (void *)&names[i]
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
