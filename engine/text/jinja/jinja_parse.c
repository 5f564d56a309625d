/* Expressions, by Jinja's own order of precedence. See jinja_private.h for the kinds of nodes. */
#include "engine/text/jinja/jinja_private.h"

static const struct jtoken *parse_peek(struct jinja *j)
{
	return &j->token[j->at];
}

bool parse_is(struct jinja *j, enum jtoken_type type, const char *name)
{
	const struct jtoken *t = parse_peek(j);

	return t->type == type && (!name || !strcmp(t->name, name));
}

bool parse_skip(struct jinja *j, enum jtoken_type type, const char *name)
{
	if (!parse_is(j, type, name))
		return false;
	j->line = parse_peek(j)->line;
	j->at += type != T_END;
	return true;
}

void parse_expect(struct jinja *j, enum jtoken_type type, const char *name)
{
	const struct jtoken *t = parse_peek(j);

	if (parse_skip(j, type, name))
		return;
	j->line = t->line;
	jinja_fail(j, "%s%s where '%s' should be", t->name ? "it has " : "it ends or has a value",
		t->name ? t->name : "",
		name                  ? name
		: type == T_NAME      ? "a name"
		: type == T_BLOCK_END ? "%}"
							  : "}}");
}

const char *parse_name(struct jinja *j)
{
	const char *name = parse_peek(j)->name;

	parse_expect(j, T_NAME, NULL);
	return name;
}

struct jnode *parse_node(struct jinja *j, enum jkind kind, struct jnode *a, struct jnode *b)
{
	struct jnode *n = jinja_alloc(j, sizeof *n);

	*n = (struct jnode){ .kind = kind, .line = parse_peek(j)->line, .a = a, .b = b };
	return n;
}

static struct jnode *constant(struct jinja *j, struct jval v)
{
	struct jnode *n = parse_node(j, N_CONST, NULL, NULL);

	n->v = v;
	return n;
}

/* --- primary expressions --- */

static const struct {
	const char *name;
	struct jval v;
} words[] = {
	{ "true", { .type = J_BOOL, .u.b = true } },
	{ "True", { .type = J_BOOL, .u.b = true } },
	{ "false", { .type = J_BOOL, .u.b = false } },
	{ "False", { .type = J_BOOL, .u.b = false } },
	{ "none", { .type = J_NONE } },
	{ "None", { .type = J_NONE } },
};

static struct jnode *parse_word(struct jinja *j)
{
	const char *name = parse_name(j);
	struct jnode *n;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i].name, name))
			return constant(j, words[i].v);
	j->rest |= !strcmp(name, "varargs") ? REST_ARGS : !strcmp(name, "kwargs") ? REST_NAMED : 0;
	n = parse_node(j, N_NAME, NULL, NULL);
	n->name = name;
	return n;
}

/* Strings side by side are one. */
static struct jnode *parse_constant(struct jinja *j)
{
	struct jnode *n = constant(j, parse_peek(j)->v);

	j->at++;
	while (n->v.type == J_STR && parse_is(j, T_CONST, NULL) && parse_peek(j)->v.type == J_STR)
		n->v = jinja_concat(j, n->v.u.s, j->token[j->at++].v.u.s);
	return n;
}

/* Whether another item of a list follows, behind a comma unless it is the first; else takes what
 * ends the list. */
static bool next_item(struct jinja *j, bool first, const char *close)
{
	if (!first && !parse_is(j, T_OP, close))
		parse_expect(j, T_OP, ",");
	return !parse_skip(j, T_OP, close);
}

static struct jnode *parse_list(struct jinja *j)
{
	struct jnode *list = parse_node(j, N_LIST, NULL, NULL), **last = &list->a;

	for (; next_item(j, !list->a, "]"); last = &(*last)->next)
		*last = parse_expression(j);
	return list;
}

static struct jnode *parse_dict(struct jinja *j)
{
	struct jnode *dict = parse_node(j, N_DICT, NULL, NULL), **last = &dict->a;

	for (; next_item(j, !dict->a, "}"); last = &(*last)->next) {
		*last = parse_node(j, N_PAIR, parse_expression(j), NULL);
		parse_expect(j, T_OP, ":");
		(*last)->b = parse_expression(j);
	}
	return dict;
}

static struct jnode *parse_primary(struct jinja *j)
{
	struct jnode *n;

	if (parse_is(j, T_NAME, NULL))
		return parse_word(j);
	if (parse_is(j, T_CONST, NULL))
		return parse_constant(j);
	if (parse_skip(j, T_OP, "[")) {
		n = parse_list(j);
	} else if (parse_skip(j, T_OP, "{")) {
		n = parse_dict(j);
	} else {
		parse_expect(j, T_OP, "(");
		n = parse_tuple(j, true, true);
		parse_expect(j, T_OP, ")");
	}
	return n;
}

/* --- what follows a primary expression --- */

static struct jnode *parse_arg(struct jinja *j)
{
	struct jnode *n;

	if (parse_skip(j, T_OP, "*") || parse_is(j, T_OP, "**")) {
		n = parse_node(j, N_SPREAD, NULL, NULL);
		n->op = parse_skip(j, T_OP, "**");
		n->a = parse_expression(j);
		return n;
	}
	if (!parse_is(j, T_NAME, NULL) || j->token[j->at + 1].type != T_OP ||
		strcmp(j->token[j->at + 1].name, "="))
		return parse_expression(j);
	n = parse_node(j, N_KEYWORD, NULL, NULL);
	n->name = parse_name(j);
	parse_expect(j, T_OP, "=");
	n->a = parse_expression(j);
	return n;
}

/* After "(", up to and with ")". */
static struct jnode *parse_args(struct jinja *j)
{
	struct jnode *first = NULL, **last = &first;
	bool named = false;

	for (; next_item(j, !first, ")"); last = &(*last)->next) {
		*last = parse_arg(j);
		if ((*last)->kind != N_KEYWORD && (*last)->kind != N_SPREAD && named)
			jinja_fail(j, "an argument without a name follows one with a name");
		named |= (*last)->kind == N_KEYWORD;
	}
	return first;
}

/* After "[": an index, a tuple of them, or a slice, up to and with "]". */
static struct jnode *parse_subscript(struct jinja *j, struct jnode *of)
{
	struct jnode *part[3] = { NULL }, *n;
	int k = 0;

	while (!parse_is(j, T_OP, "]")) {
		if (parse_skip(j, T_OP, ":")) {
			if (++k > 2)
				jinja_fail(j, "a slice has more than three parts");
			continue;
		}
		if (part[k])
			parse_expect(j, T_OP, "]");
		part[k] = k ? parse_expression(j) : parse_tuple(j, true, false);
	}
	parse_expect(j, T_OP, "]");
	if (!k && !part[0])
		jinja_fail(j, "an index is empty");
	n = parse_node(j, k ? N_SLICE : N_ITEM, of, k ? NULL : part[0]);
	if (k) {
		n->b = part[0];
		n->c = part[1];
		n->d = part[2];
	}
	return n;
}

static struct jnode *parse_attribute(struct jinja *j, struct jnode *of)
{
	struct jnode *n = parse_node(j, N_ATTR, of, NULL);

	if (parse_is(j, T_CONST, NULL) && parse_peek(j)->v.type == J_INT) {
		n->kind = N_ITEM;
		n->b = parse_constant(j);
		return n;
	}
	n->name = parse_name(j);
	n->v = jv_const(n->name);
	return n;
}

static struct jnode *parse_postfix(struct jinja *j, struct jnode *n)
{
	for (;;) {
		if (parse_skip(j, T_OP, "."))
			n = parse_attribute(j, n);
		else if (parse_skip(j, T_OP, "["))
			n = parse_subscript(j, n);
		else if (parse_skip(j, T_OP, "("))
			n = parse_node(j, N_CALL, n, parse_args(j));
		else
			return n;
	}
}

/* start: the first filter has no "|" before it. */
struct jnode *parse_filters(struct jinja *j, struct jnode *n, bool start)
{
	while (start || parse_skip(j, T_OP, "|")) {
		const char *name = parse_name(j);

		start = false;
		n = parse_node(j, N_FILTER, n, NULL);
		n->name = name;
		n->f = jinja_filter(name, strlen(name));
		if (parse_skip(j, T_OP, "("))
			n->b = parse_args(j);
	}
	return n;
}

static bool begins_argument(struct jinja *j)
{
	const struct jtoken *t = parse_peek(j);

	if (t->type == T_NAME && text_word("else or and", ' ', t->name, strlen(t->name)) >= 0)
		return false;
	if (parse_is(j, T_NAME, "is"))
		jinja_fail(j, "tests cannot be chained with 'is'");
	return parse_is(j, T_NAME, NULL) || parse_is(j, T_CONST, NULL) || parse_is(j, T_OP, "[") ||
		   parse_is(j, T_OP, "{");
}

/* After "is". */
static struct jnode *parse_test(struct jinja *j, struct jnode *of)
{
	struct jnode *n = parse_node(j, N_TEST, of, NULL);

	n->op = parse_skip(j, T_NAME, "not");
	n->name = parse_name(j);
	n->f = jinja_find(jinja_tests, n->name, strlen(n->name));
	if (parse_skip(j, T_OP, "("))
		n->b = parse_args(j);
	else if (begins_argument(j))
		n->b = parse_postfix(j, parse_primary(j));
	return n;
}

/* --- operators --- */

static struct jnode *parse_unary(struct jinja *j, bool with_filter)
{
	struct jnode *n;

	jinja_deeper(j);
	if (parse_skip(j, T_OP, "-"))
		n = parse_node(j, N_NEGATE, parse_unary(j, false), NULL);
	else
		n = parse_primary(j);
	n = parse_postfix(j, n);
	while (with_filter) {
		if (parse_is(j, T_OP, "|"))
			n = parse_filters(j, n, false);
		else if (parse_skip(j, T_NAME, "is"))
			n = parse_test(j, n);
		else if (parse_skip(j, T_OP, "("))
			n = parse_node(j, N_CALL, n, parse_args(j));
		else
			break;
	}
	j->depth--;
	return n;
}

struct binary {
	const char *sign;
	enum jop op;
};

static const struct binary products[] = { { "*", OP_MUL }, { "/", OP_DIV }, { "//", OP_FLOOR },
	{ "%", OP_MOD }, { NULL, 0 } },
						   sums[] = { { "+", OP_ADD }, { "-", OP_SUB }, { NULL, 0 } },
						   relations[] = { { "==", OP_EQ }, { "!=", OP_NE }, { "<", OP_LT },
							   { "<=", OP_LE }, { ">", OP_GT }, { ">=", OP_GE }, { NULL, 0 } };

static const struct binary *skip_binary(struct jinja *j, const struct binary *of)
{
	while (of->sign && !parse_skip(j, T_OP, of->sign))
		of++;
	return of->sign ? of : NULL;
}

static struct jnode *parse_binary(struct jinja *j, int level);

/* Operands with "~" between them. */
static struct jnode *parse_concat(struct jinja *j)
{
	struct jnode *first = parse_binary(j, 0), **last;

	if (!parse_is(j, T_OP, "~"))
		return first;
	first = parse_node(j, N_CONCAT, first, NULL);
	for (last = &first->a->next; parse_skip(j, T_OP, "~"); last = &(*last)->next)
		*last = parse_binary(j, 0);
	return first;
}

/* 0: products, 1: sums; between them stands "~". */
static struct jnode *parse_operand(struct jinja *j, int level)
{
	return level ? parse_concat(j) : parse_unary(j, true);
}

static struct jnode *parse_binary(struct jinja *j, int level)
{
	static const struct binary *const of[] = { products, sums };
	struct jnode *n = parse_operand(j, level);
	const struct binary *b;

	while ((b = skip_binary(j, of[level]))) {
		n = parse_node(j, N_BINARY, n, parse_operand(j, level));
		n->op = (int)b->op;
	}
	return n;
}

static bool skip_not_in(struct jinja *j)
{
	const struct jtoken *t = parse_peek(j);

	if (!parse_is(j, T_NAME, "not") || t[1].type != T_NAME || strcmp(t[1].name, "in"))
		return false;
	j->at += 2;
	return true;
}

static struct jnode *parse_compare(struct jinja *j)
{
	struct jnode *n = parse_binary(j, 1), **last = NULL;

	for (;;) {
		const struct binary *b = skip_binary(j, relations);
		bool in = !b && parse_skip(j, T_NAME, "in"), not_in = !b && !in && skip_not_in(j);

		if (!b && !in && !not_in)
			return n;
		if (!last) {
			n = parse_node(j, N_COMPARE, n, NULL);
			last = &n->b;
		}
		*last = parse_node(j, N_OPERAND, parse_binary(j, 1), NULL);
		(*last)->op = b ? (int)b->op : in ? OP_IN : OP_NOT_IN;
		last = &(*last)->next;
	}
}

static struct jnode *parse_not(struct jinja *j)
{
	struct jnode *n;

	if (!parse_skip(j, T_NAME, "not"))
		return parse_compare(j);
	jinja_deeper(j);
	n = parse_node(j, N_NOT, parse_not(j), NULL);
	j->depth--;
	return n;
}

static struct jnode *parse_and(struct jinja *j)
{
	struct jnode *n = parse_not(j);

	while (parse_skip(j, T_NAME, "and"))
		n = parse_node(j, N_AND, n, parse_not(j));
	return n;
}

static struct jnode *parse_or(struct jinja *j)
{
	struct jnode *n = parse_and(j);

	while (parse_skip(j, T_NAME, "or"))
		n = parse_node(j, N_OR, n, parse_and(j));
	return n;
}

struct jnode *parse_expression(struct jinja *j)
{
	struct jnode *n;

	jinja_deeper(j);
	n = parse_or(j);
	while (parse_skip(j, T_NAME, "if")) {
		struct jnode *then = n;

		n = parse_node(j, N_IF_ELSE, parse_or(j), then);
		if (parse_skip(j, T_NAME, "else"))
			n->c = parse_expression(j);
	}
	j->depth--;
	return n;
}

bool parse_ends_tuple(struct jinja *j)
{
	enum jtoken_type t = parse_peek(j)->type;

	return t == T_PRINT_END || t == T_BLOCK_END || t == T_END || parse_is(j, T_OP, ")") ||
		   parse_is(j, T_OP, "]") || parse_is(j, T_OP, ":") || parse_is(j, T_OP, "=") ||
		   parse_is(j, T_NAME, "in");
}

/* One expression, or several with commas between them; with_if: conditional ones, too.
 * may_be_empty:
 * () is a tuple. */
struct jnode *parse_tuple(struct jinja *j, bool with_if, bool may_be_empty)
{
	struct jnode *tuple = NULL, *first = NULL, **last = &first;

	if (may_be_empty && parse_ends_tuple(j))
		return parse_node(j, N_TUPLE, NULL, NULL);
	for (;;) {
		*last = with_if ? parse_expression(j) : parse_or(j);
		last = &(*last)->next;
		if (!parse_skip(j, T_OP, ","))
			break;
		tuple = tuple ? tuple : parse_node(j, N_TUPLE, NULL, NULL);
		if (parse_ends_tuple(j))
			break;
	}
	if (!tuple)
		return first;
	tuple->a = first;
	return tuple;
}
