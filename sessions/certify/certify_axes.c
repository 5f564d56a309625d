/* The axes of certify: their values, the pairs that are impossible, and the engine options they
 * stand for. See certify_private.h. Thread: any; no state. */
#include <unistd.h>

#include "engine/draft/draft.h"
#include "engine/sched/policy.h"
#include "sessions/certify/certify_private.h"

static void add_value(struct axis_values *a, const char *value)
{
	if (a->n < AXIS_VALUES)
		a->value[a->n++] = value;
}

static void add_engine(struct axes *axes, const char *value, struct axis_engine engine)
{
	struct axis_values *a = &axes->axis[AXIS_KERNELS];
	if (a->n == AXIS_VALUES)
		return;
	axes->engine[a->n] = engine;
	add_value(a, value);
}

/* A GPU in each of its modes, if the first one can be used. */
static void add_devices(struct axes *axes)
{
	const char *driver = getenv("CUTAWAY_CUDA_DRIVER");
	bool shim = driver && *driver; /* the tests' driver shim is slow: one mode is enough */
	struct k_device_info d;
	if (k_devices(&d, 1, NULL) < 1 || *d.unfit)
		return;
	add_engine(axes, "cuda:graph", (struct axis_engine){ "cuda", NULL, "graph", shim });
	if (shim)
		return;
	add_engine(axes, "cuda:launches", (struct axis_engine){ "cuda", NULL, "launches", false });
}

/* The base is the best of this machine. Scalar code (the reference, split among threads) is the
 * last; --quick leaves it out. */
static void fill_kernels(struct axes *axes)
{
	const char *const *isas = k_isas();
	bool scalar = false;
	for (int i = 0; isas[i]; i++)
		if (i && !strcmp(isas[i], "scalar"))
			scalar = true;
		else
			add_engine(axes, isas[i],
				(struct axis_engine){ "cpu", isas[i], NULL, !strcmp(isas[i], "scalar") });
	add_engine(axes, "ref", (struct axis_engine){ "ref", NULL, NULL, true });
	add_devices(axes);
	axes->axis[AXIS_KERNELS].n_quick = axes->axis[AXIS_KERNELS].n;
	if (scalar)
		add_engine(axes, "scalar", (struct axis_engine){ "cpu", "scalar", NULL, true });
}

static void fill_threads(struct axes *axes)
{
	static const char *const threads[] = { "1", "3", "7", "2" };
	struct axis_values *a = &axes->axis[AXIS_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	snprintf(axes->base_threads, sizeof axes->base_threads, "%ld",
		cores < 1    ? 1
		: cores > 64 ? 64
					 : cores);
	add_value(a, axes->base_threads);
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
		if (strcmp(threads[i], axes->base_threads))
			add_value(a, threads[i]);
	a->n_quick = a->n < 3 ? a->n : 3;
}

/* ---- drafters, from their table ---- */

/* The i-th trial, from 0, and its drafter; NULL: there are no more. */
static const struct draft_variant *variant_at(int i, const struct draft_ops **ops)
{
	for (int k = 0; draft_table[k]; k++)
		for (const struct draft_variant *t = draft_table[k]->variants; t && t->name; t++)
			if (!i--) {
				*ops = draft_table[k];
				return t;
			}
	return NULL;
}

static struct axis_drafter drafter_of(const char *name)
{
	struct axis_drafter d = { 0 };

	for (int i = 0; (d.trial = variant_at(i, &d.ops)); i++)
		if (!strcmp(d.trial->name, name))
			break;
	return d;
}

static const char *drafter_name(int i)
{
	const struct draft_ops *ops;
	const struct draft_variant *t = variant_at(i, &ops);

	return t ? t->name : NULL;
}

static void fill_names(struct axis_values *a, const char *(*name)(int i))
{
	for (int i = 0; name(i); i++)
		add_value(a, name(i));
	a->n_quick = a->n;
}

/* The last ones need the deep text. */
static void fill_caches(struct axis_values *a)
{
	fill_names(a, k_cache_name);
	while (k_cache_by_channel(a->n_quick - 1))
		a->n_quick--;
}

static void cut(struct axes *a, enum axis axis)
{
	a->axis[axis].n = a->axis[axis].n_quick = 1;
}

static const struct axis_values constant[N_AXES] = {
	[AXIS_KERNELS] = { "kernels", 0, 0, { 0 } },
	[AXIS_THREADS] = { "threads", 0, 0, { 0 } },
	[AXIS_PAGE_SIZE] = { "page size", 5, 2, { "16", "64", "32", "48", "128" } },
	[AXIS_PAGE_ORDER] = { "page order", 2, 2, { "ascending", "shuffled" } },
	[AXIS_CHUNK] = { "prefill chunk", 5, 2, { "whole", "7", "64", "1", "512" } },
	[AXIS_BATCH] = { "batch", 17, 3,
		{ "1", "4", "17", "2", "3", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
			"16" } },
	[AXIS_ROW] = { "row", 6, 2, { "0", "5", "1", "2", "11", "16" } },
	[AXIS_PREFIX] = { "prefix", 3, 3, { "cold", "hit", "pinned" } },
	[AXIS_KV] = { "kv cache", 2, 2, { "on", "off" } },
	[AXIS_PREEMPTION] = { "preemption", 2, 2, { "never", "forced" } },
	[AXIS_POLICY] = { "policy", 0, 0, { 0 } },
	[AXIS_UNSEEN] = { "unseen pages", 2, 2, { "given back", "kept" } },
	[AXIS_CACHE] = { "cache format", 0, 0, { 0 } },
	[AXIS_DRAFTS] = { "drafts", 9, 2, { "0", "4", "8", "1", "2", "3", "5", "6", "7" } },
	[AXIS_DRAFTER] = { "drafter", 0, 0, { 0 } },
	[AXIS_RULE] = { "rule", 2, 2, { "race", "rejection" } },
	[AXIS_GRAMMAR] = { "grammar", 2, 2, { "none", "any text" } },
	[AXIS_ADAPTER] = { "adapter", 3, 3, { "none", "its own", "others'" } },
	[AXIS_ATTENTION] = { "attention", 3, 3, { "flash", "heads", "matrix" } },
	[AXIS_ZEROS] = { "columns of zeros", 2, 2, { "read", "skipped" } },
	[AXIS_PAIRS] = { "zeros of 2:4", 2, 2, { "left out", "multiplied" } },
	[AXIS_WATCHED] = { "watched", 4, 4, { "no", "attention", "recorded", "twin" } },
	[AXIS_RANKS] = { "ranks", 0, 0, { 0 } },
};

void axes_fill(struct axes *a, const struct certify_options *o)
{
	*a = (struct axes){ .o = o, .start = -1 };
	memcpy(a->axis, constant, sizeof constant);
	if (!o->lora)
		cut(a, AXIS_ADAPTER);
	fill_kernels(a);
	fill_threads(a);
	fill_names(&a->axis[AXIS_POLICY], sched_policy_name);
	fill_caches(&a->axis[AXIS_CACHE]);
	fill_names(&a->axis[AXIS_DRAFTER], drafter_name);
	ranks_fill(&a->axis[AXIS_RANKS]);
	for (int rows = 1; rows <= CERTIFY_ROWS; rows++)
		a->row_ns[rows] =
			1e6 * (0.5 + 0.5 / (1 + 0.2 * ((rows < CERTIFY_ROWS ? rows : rows - 1) - 1)));
	axes_number_values(a);
}

void axes_number_values(struct axes *a)
{
	a->n_values = 0;
	for (int i = 0; i < N_AXES; i++) {
		a->first[i] = a->n_values;
		a->n_values += a->axis[i].n;
		for (int k = 0; k < a->axis[i].n; k++)
			a->number[i][k] = atoi(a->axis[i].value[k]);
	}
	for (int k = 0; k < a->axis[AXIS_DRAFTER].n; k++)
		a->drafter[k] = drafter_of(a->axis[AXIS_DRAFTER].value[k]);
}

const char *axes_chosen(const struct certify_plan *p, enum axis a)
{
	return p->axes->axis[a].value[p->choice[a]];
}

int axes_number(const struct certify_plan *p, enum axis a)
{
	return p->axes->number[a][p->choice[a]];
}

int32_t axes_chunks(const struct certify_plan *p, int32_t n)
{
	const int32_t chunk = axes_number(p, AXIS_CHUNK);

	return chunk ? (n + chunk - 1) / chunk : 1;
}

bool axes_slow(const struct axes *a, const int *choice)
{
	return a->engine[choice[AXIS_KERNELS]].slow;
}

/* As many elders as a prompt's step needs pages; all of them need a second page in the same
 * step. */
enum { STATES_ELDERS = 12 };

static bool has_ways(const struct axis_engine *kernels)
{
	return !strcmp(kernels->backend, "cpu") && strcmp(kernels->isa, "scalar");
}

const char *axes_clash(const struct axes *axes, int a, int i, int b, int j)
{
	if (a > b)
		return axes_clash(axes, b, j, a, i);
	int x = axes->number[a][i], y = axes->number[b][j];
	if (!i || !j)
		return NULL;
	if (a == AXIS_KERNELS && (b == AXIS_ATTENTION || b == AXIS_PAIRS) &&
		!has_ways(&axes->engine[i]))
		return "these kernels have one way to compute attention, and products";
	if (a == AXIS_KERNELS && b == AXIS_CACHE && !strcmp(axes->engine[i].backend, "cuda") &&
		j >= K_N_UNCODED)
		return "the kernels of a GPU read no codes";
	if (a == AXIS_BATCH && b == AXIS_ROW && y >= x)
		return "a batch of n requests has no row after n others";
	if (axes->states && b == AXIS_PREEMPTION && (a == AXIS_BATCH || a == AXIS_ROW) &&
		x <= STATES_ELDERS)
		return "a state is taken from nobody but by many others, who are in the batch too";
	if (a == AXIS_CHUNK && b == AXIS_CACHE && x > MEMORY_ROWS && k_cache_by_channel(j))
		return "beside codes a step has no more rows of a prompt than the recent f16 has room for";
	if (a == AXIS_PREFIX && b == AXIS_KV)
		return "without a KV cache nothing is found in it";
	if (a == AXIS_KV && b == AXIS_PREEMPTION)
		return "without a KV cache a request keeps no pages that could be taken from it";
	if (a == AXIS_KV && (b == AXIS_DRAFTS || b == AXIS_DRAFTER || b == AXIS_RULE))
		return "without a KV cache nothing is drafted";
	if (a == AXIS_KERNELS && b == AXIS_RANKS && !strcmp(axes->engine[i].backend, "cuda"))
		return "ranks compute on CPUs";
	if (a == AXIS_DRAFTER && b == AXIS_RANKS && ranks_have_parts(axes->axis[b].value[j]) &&
		axes->drafter[i].ops->layers)
		return "a rank that has a part of the layers cannot draft with them";
	if ((a == AXIS_CHUNK || a == AXIS_KV) && b == AXIS_RANKS &&
		ranks_of_prompts(axes->axis[b].value[j]))
		return a == AXIS_KV ? "prefill ranks need a KV cache" : "prefill ranks tell no chunks";
	if (a == AXIS_ADAPTER && b == AXIS_RANKS)
		return "ranks compute without adapters";
	if (a == AXIS_DRAFTS && b == AXIS_DRAFTER && axes->drafter[j].trial->own_count)
		return "such a drafter says itself how many tokens it guesses";
	return NULL;
}

int axes_company(const struct certify_plan *p, int *ahead)
{
	int batch = axes_number(p, AXIS_BATCH), row = axes_number(p, AXIS_ROW);
	int n = batch > row ? batch - 1 : row;
	n += !n && p->choice[AXIS_ADAPTER] == CERTIFY_OTHERS;
	if (p->choice[AXIS_PREEMPTION]) {
		int least = p->axes->states ? STATES_ELDERS : 2;
		n = n < least && (n < 1 || p->axes->states) ? least : n;
		*ahead = n; /* the newest request is preempted: that must be ours */
	} else {
		*ahead = row;
	}
	return n;
}

/* As many tokens that the elders need one more page a few steps after our prompt is computed; the
 * prompt waits one step more where it is overtaken. */
int32_t axes_elder_tokens(const struct certify_plan *p)
{
	int32_t size = axes_number(p, AXIS_PAGE_SIZE);
	int32_t steps = p->choice[AXIS_PREFIX] ? 1 : axes_chunks(p, p->work.n_ids);
	/* the input of an encoder takes a step of its own, and a token ends it */
	const int32_t more = 2 * (p->axes->start >= 0);
	int32_t tokens = size - 2 - (steps + more + (p->choice[AXIS_POLICY] != 0)) % size;
	return tokens < 1 ? tokens + size : tokens;
}

/* Pages of the pool. With preemption: enough for our prompt and the elders, but not for the elders'
 * next pages. */
static int32_t pool(const struct certify_plan *p, int32_t size)
{
	int ahead;
	int company = axes_company(p, &ahead);
	int32_t steps = p->choice[AXIS_PREFIX] ? 1 : axes_chunks(p, p->work.n_ids);
	int32_t whole = (p->work.n_ids + p->work.n_generated + size - 1) / size;
	int32_t elder = (axes_elder_tokens(p) + steps + size) / size;
	int32_t pages = (p->work.n_ids + 3) / size + 1 + company * elder;
	if (!p->choice[AXIS_PREEMPTION])
		return CERTIFY_SLOTS * 640 / size;
	if (p->axes->states)
		return company + MEMORY_ROWS / size + 2;
	return pages < whole ? whole : pages;
}

/* ---- drafters ---- */

enum { SOME = 4 }; /* drafted tokens, where the drafts axis does not set them */

int axes_guesses(const struct certify_plan *p)
{
	int n = axes_number(p, AXIS_DRAFTS);

	return n ? n : p->choice[AXIS_DRAFTER] || p->choice[AXIS_RULE] ? SOME : 0;
}

/* The drafter's setting with n drafted tokens, however improbable they are. */
static void write_spec(
	const struct axes *a, const struct draft_variant *t, int n, char out[CERTIFY_SPEC])
{
	draft_spec(t->pattern, n, a->layers, a->draft_file, out, CERTIFY_SPEC);
}

double axes_drafter_rows(const struct certify_plan *p)
{
	const struct draft_variant *t = p->axes->drafter[p->choice[AXIS_DRAFTER]].trial;
	int steps = p->brief ? 2 : p->work.n_generated;
	/* the model drafts for itself, prompt and all */
	bool whole = strstr(t->pattern, "$f") && *p->axes->draft_file;

	if (!p->choice[AXIS_DRAFTER])
		return 0;
	return (whole ? 1 : t->rows) * axes_guesses(p) * steps + (whole ? p->work.n_ids : 0);
}

void axes_spec(struct certify_plan *p)
{
	int n = axes_guesses(p);

	snprintf(p->spec, sizeof p->spec, "off");
	if (n)
		write_spec(p->axes, p->axes->drafter[p->choice[AXIS_DRAFTER]].trial, n, p->spec);
}

static bool opens(const struct axes *a, struct engine *engine, const struct draft_variant *t)
{
	struct err ignored = { 0 };
	char spec[CERTIFY_SPEC];

	write_spec(a, t, SOME, spec);
	return !engine_set(engine, "spec", spec, &ignored);
}

/* Without a trained draft model the model drafts for itself, if the setting can hold its path. */
static bool opens_by_itself(struct axes *a, struct engine *engine, const struct draft_variant *t)
{
	const char *model = a->o->model;
	size_t size = strlen(model);

	if (!strstr(t->pattern, "$f") || strchr(model, ',') || (*model >= '0' && *model <= '9') ||
		size + 2 > sizeof a->draft_file)
		return false;
	snprintf(a->draft_file, sizeof a->draft_file, "%s,", model);
	return opens(a, engine, t);
}

static void fit_drafters(struct axes *a, struct engine *engine)
{
	struct axis_values *v = &a->axis[AXIS_DRAFTER], all = *v;

	v->n = 1;
	for (int i = 1; i < all.n; i++) {
		const struct axis_drafter *d = &a->drafter[i];

		if (d->ops->weighed /* such a drafter chooses among others and opens them itself */ ||
			opens(a, engine, d->trial) || opens_by_itself(a, engine, d->trial))
			add_value(v, all.value[i]);
	}
	v->n_quick = v->n;
}

/* Codes are the last formats; what rows see may exclude them. */
static void fit_caches(struct axis_values *a, struct engine *engine)
{
	struct err ignored = { 0 };

	if (a->n > K_N_UNCODED && engine_set(engine, "cache-format", a->value[K_N_UNCODED], &ignored))
		a->n = a->n_quick = K_N_UNCODED;
	engine_set(engine, "cache-format", a->value[0], &ignored);
}

bool axes_kept(const char *visible)
{
	struct visible v = { 0 };
	struct err ignored = { 0 }; /* it is told when the engine opens */

	return visible && !visible_parse(&v, visible, &ignored) && visible_most_kept(&v, 1) > 0;
}

/* A canvas is computed whole in each step, in pages that it took at once. */
static const enum axis for_next_tokens[] = { AXIS_CHUNK, AXIS_KV, AXIS_PREEMPTION, AXIS_UNSEEN,
	AXIS_DRAFTS, AXIS_DRAFTER, AXIS_RULE, AXIS_GRAMMAR };

void axes_fit_model(struct axes *a, struct engine *engine, int32_t longest)
{
	struct err ignored = { 0 };

	a->layers = engine_info(engine)->n_layers;
	a->states = engine_info(engine)->states;
	a->diffusion = engine_info(engine)->diffusion;
	a->start = engine_info(engine)->start;
	if (a->states) /* no keys and values */
		cut(a, AXIS_CACHE);
	/* nothing to attend to, or the reference computes it */
	if (a->states || a->start >= 0 || !strcmp(engine_info(engine)->isa, "scalar"))
		cut(a, AXIS_ATTENTION);
	if (a->start >= 0 || a->diffusion)
		cut(a, AXIS_PREFIX);
	for (size_t i = 0; a->diffusion && i < sizeof for_next_tokens / sizeof *for_next_tokens; i++)
		cut(a, for_next_tokens[i]);
	if (!a->states && engine_set(engine, "twin", "on", &ignored)) /* some layers keep states */
		a->axis[AXIS_WATCHED].n = a->axis[AXIS_WATCHED].n_quick = 3;
	if (a->states || a->diffusion) { /* no attention to observe */
		a->axis[AXIS_WATCHED].value[1] = "recorded";
		a->axis[AXIS_WATCHED].n = a->axis[AXIS_WATCHED].n_quick = 2;
	}
	engine_set(engine, "twin", "off", &ignored);
	if (engine_set(engine, "skip-zeros", "on", &ignored)) /* formats that have no columns */
		cut(a, AXIS_ZEROS);
	engine_set(engine, "skip-zeros", "off", &ignored);
	if (!engine_info(engine)->pair_bytes)
		cut(a, AXIS_PAIRS);
	fit_caches(&a->axis[AXIS_CACHE], engine);
	a->unseen_from = engine_state(engine).unseen_from;
	if (a->unseen_from > longest)
		cut(a, AXIS_UNSEEN);
	ranks_fit(a, engine_info(engine)->experts);
	if (a->axis[AXIS_DRAFTER].n > 1)
		fit_drafters(a, engine);
	engine_set(engine, "spec", "off", &ignored);
	axes_number_values(a);
}

void axes_fit_context(struct axes *a, struct workload work[N_TEXTS], int32_t ctx)
{
	struct axis_values *pages = &a->axis[AXIS_PAGE_SIZE];

	for (int i = 0; ctx >= CERTIFY_LEAST && i < TEXT_DEEP; i++) {
		struct workload *w = &work[i];

		if (w->n_ids + w->n_generated <= ctx)
			continue;
		w->n_generated = w->n_generated < ctx / 8 ? w->n_generated : ctx / 8;
		w->n_ids = ctx - w->n_generated;
	}
	while (pages->n > 1 && atoi(pages->value[pages->n - 1]) > ctx / 2)
		pages->n--;
	if (pages->n_quick > pages->n)
		pages->n_quick = pages->n;
}

struct engine_options axes_options(const struct certify_plan *p)
{
	struct engine_options o = ENGINE_DEFAULTS;
	const struct axis_engine *kernels = &p->axes->engine[p->choice[AXIS_KERNELS]];
	struct err ignored = { 0 }; /* what was an option is one */
	o.model = p->axes->o->model;
	o.lora = p->choice[AXIS_ADAPTER] ? p->axes->o->lora : NULL;
	lossy_put(&p->axes->o->lossy, &o, &ignored);
	o.backend = kernels->backend;
	o.isa = kernels->isa;
	o.cuda_mode = kernels->mode;
	o.threads = axes_number(p, AXIS_THREADS);
	o.page_size = axes_number(p, AXIS_PAGE_SIZE);
	o.prefill_chunk = axes_number(p, AXIS_CHUNK); /* "whole" is 0 */
	o.prefix_cache = p->choice[AXIS_PREFIX] != 0;
	o.kv_cache = !p->choice[AXIS_KV];
	o.policy = axes_chosen(p, AXIS_POLICY);
	o.give_back = !p->choice[AXIS_UNSEEN];
	o.attention = axes_chosen(p, AXIS_ATTENTION);
	o.skip_zeros = p->choice[AXIS_ZEROS] != 0;
	o.pack_zeros = !p->choice[AXIS_PAIRS];
	o.cache_format = axes_chosen(p, AXIS_CACHE);
	o.spec = p->choice[AXIS_PREEMPTION] || !*p->spec ? "off" : p->spec;
	o.rule = axes_chosen(p, AXIS_RULE);
	o.twin = strcmp(axes_chosen(p, AXIS_WATCHED), "twin") != 0 ? "off" : "on";
	o.counted_cost =
		p->axes->drafter[p->choice[AXIS_DRAFTER]].ops->weighed ? p->axes->row_ns : NULL;
	ranks_set_options(&o, axes_chosen(p, AXIS_RANKS));
	o.slots = CERTIFY_SLOTS;
	o.budget = CERTIFY_BUDGET;
	o.pages = pool(p, o.page_size);
	return o;
}
