/* See automaton.h. */
#include "engine/grammar/automaton.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { BOTTOM = 0, UNKNOWN = -2 };

static const char too_many[] = "the grammar is too ambiguous: it can be read in too many ways at "
							   "once";
static const char too_long[] = "the grammar is too ambiguous: what it allows takes too long to "
							   "find";
static const char no_memory[] = "no memory for the grammar";

static int32_t fail(struct automaton *a, const char *why)
{
	if (!a->failed)
		a->failed = why;
	return BOTTOM;
}

/* ---- numbers by hash ---- */

static uint32_t mix(uint32_t h, uint32_t x)
{
	h = (h ^ x) * 0x9e3779b1u;
	return h ^ h >> 15;
}

static uint32_t frame_hash(const struct automaton *a, int32_t i)
{
	const struct frame *f = &a->frame[i];

	return mix(mix(mix(1, (uint32_t)f->node), (uint32_t)f->count), (uint32_t)f->parent);
}

static uint32_t stacks_hash(const int32_t *stack, int32_t n, bool ends)
{
	uint32_t h = mix(2, ends);

	for (int32_t i = 0; i < n; i++)
		h = mix(h, (uint32_t)stack[i]);
	return h;
}

static uint32_t state_hash(const struct automaton *a, int32_t i)
{
	const struct state *s = &a->state[i];

	return stacks_hash(a->stack + s->first, s->n, s->ends);
}

/* A table of at least twice as many places as numbers, a power of 2. */
static bool table_room(int32_t **table, int32_t *size, int32_t n,
	uint32_t (*hash)(const struct automaton *a, int32_t i), const struct automaton *a)
{
	int32_t *bigger;
	const int32_t most = *size ? *size * 2 : 1024;

	if (n * 2 < *size)
		return true;
	bigger = malloc((size_t)most * sizeof *bigger);
	if (!bigger)
		return false;
	memset(bigger, -1, (size_t)most * sizeof *bigger);
	for (int32_t i = 0; i < n; i++) {
		uint32_t at = hash(a, i);

		while (bigger[at & (uint32_t)(most - 1)] >= 0)
			at++;
		bigger[at & (uint32_t)(most - 1)] = i;
	}
	free(*table);
	*table = bigger;
	*size = most;
	return true;
}

/* The number of a stack. */
static int32_t push(struct automaton *a, int32_t node, int32_t count, int32_t parent)
{
	struct frame *f;
	uint32_t at;

	if (a->n_frames == AUTOMATON_MOST_FRAMES)
		return fail(a, "the grammar needs too many stacks: the answer nests too deeply");
	if (!table_room(&a->frame_at, &a->n_frame_at, a->n_frames, frame_hash, a) ||
		!ARRAY_ROOM(a->frame, a->cap_frames, a->n_frames + 1) ||
		!ARRAY_ROOM(a->met, a->cap_met, a->n_frames + 1))
		return fail(a, no_memory);
	f = &a->frame[a->n_frames]; /* a new one, unless there is one like it */
	*f = (struct frame){ node, count, parent };
	for (at = frame_hash(a, a->n_frames);; at++) {
		int32_t *place = &a->frame_at[at & (uint32_t)(a->n_frame_at - 1)];

		if (*place < 0) {
			*place = a->n_frames;
			a->met[a->n_frames] = -1;
			return a->n_frames++;
		}
		if (!memcmp(&a->frame[*place], f, sizeof *f))
			return *place;
	}
}

/* ---- the making of a state ---- */

static void append(struct automaton *a, int32_t **list, int32_t *n, int32_t *cap, int32_t frame)
{
	if (ARRAY_ROOM(*list, *cap, *n + 1))
		(*list)[(*n)++] = frame;
	else
		fail(a, no_memory);
}

/* A stack is to be followed, unless it was already for this state. */
static void follow(struct automaton *a, int32_t node, int32_t count, int32_t parent)
{
	const int32_t frame = push(a, node, count, parent);

	if (a->failed || a->met[frame] == a->making)
		return;
	a->met[frame] = a->making;
	append(a, &a->todo, &a->n_todo, &a->cap_todo, frame);
}

static void loop(
	struct automaton *a, const struct grammar_node *n, int32_t number, const struct frame *f)
{
	/* beyond these a count changes nothing */
	const int32_t most = n->most < 0 ? n->least : n->most;

	if (f->count >= n->least)
		follow(a, n->next, 0, f->parent);
	if (n->most < 0 || f->count < n->most)
		follow(a, n->arg, 0, push(a, number, f->count < most ? f->count + 1 : f->count, f->parent));
}

static void go_back(struct automaton *a, int32_t to)
{
	const struct frame f = a->frame[to];

	if (to == BOTTOM)
		a->found_end = true;
	else
		follow(a, f.node, f.count, f.parent);
}

static void take(struct automaton *a, int32_t frame)
{
	if (a->n_found == AUTOMATON_MOST_STACKS)
		fail(a, too_many);
	else
		append(a, &a->found, &a->n_found, &a->cap_found, frame);
}

/* A call that nothing follows leaves no trace on the stack, so that lists by recursion do not
 * grow. */
static int32_t parent_of_call(
	struct automaton *a, const struct grammar_node *n, const struct frame *f)
{
	return a->program.node[n->next].kind == NODE_RETURN ? f->parent
														: push(a, n->next, 0, f->parent);
}

static void follow_all(struct automaton *a)
{
	for (; a->n_todo && !a->failed; a->work++) {
		const int32_t number = a->todo[--a->n_todo];
		const struct frame f = a->frame[number];
		const struct grammar_node *n = &a->program.node[f.node];

		if (a->work == a->most && a->most)
			fail(a, too_long);
		switch (n->kind) {
		case NODE_SET: take(a, number); break;
		case NODE_SPLIT:
			follow(a, n->next, 0, f.parent);
			follow(a, n->arg, 0, f.parent);
			break;
		case NODE_CALL: follow(a, n->arg, 0, parent_of_call(a, n, &f)); break;
		case NODE_LOOP: loop(a, n, f.node, &f); break;
		case NODE_RETURN: go_back(a, f.parent); break;
		}
	}
}

static int by_number(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* The number of the state whose stacks were found. */
static int32_t state_of_found(struct automaton *a)
{
	uint32_t at;

	if (!a->n_found && !a->found_end)
		return STATE_DEAD;
	if (a->n_states == AUTOMATON_MOST_STATES)
		fail(a, "the grammar needs too many states");
	else if (!table_room(&a->state_at, &a->n_state_at, a->n_states, state_hash, a) ||
			 !ARRAY_ROOM(a->state, a->cap_states, a->n_states + 1) ||
			 !ARRAY_ROOM(a->found, a->cap_found, a->n_found + 1) ||
			 !ARRAY_ROOM(a->stack, a->cap_stacks, a->n_stacks + a->n_found + 1))
		fail(a, no_memory);
	if (a->failed)
		return STATE_DEAD;
	qsort(a->found, (size_t)a->n_found, sizeof *a->found, by_number);
	for (at = stacks_hash(a->found, a->n_found, a->found_end);; at++) {
		int32_t *place = &a->state_at[at & (uint32_t)(a->n_state_at - 1)];
		const struct state *s = &a->state[*place < 0 ? 0 : *place];

		if (*place < 0) {
			*place = a->n_states;
			break;
		}
		if (s->n == a->n_found && s->ends == a->found_end &&
			!memcmp(a->stack + s->first, a->found, (size_t)s->n * sizeof *a->found))
			return *place;
	}
	memcpy(a->stack + a->n_stacks, a->found, (size_t)a->n_found * sizeof *a->found);
	a->state[a->n_states] =
		(struct state){ .first = a->n_stacks, .n = a->n_found, .ends = a->found_end };
	a->n_stacks += a->n_found;
	return a->n_states++;
}

static void begin(struct automaton *a)
{
	a->making++;
	a->n_todo = a->n_found = 0;
	a->found_end = false;
}

static int32_t end(struct automaton *a)
{
	follow_all(a);
	return a->failed ? STATE_DEAD : state_of_found(a);
}

static int32_t make_next(struct automaton *a, int32_t state, unsigned char byte)
{
	begin(a);
	for (int32_t i = 0; i < a->state[state].n; i++) {
		const struct frame f = a->frame[a->stack[a->state[state].first + i]];
		const struct grammar_node *n = &a->program.node[f.node];

		if (byte_has(&a->program.set[n->arg], byte))
			follow(a, n->next, 0, f.parent);
	}
	return end(a);
}

int32_t automaton_next(struct automaton *a, int32_t state, unsigned char byte)
{
	const int32_t class = a->program.class_of[byte];
	struct state *s;
	int32_t next;

	if (state < 0 || a->failed)
		return STATE_DEAD;
	s = &a->state[state];
	if (!s->next) {
		s->next = malloc((size_t)a->program.n_classes * sizeof *s->next);
		if (!s->next) {
			fail(a, no_memory);
			return STATE_DEAD;
		}
		for (int32_t i = 0; i < a->program.n_classes; i++)
			s->next[i] = UNKNOWN;
	}
	if (s->next[class] != UNKNOWN)
		return s->next[class];
	next = make_next(a, state, byte);
	return a->failed ? STATE_DEAD : (a->state[state].next[class] = next);
}

static bool is_limited(const struct automaton *a, int32_t frame)
{
	return a->program.limited[a->program.node[a->frame[frame].node].rule];
}

int32_t automaton_leave(struct automaton *a, int32_t state)
{
	const struct state *s = &a->state[state];

	begin(a);
	for (int32_t i = 0; i < s->n; i++)
		if (!is_limited(a, a->stack[s->first + i]))
			take(a, a->stack[s->first + i]);
	a->found_end = s->ends;
	return a->n_found == s->n || (!a->n_found && !s->ends) ? state : end(a);
}

bool automaton_is_whole(struct automaton *a, int32_t state)
{
	return state >= 0 && a->state[state].ends && !a->state[state].n;
}

/* ---- open and close ---- */

int automaton_open(struct automaton *a, struct program *p, struct err *e)
{
	*a = (struct automaton){ .program = *p };
	*p = (struct program){ 0 };
	push(a, -1, 0, -1); /* the bottom */
	begin(a);
	if (!a->failed)
		follow(a, a->program.start, 0, BOTTOM);
	a->start = end(a);
	if (!a->failed)
		return 0;
	err_set(e, a->failed == no_memory ? ERR_MEMORY : ERR_USAGE, "%s", a->failed);
	automaton_close(a);
	return -1;
}

void automaton_close(struct automaton *a)
{
	for (int32_t i = 0; i < a->n_states; i++)
		free(a->state[i].next);
	free(a->state);
	free(a->frame);
	free(a->stack);
	free(a->frame_at);
	free(a->state_at);
	free(a->todo);
	free(a->met);
	free(a->found);
	program_free(&a->program);
	*a = (struct automaton){ 0 };
}

/* ---- words ---- */

static const char *rule_name(const struct automaton *a, int32_t frame)
{
	return a->program.rule[a->program.node[a->frame[frame].node].rule];
}

/* Its deepest stack, of the first few: the one that is furthest inside. -1: it has none. */
static int32_t deepest(const struct automaton *a, int32_t state, int32_t *depth)
{
	enum { FEW = 64 };
	int32_t best = -1;

	*depth = 0;
	for (int32_t i = 0; state >= 0 && i < a->state[state].n && i < FEW; i++) {
		const int32_t top = a->stack[a->state[state].first + i];
		int32_t d = 0;

		for (int32_t f = top; f != BOTTOM; f = a->frame[f].parent)
			d++;
		if (d > *depth) {
			*depth = d;
			best = top;
		}
	}
	return best;
}

const char *automaton_rule(const struct automaton *a, int32_t state)
{
	int32_t depth;
	const int32_t top = deepest(a, state, &depth);

	return top < 0 ? "" : rule_name(a, top);
}

int32_t automaton_describe(const struct automaton *a, int32_t state, char *buf, size_t cap)
{
	enum { SHOWN = 12 };
	const char *name[SHOWN], *last = "";
	int32_t depth, n = 0;
	size_t used = 0;

	*buf = 0;
	for (int32_t f = deepest(a, state, &depth); f > BOTTOM; f = a->frame[f].parent) {
		if (strcmp(rule_name(a, f), last) != 0 && n < SHOWN)
			name[n++] = rule_name(a, f);
		last = rule_name(a, f);
	}
	while (n-- && used + 1 < cap)
		used += (size_t)snprintf(buf + used, cap - used, "%s%.40s", used ? " > " : "", name[n]);
	return depth;
}
