/* certify: see certify.h.
 *
 * A case is one choice of a value for each axis; value 0 of every axis is the base. A case computes
 * a workload and leaves a trail: for each judged or generated token its position, id and hash of
 * logits. The hash covers the whole row of logits, so an equal trail is an equal computation.
 *
 * Two workloads: the long one crosses two attention spans; the short one is for cases with the
 * reference kernels, which are slow. Each is compared with a base run of its own. Thread: the
 * caller's. */
#include "sessions/certify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"

enum axis {
	AXIS_REFERENCE,
	AXIS_ISA,
	AXIS_THREADS,
	AXIS_PAGE_SIZE,
	AXIS_CHUNK,
	AXIS_COMPANY,
	AXIS_PREFIX,
	AXIS_SPEC,
	N_AXES,
};
enum { MAX_VALUES = 12, CONTEXT = 320, QUICK_PAIRS = 6 };

/* Values of an axis; the first is the base. In --quick only the first n_quick are tried. */
struct axis_values {
	const char *name;
	int n, n_quick;
	const char *value[MAX_VALUES];
};

struct workload {
	int32_t n_ids, n_generated;
};

struct trail {
	int32_t n;
	struct {
		int64_t pos, id, hash;
	} row[1024];
};

struct certify {
	const struct certify_options *o;
	struct axis_values axis[N_AXES];
	char base_threads[16];
	struct workload workload[2]; /* short, long */
	int n_slow_pairs;
	struct trail base[2];
	certify_tell *tell;
	void *arg;
	struct certify_summary *sum;
	struct err differs; /* the first difference */
};

/* One case while it runs: the sink writes here. */
struct run {
	struct trail *trail;
	int64_t request; /* whose tokens are kept; 0: nobody's */
	int64_t hit, drafted, accepted, most_members, members, most_rows;
	bool finished, failed;
};

/* Repeats itself, so that prompt lookup has something to find, and then parts from what it
 * repeated. */
static const char text[] =
	"The cat sat on the mat. The dog sat on the log. The cat sat on the mat. The dog sat on the "
	"fog.\n"
	"for (int i = 0; i < 10; i++) sum += i * i; for (int j = 0; j < 10; j++) sum += j * j;\n"
	"In 1969 people walked on the moon; in 1972 people walked on the moon for the last time. "
	"Überraschung: naïve café, 日本語, emoji 🙂. One two three four five, one two three "
	"four "
	"five, "
	"one two three four six. The cat sat on the mat. The dog sat on the log. The cat sat on the "
	"mat. "
	"A page holds sixteen tokens. A span holds eight groups. A page is shared until it is written "
	"to. "
	"The cat sat on the mat. The dog sat on the log. The cat sat on";

static void on_event(void *arg, const struct event *ev)
{
	struct run *r = arg;
	struct trail *t = r->trail;
	int64_t pos, id, hash, request;
	if (ev->kind == EV_batch) {
		r->members++;
		r->most_rows = ev->u.batch.request == r->request && ev->u.batch.rows > r->most_rows
						   ? ev->u.batch.rows
						   : r->most_rows;
	} else if (ev->kind == EV_step) {
		r->most_members = r->members > r->most_members ? r->members : r->most_members;
		r->members = 0;
		r->drafted += ev->u.step.draft_rows;
		r->accepted += ev->u.step.accepted;
	} else if (ev->kind == EV_lookup && ev->u.lookup.request == r->request) {
		r->hit = ev->u.lookup.hit;
	} else if (ev->kind == EV_finish && ev->u.finish.request == r->request) {
		r->finished = true;
		r->failed = ev->u.finish.reason != EV_FINISH_length;
	}
	if (ev->kind == EV_token) {
		request = ev->u.token.request, pos = ev->u.token.pos;
		id = ev->u.token.id, hash = ev->u.token.hash;
	} else if (ev->kind == EV_score) {
		request = ev->u.score.request, pos = ev->u.score.pos;
		id = ev->u.score.id, hash = ev->u.score.hash;
	} else {
		return;
	}
	if (request != r->request || t->n == (int32_t)(sizeof t->row / sizeof *t->row))
		return;
	t->row[t->n].pos = pos;
	t->row[t->n].id = id;
	t->row[t->n++].hash = hash;
}

/* Steps until the request that the sink watches is finished. */
static int finish(struct engine *engine, struct run *r, struct err *e)
{
	int more = 1;
	while (!r->finished && more > 0)
		more = engine_step(engine, e);
	if (more < 0)
		return -1;
	if (!r->finished)
		return err_set(e, ERR_DEVICE, "certify: the engine stopped before its work was done");
	return 0;
}

static int64_t submit(struct engine *engine, enum ev_code_request_kind kind, const int32_t *ids,
					  int32_t n_ids, int32_t n_generated, struct err *e)
{
	struct engine_request q = {
		.kind = kind,
		.ids = ids,
		.n_ids = n_ids,
		.max_tokens = n_generated,
		.params = SAMPLE_DEFAULTS,
		.text = "certify",
		.ignore_end = true,
	};
	q.params.seed = 7;
	return engine_submit(engine, &q, e);
}

/* Judges every token of the prompt (nothing may be cached: all rows are computed). */
static int run_score(struct engine *engine, struct run *r, const int32_t *ids, int32_t n,
					 struct err *e)
{
	r->finished = false;
	r->request = submit(engine, EV_REQUEST_KIND_score, ids, n, 0, e);
	if (r->request < 0 || finish(engine, r, e))
		return -1;
	return 0;
}

/* Other requests, of other lengths, some there before ours and some after. */
static int submit_company(struct engine *engine, const int32_t *ids, int32_t n, int from, int to,
						  struct err *e)
{
	for (int i = from; i < to; i++) {
		int32_t at = (7 * i + 3) % (n / 2), size = 1 + (13 * i + 5) % (n / 2);
		if (submit(engine, EV_REQUEST_KIND_load, ids + at, size, 6 + 5 * i, e) < 0)
			return -1;
	}
	return 0;
}

static int run_answer(struct engine *engine, struct run *r, const int32_t *ids, struct workload w,
					  int company, struct err *e)
{
	r->finished = false;
	r->request = 0;
	r->hit = 0;
	if (submit_company(engine, ids, w.n_ids, 0, company / 2, e))
		return -1;
	for (int i = 0; company && i < 2; i++) /* ours joins a batch that is under way */
		if (engine_step(engine, e) < 0)
			return -1;
	r->request = submit(engine, EV_REQUEST_KIND_run, ids, w.n_ids, w.n_generated, e);
	if (r->request < 0 || submit_company(engine, ids, w.n_ids, company / 2, company, e))
		return -1;
	return finish(engine, r, e);
}

static const char *chosen(const struct certify *c, const int *choice, enum axis a)
{
	return c->axis[a].value[choice[a]];
}

static struct engine_options options_of(const struct certify *c, const int *choice)
{
	struct engine_options o = ENGINE_DEFAULTS;
	o.model = c->o->model;
	o.backend = chosen(c, choice, AXIS_REFERENCE);
	o.isa = strcmp(o.backend, "ref") ? chosen(c, choice, AXIS_ISA) : NULL;
	o.threads = atoi(chosen(c, choice, AXIS_THREADS));
	o.page_size = atoi(chosen(c, choice, AXIS_PAGE_SIZE));
	o.prefill_chunk = atoi(chosen(c, choice, AXIS_CHUNK));
	o.prefix_cache = !strcmp(chosen(c, choice, AXIS_PREFIX), "hit");
	o.spec = chosen(c, choice, AXIS_SPEC);
	o.ctx = CONTEXT;
	o.slots = 16;
	o.pages = CONTEXT * o.slots / o.page_size;
	return o;
}

/* Runs one case on one workload. */
static int run_case(const struct certify *c, const int *choice, struct workload w, struct run *r,
					struct err *e)
{
	struct engine_options o = options_of(c, choice);
	struct engine *engine = NULL;
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	int company = atoi(chosen(c, choice, AXIS_COMPANY)), status = -1;
	if (engine_open(&engine, &o, e))
		return -1;
	if (engine_add_sink(engine, on_event, r)) {
		err_set(e, ERR_MEMORY, "certify: the engine takes no sink");
		goto out;
	}
	engine_begin(engine, NULL);
	engine_observe(engine, false);
	if (tokenizer_encode(engine_tokenizer(engine), text, strlen(text), false, &ids, &n, &cap, e))
		goto out;
	if (n < (size_t)w.n_ids || engine_info(engine)->ctx < w.n_ids + w.n_generated) {
		err_set(e, ERR_INPUT, "certify: a context of %d tokens is too short",
				engine_info(engine)->ctx);
		goto out;
	}
	if (run_score(engine, r, ids, w.n_ids, e))
		goto out;
	if (o.prefix_cache) { /* once for the cache, its tokens not kept */
		struct trail *kept = r->trail;
		struct trail *aside = calloc(1, sizeof *aside);
		r->trail = aside;
		int failed =
			!aside ? err_set(e, ERR_MEMORY, "out of memory") : run_answer(engine, r, ids, w, 0, e);
		r->trail = kept;
		free(aside);
		if (failed)
			goto out;
	}
	status = run_answer(engine, r, ids, w, company, e);
out:
	free(ids);
	engine_close(engine);
	return status;
}

/* ---- comparing and telling ---- */

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

static bool compare(struct certify *c, const struct trail *base, const struct trail *t,
					const char *what)
{
	for (int32_t i = 0; i < base->n && i < t->n; i++) {
		if (!memcmp(&base->row[i], &t->row[i], sizeof base->row[i]))
			continue;
		err_set(&c->differs, ERR_DIFFERS,
				"%s: the first difference is row %d: base has position %lld, token %lld, hash "
				"%016llx; here "
				"position %lld, token %lld, hash %016llx",
				what, i, (long long)base->row[i].pos, (long long)base->row[i].id,
				(unsigned long long)base->row[i].hash, (long long)t->row[i].pos,
				(long long)t->row[i].id, (unsigned long long)t->row[i].hash);
		return false;
	}
	if (base->n != t->n)
		err_set(&c->differs, ERR_DIFFERS, "%s: %d tokens, the base has %d", what, t->n, base->n);
	return base->n == t->n;
}

/* Evidence that the axes chosen were at work. False: one was not (a draft needs a text that repeats
 * itself, which a model may refuse to write), so that equality says less than the case promises. */
static bool at_work(const int *choice, const struct run *r, char *seen, size_t cap)
{
	int n = 0;
	bool idle = false;
	seen[0] = 0;
	if (choice[AXIS_COMPANY]) {
		n += snprintf(seen + n, cap - (size_t)n, "up to %lld requests in a step, ",
					  (long long)r->most_members);
		idle |= r->most_members < 2;
	}
	if (choice[AXIS_PREFIX]) {
		n += snprintf(seen + n, cap - (size_t)n, "%lld tokens from the cache, ", (long long)r->hit);
		idle |= !r->hit;
	}
	if (choice[AXIS_SPEC]) {
		n += snprintf(seen + n, cap - (size_t)n, "%lld drafted, %lld accepted, ",
					  (long long)r->drafted, (long long)r->accepted);
		idle |= !r->drafted;
	}
	if (n)
		seen[n - 2] = 0;
	return !idle;
}

/* Scalar code takes the short workload. */
static bool is_slow(const struct certify *c, const int *choice)
{
	return choice[AXIS_REFERENCE] ||
		   (choice[AXIS_ISA] && !strcmp(chosen(c, choice, AXIS_ISA), "scalar"));
}

static int try(struct certify *c, const char *axis, const char *what, const int *choice,
			   struct err *e)
{
	int size = is_slow(c, choice) ? 0 : 1;
	struct trail *t = calloc(1, sizeof *t);
	struct run r = {.trail = t};
	char seen[200], label[200];
	if (!t)
		return err_set(e, ERR_MEMORY, "out of memory");
	snprintf(label, sizeof label, "%s %s", axis, what);
	int status = run_case(c, choice, c->workload[size], &r, e);
	if (!status) {
		bool equal = compare(c, &c->base[size], t, label);
		bool idle = !at_work(choice, &r, seen, sizeof seen);
		struct certify_case told = {axis, what, seen, t->n, equal, idle};
		c->tell(c->arg, &told);
		c->sum->n_cases++;
		c->sum->n_differ += !equal;
		c->sum->n_idle += idle;
		c->sum->n_tokens += t->n;
	}
	free(t);
	return status;
}

static int try_axes(struct certify *c, struct err *e)
{
	for (int a = 0; a < N_AXES; a++) {
		const struct axis_values *v = &c->axis[a];
		c->sum->axes_without += v->n < 2;
		for (int i = 1; i < (c->o->quick ? v->n_quick : v->n); i++) {
			int choice[N_AXES] = {0};
			choice[a] = i;
			if (try(c, v->name, v->value[i], choice, e))
				return -1;
		}
	}
	return 0;
}

static uint64_t next_random(uint64_t *state) /* splitmix64 (Steele, Lea, Flood 2014) */
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static bool can_pair(const struct certify *c, int a, int b)
{
	return c->axis[a].n > 1 && c->axis[b].n > 1 && !(a == AXIS_REFERENCE && b == AXIS_ISA);
}

/* One pair of axes, each with a value drawn. Quick runs take one pair with slow kernels and skip
 * more. */
static int try_pair(struct certify *c, const int axes[2], uint64_t *random, struct err *e)
{
	int a = axes[0], b = axes[1], choice[N_AXES] = {0};
	char what[160];
	choice[a] = 1 + (int)(next_random(random) % (uint64_t)(c->axis[a].n - 1));
	choice[b] = 1 + (int)(next_random(random) % (uint64_t)(c->axis[b].n - 1));
	if (c->o->quick && is_slow(c, choice) && c->n_slow_pairs++)
		return 0;
	snprintf(what, sizeof what, "%s %s with %s %s", c->axis[a].name,
			 chosen(c, choice, (enum axis)a), c->axis[b].name, chosen(c, choice, (enum axis)b));
	c->sum->n_pairs++;
	return try(c, "pair", what, choice, e);
}

/* Quick: six pairs of axes, drawn. Else every pair of axes twice. */
static int try_pairs(struct certify *c, struct err *e)
{
	uint64_t random = c->o->seed;
	int pair[N_AXES * N_AXES][2], n = 0, status = 0;
	for (int a = 0; a < N_AXES; a++)
		for (int b = a + 1; b < N_AXES; b++)
			if (can_pair(c, a, b))
				pair[n][0] = a, pair[n++][1] = b;
	c->sum->pairs_possible = n;
	for (int i = 0; !status && c->o->quick && i < n && c->sum->n_pairs < QUICK_PAIRS; i++) {
		/* without repetition: a step of Fisher and Yates */
		int k = i + (int)(next_random(&random) % (uint64_t)(n - i)),
			drawn[2] = {pair[k][0], pair[k][1]};
		memmove(pair[k], pair[i], sizeof pair[k]);
		status = try_pair(c, drawn, &random, e);
	}
	for (int i = 0; !status && !c->o->quick && i < 2 * n; i++)
		status = try_pair(c, pair[i % n], &random, e);
	return status;
}

/* ---- setting up ---- */

static void set_axes(struct certify *c)
{
	static const struct axis_values constant[N_AXES] = {
		[AXIS_REFERENCE] = {"reference", 2, 2, {"cpu", "ref"}},
		[AXIS_ISA] = {"instruction set", 0, 0, {0}},
		[AXIS_THREADS] = {"threads", 1, 3, {NULL}},
		[AXIS_PAGE_SIZE] = {"page size", 5, 3, {"16", "64", "48", "128", "256"}},
		[AXIS_CHUNK] = {"prefill chunk", 7, 3, {"0", "7", "32", "1", "5", "100", "128"}},
		[AXIS_COMPANY] = {"company", 5, 3, {"0", "3", "11", "1", "7"}},
		[AXIS_PREFIX] = {"prefix", 2, 2, {"cold", "hit"}},
		[AXIS_SPEC] = {"speculation", 5, 3, {"off", "ngram:4", "ngram:1", "ngram:2", "ngram:8"}},
	};
	static const char *const threads[] = {"1", "2", "3", "4", "7"};
	memcpy(c->axis, constant, sizeof constant);
	const char *const *isas = k_isas();
	for (struct axis_values *a = &c->axis[AXIS_ISA]; isas[a->n] && a->n < MAX_VALUES; a->n++)
		a->value[a->n] = isas[a->n];
	c->axis[AXIS_ISA].n_quick = c->axis[AXIS_ISA].n;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	snprintf(c->base_threads, sizeof c->base_threads, "%ld",
			 cores < 1	  ? 1
			 : cores > 64 ? 64
						  : cores);
	struct axis_values *t = &c->axis[AXIS_THREADS];
	t->value[0] = c->base_threads;
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
		if (strcmp(threads[i], c->base_threads))
			t->value[t->n++] = threads[i];
}

static int run_bases(struct certify *c, struct err *e)
{
	const int choice[N_AXES] = {0};
	for (int size = 0; size < 2; size++) {
		struct run r = {.trail = &c->base[size]};
		if (run_case(c, choice, c->workload[size], &r, e))
			return -1;
		if (c->base[size].n != c->workload[size].n_ids - 1 + c->workload[size].n_generated)
			return err_set(
				e, ERR_INPUT, "certify: the base run gave %d tokens of %d; is the model damaged?",
				c->base[size].n, c->workload[size].n_ids - 1 + c->workload[size].n_generated);
		c->sum->hash = hash_trail(c->sum->hash, &c->base[size]);
	}
	return 0;
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
	c->workload[0] = o->quick ? (struct workload){18, 3} : (struct workload){140, 8};
	c->workload[1] = o->quick ? (struct workload){150, 24} : (struct workload){200, 72};
	set_axes(c);
	int status = run_bases(c, e) || try_axes(c, e) || try_pairs(c, e) ? -1 : 0;
	if (!status && sum->n_differ)
		status = err_set(e, ERR_DIFFERS, "%s", c->differs.text);
	free(c);
	return status;
}
