/* Part of the timeline (timeline.h): what grammars allowed. Thread: that of the timeline. */
#ifndef CUTAWAY_FOLD_TL_BOUND_H
#define CUTAWAY_FOLD_TL_BOUND_H

#include <stdbool.h>
#include <stdint.h>

struct timeline;

/* Of the event bound; texts are cut to fit. Beyond TL_BOUNDS the older half is let go of. */
enum { TL_BOUNDS = 1024 };
struct tl_bound {
	int64_t request, pos, allowed, depth, ns;
	bool forced, known;
	char stack[160];
	char forbidden[384]; /* whole lines */
};

/* What was allowed where the request's token at pos was drawn, or NULL. */
const struct tl_bound *timeline_bound(const struct timeline *t, int64_t request, int64_t pos);
/* Of the lines of the event bound (forbidden): the rule that forbids a token, and how many bytes of
 * it would pass; false: it is not among them. */
bool tl_bound_rule(const char *forbidden, int64_t id, char *rule, int size, int *pass);

#endif
