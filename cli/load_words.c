/* See load_words.h. */
#include "cli/load_words.h"

#include <math.h>

#include "base/listing.h"

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

static int read_kinds(const char *text, uint32_t *kinds, struct err *e)
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

static int read_arrivals(const char *text, bool users, struct workload_options *w, struct err *e)
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

int words_read(const struct load_words *opts, const struct cli *c, bool users,
	struct load_options *o, struct err *e)
{
	struct workload_options *w = &o->workload;

	w->n = opts->requests;
	w->think_s = (double)opts->think;
	w->scale = (double)opts->scale;
	w->live = opts->live;
	w->limit = opts->longest;
	w->max_output = c->answer.max_tokens;
	w->seed = c->answer.params.seed;
	if (users && cli_given(c, "rate"))
		return err_set(e, ERR_USAGE, "--users and --rate exclude each other");
	if (opts->longest && opts->longest < 8)
		return err_set(e, ERR_USAGE, "--longest: at least 8 tokens");
	return read_kinds(opts->kind, &w->kinds, e) || read_arrivals(opts->arrivals, users, w, e) ||
				   (opts->slo && tally_slo_read(opts->slo, &o->tally.slo, e))
			   ? -1
			   : 0;
}

typedef void list_rows(const struct load_point *p, struct listing *l);

static int list_points(const struct listing_column *columns, list_rows *rows,
	const struct load_point *point, int n, struct json *j, const char *csv, struct err *e)
{
	struct listing l;

	if (listing_open(&l, columns, NULL, j, csv, e))
		return -1;
	for (int i = 0; i < n; i++)
		rows(&point[i], &l);
	return listing_close(&l, 0, e);
}

void words_json(const struct load_options *o, const struct load_point *point, int n, struct json *j)
{
	struct listing_column column[LOAD_COLUMNS];
	struct err none = { 0 }; /* no file, so that nothing fails */

	load_columns(o, column);
	list_points(column, load_list, point, n, j, NULL, &none);
}

int words_write(const struct load_words *opts, const char *csv, const struct load_options *o,
	const struct load_point *point, int n, struct err *e)
{
	struct listing_column column[LOAD_COLUMNS];
	const struct {
		const char *path;
		const struct listing_column *columns;
		list_rows *rows;
	} t[] = { { csv, column, load_list }, { opts->table, load_request_columns, load_list_requests },
		{ opts->queue, load_queue_columns, load_list_queue } };

	load_columns(o, column);
	for (int i = 0; i < 3; i++)
		if (t[i].path && list_points(t[i].columns, t[i].rows, point, n, NULL, t[i].path, e))
			return -1;
	return 0;
}
