/* See tiny.h. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/tiny.h"

char *tiny_model;

int tiny_model_make(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	tiny_model = tiny_temp(&o, &err);
	return tiny_model ? 0 : -1;
}

int tiny_model_drop(void **state)
{
	(void)state;
	unlink(tiny_model);
	free(tiny_model);
	return 0;
}

float tiny_prompt(int i, int32_t ids[TINY_PROMPT])
{
	for (int k = 0; k < TINY_PROMPT; k++)
		ids[k] = i % 2 ? (k * k * 7 + i * 31) % 250 : 3 + k % (5 + i);
	return i % 2 ? 1.5f : 0;
}
