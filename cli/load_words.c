/* See load_words.h. */
#include "cli/load_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int words_number(const char **at, const char *option, double *out, struct err *e)
{
	char *end;

	*out = strtod(*at, &end);
	if (end == *at || (*end && *end != ',') || !(*out > 0) || !isfinite(*out))
		return err_set(e, ERR_USAGE, "--%s %.60s: numbers above 0 are needed, with commas between",
			option, *at);
	*at = end + (*end == ',');
	return 0;
}

int words_kinds(const char *text, uint32_t *kinds, struct err *e)
{
	for (const char *at = text; *at; at += *at == ',') {
		const size_t n = strcspn(at, ",");
		int k = 0;

		while (k < WORKLOAD_KINDS &&
			   (strlen(workload_kinds[k].name) != n || strncmp(at, workload_kinds[k].name, n)))
			k++;
		if (k == WORKLOAD_KINDS)
			return err_set(
				e, ERR_USAGE, "--kind %.40s: chat, document, edit and system are possible", text);
		*kinds |= 1u << k;
		at += n;
	}
	return *kinds ? 0 : err_set(e, ERR_USAGE, "--kind: at least one is needed");
}

int words_arrivals(const char *text, bool users, struct workload_options *w, struct err *e)
{
	const char *colon = strchr(text, ':'), *rest = colon ? colon + 1 : "";
	const size_t n = colon ? (size_t)(colon - text) : strlen(text);
	static const struct {
		const char *name;
		enum workload_arrivals is;
		bool takes;
	} way[] = { { "poisson", WORKLOAD_POISSON, false }, { "uniform", WORKLOAD_UNIFORM, false },
		{ "gamma", WORKLOAD_GAMMA, true }, { "onoff", WORKLOAD_ONOFF, true },
		{ "trace", WORKLOAD_TRACE, true } };
	size_t i = 0;

	while (i < 5 && (strlen(way[i].name) != n || strncmp(text, way[i].name, n)))
		i++;
	if (i == 5 || way[i].takes != (*rest != '\0'))
		return err_set(e, ERR_USAGE,
			"--arrivals %.60s: poisson, uniform, gamma:CV, onoff:SECONDS,SECONDS or trace:FILE",
			text);
	w->arrivals = users ? WORKLOAD_CLOSED : way[i].is;
	if (users && i)
		return err_set(e, ERR_USAGE, "--users and --arrivals exclude each other");
	w->trace = rest;
	if (way[i].is == WORKLOAD_GAMMA)
		return words_number(&rest, "arrivals gamma:", &w->cv, e);
	if (way[i].is == WORKLOAD_ONOFF)
		return words_number(&rest, "arrivals onoff:", &w->on_s, e) ||
					   words_number(&rest, "arrivals onoff:", &w->off_s, e)
				   ? -1
				   : 0;
	return 0;
}
