/* What the files of the interpreter share. Memory is an arena's: nothing is freed by itself, and
 * an error (jinja_fail) jumps to the public function that was called. Strings are UTF-8; their
 * indices count code points, an invalid byte as one. */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/text/jinja/jinja.h"

enum jtype {
	J_UNDEF,
	J_NONE,
	J_BOOL,
	J_INT,
	J_FLOAT,
	J_STR,
	J_LIST,
	J_DICT,
	J_SPACE, /* namespace(…): a dict whose attributes may be set */
	J_MACRO,
	J_FUNC,
	J_METHOD,
	J_LOOP,
};

/* A tuple prints in parentheses, a range not at all; those of a dict have no index; a generator (of
 * map …) has neither index nor length nor text, and is empty once it was gone through. */
enum jlist_kind {
	LIST_PLAIN,
	LIST_TUPLE,
	LIST_RANGE,
	LIST_KEYS,
	LIST_VALUES,
	LIST_ITEMS,
	LIST_GENERATOR
};

struct jstr {
	const char *at;
	size_t n;
	struct jgrow *grow; /* the buffer that it lies in, if one may append to it there */
};

struct jval {
	enum jtype type;
	bool safe; /* of a string: marked so by the filter safe; what is added to it gets escaped */
	union {
		bool b;
		int64_t i;
		double f;
		struct jstr s;
		struct jlist *list;
		struct jdict *dict;
		struct jmacro *macro;
		const struct jbuiltin *func;
		struct jmethod *method;
		struct jloop *loop;
		const char *what; /* what is undefined, or NULL */
	} u;
};

struct jlist {
	struct jval *at;
	size_t n, cap;
	enum jlist_kind kind;
};

struct jpair {
	struct jval key, value;
};

struct jdict {
	struct jpair *at; /* in the order of insertion */
	size_t n, cap;
};

struct jgrow {
	size_t fill, cap;
	char data[];
};

struct jkeyword {
	const char *name; /* interned */
	struct jval v;
};

struct jargs {
	struct jval *at;
	size_t n;
	struct jkeyword *kw;
	size_t n_kw;
};

/* A call of a builtin: its arguments by the order of its parameters, NULL where none came. */
enum { ARGS_MOST = 5 };
struct jcall {
	struct jval self;
	const struct jval *arg[ARGS_MOST];
	const struct jargs *all;
	int how; /* of the builtin */
};

/* A filter, test, method or global function. params: names with spaces between them; "*": it looks
 * at call->all itself. call NULL: a test of the type alone. */
struct jbuiltin {
	const char *name, *params;
	size_t needed; /* arguments; without a call: the types that pass, bits 1 << J_x */
	struct jval (*call)(struct jinja *j, const struct jcall *c);
	int how; /* of those that share a call: which it is */
};

struct jmethod {
	struct jval self;
	const struct jbuiltin *f;
};

struct jscope {
	struct jvar *first;
	struct jscope *up;
};

struct jvar {
	const char *name; /* interned */
	struct jval v;
	struct jvar *next;
};

struct jmacro {
	const struct jnode *node;
	struct jscope *scope; /* where it was defined */
};

struct jloop {
	const struct jnode *node;
	struct jscope *outside;
	struct jlist all, items; /* items: those of all[seen] that its condition let through */
	size_t seen, i;
	bool asking; /* its condition runs */
};

enum jkind {
	/* expressions */
	N_CONST,
	N_CAPTURED, /* what a block wrote, for its filters */
	N_NAME,
	N_LIST,
	N_TUPLE,
	N_DICT, /* a: pairs */
	N_PAIR,
	N_BINARY,
	N_AND,
	N_OR,
	N_NOT,
	N_NEGATE,
	N_COMPARE, /* a, then b: a chain of N_OPERAND */
	N_OPERAND,
	N_CONCAT, /* a: a chain */
	N_IF_ELSE,
	N_ATTR,
	N_ITEM,
	N_SLICE,
	N_CALL,   /* a, arguments b */
	N_FILTER, /* the same */
	N_TEST,
	N_KEYWORD, /* an argument or parameter with a name */
	N_SPREAD,  /* *a, **a: op says which */
	/* statements */
	S_DATA,
	S_PRINT,
	S_IF,     /* a, then b, else c */
	S_FOR,    /* a in b if c: d */
	S_SET,    /* a = b */
	S_BLOCK,  /* set a: body b */
	S_MACRO,  /* parameters a, body b */
	S_FILTER, /* a: filters of N_CAPTURED, body b */
	S_SCOPE,  /* a, in a scope of its own */
	S_GROUP,  /* a */
	S_BREAK,
	S_CONTINUE,
};

enum jop {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOOR,
	OP_MOD,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_IN,
	OP_NOT_IN,
};

/* How a statement ends: with the next one, or what a loop around it does. */
enum jflow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

/* What a macro takes beyond its parameters: varargs, kwargs. */
enum { REST_ARGS = 1, REST_NAMED = 2 };

struct jnode {
	enum jkind kind;
	int op, line;     /* op of S_MACRO: REST_… */
	const char *name; /* interned */
	const struct jbuiltin *f;
	struct jval v;
	struct jnode *a, *b, *c, *d;
	struct jnode *next; /* of a chain: arguments, statements … */
};

enum jtoken_type {
	T_DATA,
	T_PRINT,
	T_PRINT_END,
	T_BLOCK,
	T_BLOCK_END,
	T_NAME,
	T_CONST,
	T_OP,
	T_END
};

struct jtoken {
	enum jtoken_type type;
	int line;
	const char *name; /* of T_NAME and T_OP, interned; T_DATA: what the lexer needs it for */
	struct jval v;
};

struct jchunk {
	struct jchunk *before;
	size_t used, cap;
	_Alignas(16) char data[];
};

struct jname {
	struct jname *next;
	size_t n;
	char text[];
};

struct jinja {
	struct jinja_options o;
	struct jchunk *chunk;
	size_t bytes;
	uint64_t steps;
	int depth, line;
	jmp_buf home;
	struct err *err;
	char *out; /* the text so far; text that is being made stands at its end */
	size_t n_out, cap_out;
	struct jtoken *token;
	size_t n_token, cap_token, at; /* at: the parser's */
	int loops;                     /* around what is being parsed */
	int rest;                      /* REST_… that it names */
	struct jname *names[256];
	struct jnode *body;
	struct jscope globals, *scope;
	struct jval captured;
};

/* jinja_value.c: memory, errors, output, values */
_Noreturn void jinja_fail(struct jinja *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
_Noreturn void jinja_no_memory(struct jinja *j);
_Noreturn void jinja_undefined(struct jinja *j, struct jval v);
void *jinja_alloc(struct jinja *j, size_t size); /* zeroed */
/* Frees what was allocated since `until` had `used` bytes. */
void jinja_release(struct jinja *j, struct jchunk *until, size_t used);
void jinja_step(struct jinja *j, size_t n);
void jinja_deeper(struct jinja *j);
const char *jinja_intern(struct jinja *j, const char *text, size_t size);
void jinja_put(struct jinja *j, const char *text, size_t size);
void jinja_puts(struct jinja *j, const char *text);
/* What was put since n_out was `mark`, taken off the end. */
struct jval jinja_cut(struct jinja *j, size_t mark);
struct jval jinja_cut_as(struct jinja *j, size_t mark, struct jval of); /* safe if that is */
struct jval jv_str(struct jinja *j, const char *text, size_t size);     /* copied */
struct jval jv_list(struct jinja *j, enum jlist_kind kind);
struct jval jv_dict(struct jinja *j);
void jv_add(struct jinja *j, struct jlist *l, struct jval v);
void jv_put(struct jinja *j, struct jdict *d, struct jval key, struct jval v);
const struct jval *jv_get(struct jinja *j, const struct jdict *d, struct jval key);
bool jv_true(struct jval v);
/* Whether an argument came, and is true. */
static inline bool jv_is_on(const struct jval *arg)
{
	return arg && jv_true(*arg);
}
bool jv_equal(struct jinja *j, struct jval a, struct jval b);
int jv_compare(struct jinja *j, struct jval a, struct jval b); /* fails if they have no order */
bool jv_contains(struct jinja *j, struct jval all, struct jval one);
size_t jv_length(struct jinja *j, struct jval v);
/* What a loop over v goes through; a list's own values, or new ones. */
struct jlist jv_items(struct jinja *j, struct jval v);
const char *jv_type(struct jval v);
bool jv_number(struct jval v); /* integers, floats and booleans */
double jv_double(struct jval v);
int64_t jv_int(struct jinja *j, struct jval v, const char *what);
struct jstr jv_text(struct jinja *j, struct jval v, const char *what);
/* Position of an element from an index that may count from the end; -1: none. */
int64_t jv_index(struct jinja *j, struct jval index, size_t n);

static inline struct jval jv_none(void)
{
	return (struct jval){ .type = J_NONE };
}

static inline struct jval jv_undef(const char *what)
{
	return (struct jval){ .type = J_UNDEF, .u.what = what };
}

static inline struct jval jv_bool(bool b)
{
	return (struct jval){ .type = J_BOOL, .u.b = b };
}

static inline struct jval jv_of_int(int64_t i)
{
	return (struct jval){ .type = J_INT, .u.i = i };
}

static inline struct jval jv_of_float(double f)
{
	return (struct jval){ .type = J_FLOAT, .u.f = f };
}

/* text that lives as long as the interpreter */
static inline struct jval jv_view(const char *text, size_t n)
{
	return (struct jval){ .type = J_STR, .u.s = { text, n, NULL } };
}

static inline struct jval jv_const(const char *text)
{
	return jv_view(text, strlen(text));
}

static inline bool jstr_is(struct jstr s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.at, text, s.n);
}

/* jinja_text.c: characters, and values as text */
size_t jt_length(struct jstr s);
size_t jt_offset(struct jstr s, size_t index); /* bytes before the character */
bool jt_space(int32_t c);
struct jstr jt_strip(struct jstr s, const struct jval *chars, bool left, bool right);
void jt_put_char(struct jinja *j, int32_t c);
void jt_put(struct jinja *j, struct jval v);         /* as {{ v }} prints it */
void jt_put_escaped(struct jinja *j, struct jstr s); /* for HTML */
struct jval jt_str(struct jinja *j, struct jval v);
struct jval filter_tojson(struct jinja *j, const struct jcall *c);

/* jinja_strings.c: how: 'l': small letters, 'u': capitals, 'c', 't': a title's letter first, in the
 * text or in each word, 'f': a capital first. */
struct jval jt_case(struct jinja *j, struct jstr s, int how);

/* jinja_lex.c, jinja_parse.c, jinja_statement.c */
void jinja_lex(struct jinja *j, const char *text, size_t size, bool expression);
struct jval jinja_number(struct jinja *j, const char *text, size_t size);
struct jnode *jinja_parse(struct jinja *j);
struct jnode *jinja_parse_expression(struct jinja *j);
struct jnode *parse_expression(struct jinja *j);
struct jnode *parse_tuple(struct jinja *j, bool with_if, bool may_be_empty);
bool parse_ends_tuple(struct jinja *j);
struct jnode *parse_filters(struct jinja *j, struct jnode *of, bool start);
struct jnode *parse_node(struct jinja *j, enum jkind kind, struct jnode *a, struct jnode *b);
bool parse_is(struct jinja *j, enum jtoken_type type, const char *name);
bool parse_skip(struct jinja *j, enum jtoken_type type, const char *name);
void parse_expect(struct jinja *j, enum jtoken_type type, const char *name);
const char *parse_name(struct jinja *j);

/* jinja_call.c, jinja_ops.c, jinja_run.c */
struct jval jinja_eval(struct jinja *j, const struct jnode *n);
struct jval jinja_attribute(struct jinja *j, struct jval v, struct jval name, bool item);
struct jval jinja_slice(struct jinja *j, struct jval v, const struct jval *part);
struct jval jinja_binary(struct jinja *j, enum jop op, struct jval a, struct jval b);
struct jval jinja_escaped(struct jinja *j, struct jval v); /* a string, unless it is safe */
struct jval jinja_concat(struct jinja *j, struct jstr a, struct jstr b);
bool jinja_relation(struct jinja *j, enum jop op, struct jval a, struct jval b);
struct jval jinja_call(struct jinja *j, struct jval f, const struct jargs *args);
struct jval jinja_builtin(
	struct jinja *j, const struct jbuiltin *f, struct jval self, const struct jargs *args);
void jinja_assign(struct jinja *j, const char *name, struct jval v);
enum jflow jinja_run(struct jinja *j, const struct jnode *body);
/* Whether the loop has an item i; its condition is asked no further than that, as in Jinja. */
bool jinja_loop_has(struct jinja *j, struct jloop *l, size_t i);

/* Tables, ended by a row without a name. */
const struct jbuiltin *jinja_find(const struct jbuiltin *table, const char *name, size_t size);
extern const struct jbuiltin filters_text[], filters_list[], jinja_tests[], jinja_globals[];
extern const struct jbuiltin methods_str[], methods_dict[];
const struct jbuiltin *jinja_filter(const char *name, size_t size);
