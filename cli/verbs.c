/* The list of verbs with their help. See cli.h. Nothing else is here, so that a program may link a
 * list of its own. */
#include "base/embed.h"
#include "cli/cli.h"

#define X(name) EMBED(verb_help_##name, "cli/help/" #name ".txt");
VERBS(X)
#undef X

const struct verb *const verbs[] = {
#define X(name) &verb_##name,
	VERBS(X)
#undef X
		NULL,
};
