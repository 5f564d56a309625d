/* See tiny.h. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/tiny.h"

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
