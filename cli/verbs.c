/* The list of verbs. See cli.h. Nothing else is here, so that a program may link a list of its
 * own. */
#include "cli/cli.h"

#define VERBS(X)                                                                                   \
	X(chat)                                                                                        \
	X(lesson)                                                                                      \
	X(run)                                                                                         \
	X(attach)                                                                                      \
	X(serve)                                                                                       \
	X(pin)                                                                                         \
	X(load)                                                                                        \
	X(simulate)                                                                                    \
	X(replay)                                                                                      \
	X(tokenize)                                                                                    \
	X(sessions)                                                                                    \
	X(score)                                                                                       \
	X(bench)                                                                                       \
	X(compare)                                                                                     \
	X(certify)                                                                                     \
	X(cache)                                                                                       \
	X(why)                                                                                         \
	X(export)                                                                                      \
	X(whatif)                                                                                      \
	X(verify)                                                                                      \
	X(diff)                                                                                        \
	X(devices)                                                                                     \
	X(formulas)                                                                                    \
	X(record)                                                                                      \
	X(quantize)                                                                                    \
	X(prune)                                                                                       \
	X(curve)                                                                                       \
	X(passkey)

#define X(name) extern const struct verb verb_##name;
VERBS(X)
#undef X

const struct verb *const verbs[] = {
#define X(name) &verb_##name,
	VERBS(X)
#undef X
		NULL,
};
