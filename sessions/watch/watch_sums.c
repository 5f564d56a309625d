/* Part of watch: refuses sums that would be wrong. `now` has a row for each token of the step (one
 * if there are none), so each row repeats the columns of the step: sum(tokens) would be 49 in a
 * step of 7. See watch.h. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sessions/watch/watch.h"

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Length of the name at p if it is an aggregate that depends on the number of rows, else 0. */
static size_t adding(const char *p)
{
	static const char *const names[] = { "sum", "total", "count", "group_concat", "string_agg" };
	size_t n = 0;

	while (is_name(p[n]))
		n++;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == n && !strncasecmp(p, names[i], n) &&
			p[n + strspn(p + n, " ")] == '(')
			return n;
	return 0;
}

static bool is_of_step(const char *name, size_t n)
{
	const struct watch_column *c;

	for (int i = 0; (c = watch_column(i)); i++)
		if (strlen(c->name) == n && !strncasecmp(c->name, name, n))
			return watch_is_of_step(i);
	return false;
}

/* The first column of the step (or *) between p's bracket and its closing one. NULL: none. */
static const char *of_step(const char *p, size_t *size)
{
	const char *open = p += strcspn(p, "(") + 1;

	for (int depth = 1; *p && depth; p++) {
		size_t n = 0;

		if (*p == '\'') { /* a string literal */
			p += 1 + strcspn(p + 1, "'");
			if (!*p)
				break;
			continue;
		}
		depth += (*p == '(') - (*p == ')');
		while (is_name(p[n]))
			n++;
		*size = n ? n : 1;
		if ((n && is_of_step(p, n)) || (*p == '*' && p == open + strspn(open, " ")))
			return p;
		p += n ? n - 1 : 0;
	}
	return NULL;
}

int watch_check_sums(const char *expr, int *where, struct err *e)
{
	bool text = false;

	for (const char *p = expr; *p; p++) {
		size_t n, size = 0;
		const char *bad;

		text ^= *p == '\'';
		if (text || (p > expr && is_name(p[-1])) || !(n = adding(p)) || !(bad = of_step(p, &size)))
			continue;
		if (where)
			*where = (int)(bad - expr);
		if (*bad == '*')
			return err_set(e, ERR_USAGE,
				"%.*s(*) is 1 in a step without tokens: tokens is their number", (int)n, p);
		return err_set(e, ERR_USAGE,
			"%.*s(%.*s) would count a number of the step once for each of its tokens: say %.*s "
			"alone",
			(int)n, p, (int)size, bad, (int)size, bad);
	}
	return 0;
}
