/* certify: chooses the cases, compares, counts. See certify.h; what a case is and how it runs is in
 * certify_axes.c and certify_run.c.
 *
 * Value 0 of every axis is the base. A case leaves a trail: for each judged or generated token its
 * position, id and hash of logits. The hash covers the whole row of logits, so an equal trail is an
 * equal computation. Each text has a base run of its own. Thread: the caller's. */
#include "sessions/certify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/gguf.h"
#include "sessions/certify_private.h"

enum text_size { TEXT_SHORT, TEXT_MIDDLE, TEXT_LONG, TEXT_DEEP, N_TEXTS };
enum { MOST_TRIES = 2, HEAVY_EVERY = 6 };

struct certify {
	const struct certify_options *o;
	struct axes axes;
	struct workload work[N_TEXTS];
	struct trail base[N_TEXTS]; /* n = 0: not run */
	struct trail trail;			/* of the case under way */
	int first[N_AXES];			/* its value 0 in sum->value */
	bool met[CERTIFY_MAX_VALUES][CERTIFY_MAX_VALUES];
	uint8_t tries[CERTIFY_MAX_VALUES][CERTIFY_MAX_VALUES];
	uint64_t random;
	double start, slowest; /* when it began; seconds of the slowest case */
	certify_tell *tell;
	void *arg;
	struct certify_summary *sum;
	struct err differs; /* the first difference */
};

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Not before one case has been compared: nothing would have been proven. */
static bool late(const struct certify *c)
{
	return c->o->seconds > 0 && c->sum->n_cases > 0 && now() - c->start >= c->o->seconds;
}

/* ---- comparing ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9E3779B97F4A7C15u;
	return h ^ (h >> 29);
}

static uint64_t hash_trail(uint64_t h, const struct trail *t)
{
	for (int32_t i = 0; i < t->n; i++)
		h = mix(mix(mix(h, (uint64_t)t->row[i].pos), (uint64_t)t->row[i].id),
				(uint64_t)t->row[i].hash);
	return h;
}

static bool compare(struct certify *c, const struct trail *base, const char *what)
{
	const struct trail *t = &c->trail;
	struct err found = {0};
	bool equal = true;
	for (int32_t i = 0; equal && i < base->n && i < t->n; i++) {
		equal = base->row[i].pos == t->row[i].pos && base->row[i].id == t->row[i].id &&
				base->row[i].hash == t->row[i].hash;
		if (!equal)
			err_set(&found, ERR_DIFFERS,
					"%s: the first difference is row %d, of request %lld: base has position %lld, "
					"token %lld, hash %016llx; here position %lld, token %lld, hash %016llx",
					what, i, (long long)t->row[i].request, (long long)base->row[i].pos,
					(long long)base->row[i].id, (unsigned long long)base->row[i].hash,
					(long long)t->row[i].pos, (long long)t->row[i].id,
					(unsigned long long)t->row[i].hash);
	}
	if (equal && base->n != t->n) {
		equal = false;
		err_set(&found, ERR_DIFFERS, "%s: %d tokens, the base has %d", what, t->n, base->n);
	}
	if (!equal && !c->differs.code)
		c->differs = found;
	return equal;
}

/* ---- one case ---- */

static enum text_size text_of(const struct certify *c, const int *choice, bool mixed)
{
	if (axes_slow(&c->axes, choice[AXIS_KERNELS])) { /* the definition itself crosses a span */
		const char *name = c->axes.axis[AXIS_KERNELS].value[choice[AXIS_KERNELS]];
		return !strcmp(name, "ref") && !mixed && !c->o->quick ? TEXT_MIDDLE : TEXT_SHORT;
	}
	const char *chunk = c->axes.axis[AXIS_CHUNK].value[choice[AXIS_CHUNK]];
	return atoi(chunk) > c->work[TEXT_LONG].n_ids ? TEXT_DEEP : TEXT_LONG;
}

static int run(struct certify *c, const int *choice, enum text_size size, struct trail *trail,
			   struct evidence *ev, struct certify_plan *p, struct err *e)
{
	*p = (struct certify_plan){
		.axes = &c->axes, .work = c->work[size], .seed = c->o->seed, .model = c->o->model};
	memcpy(p->choice, choice, sizeof p->choice);
	return certify_run_case(p, trail, ev, e);
}

static int run_base(struct certify *c, enum text_size size, struct err *e)
{
	const int choice[N_AXES] = {0};
	struct certify_plan p;
	struct evidence ev;
	int32_t want = c->work[size].n_ids - 1 + c->work[size].n_generated;
	if (run(c, choice, size, &c->base[size], &ev, &p, e))
		return -1;
	if (c->base[size].n != want)
		return err_set(e, ERR_INPUT,
					   "certify: the base run gave %d tokens of %d; is the model damaged?",
					   c->base[size].n, want);
	c->sum->hash = hash_trail(c->sum->hash, &c->base[size]);
	return 0;
}

/* Notes which values and pairs were seen at work. Returns how many axes were idle. */
static int count(struct certify *c, const struct certify_plan *p, const struct evidence *ev,
				 char *seen, char *idle, size_t cap)
{
	bool works[N_AXES] = {false};
	int n_idle = 0;
	for (int a = 0; a < N_AXES; a++) {
		struct certify_value *v = &c->sum->value[c->first[a] + p->choice[a]];
		if (!p->choice[a])
			continue;
		works[a] = axes_at_work(p, (enum axis)a, ev, seen, cap);
		v->cases += works[a];
		v->idle += !works[a];
		v->rows += works[a] ? c->trail.n : 0;
		if (!works[a])
			snprintf(idle + strlen(idle), cap - strlen(idle), "%s%s", n_idle++ ? ", " : "",
					 c->axes.axis[a].name);
		for (int b = 0; b < a; b++) {
			int i = c->first[b] + p->choice[b], j = c->first[a] + p->choice[a];
			if (!p->choice[b])
				continue;
			c->tries[i][j]++;
			if (works[a] && works[b] && !c->met[i][j]) {
				c->met[i][j] = true;
				c->sum->pairs_met++;
			}
		}
	}
	return n_idle;
}

static int try(struct certify *c, const char *axis, const char *what, const int *choice, bool mixed,
			   struct err *e)
{
	enum text_size size = text_of(c, choice, mixed);
	struct certify_plan p;
	struct evidence ev;
	double begin = now();
	char seen[512] = "", idle[512] = "", label[400];
	if (run(c, choice, size, &c->trail, &ev, &p, e))
		return -1;
	snprintf(label, sizeof label, "%s %s", axis, what);
	bool equal = compare(c, &c->base[size], label);
	int n_idle = count(c, &p, &ev, seen, idle, sizeof idle);
	struct certify_summary *s = c->sum;
	s->n_cases++;
	s->n_mixed += mixed;
	s->n_differ += !equal;
	s->n_idle += n_idle > 0;
	s->n_tokens += c->trail.n;
	s->seconds = now() - c->start;
	c->slowest = now() - begin > c->slowest ? now() - begin : c->slowest;
	struct certify_case told = {axis,		  what,		  seen,			 idle,
								c->trail.n,	  equal,	  s->n_cases,	 s->seconds,
								s->pairs_met, s->pairs_possible};
	c->tell(c->arg, &told);
	return 0;
}

/* Slow kernels come last: should time be short, it is theirs that is. */
static int try_values(struct certify *c, struct err *e)
{
	for (int k = 0; k < 2 * N_AXES; k++) {
		int a = k % N_AXES;
		const struct axis_values *v = &c->axes.axis[a];
		for (int i = 1; i < (c->o->quick ? v->n_quick : v->n); i++) {
			int choice[N_AXES] = {0};
			choice[a] = i;
			if (axes_slow(&c->axes, choice[AXIS_KERNELS]) != (k >= N_AXES))
				continue;
			if (late(c)) {
				c->sum->out_of_time = true;
				return 0;
			}
			if (try(c, v->name, v->value[i], choice, false, e))
				return -1;
		}
	}
	return 0;
}

/* ---- mixed cases: a covering array, made greedily as time allows (after AETG: Cohen, Dalal,
 * Fredman, Patton 1997) ---- */

static bool heavy(const struct certify *c, int a, int i)
{
	return (a == AXIS_KERNELS && axes_slow(&c->axes, i)) ||
		   (a == AXIS_CHUNK && atoi(c->axes.axis[a].value[i]) == 512) ||
		   (a == AXIS_CHUNK && atoi(c->axes.axis[a].value[i]) == 1);
}

static bool open_pair(const struct certify *c, int a, int i, int b, int j)
{
	int x = c->first[a < b ? a : b] + (a < b ? i : j);
	int y = c->first[a < b ? b : a] + (a < b ? j : i);
	return i && j && !c->met[x][y] && c->tries[x][y] < MOST_TRIES &&
		   axes_agree(&c->axes, a, i, b, j);
}

/* Open pairs that value i of axis a would make with what is chosen; -1: it cannot be. */
static int gain(const struct certify *c, const int *choice, int a, int i)
{
	int n = 0;
	for (int b = 0; b < N_AXES; b++) {
		if (b == a)
			continue;
		if (!axes_agree(&c->axes, a, i, b, choice[b]))
			return -1;
		n += open_pair(c, a, i, b, choice[b]);
	}
	return n;
}

/* The first pair, from a random place on, that has not met. */
static bool begin_mixed(struct certify *c, int *choice, bool heavy_too)
{
	int n = c->sum->n_values, at = (int)(certify_random(&c->random) % (uint64_t)(n * n));
	for (int k = 0; k < n * n; k++, at = (at + 1) % (n * n)) {
		int a = 0, b = 0, i = at / n, j = at % n;
		while (a + 1 < N_AXES && c->first[a + 1] <= i)
			a++;
		while (b + 1 < N_AXES && c->first[b + 1] <= j)
			b++;
		i -= c->first[a];
		j -= c->first[b];
		if (a >= b || !open_pair(c, a, i, b, j) ||
			(!heavy_too && (heavy(c, a, i) || heavy(c, b, j))))
			continue;
		choice[a] = i;
		choice[b] = j;
		return true;
	}
	return false;
}

/* Preempting for a large page or on slow kernels takes long, and little is left of the rest. */
static bool too_much(const struct certify *c, const int *choice, int a)
{
	const char *size = c->axes.axis[AXIS_PAGE_SIZE].value[choice[AXIS_PAGE_SIZE]];
	return a == AXIS_PREEMPTION &&
		   (axes_slow(&c->axes, choice[AXIS_KERNELS]) || atoi(size) > 64);
}

static void extend_mixed(struct certify *c, int *choice, bool heavy_too)
{
	int order[N_AXES];
	for (int a = 0; a < N_AXES; a++) {
		int k = (int)(certify_random(&c->random) % (uint64_t)(a + 1)); /* Fisher and Yates */
		order[a] = order[k];
		order[k] = a;
	}
	for (int k = 0; k < N_AXES; k++) {
		int a = order[k], n = c->axes.axis[a].n, best = 0, best_gain = 0;
		int from = (int)(certify_random(&c->random) % (uint64_t)n);
		for (int v = 0; v < n && !choice[a]; v++) {
			int i = (from + v) % n, g = i && (heavy_too || !heavy(c, a, i)) ? gain(c, choice, a, i)
																			: 0;
			if (g > best_gain)
				best = i, best_gain = g;
		}
		if (best && !too_much(c, choice, a))
			choice[a] = best;
	}
}

static void describe(const struct certify *c, const int *choice, char *what, size_t cap)
{
	size_t n = 0;
	for (int a = 0; a < N_AXES && n < cap; a++)
		if (choice[a])
			n += (size_t)snprintf(what + n, cap - n, "%s%s %s", n ? ", " : "",
								  c->axes.axis[a].name, c->axes.axis[a].value[choice[a]]);
}

/* A heavy case is begun only if as much time is left as the slowest took. */
static bool time_for_heavy(const struct certify *c)
{
	return c->o->seconds <= 0 || now() - c->start + c->slowest < c->o->seconds;
}

static int try_mixed(struct certify *c, struct err *e)
{
	int32_t most = c->o->mixed;
	for (int32_t i = 0; !late(c) && (!most || i < most); i++) {
		int choice[N_AXES] = {0};
		char what[320] = "";
		bool can = time_for_heavy(c), heavy_too = can && i % HEAVY_EVERY == HEAVY_EVERY - 1;
		if (!begin_mixed(c, choice, heavy_too) &&
			(!can || !begin_mixed(c, choice, heavy_too = true)))
			break;
		extend_mixed(c, choice, heavy_too);
		describe(c, choice, what, sizeof what);
		if (try(c, "mixed", what, choice, true, e))
			return -1;
	}
	return 0;
}

/* ---- setting up ---- */

static void list_values(struct certify *c)
{
	struct certify_summary *s = c->sum;
	for (int a = 0; a < N_AXES; a++) {
		const struct axis_values *v = &c->axes.axis[a];
		c->first[a] = s->n_values;
		for (int i = 0; i < v->n; i++) {
			struct certify_value *out = &s->value[s->n_values++];
			snprintf(out->axis, sizeof out->axis, "%s", v->name);
			snprintf(out->value, sizeof out->value, "%s", v->value[i]);
			out->base = !i;
		}
	}
	for (int a = 0; a < N_AXES; a++)
		for (int b = a + 1; b < N_AXES; b++)
			for (int i = 1; i < c->axes.axis[a].n; i++)
				for (int j = 1; j < c->axes.axis[b].n; j++)
					s->pairs_possible += axes_agree(&c->axes, a, i, b, j);
}

static int list_formats(const char *path, char *out, size_t cap, struct err *e)
{
	struct gguf *g = NULL;
	bool seen[K_N_TYPES] = {false};
	if (gguf_open(&g, path, e))
		return -1;
	for (int32_t i = 0; i < gguf_n_tensors(g); i++)
		seen[gguf_tensor_at(g, i)->type] = true;
	gguf_close(g);
	for (int t = 0; t < K_N_TYPES; t++)
		if (seen[t])
			snprintf(out + strlen(out), cap - strlen(out), "%s%s", *out ? " " : "",
					 k_types[t].name);
	return 0;
}

/* What is proven of: asked of an engine like the base's. */
static int learn_subject(struct certify *c, struct err *e)
{
	struct certify_plan p = {.axes = &c->axes, .model = c->o->model};
	struct engine_options o = axes_options(&p);
	struct certify_summary *s = c->sum;
	struct engine *engine = NULL;
	if (list_formats(c->o->model, s->formats, sizeof s->formats, e) || engine_open(&engine, &o, e))
		return -1;
	const struct engine_info *info = engine_info(engine);
	snprintf(s->model, sizeof s->model, "%s", info->name);
	snprintf(s->isa, sizeof s->isa, "%s", info->isa);
	s->threads = info->threads;
	/* the largest chunk, which is the last value, needs a text that is longer */
	if (c->o->quick || info->ctx < CERTIFY_LONGEST + c->work[TEXT_DEEP].n_generated) {
		c->work[TEXT_DEEP] = (struct workload){0, 0};
		c->axes.axis[AXIS_CHUNK].n--;
	}
	engine_close(engine);
	return 0;
}

static int prove(struct certify *c, struct err *e)
{
	axes_fill(&c->axes);
	if (learn_subject(c, e))
		return -1;
	list_values(c);
	for (int size = 0; size < N_TEXTS; size++)
		if (c->work[size].n_ids && run_base(c, (enum text_size)size, e))
			return -1;
	return try_values(c, e) || try_mixed(c, e) ? -1 : 0;
}

int certify_run(const struct certify_options *o, certify_tell *tell, void *arg,
				struct certify_summary *sum, struct err *e)
{
	struct certify *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(e, ERR_MEMORY, "out of memory");
	*sum = (struct certify_summary){.n_axes = N_AXES};
	c->o = o;
	c->tell = tell;
	c->arg = arg;
	c->sum = sum;
	c->random = o->seed;
	c->start = now();
	c->work[TEXT_SHORT] = (struct workload){18, 3};
	c->work[TEXT_MIDDLE] = o->quick ? (struct workload){0, 0} : (struct workload){132, 2};
	c->work[TEXT_LONG] = o->quick ? (struct workload){150, 20} : (struct workload){200, 32};
	c->work[TEXT_DEEP] = (struct workload){CERTIFY_LONGEST, 12};
	int status = prove(c, e);
	sum->seconds = now() - c->start;
	if (!status && sum->n_differ)
		status = err_set(e, ERR_DIFFERS, "%s", c->differs.text);
	free(c);
	return status;
}
