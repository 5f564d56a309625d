/* Numbers of a demand: bounds, compared digit by digit, and multiples. See schema_impl.h.
 *
 * Numbers within bounds have at most 15 digits and no exponent: of such numbers no two are one
 * double, so a reader that rounds to doubles takes none over a bound. */
#include "engine/grammar/schema_impl.h"

#define MOST INT64_C(999999999999999) /* SCHEMA_DIGITS digits */

/* A bound of numbers without their sign: whole.digits; open: it is none of them. */
struct bound {
	int64_t whole;
	char digits[SCHEMA_DIGITS + 1];
	bool open;
};

struct limits {
	double least, most; /* infinite: none */
	bool least_open, most_open;
	int64_t multiple; /* 0: none */
};

/* ---- digits ---- */

static int32_t digits(struct grammar *g, int from, int to)
{
	return expr_bytes(g, '0' + from, '0' + to);
}

static int n_digits(int64_t x)
{
	return x < 10 ? 1 : 1 + n_digits(x / 10);
}

static int32_t any_digits(struct grammar *g, int least, int most)
{
	return expr_repeat(g, digits(g, 0, 9), least, most);
}

static int32_t between(struct grammar *g, int64_t a, int64_t b, int n, int64_t ten);

/* A first digit, and n - 1 more from a to b. */
static int32_t begin(struct grammar *g, int64_t digit, int64_t a, int64_t b, int n, int64_t ten)
{
	return expr_then(g, digits(g, (int)digit, (int)digit), between(g, a, b, n - 1, ten / 10));
}

/* The numbers from a to b, written with n digits. ten: 10 to the power of n - 1. */
static int32_t between(struct grammar *g, int64_t a, int64_t b, int n, int64_t ten)
{
	int64_t first = n ? a / ten : 0, last = n ? b / ten : 0;
	int32_t x = expr_never(g);

	if (!n)
		return expr_empty(g);
	if (first == last)
		return begin(g, first, a % ten, b % ten, n, ten);
	if (a % ten)
		x = begin(g, first++, a % ten, ten - 1, n, ten);
	if (b % ten != ten - 1)
		x = expr_or(g, x, begin(g, last--, 0, b % ten, n, ten));
	return expr_or(
		g, x, expr_then(g, digits(g, (int)first, (int)last), any_digits(g, n - 1, n - 1)));
}

/* Up to `room` digits behind a point, or no point. */
static int32_t any_fraction(struct grammar *g, int room)
{
	if (room < 1)
		return expr_empty(g);
	return expr_maybe(g, expr_then(g, expr_word(g, "."), any_digits(g, 1, room)));
}

static int32_t whole_between(struct grammar *g, int64_t a, int64_t b, bool fractions)
{
	int32_t x = expr_never(g);
	int64_t ten = 1;

	for (int n = 1; n <= SCHEMA_DIGITS; n++, ten *= 10) {
		const int64_t from = a > ten || n == 1 ? a : ten, to = b < ten * 10 ? b : ten * 10 - 1;

		if (from <= to)
			x = expr_or(g, x,
				expr_then(g, between(g, from, to, n, ten),
					fractions ? any_fraction(g, SCHEMA_DIGITS - n) : expr_empty(g)));
	}
	return x;
}

/* ---- behind the point ---- */

/* What is still to be compared: digits of a bound, or NULL: whatever comes is within it. */
struct still {
	const char *lo, *hi;
	bool lo_open, hi_open;
};

static bool may_end(const struct still *t)
{
	return (!t->lo || (!t->lo_open && !t->lo[strspn(t->lo, "0")])) &&
		   (!t->hi || !t->hi_open || t->hi[strspn(t->hi, "0")]);
}

static int32_t more_digits(struct grammar *g, struct still t, int room);

/* After a digit: the end, or more. */
static int32_t after_digit(struct grammar *g, int digit, struct still t, int room)
{
	const int32_t more = more_digits(g, t, room);

	return expr_then(g, digits(g, digit, digit), may_end(&t) ? expr_maybe(g, more) : more);
}

/* One digit or more. */
static int32_t more_digits(struct grammar *g, struct still t, int room)
{
	int lo, hi;
	int32_t x;

	if (room < 1 || (t.hi && !*t.hi)) /* equal to the upper bound so far */
		return room < 1 || !may_end(&t) ? expr_never(g) : expr_repeat(g, digits(g, 0, 0), 1, room);
	if (t.lo && !*t.lo && !t.lo_open)
		t.lo = NULL;
	lo = !t.lo ? -1 : *t.lo ? *t.lo - '0' : 0;
	hi = t.hi ? *t.hi - '0' : 10;
	x = expr_then(g, digits(g, lo + 1, hi - 1), any_digits(g, 0, room - 1));
	if (t.lo)
		t.lo += *t.lo != 0;
	if (t.hi)
		t.hi++;
	if (lo == hi)
		return after_digit(g, lo, t, room - 1);
	if (lo >= 0 && lo < hi)
		x = expr_or(
			g, x, after_digit(g, lo, (struct still){ t.lo, NULL, t.lo_open, false }, room - 1));
	if (hi <= 9 && lo < hi)
		x = expr_or(
			g, x, after_digit(g, hi, (struct still){ NULL, t.hi, false, t.hi_open }, room - 1));
	return x;
}

/* The whole number, with a fraction that is within the bounds. */
static int32_t edge(struct grammar *g, int64_t whole, struct still t)
{
	const int n = n_digits(whole);
	char text[24];
	int32_t x = expr_then(g, expr_word(g, "."), more_digits(g, t, SCHEMA_DIGITS - n));

	snprintf(text, sizeof text, "%lld", (long long)whole);
	if (may_end(&t))
		x = expr_maybe(g, x);
	return expr_then(g, expr_word(g, text), x);
}

/* Numbers without a sign. */
static int32_t numbers_between(struct grammar *g, const struct bound *lo, const struct bound *hi)
{
	const struct still both = { lo->digits, hi->digits, lo->open, hi->open },
					   low = { lo->digits, NULL, lo->open, false },
					   high = { NULL, hi->digits, false, hi->open };

	if (lo->whole > hi->whole)
		return expr_never(g);
	if (lo->whole == hi->whole)
		return edge(g, lo->whole, both);
	return EXPR_ANY(g, edge(g, lo->whole, low), edge(g, hi->whole, high),
		whole_between(g, lo->whole + 1, hi->whole - 1, true));
}

/* ---- bounds ---- */

static int32_t negative(struct grammar *g, int32_t x)
{
	return expr_then(g, expr_word(g, "-"), x);
}

/* Numbers from lo to hi, whose signs are beside them. */
static int32_t signed_numbers(struct grammar *g, const struct bound *lo, bool lo_negative,
	const struct bound *hi, bool hi_negative)
{
	const struct bound zero = { .digits = "" }, above = { .digits = "", .open = true };
	int32_t x = expr_never(g);

	if (!hi_negative)
		x = numbers_between(g, lo_negative ? &zero : lo, hi);
	if (lo_negative)
		x = expr_or(g, x, negative(g, numbers_between(g, hi_negative ? hi : &above, lo)));
	return x;
}

/* Without its sign, as decimal digits that a double has. False: it has too many. */
static bool bound_of(double x, bool open, struct bound *b)
{
	char text[64];

	if (fabs(x) > (double)MOST) {
		*b = (struct bound){ .whole = MOST };
		return true;
	}
	for (int n = 0; n < SCHEMA_DIGITS; n++) {
		snprintf(text, sizeof text, "%.*f", n, fabs(x));
		if (strtod(text, NULL) != fabs(x))
			continue;
		*b = (struct bound){ .whole = strtoll(text, NULL, 10), .open = open };
		if (n)
			memcpy(b->digits, strchr(text, '.') + 1, (size_t)n + 1);
		return n + n_digits(b->whole) <= SCHEMA_DIGITS;
	}
	return false;
}

static int32_t within(struct schema *s, const struct limits *l, const cJSON *at)
{
	struct bound lo, hi;

	if (l->least > l->most || l->least > (double)MOST || l->most < -(double)MOST)
		return expr_never(s->g);
	if (!bound_of(l->least, l->least_open, &lo) || !bound_of(l->most, l->most_open, &hi))
		return schema_fail(
			s, at, "bounds of numbers are supported with up to %d decimal digits", SCHEMA_DIGITS);
	return signed_numbers(
		s->g, &lo, l->least < 0, &hi, l->most < 0 || (l->most == 0 && l->most_open));
}

/* The whole numbers within the bounds: false: there are none. */
static bool whole_limits(const struct limits *l, int64_t *from, int64_t *to)
{
	const double lo = ceil(l->least), hi = floor(l->most);

	if (lo > (double)MOST || hi < -(double)MOST)
		return false;
	*from = lo < -(double)MOST ? -MOST : (int64_t)lo + (l->least_open && lo == l->least);
	*to = hi > (double)MOST ? MOST : (int64_t)hi - (l->most_open && hi == l->most);
	return *from <= *to;
}

static int32_t integers_between(struct grammar *g, int64_t from, int64_t to)
{
	int32_t x = to >= 0 ? whole_between(g, from > 0 ? from : 0, to, false) : expr_never(g);

	if (from < 0)
		x = expr_or(g, x, negative(g, whole_between(g, to < 0 ? -to : 1, -from, false)));
	return x;
}

/* ---- multiples ---- */

enum { MOST_MULTIPLE = 1000, MOST_LISTED = 2000 };

/* Rules by remainder: what may follow digits that leave it, up to `room` of them. */
static int32_t multiples(struct grammar *g, int m, int32_t *rule, int remainder, int room)
{
	int32_t x = remainder ? expr_never(g) : expr_empty(g);
	int32_t *own = &rule[room * m + remainder];

	if (*own >= 0)
		return expr_rule(g, *own);
	if (!room)
		return x;
	*own = rule_new(g, "integer", 7);
	for (int d = 0; d < 10 && *own >= 0; d++)
		x = expr_or(g, x,
			expr_then(
				g, digits(g, d, d), multiples(g, m, rule, (remainder * 10 + d) % m, room - 1)));
	rule_set(g, *own, x);
	return expr_rule(g, *own);
}

static int32_t positive_multiples(struct schema *s, int m)
{
	struct grammar *g = s->g;
	const int room = m > 66 ? 5 : SCHEMA_DIGITS - 1;
	int32_t *rule = malloc((size_t)m * (SCHEMA_DIGITS + 1) * sizeof *rule), x = expr_never(g);

	if (!rule)
		return grammar_no_memory(g);
	for (int i = 0; i < m * (SCHEMA_DIGITS + 1); i++)
		rule[i] = -1;
	for (int d = 1; d < 10; d++)
		x = expr_or(g, x, expr_then(g, digits(g, d, d), multiples(g, m, rule, d % m, room)));
	free(rule);
	return x;
}

static int32_t listed(struct grammar *g, int64_t from, int64_t to, int64_t m)
{
	struct word *w = calloc(MOST_LISTED, sizeof *w);
	char(*text)[24] = calloc(MOST_LISTED, sizeof *text);
	int32_t n = 0, x;

	for (int64_t k = from / m - 1; w && text && k <= to / m + 1 && n < MOST_LISTED; k++)
		if (k * m >= from && k * m <= to) {
			snprintf(text[n], sizeof *text, "%lld", (long long)(k * m));
			w[n] = (struct word){ text[n], strlen(text[n]) };
			n++;
		}
	x = w && text ? expr_words(g, w, n) : grammar_no_memory(g);
	free(w);
	free(text);
	return x;
}

static int32_t multiples_between(
	struct schema *s, int64_t from, int64_t to, int64_t m, const cJSON *at)
{
	struct grammar *g = s->g;
	int32_t positive;

	if ((to - from) / m < MOST_LISTED - 2)
		return listed(g, from, to, m);
	if ((from > m || (from > -MOST && from <= -m)) || (to < -m || (to < MOST && to >= m)))
		return schema_fail(s, at,
			"`multipleOf` with bounds that allow more than %d values is not "
			"supported",
			MOST_LISTED - 2);
	positive = positive_multiples(s, (int)m);
	return EXPR_ANY(g, to >= m ? positive : expr_never(g),
		from <= 0 && to >= 0 ? expr_word(g, "0") : expr_never(g),
		from <= -m ? negative(g, positive) : expr_never(g));
}

/* ---- the expression ---- */

static void narrow(struct limits *l, double x, bool open, bool least)
{
	if (least && (x > l->least || (x == l->least && open))) {
		l->least = x;
		l->least_open = open;
	} else if (!least && (x < l->most || (x == l->most && open))) {
		l->most = x;
		l->most_open = open;
	}
}

static void take_multiple(struct schema *s, struct limits *l, const cJSON *at, double x)
{
	int64_t m = l->multiple ? l->multiple : 1;

	if (x >= 1 && x <= MOST_MULTIPLE && x == floor(x))
		while (m % (int64_t)x)
			m += l->multiple ? l->multiple : 1;
	else
		m = MOST_MULTIPLE + 1;
	if (m > MOST_MULTIPLE)
		schema_fail(s, at, "`multipleOf` is supported for whole numbers up to %d", MOST_MULTIPLE);
	l->multiple = m;
}

static void find_limits(struct schema *s, const struct demand *d, struct limits *l)
{
	static const struct {
		const char *name;
		bool open, least;
	} bounds[] = { { "minimum", false, true }, { "exclusiveMinimum", true, true },
		{ "maximum", false, false }, { "exclusiveMaximum", true, false } };

	for (int32_t i = 0; i < d->n; i++) {
		const cJSON *schema = d->part[i].schema;
		double x;

		for (int b = 0; b < 4; b++)
			if (schema_number(s, schema, bounds[b].name, &x))
				narrow(l, x, bounds[b].open, bounds[b].least);
		if (schema_number(s, schema, "multipleOf", &x))
			take_multiple(s, l, schema, x);
	}
}

static int32_t any_number(struct grammar *g)
{
	static const char regex[] =
		"-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"; /* SCHEMA_DIGITS */

	return regex_expr(g, regex, strlen(regex), false, expr_of_points);
}

int32_t schema_numbers(struct schema *s, const struct demand *d, bool integers)
{
	struct limits l = { .least = -INFINITY, .most = INFINITY };
	const cJSON *at = d->n ? d->part[0].schema : s->doc;
	int64_t from, to;

	find_limits(s, d, &l);
	if (s->g->err.code)
		return EXPR_FAILED;
	if (integers || l.multiple) {
		if (!whole_limits(&l, &from, &to))
			return expr_never(s->g);
		return l.multiple > 1 ? multiples_between(s, from, to, l.multiple, at)
							  : integers_between(s->g, from, to);
	}
	if (isinf(l.least) && isinf(l.most))
		return any_number(s->g);
	return within(s, &l, at);
}
