/* See breaks.h. One set of expressions, evaluated by the thread that feeds a step: live that is the
 * engine's, within the step, because a breakpoint stops before the next one begins. An expression
 * is bounded (watch.c) but may take milliseconds, so there are two locks, taken in this order:
 * `evaluating`, held to feed a step and to add or remove an expression; and `lock`, held briefly,
 * for all that a frame shows. SQLite allocates some 100 bytes for each expression and step and
 * gives them back; without expressions a step costs one atomic load. */
#include "tui/state/breaks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

struct item {
	bool watch, once;
	char name[BREAKS_NAME];
	int64_t step[BREAKS_VALUES]; /* rings */
	float value[BREAKS_VALUES];
	int64_t n; /* values so far */
};

struct search {
	pthread_t thread;
	bool started;
	atomic_int state; /* enum breaks_search */
	atomic_bool abandon;
	atomic_llong at;
	char *path;
	char expr[WATCH_EXPR];
	int64_t from;
	struct watch_hit found;
	bool back;
	struct err err;
};

struct breaks {
	pthread_mutex_t evaluating; /* the set, whose expressions change under both locks */
	pthread_mutex_t lock;       /* everything else here */
	struct watch_set *set;
	struct item item[WATCH_MAX];
	atomic_int n_items;
	struct watch_hit hit;
	char hit_why[160];
	void (*stop)(void *arg);
	void *stop_arg;
	struct search search;
	struct reader *reader; /* breaks_follow */
	int64_t read_step;
	bool stale; /* something was added: its values of earlier steps are missing */
	struct err err;
};

int breaks_open(struct breaks **out, struct err *e)
{
	struct breaks *b = calloc(1, sizeof *b);

	*out = NULL;
	if (!b || watch_open(&b->set, e)) {
		free(b);
		return err_no_memory(e, "breakpoints");
	}
	pthread_mutex_init(&b->evaluating, NULL);
	pthread_mutex_init(&b->lock, NULL);
	*out = b;
	return 0;
}

void breaks_close(struct breaks *b)
{
	if (!b)
		return;
	breaks_stop_search(b);
	reader_close(b->reader);
	watch_close(b->set);
	pthread_mutex_destroy(&b->evaluating);
	pthread_mutex_destroy(&b->lock);
	free(b->search.path);
	free(b);
}

void breaks_on_stop(struct breaks *b, void (*stop)(void *arg), void *arg)
{
	b->stop = stop;
	b->stop_arg = arg;
}

bool breaks_any(struct breaks *b)
{
	return atomic_load(&b->n_items) > 0;
}

static void lock_both(struct breaks *b)
{
	pthread_mutex_lock(&b->evaluating);
	pthread_mutex_lock(&b->lock);
}

static void unlock_both(struct breaks *b)
{
	pthread_mutex_unlock(&b->lock);
	pthread_mutex_unlock(&b->evaluating);
}

/* Both locks are held. */
static bool take_away(struct breaks *b, int i, bool watch)
{
	if (!watch_expr(b->set, i) || b->item[i].watch != watch)
		return false;
	watch_remove(b->set, i);
	atomic_fetch_sub(&b->n_items, 1);
	return true;
}

/* ---- feeding ---- */

/* Both locks are held. True if a breakpoint holds. */
static bool take_step(struct breaks *b, int64_t step)
{
	bool held = false;

	for (int i = 0; i < WATCH_MAX; i++) {
		const char *expr = watch_expr(b->set, i);
		struct item *item = &b->item[i];

		if (!expr)
			continue;
		item->step[item->n % BREAKS_VALUES] = step;
		item->value[item->n++ % BREAKS_VALUES] = (float)watch_value(b->set, i);
		if (item->watch || !watch_holds(b->set, i))
			continue;
		if (!held) {
			b->hit = watch_hit(b->set, i);
			snprintf(b->hit_why, sizeof b->hit_why, "break %d: %.120s", i + 1, expr);
		}
		held = true;
		if (item->once && b->stop)
			take_away(b, i, false);
	}
	return held;
}

void breaks_feed(void *breaks, const struct event *ev)
{
	struct breaks *b = breaks;
	bool held = false;

	/* texts are needed before an expression uses them */
	if (ev->kind != EV_vocab && !breaks_any(b))
		return;
	pthread_mutex_lock(&b->evaluating);
	if (watch_feed(b->set, ev)) {
		pthread_mutex_lock(&b->lock);
		held = take_step(b, ev->u.step.step);
		pthread_mutex_unlock(&b->lock);
	}
	pthread_mutex_unlock(&b->evaluating);
	if (held && b->stop)
		b->stop(b->stop_arg);
}

struct watch_hit breaks_stopped(struct breaks *b, char *why, size_t cap)
{
	struct watch_hit hit;

	pthread_mutex_lock(&b->lock);
	hit = b->hit;
	b->hit.step = 0;
	if (hit.step)
		snprintf(why, cap, "%s", b->hit_why);
	pthread_mutex_unlock(&b->lock);
	return hit;
}

bool breaks_series(struct breaks *b, int n, struct breaks_series *out)
{
	bool found = false;

	pthread_mutex_lock(&b->lock);
	for (int i = 0; i < WATCH_MAX && !found; i++) {
		const struct item *item = &b->item[i];
		int64_t first = item->n > BREAKS_VALUES ? item->n - BREAKS_VALUES : 0;

		if (!watch_expr(b->set, i) || !item->watch || n-- > 0)
			continue;
		found = true;
		snprintf(out->name, sizeof out->name, "%s", item->name);
		snprintf(out->expr, sizeof out->expr, "%.60s", watch_expr(b->set, i));
		out->n = (int)(item->n - first);
		for (int k = 0; k < out->n; k++) {
			out->step[k] = item->step[(first + k) % BREAKS_VALUES];
			out->value[k] = item->value[(first + k) % BREAKS_VALUES];
		}
	}
	pthread_mutex_unlock(&b->lock);
	return found;
}

/* ---- commands ---- */

/* Puts the offending part of the expression between marks. */
int breaks_point_out(const char *expr, int where, struct err *found, struct err *e)
{
	if (where < 0)
		return err_set(e, found->code, "%s", found->text);
	return err_set(e, found->code, "%s  at: %.*s\xc2\xbb%.40s", found->text,
		where < 60 ? where : 60, expr, expr + where);
}

static int add(struct breaks *b, const char *expr, const char *name, bool once, struct err *e)
{
	struct err found = { 0 };
	int where, n;

	lock_both(b);
	n = watch_add(b->set, expr, &where, &found);
	if (n >= 0) {
		b->item[n] = (struct item){ .watch = name != NULL, .once = once };
		snprintf(b->item[n].name, sizeof b->item[n].name, "%s", name ? name : "");
		atomic_fetch_add(&b->n_items, 1);
		b->stale = true;
	}
	unlock_both(b);
	return n >= 0 ? n : breaks_point_out(expr, where, &found, e);
}

static int list(struct breaks *b, bool watch, char **say)
{
	size_t size;
	FILE *out = open_memstream(say, &size);

	if (!out)
		return 0;
	lock_both(b);
	for (int i = 0; i < WATCH_MAX; i++) {
		const char *expr = watch_expr(b->set, i);

		if (!expr || b->item[i].watch != watch)
			continue;
		fprintf(out, "%2d  %-*s%s%s%s%s\n", i + 1, watch ? BREAKS_NAME : 0, b->item[i].name, expr,
			b->item[i].once ? "   (once)" : "",
			*watch_trouble(b->set, i) ? "   has no value: " : "", watch_trouble(b->set, i));
	}
	unlock_both(b);
	if (!ftell(out))
		fputs(watch ? "no watches: /watch NAME EXPRESSION shows a number of each step\n"
					: "no breakpoints: /break EXPRESSION stops after a step for which it holds\n",
			out);
	fputs("\nExpressions are SQL over what a step logged; Tab completes its columns:\n", out);
	for (int i = 0; watch_column(i); i++)
		fprintf(out, "%-20s%s%s%s%s\n", watch_column(i)->name, watch_column(i)->doc,
			*watch_column(i)->unit ? " (" : "", watch_column(i)->unit,
			*watch_column(i)->unit ? ")" : "");
	fclose(out);
	return 0;
}

/* "off": all of the kind; "off 2" or "off NAME": that one. */
static int off(struct breaks *b, const char *which, bool watch, char **say, struct err *e)
{
	char *end;
	long n = strtol(which, &end, 10);
	int gone = 0;

	lock_both(b);
	for (int i = 0; i < WATCH_MAX; i++)
		if (!*which || (!*end && n == i + 1) || (watch && !strcmp(b->item[i].name, which)))
			gone += take_away(b, i, watch);
	unlock_both(b);
	if (*which && !gone)
		return err_set(e, ERR_USAGE, "there is no %s %.40s: /%s lists them",
			watch ? "watch" : "breakpoint", which, watch ? "watch" : "break");
	if (asprintf(say, *which ? "of the %s %s is taken away" : "all %s are taken away%s",
			watch ? "watches" : "breakpoints", which) < 0)
		*say = NULL;
	return 0;
}

static const char *skip(const char *p)
{
	return p + strspn(p, " ");
}

int breaks_command(
	struct breaks *b, enum breaks_kind kind, const char *text, char **say, struct err *e)
{
	static const char *const added[] = { "breakpoint set: it holds after a step with %s",
		"breakpoint set, for once: it holds after a step with %s",
		"watching %s: /view watch shows it step by step" };
	const bool watch = kind == BREAKS_WATCH;
	char name[BREAKS_NAME];
	size_t n = watch ? strcspn(skip(text), " ") : 0;

	*say = NULL;
	text = skip(text);
	if (!*text && kind != BREAKS_ONCE)
		return list(b, watch, say);
	if (!strncmp(text, "off", 3) && (!text[3] || text[3] == ' ') && kind != BREAKS_ONCE)
		return off(b, skip(text + 3), watch, say, e);
	if (!*skip(text + n))
		return err_set(e, ERR_USAGE,
			watch ? "a watch has a name and an expression: /watch surprise entropy"
				  : "an expression is needed, such as /tbreak entropy > 3");
	snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
	if (add(b, skip(text + n), watch ? name : NULL, kind == BREAKS_ONCE, e) < 0)
		return -1;
	if (asprintf(say, added[kind], text) < 0)
		*say = NULL;
	return 0;
}

/* ---- searching ---- */

static bool progress(void *arg, int64_t step)
{
	struct search *s = arg;

	atomic_store(&s->at, step);
	return !atomic_load(&s->abandon);
}

static void *searching(void *arg)
{
	struct search *s = arg;

	int found = watch_find(s->path, s->expr, s->from, s->back, progress, s, &s->found, &s->err);

	atomic_store(&s->state, found > 0 ? SEARCH_FOUND : found ? SEARCH_FAILED : SEARCH_NOTHING);
	return NULL;
}

static void join(struct search *s)
{
	if (s->started)
		pthread_join(s->thread, NULL);
	s->started = false;
}

void breaks_stop_search(struct breaks *b)
{
	atomic_store(&b->search.abandon, true);
	join(&b->search);
	atomic_store(&b->search.state, SEARCH_NONE);
}

/* One expression that is true where any breakpoint is; "" if there is none. False: it would be too
 * long. */
static bool any_break(struct breaks *b, char *out, size_t cap)
{
	size_t used = 0;

	*out = '\0';
	pthread_mutex_lock(&b->lock);
	for (int i = 0; i < WATCH_MAX && used < cap; i++)
		if (watch_expr(b->set, i) && !b->item[i].watch)
			used += (size_t)snprintf(
				out + used, cap - used, "%s(%s)", used ? " OR " : "", watch_expr(b->set, i));
	pthread_mutex_unlock(&b->lock);
	return used < cap;
}

/* The expression that a search stands for; NULL with the error. */
static const char *searched_for(
	struct breaks *b, const char *expr, char *buf, size_t cap, struct err *e)
{
	expr = *skip(expr) ? skip(expr) : b->search.expr;
	if (!*expr) {
		err_set(e, ERR_USAGE, "an expression is needed, such as /find entropy > 3");
		return NULL;
	}
	if (strcmp(expr, "break") != 0)
		return expr;
	if (!any_break(b, buf, cap) || !*buf) {
		err_set(e, ERR_USAGE,
			*buf ? "the breakpoints are too long to be searched for at once"
				 : "there is no breakpoint to search for: /break EXPRESSION sets one");
		return NULL;
	}
	return buf;
}

int breaks_find(
	struct breaks *b, const char *path, const char *expr, int64_t from, bool back, struct err *e)
{
	struct search *s = &b->search;
	struct watch_set *check;
	struct err found = { 0 };
	char buf[WATCH_EXPR];
	int where = -1, bad;

	breaks_stop_search(b);
	expr = searched_for(b, expr, buf, sizeof buf, e);
	if (!expr)
		return -1;
	if (watch_open(&check, e))
		return -1;
	bad = watch_add(check, expr, &where, &found) < 0;
	watch_close(check);
	if (bad)
		return breaks_point_out(expr, where, &found, e);
	free(s->path);
	s->path = strdup(path);
	if (expr != s->expr)
		snprintf(s->expr, sizeof s->expr, "%s", expr);
	s->from = from;
	s->back = back;
	s->err = (struct err){ 0 };
	atomic_store(&s->abandon, false);
	atomic_store(&s->at, from);
	atomic_store(&s->state, SEARCH_RUNS);
	if (!s->path || pthread_create(&s->thread, NULL, searching, s)) {
		atomic_store(&s->state, SEARCH_NONE);
		return err_set(e, ERR_MEMORY, "the system refused a thread to search");
	}
	s->started = true;
	return 0;
}

enum breaks_search breaks_found(struct breaks *b, struct watch_hit *at, struct err *e)
{
	struct search *s = &b->search;
	enum breaks_search state = (enum breaks_search)atomic_load(&s->state);

	*at = state == SEARCH_FOUND ? s->found : (struct watch_hit){ .step = atomic_load(&s->at) };
	if (state == SEARCH_NONE || state == SEARCH_RUNS)
		return state;
	join(s);
	if (state == SEARCH_FAILED)
		err_set(e, s->err.code, "%s", s->err.text);
	atomic_store(&s->state, SEARCH_NONE);
	return state;
}

bool breaks_searching(struct breaks *b)
{
	return atomic_load(&b->search.state) != SEARCH_NONE;
}

const char *breaks_searched(const struct breaks *b)
{
	return b->search.expr;
}

/* ---- replay ---- */

/* Up to the event of a step, or the end. The player reports a damaged file. */
static void read_step(struct breaks *b, int64_t step)
{
	struct event ev;

	while (b->read_step < step && reader_next(b->reader, &ev, &b->err) > 0) {
		breaks_feed(b, &ev);
		if (ev.kind == EV_step)
			b->read_step = ev.u.step.step;
	}
}

/* Positions the reader before the steps that fill the sparklines up to `step`. */
static bool breaks_position(struct breaks *b, const char *path, int64_t step)
{
	int64_t first = step > BREAKS_VALUES ? step - BREAKS_VALUES : 0, seq;

	if (!b->reader) {
		if (reader_open(&b->reader, path, &b->err))
			return false;
		watch_texts(b->set, path, &b->err);
	}
	seq = first ? reader_step_seq(b->reader, first) : 0;
	if (reader_seek(b->reader, seq < 0 ? 1 : seq + 1, &b->err))
		return false;
	b->read_step = first;
	pthread_mutex_lock(&b->lock);
	for (int i = 0; i < WATCH_MAX; i++)
		b->item[i].n = 0;
	pthread_mutex_unlock(&b->lock);
	return true;
}

void breaks_follow(struct breaks *b, const char *path, int64_t step)
{
	int64_t known = b->reader && !b->stale ? b->read_step : -1;
	void (*stop)(void *arg) = b->stop;
	char why[160];

	if (!breaks_any(b) || step == known || step < 1)
		return;
	b->stale = false;
	/* only a single step forward stops; a jump does not */
	b->stop = step == known + 1 ? stop : NULL;
	if ((known >= 0 && step > known && step <= known + BREAKS_VALUES) ||
		breaks_position(b, path, step))
		read_step(b, step);
	if (step != known + 1)
		breaks_stopped(b, why, sizeof why);
	b->stop = stop;
	if (b->reader)
		reader_rest(b->reader);
}
