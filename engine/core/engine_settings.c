/* Applies the settings of settings.h to an engine: a function for each that is more than a number
 * to be read, and the calls that get and set. Thread: the engine's. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

void engine_fit_steps(struct engine_options *o, bool device)
{
	if (o->prefill_chunk < 0)
		o->prefill_chunk = device ? 512 : 128;
	if (!o->budget)
		o->budget = device ? 1024 : 256;
}

/* Of settings whose values somebody else reads: all of them. */
int engine_apply_copied(struct engine *e, struct engine_options *to, struct err *err)
{
	(void)err;
	engine_fit_steps(to, e->kernels && !k_is_host(e->kernels));
	sched_set(&e->sched, to);
	e->draft.rejection = !strcmp(to->rule, "rejection");
	e->forward.observed.threshold = to->near_zero;
	return 0;
}

int engine_apply_budget(struct engine *e, struct engine_options *to, struct err *err)
{
	engine_fit_steps(to, e->kernels && !k_is_host(e->kernels));
	if (to->budget < e->info.slots)
		return err_set(err, ERR_USAGE,
			"budget %d: a whole number of rows from %d (one a slot) to %d is needed", to->budget,
			e->info.slots, ENGINE_MAX_BUDGET);
	if (e->compute->grow && e->compute->grow(e, to->budget, err))
		return -1;
	e->sched.budget = to->budget;
	return 0;
}

/* What the rows of a diffusion model keep depends on the rows after them, what an encoder keeps on
 * its whole input; a block is found by the tokens up to its end. */
bool engine_keeps_prefixes(const struct engine *e, const struct engine_options *o)
{
	return o->prefix_cache && o->kv_cache && !(e->model && model_sees_ahead(e->model));
}

int engine_apply_prefix(struct engine *e, struct engine_options *to, struct err *err)
{
	(void)err;
	to->prefix_cache = to->prefix_cache && !(e->model && model_sees_ahead(e->model));
	e->prefix.on = engine_keeps_prefixes(e, to);
	if (!e->prefix.on)
		engine_clear_prefix(e);
	return 0;
}

int engine_apply_policy(struct engine *e, struct engine_options *to, struct err *err)
{
	e->sched.policy = sched_policy_find(to->policy, err);
	return e->sched.policy ? 0 : -1;
}

/* The format that the option names. */
static enum k_cache engine_cache_format(const struct engine_options *o)
{
	return (enum k_cache)setting_choice(&engine_settings[ENGINE_AT_cache_format], o);
}

/* What chooses among keys or turns them against a query reads them as numbers. */
static int check_codes(enum k_cache format, const struct visible *v, struct err *err)
{
	char policy[64];

	if (!k_cache_bits((int32_t)format) ||
		(!visible_picks(v) && !visible_most_kept(v, 1) && !visible_policy_of(v)->rotated))
		return 0;
	visible_print(v, policy, sizeof policy);
	return err_set(err, ERR_USAGE,
		"visible %s with cache-format %s: it reads keys as numbers, and these are codes; use one "
		"of f16, f32, bf16 and e4m3, or another of full, window:N, sinks:N+window:N and the "
		"patterns",
		policy, k_cache_name((int)format));
}

/* Latent attention has one key for all heads, whose values are a part of it. */
static int check_latent(
	const struct engine *e, enum k_cache format, const struct visible *v, struct err *err)
{
	bool latent = false;

	for (int32_t g = 0; g < e->specs.n; g++)
		latent |= e->specs.group[g].kv.value_dim > 0;
	if (latent && k_cache_bits((int32_t)format))
		return err_set(err, ERR_USAGE,
			"cache-format %s: this model's attention is latent; use one of f16, f32, bf16 and e4m3",
			k_cache_name((int)format));
	if (latent && (visible_picks(v) || visible_most_kept(v, 1) || visible_policy_of(v)->rotated))
		return err_set(err, ERR_USAGE,
			"visible: this model's attention is latent, and cannot choose or turn keys; use one of "
			"full, window:N, sinks:N+window:N and the patterns");
	return 0;
}

int engine_set_format(struct engine *e, const struct engine_options *o, struct err *err)
{
	if (o->cache_residual != K_RECENT && !k_cache_by_channel((int32_t)engine_cache_format(o)))
		return err_set(err, ERR_USAGE,
			"cache-residual %d: cache-format %s keeps all tokens alike; it is for kivi4 and kivi2",
			o->cache_residual, o->cache_format);
	if (check_codes(engine_cache_format(o), &e->forward.visible, err) ||
		check_latent(e, engine_cache_format(o), &e->forward.visible, err))
		return -1;
	if (e->model && model_sees_ahead(e->model) &&
		k_cache_by_channel((int32_t)engine_cache_format(o)))
		return err_set(err, ERR_USAGE,
			"cache-format %s: it keeps the newest tokens in 16 bits, but %s see later ones; use "
			"one of f16, f32, bf16, e4m3 and q8",
			o->cache_format, model_sees_ahead(e->model));
	e->specs.state_room = memory_room_of(o->state_memory);
	return memory_set_format(&e->specs, engine_cache_format(o), o->cache_residual, err);
}

/* The pool keeps its bytes: of smaller pages it has more. */
int engine_apply_cache_format(struct engine *e, struct engine_options *to, struct err *err)
{
	const struct memory_specs old = e->specs;
	bool kept = false;

	for (int32_t g = 0; g < old.n; g++)
		kept |= !old.group[g].kind->is_state;
	if (!kept && engine_cache_format(to))
		return err_set(err, ERR_USAGE,
			"cache-format %s: this model has no keys and values: its layers keep states",
			to->cache_format);
	if (!k_cache_by_channel((int32_t)engine_cache_format(to)) &&
		to->cache_residual == e->set.cache_residual)
		to->cache_residual = K_RECENT;
	if (engine_set_format(e, to, err) || engine_take_specs(e, &old, err))
		return -1;
	to->pages = e->memory.pages[e->memory.primary].n_pages;
	return 0;
}

/* Pages have the extents of keys, and what heads keep its group, only where rows choose by them. */
static int set_choice(struct engine *e, const struct visible *v, struct err *err)
{
	const struct memory_specs old = e->specs;

	memory_set_key_ranges(&e->specs, visible_picks(v));
	if (!memory_set_kept(&e->specs, visible_most_kept(v, e->info.ctx), err))
		return engine_take_specs(e, &old, err);
	e->specs = old;
	return -1;
}

/* Beyond the context that a model was made for, positions are counted inside the cache. */
static int check_reach(const struct engine *e, const struct visible *v, struct err *err)
{
	const int32_t most = e->model ? e->model->config.ctx_train : INT32_MAX;
	const int32_t reach = visible_reach(v);
	char spec[64];

	visible_print(v, spec, sizeof spec);
	if ((visible_picks(v) || visible_most_kept(v, 1)) && e->info.ctx > K_PICK_GROUPS * K_GROUP)
		return err_set(err, ERR_USAGE,
			"visible %s: a row chooses among %d positions at most, and this session's context is "
			"%d; a smaller --ctx is needed",
			spec, K_PICK_GROUPS * K_GROUP, e->info.ctx);
	if (e->model && visible_policy_of(v)->rotated && !model_turns(e->model))
		return err_set(err, ERR_USAGE,
			"visible %s: this model's queries cannot be turned to another position (it learned a "
			"row for each, or has norms after the rotation); sinks:S+window:W leaves them as they "
			"are",
			spec);
	if (e->info.ctx <= most || (reach > 0 && reach <= most))
		return 0;
	return err_set(err, ERR_USAGE,
		"visible %s: this session's context of %d is longer than the %d tokens the model was made "
		"for: only stream:S+window:W, of together at most that, counts positions inside the cache",
		spec, e->info.ctx, most);
}

static int set_mask(struct engine *e, const struct visible *v, struct err *err)
{
	const struct visible was = e->forward.visible;
	struct err ignored = { 0 }; /* there is room for what was */

	if (forward_set_visible(&e->forward, v, err))
		return -1;
	if (!visible_same(v, &was))
		engine_clear_prefix(e);
	if (!set_choice(e, v, err))
		return 0;
	forward_set_visible(&e->forward, &was, &ignored);
	return -1;
}

/* A policy that hides nothing from this model in its longest sequences is `full`. Cached pages were
 * computed under another policy and are dropped. */
int engine_apply_visible(struct engine *e, struct engine_options *to, struct err *err)
{
	const struct visible full = { 0 };
	struct visible v = { 0 };
	bool lossy = false;

	if (to->visible && visible_parse(&v, to->visible, err))
		return -1;
	if (e->model && model_sees_ahead(e->model) && !visible_same(&v, &full))
		return err_set(err, ERR_USAGE, "visible %s: %s see all positions, also those after them",
			to->visible, model_sees_ahead(e->model));
	if (e->model && !e->forward.needs.n_windows && !visible_same(&v, &full))
		return err_set(err, ERR_USAGE,
			"visible %s: this model has no attention that could see less: its layers keep states",
			to->visible);
	for (int32_t i = 0; i < e->forward.needs.n_windows; i++)
		lossy |= visible_is_lossy(&v, e->forward.needs.window[i], e->info.ctx);
	if (visible_most_kept(&v, 1) && e->handover)
		return err_set(err, ERR_USAGE,
			"visible %s: what heads keep of a prompt is not handed over; not with prefill-ranks",
			to->visible);
	if (check_reach(e, &v, err))
		return -1;
	if (e->model && !lossy)
		v = full;
	if (check_codes(memory_format(&e->specs), &v, err) ||
		check_latent(e, memory_format(&e->specs), &v, err))
		return -1;
	if (set_mask(e, &v, err))
		return -1;
	memory_set_visible(&e->memory, &v);
	visible_print(&v, e->visible, sizeof e->visible);
	to->visible = e->visible;
	return 0;
}

int engine_apply_attention(struct engine *e, struct engine_options *to, struct err *err)
{
	const int way = setting_choice(&engine_settings[ENGINE_AT_attention], to);

	return forward_set_attend(&e->forward, (enum k_attend)way, err);
}

/* The matrices are kept in both layouts, so that 0 costs nothing and switches back at once. */
int engine_apply_skip(struct engine *e, struct engine_options *to, struct err *err)
{
	const float least = to->skip_below > 0 ? to->skip_below : to->skip_zeros ? FORWARD_ZEROS : 0;
	const bool lossy = least > 0 || e->forward.least > 0;

	if (least != 0 && e->model && model_add_columns(e->model, e->model_path, err))
		return -1;
	if (lossy && least != e->forward.least)
		engine_clear_prefix(e);
	e->forward.least = least;
	return 0;
}

/* Observing a row costs about the same time in any model, so the slower a token, the more of them
 * are observed: all where reading the weights takes some 20 ms a token, and every eighth of a small
 * model's, dozens a second. */
int engine_apply_every(struct engine *e, struct engine_options *to, struct err *err)
{
	enum { LARGE = 800 << 20, MOST = 8 };
	size_t n = e->info.weight_bytes ? LARGE / e->info.weight_bytes : MOST;

	(void)err;
	if (!to->attention_every)
		to->attention_every = n < 1 ? 1 : n > MOST ? MOST : (int32_t)n;
	return 0;
}

static int check_index(const char *name, int32_t value, int32_t n, struct err *err)
{
	if (value < n)
		return 0;
	if (!n)
		return err_set(err, ERR_USAGE,
			"%s %d: this model has no attention to watch: its layers keep states", name, value);
	return err_set(err, ERR_USAGE,
		"%s %d: a whole number from -1 to %d is needed, as the model has %d", name, value, n - 1,
		n);
}

int engine_apply_observed(struct engine *e, struct engine_options *to, struct err *err)
{
	return check_index("observe-layer", to->observe_layer, e->info.n_layers, err) ||
				   check_index("observe-head", to->observe_head, e->info.n_heads, err)
			   ? -1
			   : 0;
}

int engine_apply_cuda_mode(struct engine *e, struct engine_options *to, struct err *err)
{
	if (e->kernels && to->cuda_mode && k_set_mode(e->kernels, to->cuda_mode, err))
		return -1;
	to->cuda_mode = e->kernels ? k_mode(e->kernels) : "";
	return 0;
}

/* ---- all of them ---- */

/* Of each row of engine_settings; NULL: setting the field is enough. What a setting changes is in
 * the file of that part. */
static setting_apply *const setting_table[N_ENGINE_SETTINGS] = {
#define ENGINE(type, field, initial, apply, ...) apply,
#include "engine/settings/settings.def"
};

/* Refuses values out of range; `out` gets the options, with defaults for choices that were left
 * out. */
int engine_check_options(
	const struct engine_options *o, struct engine_options *out, struct err *err)
{
	const struct engine_options defaults = ENGINE_DEFAULTS;
	char value[64];

	*out = *o;
	for (const struct setting *s = engine_settings; s->name; s++) {
		if (s->type >= SETTING_TEXT)
			continue;
		setting_text(s, o, value, sizeof value);
		if (!*value)
			setting_text(s, &defaults, value, sizeof value);
		if (*value && setting_put(s, out, value, err))
			return -1;
	}
	out->spec = o->spec ? o->spec : defaults.spec;
	out->shadow = o->shadow ? o->shadow : defaults.shadow;
	out->visible = o->visible ? o->visible : defaults.visible;
	out->weights = o->weights ? o->weights : defaults.weights;
	out->twin = o->twin ? o->twin : defaults.twin;
	return 0;
}

int engine_apply_settings(struct engine *e, struct err *err)
{
	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		if (setting_table[i] && setting_table[i](e, &e->set, err))
			return -1;
	return 0;
}

int engine_get(const struct engine *e, const char *name, char *buf, size_t cap)
{
	const struct setting *s = setting_find(engine_settings, name);

	if (!s)
		return -1;
	setting_text(s, &e->set, buf, cap);
	if (!*buf)
		snprintf(buf, cap, "-");
	return 0;
}

void engine_emit_setting(struct engine *e, const char *name)
{
	char value[512]; /* the longest text that a setting keeps */

	if (e->begun && !engine_get(e, name, value, sizeof value))
		engine_note_setting(e, name, value);
}

int engine_set(struct engine *e, const char *name, const char *value, struct err *err)
{
	const struct setting *s = setting_find(engine_settings, name);
	struct engine_options to = e->set;
	setting_apply *apply;
	int32_t residual;

	if (!s)
		return err_set(err, ERR_USAGE, "there is no setting \"%s\"", name);
	if (s->when == SETTING_OPEN)
		return err_set(err, ERR_USAGE, "%s %.40s: it is fixed when the model is opened; see --%s",
			name, value, name);
	if (setting_put(s, &to, value, err))
		return -1;
	if (s->when <= SETTING_IDLE && !engine_idle(e))
		return err_set(err, ERR_USAGE, "%s can only change while nothing runs or waits", name);
	apply = setting_table[s - engine_settings];
	if ((apply && apply(e, &to, err)) || engine_ranks_set(e, s, value, err) ||
		engine_handover_set(e, s, value, err))
		return -1;
	residual = e->set.cache_residual;
	e->set = to;
	if (to.cache_residual != residual && s != &engine_settings[ENGINE_AT_cache_residual])
		engine_emit_setting(e, "cache-residual"); /* goes with a format of codes */
	if (s == &engine_settings[ENGINE_AT_page_size])
		engine_emit_setting(e, "pages"); /* first: the pool is made of this many pages of the new
											size */
	engine_emit_setting(e, name);
	return 0;
}

void engine_emit_settings(struct engine *e)
{
	for (const struct setting *s = engine_settings; s->name; s++)
		if (s->when != SETTING_OPEN || s->recorded)
			engine_emit_setting(e, s->name);
}
