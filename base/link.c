/* See link.h. */
#include "base/link.h"

#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double bytes, ns;
};

static const struct unit units[] = { { "gbit", 1e9 / 8, 0 }, { "mbit", 1e6 / 8, 0 },
	{ "kbit", 1e3 / 8, 0 }, { "ms", 0, 1e6 }, { "us", 0, 1e3 }, { NULL, 0, 0 } };

int link_parse(struct link_speed *link, const char *text, struct err *e)
{
	const char *at = text;

	*link = (struct link_speed){ 0 };
	while (*at) {
		const struct unit *u = units;
		char *end;
		const double x = strtod(at, &end);

		while (u->name && strncmp(end, u->name, strlen(u->name)) != 0)
			u++;
		if (end == at || !u->name || !(x > 0 && x < 1e6))
			break;
		if (u->bytes > 0)
			link->rate = x * u->bytes;
		else
			link->latency_ns = (int64_t)(x * u->ns);
		at = end + strlen(u->name);
		if (*at == ',' && at[1])
			at++;
		else if (*at)
			break;
	}
	if (!*text || *at)
		return err_set(e, ERR_USAGE,
			"link %.40s: a rate, a latency or both are needed: 1gbit,50us (gbit, mbit, kbit; ms, "
			"us)",
			text);
	return 0;
}
