/* See visibility.h. */
#include "engine/visibility/visibility.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct visible_policy *visible_policy_of(const struct visible *v)
{
	return v->policy ? v->policy : &visible_full;
}

static const char *unit_of(const struct visible_policy *p, int i)
{
	return !i && p->unit ? p->unit : "";
}

/* Reads "PART:NUMBER" for each part of the policy, joined by +; "full" has none. */
static bool parse_parts(const struct visible_policy *p, const char *spec, int32_t *arg)
{
	if (!p->part[0])
		return !strcmp(spec, p->name);
	for (int i = 0; i < VISIBLE_ARGS && p->part[i]; i++) {
		const size_t n = strlen(p->part[i]);
		const char *unit = unit_of(p, i);
		char *end;
		long value;

		if (i && *spec++ != '+')
			return false;
		if (strncmp(spec, p->part[i], n) || spec[n] != ':' || spec[n + 1] < '0' ||
			spec[n + 1] > '9')
			return false;
		value = strtol(spec + n + 1, &end, 10);
		if (strncmp(end, unit, strlen(unit)) != 0 || value < 1 || value > INT32_MAX / 2)
			return false;
		arg[i] = (int32_t)value;
		spec = end + strlen(unit);
	}
	return !*spec;
}

/* Prints a policy's spec, with N for numbers if arg is NULL; returns its length. */
static size_t print_parts(const struct visible_policy *p, const int32_t *arg, char *buf, size_t cap)
{
	size_t n = 0;

	if (!p->part[0])
		return (size_t)snprintf(buf, cap, "%s", p->name);
	for (int i = 0; i < VISIBLE_ARGS && p->part[i]; i++) {
		char number[16] = "N";

		if (arg)
			snprintf(number, sizeof number, "%d", arg[i]);
		n += (size_t)snprintf(n < cap ? buf + n : NULL, n < cap ? cap - n : 0, "%s%s:%s%s",
			i ? "+" : "", p->part[i], number, unit_of(p, i));
	}
	return n;
}

int visible_parse(struct visible *v, const char *spec, struct err *e)
{
	char forms[240] = "";
	size_t n = 0;

	for (int i = 0; visible_policies[i]; i++) {
		struct visible got = { .policy = visible_policies[i] };

		if (parse_parts(got.policy, spec, got.arg)) {
			*v = got;
			return 0;
		}
	}
	for (int i = 0; visible_policies[i]; i++) {
		if (i)
			n += (size_t)snprintf(
				forms + n, sizeof forms - n, visible_policies[i + 1] ? ", " : " or ");
		n += print_parts(visible_policies[i], NULL, forms + n, sizeof forms - n);
	}
	return err_set(
		e, ERR_USAGE, "visible %s: %s is needed, with numbers of positions for N", spec, forms);
}

const char *visible_offer(int i)
{
	return visible_policies[i] ? visible_policies[i]->offer : NULL;
}

bool visible_same(const struct visible *a, const struct visible *b)
{
	return visible_policy_of(a) == visible_policy_of(b) && !memcmp(a->arg, b->arg, sizeof a->arg);
}

void visible_print(const struct visible *v, char *buf, size_t cap)
{
	print_parts(visible_policy_of(v), v->arg, buf, cap);
}

/* A layer's own visibility; window 0: full. */
static struct visible visible_of_layer(int32_t window)
{
	return window > 0 ? (struct visible){ .policy = &visible_window, .arg = { window } }
					  : (struct visible){ 0 };
}

int32_t visible_n_ranges(const struct visible *v, int32_t window)
{
	return visible_policy_of(v)->n_ranges +
		   (window > 0 ? visible_window.n_ranges : visible_full.n_ranges) - 1;
}

int32_t visible_ranges(const struct visible *v, int32_t window, int32_t pos, struct k_range *out)
{
	const struct visible own = visible_of_layer(window);
	const int32_t cap = visible_n_ranges(v, window);
	struct k_range a[VISIBLE_RANGES], b[VISIBLE_RANGES];
	int32_t n_a = visible_policy_of(v)->see(v->arg, pos, a),
			n_b = visible_policy_of(&own)->see(own.arg, pos, b);
	int32_t n = 0, sum = 0;

	for (int32_t i = 0, j = 0; i < n_a && j < n_b;) {
		const struct k_range both = { a[i].first > b[j].first ? a[i].first : b[j].first,
			a[i].end < b[j].end ? a[i].end : b[j].end };

		if (both.first < both.end) {
			out[n++] = both;
			sum += both.end - both.first;
		}
		if (a[i].end < b[j].end)
			i++;
		else
			j++;
	}
	while (n < cap)
		out[n++] = (struct k_range){ pos + 1, pos + 1 };
	return sum;
}

int32_t visible_reach(const struct visible *v)
{
	const struct visible_policy *p = visible_policy_of(v);

	return p->rotated ? p->rotated(v->arg, INT32_MAX) + 1 : 0;
}

bool visible_picks(const struct visible *v)
{
	return visible_policy_of(v)->groups != NULL;
}

int32_t visible_most_kept(const struct visible *v, int32_t ctx)
{
	const struct visible_policy *p = visible_policy_of(v);

	return p->keeps ? p->keeps(v->arg, (ctx + K_SPAN - 1) / K_SPAN) : 0;
}

int32_t visible_most_rows(const struct visible *v, int32_t pos)
{
	return visible_policy_of(v)->keeps ? K_SPAN - pos % K_SPAN : INT32_MAX;
}

/* Positions of the groups that a row's head keeps, and of those that are newest. */
static int32_t count_kept(const struct visible *v, int32_t pos)
{
	const int32_t span = pos / K_SPAN, newest = span > 0 ? (span - 1) * K_SPAN : 0;
	const int64_t kept = (int64_t)visible_policy_of(v)->keeps(v->arg, span) * K_GROUP;

	return pos + 1 - newest + (int32_t)(kept < newest ? kept : newest);
}

/* Positions of first … end - 1 that a comb has. */
static int32_t stride_mask_count(const struct k_stride_mask *c, struct k_range r)
{
	int32_t n = 0;

	for (int32_t p = r.first; p < r.end; p++)
		n += p >= c->end || (p + c->phase) % c->period < c->width;
	return n;
}

int32_t visible_reads(const struct visible *v, int32_t window, int32_t pos)
{
	const struct visible_policy *p = visible_policy_of(v);
	const int32_t after = K_GROUP - 1 - pos % K_GROUP;
	struct k_range seen[VISIBLE_RANGES];
	int32_t n = visible_ranges(v, window, pos, seen), most = 0;

	if (p->stride_mask) {
		const struct k_stride_mask stride_mask = p->stride_mask(v->arg, pos);

		for (int32_t i = 0; i < visible_n_ranges(v, window); i++)
			most += stride_mask_count(&stride_mask, seen[i]);
	} else if (p->keeps && !window) {
		most = count_kept(v, pos);
	} else {
		most = p->groups && !window ? p->groups(v->arg, pos) * K_GROUP - after : n;
	}
	return most < n ? most : n;
}

/* Checks the last position only: what is hidden from an earlier one is hidden from it too. */
bool visible_is_lossy(const struct visible *v, int32_t window, int32_t ctx)
{
	const struct visible full = { 0 };

	return ctx > 0 && visible_reads(v, window, ctx - 1) < visible_reads(&full, window, ctx - 1);
}
