/* Statements. Each parse_… below begins after its tag's first word, and ends before the last tag's
 * end. */
#include "engine/text/jinja/jinja_private.h"

static struct jnode *parse_body(struct jinja *j, const char *ends, const char **ended);

/* Statements up to {% end … %}; what stands after the word is the caller's. */
static struct jnode *body_until(struct jinja *j, const char *end)
{
	const char *ended;

	parse_expect(j, T_BLOCK_END, NULL);
	return parse_body(j, end, &ended);
}

static struct jnode *parse_if(struct jinja *j)
{
	struct jnode *first = NULL, **at = &first;
	const char *ended;

	do {
		*at = parse_node(j, S_IF, parse_tuple(j, false, false), NULL);
		parse_expect(j, T_BLOCK_END, NULL);
		(*at)->b = parse_body(j, "elif else endif", &ended);
		at = &(*at)->c;
	} while (!strcmp(ended, "elif"));
	if (!strcmp(ended, "else"))
		*at = parse_node(j, S_GROUP, body_until(j, "endif"), NULL);
	return first;
}

static struct jnode *parse_target(struct jinja *j);

/* A name, targets in parentheses, or an attribute of a namespace. */
static struct jnode *parse_target_one(struct jinja *j)
{
	struct jnode *n;

	if (parse_skip(j, T_OP, "(")) {
		jinja_deeper(j);
		n = parse_target(j);
		parse_expect(j, T_OP, ")");
		j->depth--;
		return n;
	}
	n = parse_node(j, N_NAME, NULL, NULL);
	n->name = parse_name(j);
	if (parse_skip(j, T_OP, ".")) {
		n = parse_node(j, N_ATTR, n, NULL);
		n->name = parse_name(j);
		n->v = jv_const(n->name);
	}
	return n;
}

/* One target, or a tuple of several, which a comma may end. */
static struct jnode *parse_target(struct jinja *j)
{
	struct jnode *n = parse_target_one(j), **last = &n->next;
	const bool several = parse_is(j, T_OP, ",");

	for (; parse_skip(j, T_OP, ",") && !parse_ends_tuple(j); last = &(*last)->next)
		*last = parse_target_one(j);
	return several ? parse_node(j, N_TUPLE, n, NULL) : n;
}

static struct jnode *parse_for(struct jinja *j)
{
	struct jnode *n = parse_node(j, S_FOR, parse_target(j), NULL);

	parse_expect(j, T_NAME, "in");
	n->b = parse_tuple(j, false, false);
	if (parse_skip(j, T_NAME, "if"))
		n->c = parse_expression(j);
	j->loops++;
	n->d = body_until(j, "endfor");
	j->loops--;
	return n;
}

static struct jnode *parse_set(struct jinja *j)
{
	struct jnode *n = parse_node(j, S_SET, parse_target(j), NULL);

	if (parse_skip(j, T_OP, "=")) {
		n->b = parse_tuple(j, true, false);
	} else {
		n->kind = S_BLOCK;
		n->b = body_until(j, "endset");
	}
	return n;
}

/* After "(", up to and with ")". */
static struct jnode *parse_parameters(struct jinja *j)
{
	struct jnode *first = NULL, **last = &first;

	while (!parse_is(j, T_OP, ")")) {
		if (first)
			parse_expect(j, T_OP, ",");
		*last = parse_node(j, N_KEYWORD, NULL, NULL);
		(*last)->name = parse_name(j);
		if (parse_skip(j, T_OP, "="))
			(*last)->a = parse_expression(j);
		last = &(*last)->next;
	}
	parse_expect(j, T_OP, ")");
	return first;
}

static struct jnode *parse_macro(struct jinja *j)
{
	struct jnode *n = parse_node(j, S_MACRO, NULL, NULL);
	const int loops = j->loops, rest = j->rest;

	n->name = parse_name(j);
	parse_expect(j, T_OP, "(");
	n->a = parse_parameters(j);
	j->loops = j->rest = 0; /* a loop around it does not reach into it */
	n->b = body_until(j, "endmacro");
	n->op = j->rest;
	j->loops = loops;
	j->rest = rest;
	return n;
}

static struct jnode *parse_filter_block(struct jinja *j)
{
	struct jnode *captured = parse_node(j, N_CAPTURED, NULL, NULL);
	struct jnode *n = parse_node(j, S_FILTER, parse_filters(j, captured, true), NULL);

	n->b = body_until(j, "endfilter");
	return n;
}

/* Marks what an assistant wrote, for training: here it is its body. */
static struct jnode *parse_generation(struct jinja *j)
{
	struct jnode *n = parse_node(j, S_SCOPE, NULL, NULL);

	n->a = body_until(j, "endgeneration");
	return n;
}

static struct jnode *leave_loop(struct jinja *j)
{
	const char *word = j->token[j->at - 1].name;

	if (!j->loops)
		jinja_fail(j, "a break or continue stands outside a loop");
	return parse_node(j, strcmp(word, "break") ? S_CONTINUE : S_BREAK, NULL, NULL);
}

static const struct {
	const char *word;
	struct jnode *(*parse)(struct jinja *j);
} statements[] = {
	{ "if", parse_if },
	{ "for", parse_for },
	{ "set", parse_set },
	{ "macro", parse_macro },
	{ "filter", parse_filter_block },
	{ "generation", parse_generation },
	{ "break", leave_loop },
	{ "continue", leave_loop },
};

static struct jnode *parse_statement(struct jinja *j, const char *word)
{
	for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
		if (!strcmp(statements[i].word, word)) {
			struct jnode *n = statements[i].parse(j);

			parse_expect(j, T_BLOCK_END, NULL);
			return n;
		}
	jinja_fail(j, "the statement '%s' is not known, or not expected here", word);
}

static struct jnode *parse_print(struct jinja *j)
{
	struct jnode *n;

	if (parse_is(j, T_DATA, NULL)) {
		n = parse_node(j, S_DATA, NULL, NULL);
		n->v = j->token[j->at++].v;
		return n;
	}
	parse_expect(j, T_PRINT, NULL);
	n = parse_node(j, S_PRINT, parse_tuple(j, true, false), NULL);
	parse_expect(j, T_PRINT_END, NULL);
	return n;
}

/* ends: words, of which any ends it; NULL: up to the end of the template. *ended: which it was. */
static struct jnode *parse_body(struct jinja *j, const char *ends, const char **ended)
{
	struct jnode *first = NULL, **last = &first;

	jinja_deeper(j);
	for (;;) {
		if (parse_is(j, T_END, NULL)) {
			if (ends)
				jinja_fail(j, "it ends before '%.*s'", (int)strcspn(ends, " "), ends);
			break;
		}
		if (parse_skip(j, T_BLOCK, NULL)) {
			const char *word = parse_name(j);

			if (ends && text_word(ends, ' ', word, strlen(word)) >= 0) {
				*ended = word;
				break;
			}
			*last = parse_statement(j, word);
		} else {
			*last = parse_print(j);
		}
		last = &(*last)->next;
	}
	j->depth--;
	return first;
}

struct jnode *jinja_parse(struct jinja *j)
{
	const char *ended;

	j->at = 0;
	return parse_body(j, NULL, &ended);
}

struct jnode *jinja_parse_expression(struct jinja *j)
{
	struct jnode *n;

	j->at = 0;
	n = parse_expression(j);
	parse_expect(j, T_END, NULL);
	return n;
}
