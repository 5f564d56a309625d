/* See tally.h. */
#include "load/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/median.h"

enum { MOST_EXACT = 1 << 22 };

/* ---- values ---- */

/* From here on they are counted in buckets. */
static void count_in_buckets(struct tally *t, struct tally_values *v)
{
	v->many = calloc(1, sizeof *v->many);
	t->no_memory |= !v->many;
	for (int64_t i = 0; v->many && i < v->n; i++)
		histogram_add(v->many, (int64_t)(v->value[i] * 1e9 + 0.5));
	free(v->value);
	v->value = NULL;
	v->cap = 0;
}

static void add_value(struct tally *t, struct tally_values *v, double s)
{
	if (!v->many && v->n == v->most)
		count_in_buckets(t, v);
	if (v->many)
		histogram_add(v->many, (int64_t)(s * 1e9 + 0.5));
	else if (v->n < v->most && ARRAY_ROOM(v->value, v->cap, v->n + 1))
		v->value[v->n] = s;
	else
		t->no_memory = true;
	v->n += !t->no_memory;
	v->sum += s;
	v->max = v->n == 1 || s > v->max ? s : v->max;
	v->sorted = false;
}

static double quantile(const struct tally_values *v, double q)
{
	return v->many ? fmin(histogram_quantile(v->many, q) * 1e-9, v->max)
				   : quantile_of(v->value, (int)v->n, q);
}

static struct tally_quantiles quantiles(struct tally_values *v)
{
	const double none = (double)NAN;

	if (!v->n)
		return (struct tally_quantiles){ none, none, none, none, none, 0, true };
	if (!v->many && !v->sorted)
		sorted_of(v->value, (int)v->n);
	v->sorted = true;
	return (struct tally_quantiles){ v->sum / (double)v->n, quantile(v, 0.5), quantile(v, 0.9),
		quantile(v, 0.99), v->max, v->n, !v->many };
}

/* ---- levels ---- */

static void move(struct tally_level *l, int by, double now_s)
{
	l->area += (double)l->now * (now_s - l->since_s);
	l->since_s = now_s;
	l->now += by;
	l->max = l->now > l->max ? l->now : l->max;
}

static double mean_level(const struct tally_level *l, double from_s, double to_s)
{
	return to_s > from_s ? (l->area + (double)l->now * (to_s - l->since_s)) / (to_s - from_s) : 0;
}

/* ---- the queue over time ---- */

static void wait_changes(struct tally *t, int by, double now_s)
{
	move(&t->waiting, by, now_s);
	if (t->n_changes >= 2 * t->o.keep)
		return;
	if (ARRAY_ROOM(t->change, t->cap_changes, t->n_changes + 1))
		t->change[t->n_changes++] = (struct tally_change){ now_s, by };
	else
		t->no_memory = true;
}

static int by_time(const void *a, const void *b)
{
	const struct tally_change *x = a, *y = b;

	return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

int64_t tally_queue(const struct tally *t, struct tally_change **out)
{
	struct tally_change *c = malloc((size_t)(t->n_changes + 1) * sizeof *c);
	int64_t n = 0, level = 0;

	*out = c;
	if (!c)
		return -1;
	for (int64_t i = 0; i < t->n_changes; i++)
		c[i] = t->change[i];
	qsort(c, (size_t)t->n_changes, sizeof *c, by_time);
	for (int64_t i = 0; i < t->n_changes; i++) {
		level += c[i].waiting;
		n += !n || c[i].at_s > c[n - 1].at_s;
		c[n - 1] = (struct tally_change){ c[i].at_s, level };
	}
	return n;
}

/* ---- what happens ---- */

void tally_open(struct tally *t, const struct tally_options *o)
{
	*t = (struct tally){ .o = *o, .first_s = NAN, .last_s = NAN };
	t->ttft.most = t->itl.most = t->e2e.most =
		o->most_exact > 0 && o->most_exact < MOST_EXACT ? o->most_exact : MOST_EXACT;
}

void tally_close(struct tally *t)
{
	struct tally_values *all[] = { &t->ttft, &t->itl, &t->e2e };

	for (int i = 0; i < 3; i++) {
		free(all[i]->value);
		free(all[i]->many);
	}
	free(t->batch);
	free(t->kept);
	free(t->change);
	*t = (struct tally){ 0 };
}

void tally_arrived(struct tally *t, struct tally_request *r, int64_t number, double at_s)
{
	const double none = (double)NAN;

	*r = (struct tally_request){ .number = number,
		.arrived_s = at_s,
		.admitted_s = none,
		.first_s = none,
		.newest_s = none,
		.ended_s = none,
		.n_cached = -1,
		.slot = -1 };
	if (!t->n_arrived++)
		t->first_s = t->waiting.since_s = t->running.since_s = at_s;
	wait_changes(t, 1, at_s);
}

void tally_admitted(struct tally *t, struct tally_request *r, double now_s)
{
	if (!isnan(r->admitted_s))
		return;
	r->admitted_s = now_s;
	wait_changes(t, -1, now_s);
	move(&t->running, 1, now_s);
}

static void add_gap(struct tally *t, struct tally_request *r, double s)
{
	add_value(t, &t->itl, s);
	r->n_gaps++;
	r->n_late += s > t->o.slo.itl_s;
	r->longest_s = s > r->longest_s ? s : r->longest_s;
}

void tally_tokens(struct tally *t, struct tally_request *r, int32_t n, double now_s)
{
	tally_admitted(t, r, now_s);
	for (int32_t i = 0; i < n; i++) {
		if (r->n_output++)
			add_gap(t, r, now_s - r->newest_s);
		else
			r->first_s = now_s;
		r->newest_s = now_s;
	}
}

/* By nearest rank the 99th percentile of n gaps is at most the target if no more than n -
 * ceil(0.99 n) are above it. */
static bool meets(const struct tally_slo *slo, const struct tally_request *r)
{
	const int32_t may_be_late = r->n_gaps - (int32_t)(((int64_t)r->n_gaps * 99 + 99) / 100);
	const double tpot = r->n_gaps ? (r->newest_s - r->first_s) / r->n_gaps : 0;

	return (slo->ttft_s <= 0 || r->first_s - r->arrived_s <= slo->ttft_s) &&
		   (slo->itl_s <= 0 || r->n_late <= may_be_late) &&
		   (slo->tpot_s <= 0 || tpot <= slo->tpot_s) &&
		   (slo->e2e_s <= 0 || r->ended_s - r->arrived_s <= slo->e2e_s);
}

static void add_room(struct tally *t, const struct tally_request *r)
{
	const int32_t n = r->n_prompt + r->n_output, page = t->o.page_size;
	const int64_t which = t->o.slots > 0 ? r->number / t->o.slots : 0;
	struct tally_batch *b;

	t->used += n;
	t->reserved += t->o.reserve > n ? t->o.reserve : t->o.reserve ? n : 0;
	t->paged += page ? ((int64_t)n + page - 1) / page * page : 0;
	if (t->o.slots < 1)
		return;
	if (!ARRAY_ROOM(t->batch, t->cap_batches, which + 1)) {
		t->no_memory = true;
		return;
	}
	for (; t->n_batches <= which; t->n_batches++)
		t->batch[t->n_batches] = (struct tally_batch){ 0 };
	b = &t->batch[which];
	b->n++;
	b->prompt = r->n_prompt > b->prompt ? r->n_prompt : b->prompt;
	b->output = r->n_output > b->output ? r->n_output : b->output;
}

static void keep(struct tally *t, const struct tally_request *r)
{
	if (t->n_kept >= t->o.keep)
		return;
	if (ARRAY_ROOM(t->kept, t->cap_kept, t->n_kept + 1))
		t->kept[t->n_kept++] = *r;
	else
		t->no_memory = true;
}

void tally_ended(struct tally *t, struct tally_request *r, bool failed, double now_s)
{
	r->ended_s = now_s;
	r->failed = failed;
	r->good = !failed && r->n_output && meets(&t->o.slo, r);
	if (isnan(r->admitted_s))
		wait_changes(t, -1, now_s);
	else
		move(&t->running, -1, now_s);
	t->last_s = now_s;
	t->n_ended++;
	t->n_failed += failed;
	t->n_good += r->good;
	t->prompt_tokens += r->n_prompt;
	t->cached_tokens += r->n_cached > 0 ? r->n_cached : 0;
	t->output_tokens += r->n_output;
	if (!failed && r->n_output) {
		add_value(t, &t->ttft, r->first_s - r->arrived_s);
		add_value(t, &t->e2e, now_s - r->arrived_s);
	}
	if (!failed)
		add_room(t, r);
	keep(t, r);
}

int tally_result(struct tally *t, double now_s, struct tally_result *out, struct err *e)
{
	const bool open = t->n_ended < t->n_arrived;
	const double to_s = open || isnan(t->last_s) ? now_s : t->last_s;
	const double span = to_s > t->first_s ? to_s - t->first_s : 0, per = span > 0 ? 1 / span : 0;

	*out = (struct tally_result){ .ttft = quantiles(&t->ttft),
		.itl = quantiles(&t->itl),
		.e2e = quantiles(&t->e2e),
		.span_s = span,
		.n_requests = t->n_ended,
		.n_failed = t->n_failed,
		.n_good = t->n_good,
		.n_open = t->n_arrived - t->n_ended,
		.prompt_tokens = t->prompt_tokens,
		.cached_tokens = t->cached_tokens,
		.output_tokens = t->output_tokens,
		.tokens_s = (double)t->output_tokens * per,
		.requests_s = (double)(t->n_ended - t->n_failed) * per,
		.goodput_s = (double)t->n_good * per,
		.queue_mean = mean_level(&t->waiting, t->first_s, to_s),
		.running_mean = mean_level(&t->running, t->first_s, to_s),
		.queue_max = t->waiting.max,
		.running_max = t->running.max,
		.used = t->used,
		.reserved = t->reserved,
		.paged = t->paged };
	for (int64_t i = 0; i < t->n_batches; i++)
		out->rectangle +=
			(int64_t)t->batch[i].n * ((int64_t)t->batch[i].prompt + t->batch[i].output);
	return t->no_memory ? err_no_memory(e, "all latencies of the load") : 0;
}

/* ---- targets ---- */

/* A time with its unit; -1: none. */
static double time_of(const char *text, const char **end)
{
	static const struct {
		const char *name;
		double s;
	} unit[] = { { "ms", 1e-3 }, { "us", 1e-6 }, { "min", 60 }, { "s", 1 }, { "", 1 } };
	char *after;
	const double x = strtod(text, &after);
	size_t n;

	*end = after + strcspn(after, ",");
	n = (size_t)(*end - after);
	for (size_t i = 0; after > text && isfinite(x) && x > 0 && i < sizeof unit / sizeof *unit; i++)
		if (strlen(unit[i].name) == n && !memcmp(after, unit[i].name, n))
			return x * unit[i].s;
	return -1;
}

int tally_slo_read(const char *text, struct tally_slo *out, struct err *e)
{
	struct tally_slo slo = { 0 };
	const struct {
		const char *name;
		double *s;
	} key[] = { { "ttft=", &slo.ttft_s }, { "itl=", &slo.itl_s }, { "tpot=", &slo.tpot_s },
		{ "e2e=", &slo.e2e_s } };

	for (const char *at = text;; at++) {
		size_t k = 0;

		while (k < 4 && strncmp(at, key[k].name, strlen(key[k].name)))
			k++;
		*(k < 4 ? key[k].s : &slo.ttft_s) = k < 4 ? time_of(at + strlen(key[k].name), &at) : -1;
		if (k == 4 || *key[k].s < 0)
			return err_set(e, ERR_USAGE,
				"\"%.60s\": targets are ttft=, itl=, tpot= and e2e= with a time each, as in "
				"ttft=500ms,itl=50ms",
				text);
		if (!*at)
			break;
	}
	*out = slo;
	return 0;
}
