/* Strings of a demand: length, pattern, format. See schema_impl.h.
 *
 * Formats are regular expressions that allow a part of what the specification of each does: dates
 * of the years 1000 to 9999, host names of up to four labels, URIs of http. */
#include "engine/grammar/schema_impl.h"

#define YEAR_29 "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)"
#define DATE                                                                                       \
	"([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|" \
	"02-(0[1-9]|1[0-9]|2[0-8]))|" YEAR_29 "-02-29)"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME CLOCK ":[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]" CLOCK ")"
#define N "[0-9]{1,6}"
#define SPAN_TIME "T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S)"
#define SPAN_DATE "(" N "Y(" N "M(" N "D)?)?|" N "M(" N "D)?|" N "D)"
#define HEX "[0-9a-fA-F]"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z][A-Za-z0-9]{0,18}(-[A-Za-z0-9]{1,18})?"
#define HOST "(" LABEL "(\\." LABEL "){0,3})"
#define ATOM "[A-Za-z0-9_]{1,15}"
#define IN_PATH "([A-Za-z0-9._~!$&'()*+,;=:@/-]|%" HEX "{2}){0,200}"

static const struct {
	const char *name, *regex;
} format[] = {
	{ "date", DATE },
	{ "time", TIME },
	{ "date-time", DATE "T" TIME },
	{ "duration", "P(" N "W|" SPAN_DATE "(" SPAN_TIME ")?|" SPAN_TIME ")" },
	{ "uuid", HEX "{8}(-" HEX "{4}){3}-" HEX "{12}" },
	{ "ipv4", OCTET "(\\." OCTET "){3}" },
	{ "ipv6", "(" HEX "{1,4}:){7}" HEX "{1,4}" },
	{ "hostname", HOST },
	{ "email", "(" ATOM "[.+-]){0,3}" ATOM "@" HOST },
	{ "uri",
		"https?://" HOST "(:[1-9][0-9]{0,3})?(/" IN_PATH ")?(\\?" IN_PATH ")?(#" IN_PATH ")?" },
};

static const char *regex_of_format(const char *name)
{
	for (size_t i = 0; i < sizeof format / sizeof *format; i++)
		if (!strcmp(format[i].name, name))
			return format[i].regex;
	return NULL;
}

/* ---- how long texts of a regular expression are ---- */

enum { ENDLESS = 1000000000 };

static int32_t one_byte(struct grammar *g, struct points *p)
{
	const int32_t x = p->n ? expr_word(g, "x") : expr_never(g);

	points_free(p);
	return x;
}

static int64_t times(int64_t n, int64_t by)
{
	return n && by > ENDLESS / n ? ENDLESS : n * by;
}

static int64_t at_most(int64_t n)
{
	return n > ENDLESS ? ENDLESS : n;
}

/* The least and the greatest length of texts of an expression; those of its parts are known. */
static void measure(const struct expr *x, int64_t (*of)[2], int64_t out[2])
{
	out[0] = out[1] = x->kind == EXPR_SET;
	if (x->kind == EXPR_THEN) {
		out[0] = at_most(of[x->a][0] + of[x->b][0]);
		out[1] = at_most(of[x->a][1] + of[x->b][1]);
	} else if (x->kind == EXPR_OR) {
		out[0] = of[x->a][0] < of[x->b][0] ? of[x->a][0] : of[x->b][0];
		out[1] = of[x->a][1] > of[x->b][1] ? of[x->a][1] : of[x->b][1];
	} else if (x->kind == EXPR_REPEAT) {
		out[0] = times(of[x->a][0], x->least);
		out[1] = times(of[x->a][1], x->most < 0 ? ENDLESS : x->most);
	}
}

static int64_t (*measure_all(const struct grammar *g))[2]
{
	int64_t(*of)[2] = calloc((size_t)g->n_exprs + 1, sizeof *of);

	for (int32_t i = 0; of && i < g->n_exprs; i++)
		measure(&g->expr[i], of, of[i]);
	return of;
}

/* Narrows the expression *x to texts of such a length, where it has no others, or is something of
 * one length and then a repeated character. Lengths are those of `by`, which is the same expression
 * in bytes of one for each character. False: it is neither. */
static bool narrow(struct grammar *g, int32_t *x, const struct grammar *by, int32_t same,
	int64_t (*of)[2], int64_t least, int64_t most)
{
	const struct expr *b = &by->expr[same], *own = &g->expr[*x];
	int32_t head = EXPR_FAILED, repeated;

	if (of[same][0] >= least && of[same][1] <= most)
		return true;
	if (b->kind == EXPR_THEN && own->kind == EXPR_THEN) {
		if (of[b->a][0] != of[b->a][1])
			return false;
		least -= of[b->a][0];
		most -= most < ENDLESS ? of[b->a][0] : 0;
		head = own->a;
		b = &by->expr[b->b];
		own = &g->expr[own->b];
	}
	if (b->kind != EXPR_REPEAT || own->kind != EXPR_REPEAT || by->expr[b->a].kind != EXPR_SET)
		return false;
	repeated = own->a;
	least = least > b->least ? least : b->least;
	most = b->most >= 0 && b->most < most ? b->most : most;
	*x = most < least
			 ? expr_never(g)
			 : expr_repeat(g, repeated, (int32_t)least, most < ENDLESS ? (int32_t)most : -1);
	*x = head < 0 ? *x : expr_then(g, head, *x);
	return true;
}

/* ---- the expression ---- */

struct text {
	const char *regex;
	const cJSON *schema; /* that has it */
	bool search;
};

static void take_regex(
	struct schema *s, struct text *t, const cJSON *schema, const char *regex, bool search)
{
	if (t->regex && (strcmp(t->regex, regex) || t->search != search))
		schema_fail(s, schema, "a string with two patterns or formats is not supported");
	*t = (struct text){ regex, schema, search };
}

static void find_regex(struct schema *s, const struct demand *d, struct text *t)
{
	for (int32_t i = 0; i < d->n; i++) {
		const cJSON *schema = d->part[i].schema,
					*pattern = schema_typed(s, schema, "pattern", TYPE_STRING),
					*name = schema_member(s, schema, "format");
		const char *regex = cJSON_IsString(name) ? regex_of_format(name->valuestring) : NULL;

		if (pattern)
			take_regex(s, t, schema, pattern->valuestring, true);
		if (regex)
			take_regex(s, t, schema, regex, false);
	}
}

static int32_t of_regex(struct schema *s, const struct text *t, int64_t least, int64_t most)
{
	const size_t size = strlen(t->regex);
	struct grammar by = { 0 };
	int32_t x = regex_expr(s->g, t->regex, size, t->search, json_points), same;
	int64_t(*of)[2];

	if (x < 0 && s->g->err.code == ERR_USAGE) { /* say where, too */
		const struct err why = s->g->err;

		s->g->err = (struct err){ 0 };
		return schema_fail(s, t->schema, "`pattern`: %.150s", why.text);
	}
	if (x < 0 || (!least && most == ENDLESS))
		return x;
	same = regex_expr(&by, t->regex, size, t->search, one_byte);
	of = same < 0 ? NULL : measure_all(&by);
	if (!of)
		x = grammar_no_memory(s->g);
	else if (schema_works(s, by.n_exprs) && !narrow(s->g, &x, &by, same, of, least, most))
		x = schema_fail(s, t->schema,
			"`%s` with minLength or maxLength that it does not imply is not supported",
			t->search ? "pattern" : "format");
	free(of);
	grammar_free(&by);
	return x;
}

int32_t schema_string(struct schema *s, const struct demand *d)
{
	struct grammar *g = s->g;
	struct text t = { 0 };
	const int64_t least = schema_count(s, d, "minLength", 1, 0);
	int64_t most = schema_count(s, d, "maxLength", -1, ENDLESS);
	int32_t x;

	find_regex(s, d, &t);
	if (g->err.code)
		return EXPR_FAILED;
	if (least > GRAMMAR_MOST_REPEAT)
		return schema_fail(
			s, d->part[0].schema, "`minLength` is supported up to %d", GRAMMAR_MOST_REPEAT);
	if (most < ENDLESS && most > GRAMMAR_MOST_REPEAT)
		most = GRAMMAR_MOST_REPEAT;
	if (t.regex)
		x = of_regex(s, &t, least, most);
	else if (!least && most == ENDLESS)
		x = s->string;
	else if (most < least)
		x = expr_never(g);
	else
		x = expr_repeat(g, s->character, (int32_t)least, most < ENDLESS ? (int32_t)most : -1);
	return EXPR_SEQ(g, expr_word(g, "\""), x, expr_word(g, "\""));
}
