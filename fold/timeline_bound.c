/* Part of the timeline: what grammars allowed. */
#include <stdio.h>

#include "fold/timeline_fold.h"

static void cut_to_lines(char *text)
{
	char *end = strrchr(text, '\n');

	*(end ? end + 1 : text) = '\0';
}

bool tl_fold_bound(struct timeline *t, const struct event *ev)
{
	const struct ev_bound *e = &ev->u.bound;
	struct tl_bound *to;

	if (e->request < 1 || e->pos < 0 || e->allowed < 0)
		return false;
	if (t->n_bounds == TL_BOUNDS) {
		t->n_bounds /= 2;
		memmove(t->bound, t->bound + t->n_bounds, (size_t)t->n_bounds * sizeof *t->bound);
	}
	to = tl_add(t, &t->bound, &t->n_bounds, &t->cap_bounds, sizeof *to);
	if (!to)
		return true;
	to->e = *e;
	tl_settle(&to->e, EV_bound, 0);
	ev_copy(to->stack, sizeof to->stack, e->stack);
	ev_copy(to->forbidden, sizeof to->forbidden, e->forbidden);
	cut_to_lines(to->forbidden);
	return true;
}

const struct tl_bound *timeline_bound(const struct timeline *t, int64_t request, int64_t pos)
{
	for (int32_t i = t->n_bounds; i-- > 0;)
		if (t->bound[i].e.request == request && t->bound[i].e.pos == pos)
			return &t->bound[i];
	return NULL;
}

bool tl_bound_rule(const char *forbidden, int64_t id, char *rule, int size, int *pass)
{
	for (const char *line = forbidden; *line; line += line[strcspn(line, "\n")] == '\n') {
		char *at;
		const bool is = strtoll(line, &at, 10) == id;

		if (is) {
			*pass = (int)strtol(at, &at, 10);
			at += *at == ' ';
			snprintf(rule, (size_t)size, "%.*s", (int)strcspn(at, "\n"), at);
			return true;
		}
		line += strcspn(line, "\n");
	}
	return false;
}
