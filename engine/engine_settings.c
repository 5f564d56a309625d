/* Settings that can change while the engine runs. One table: name, what it takes, how to set and get. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/compute.h"
#include "engine/engine_impl.h"

struct setting {
	int (*set)(struct engine *e, const char *value, struct err *err);
	void (*get)(const struct engine *e, char *buf, size_t cap);
};

static int parse(const char *name, const char *value, long low, long high, int32_t *out, struct err *err)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(value, &end, 10);
	if (errno || end == value || *end || v < low || v > high)
		return err_set(err, ERR_USAGE, "%s %s: a number from %ld to %ld is needed", name, value, low,
					   high);
	*out = (int32_t)v;
	return 0;
}

static int parse_switch(const char *name, const char *value, bool *out, struct err *err)
{
	if (!strcmp(value, "on") || !strcmp(value, "off")) {
		*out = value[1] == 'n';
		return 0;
	}
	return err_set(err, ERR_USAGE, "%s %s: on or off is needed", name, value);
}

static int set_chunk(struct engine *e, const char *v, struct err *err)
{
	return parse("prefill-chunk", v, 0, ENGINE_MAX_BUDGET, &e->sched.chunk, err);
}
static void get_chunk(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->sched.chunk);
}

static int set_budget(struct engine *e, const char *v, struct err *err)
{
	int32_t rows;

	if (parse("budget", v, e->info.slots, ENGINE_MAX_BUDGET, &rows, err) ||
		e->compute->grow(e, rows, err))
		return -1;
	e->sched.budget = rows;
	return 0;
}
static void get_budget(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->sched.budget);
}

static int set_prefix(struct engine *e, const char *v, struct err *err)
{
	if (parse_switch("prefix-cache", v, &e->prefix.on, err))
		return -1;
	if (!e->prefix.on)
		prefix_clear(&e->prefix);
	return 0;
}
static void get_prefix(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->prefix.on ? "on" : "off");
}

static int set_evict(struct engine *e, const char *v, struct err *err)
{
	for (int i = 0; prefix_policies[i]; i++)
		if (!strcmp(prefix_policies[i], v)) {
			e->prefix.policy = (enum prefix_policy)i;
			return 0;
		}
	return err_set(err, ERR_USAGE, "evict %s: lru, fifo or lfu is needed", v);
}
static void get_evict(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", prefix_policies[e->prefix.policy]);
}

static int set_policy(struct engine *e, const char *v, struct err *err)
{
	const struct sched_policy *policy = sched_policy_find(v, err);

	if (!policy)
		return -1;
	e->sched.policy = policy;
	return 0;
}
static void get_policy(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->sched.policy->name);
}

static void get_spec(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->draft.spec);
}

static int set_rule(struct engine *e, const char *v, struct err *err)
{
	if (strcmp(v, "race") && strcmp(v, "rejection"))
		return err_set(err, ERR_USAGE, "rule %s: race or rejection is needed", v);
	e->draft.rejection = v[1] == 'e';
	return 0;
}
static void get_rule(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->draft.rejection ? "rejection" : "race");
}

/* The pool is made anew: same memory, other pages. What was cached is forgotten. */
static int set_page_size(struct engine *e, const char *v, struct err *err)
{
	int64_t tokens = (int64_t)e->kv.n_pages * e->kv.store.page_size;
	struct prefix old_prefix;
	struct kv old_kv;
	int32_t size;

	if (parse("page-size", v, K_GROUP, 1024, &size, err))
		return -1;
	if (size % K_GROUP)
		return err_set(err, ERR_USAGE, "page-size %d: a multiple of %d is needed", size, K_GROUP);
	if (!engine_idle(e))
		return err_set(err, ERR_USAGE, "page-size can only change while nothing runs or waits");
	if (tokens < size)
		return err_set(err, ERR_USAGE, "page-size %d: the whole pool has only %lld tokens", size,
					   (long long)tokens);
	prefix_clear(&e->prefix); /* tells the evictions */
	old_kv = e->kv;
	old_prefix = e->prefix;
	if (engine_open_pages(e, size, (int32_t)(tokens / size), err)) {
		e->kv = old_kv;
		e->prefix = old_prefix;
		return -1;
	}
	prefix_close(&old_prefix);
	kv_close(&old_kv);
	return 0;
}
static void get_page_size(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->kv.store.page_size);
}

static int set_layer(struct engine *e, const char *v, struct err *err)
{
	return parse("observe-layer", v, -1, e->info.n_layers - 1, &e->observe.layer, err);
}
static void get_layer(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->observe.layer);
}

static int set_head(struct engine *e, const char *v, struct err *err)
{
	return parse("observe-head", v, -1, e->info.n_heads - 1, &e->observe.head, err);
}
static void get_head(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->observe.head);
}

static int set_every(struct engine *e, const char *v, struct err *err)
{
	return parse("attention-every", v, 1, 1024, &e->observe.every, err);
}
static void get_every(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->observe.every);
}

static int set_cuda_mode(struct engine *e, const char *v, struct err *err)
{
	return k_set_mode(e->kernels, v, err);
}
static void get_cuda_mode(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->kernels && *k_mode(e->kernels) ? k_mode(e->kernels) : "-");
}

/* Pages that were computed otherwise are forgotten: exact means everything behind a row was. */
static int set_exact(struct engine *e, const char *v, struct err *err)
{
	bool exact;

	if (parse_switch("exact", v, &exact, err))
		return -1;
	if (exact == !e->forward.fast)
		return 0;
	if (!exact && !k_has_fast(e->kernels))
		return err_set(err, ERR_USAGE,
					   "exact off: the back end \"%s\" computes exactly, and knows no other way; a GPU does, for "
					   "F16 and BF16 weights",
					   e->info.backend);
	if (!exact && !e->model->halves)
		return err_set(err, ERR_USAGE,
					   "exact off: this model has no F16 or BF16 weights, and nothing else has a way that is not "
					   "exact");
	if (!engine_idle(e))
		return err_set(err, ERR_USAGE, "exact can only change while nothing runs or waits");
	prefix_clear(&e->prefix);
	e->forward.fast = !exact;
	return 0;
}
static void get_exact(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", e->forward.fast ? "off" : "on");
}

static int set_pages(struct engine *e, const char *v, struct err *err)
{
	(void)e;
	return err_set(err, ERR_USAGE, "pages %s: the size of the pool is fixed at the start; see --pages", v);
}
static void get_pages(const struct engine *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%d", e->kv.n_pages);
}

#define SETTINGS(X)                                                                                \
	X("prefill-chunk", "0-4096", "most prompt rows of one request in a step; 0: whole prompts", chunk) \
	X("budget", "slots-4096", "most rows in a step", budget)                                       \
	X("prefix-cache", "on|off", "share the pages of equal beginnings", prefix)                     \
	X("policy", "fcfs|shortest", "order in which requests are admitted, prompts computed, and who is preempted", policy) \
	X("evict", "lru|fifo|lfu", "which cached page goes when one is needed", evict)                \
	X("spec", "off|NAME[:ARGS]", "who guesses tokens ahead", spec)                                   \
	X("shadow", "off|free|all|NAME+NAME", "who guesses beside the run, without being used", shadow) \
	X("rule", "race|rejection", "how a drafted token is judged", rule)                             \
	X("page-size", "multiple of 16", "tokens of a KV page; only while nothing runs", page_size)    \
	X("pages", "-", "KV pages of the pool; fixed at the start", pages)                             \
	X("attention-every", "1-1024", "tokens from one row whose attention is told to the next; at first 1 to 8, by the model's size", every) \
	X("observe-layer", "-1 or a layer", "layer whose chosen head is watched; -1: none", layer)     \
	X("observe-head", "-1 or a head", "head that is watched in it; -1: none", head)                \
	X("cuda-mode", "launches|graph|persistent", "how a GPU runs a step; the bits are the same", cuda_mode) \
	X("exact", "on|off", "off: a GPU computes many rows by F16 weights faster, and not exactly", exact) \
	X("roof", "measure", "bandwidth of plain reads, which steps are held against; measure: read it once more", roof)

#define set_spec engine_set_spec
#define set_shadow engine_set_shadow
#define get_shadow engine_get_shadow
#define set_roof engine_roof_set
#define get_roof engine_roof_get
const struct engine_setting engine_settings[] = {
#define X(name, values, doc, fn) { name, values, doc },
	SETTINGS(X)
#undef X
	{ NULL, NULL, NULL }
};

static const struct setting ways[] = {
#define X(name, values, doc, fn) { set_##fn, get_##fn },
	SETTINGS(X)
#undef X
};

static const struct setting *find(const char *name)
{
	for (size_t i = 0; engine_settings[i].name; i++)
		if (!strcmp(engine_settings[i].name, name))
			return &ways[i];
	return NULL;
}

int engine_get(const struct engine *e, const char *name, char *buf, size_t cap)
{
	const struct setting *s = find(name);

	if (!s)
		return -1;
	s->get(e, buf, cap);
	return 0;
}

void engine_tell_setting(struct engine *e, const char *name)
{
	char value[128];

	if (!engine_get(e, name, value, sizeof value))
		engine_note_setting(e, name, value);
}

int engine_set(struct engine *e, const char *name, const char *value, struct err *err)
{
	const struct setting *s = find(name);

	if (!s)
		return err_set(err, ERR_USAGE, "there is no setting \"%s\"", name);
	if (s->set(e, value, err))
		return -1;
	if (e->begun && !strcmp(name, "page-size"))
		engine_tell_setting(e, "pages"); /* first: the pool is made of this many pages of the new size */
	if (e->begun)
		engine_tell_setting(e, name);
	return 0;
}

void engine_tell_settings(struct engine *e)
{
	for (size_t i = 0; engine_settings[i].name; i++)
		engine_tell_setting(e, engine_settings[i].name);
}
