/* What a history does not have of a recording: when its requests' inputs came, what became of each
 * of them, and the cost of each step. */
#include "base/array.h"
#include "base/find.h"
#include "sessions/whatif/whatif_impl.h"

enum { MAX_REQUESTS = 1 << 20, MAX_TOKENS = 1 << 24 };

struct reading {
	struct recorded *r;
	struct counter counter;
	struct moment now;
	struct whatif_counts whole; /* up to the last step that is whole */
	bool begun, no_memory; /* begun: a request has come, so settings are changes from here on */
	bool in_step;
	int64_t n_tokens;
};

/* Room for one more after n; a failure is noted. */
#define ROOM(g, items, cap, n)                                                                     \
	(((n) < MAX_TOKENS && ARRAY_ROOM(items, cap, (n) + 1)) || !((g)->no_memory = true))

static struct script *script_find(const struct recorded *r, int64_t id)
{
	return find_number(id, r->script, r->n, sizeof *r->script);
}

static void add_act(struct reading *g, int64_t request, enum act_kind kind, int64_t value)
{
	struct script *s = script_find(g->r, request);
	struct act a = { .kind = kind, .value = (int32_t)value, .at = g->now };

	if (!s || value < 0 || value > INT32_MAX)
		return;
	a.after = g->r->counts.steps - s->acted;
	/* an end comes of a step, maybe of one without a token of it; the rest between two */
	a.at.steps += kind == ACT_END;
	a.after += kind == ACT_END && a.after;
	if (ROOM(g, s->act, s->cap_acts, s->n_acts))
		s->act[s->n_acts++] = a;
	s->acted = g->r->counts.steps;
}

static void on_request(struct reading *g, const struct history_request *q, int64_t input)
{
	struct recorded *r = g->r;

	if (q->number < 1 || !q->n_prompt || r->n == MAX_REQUESTS || !ROOM(g, r->script, r->cap, r->n))
		return;
	r->script[r->n++] =
		(struct script){ .id = q->number, .arrival = g->now, .acted = r->counts.steps };
	if (input > 0 && input < q->n_prompt)
		r->start = q->prompt[input] + 1;
	g->begun = true;
}

/* An answer of the session before was never submitted: it is no work of this one. */
static void drop_noted(struct recorded *r, int64_t request)
{
	if (r->n && r->script[r->n - 1].id == request)
		r->n--;
}

/* A value that is out of range in this version is ignored: whatif_check() finds what is missing. */
static void put_setting(struct recorded *r, const char *name, const char *value)
{
	const struct setting *s = whatif_setting(name);

	if (s)
		setting_put(s, &r->settings, value, NULL);
}

/* A log cannot answer for other values, but a change of these empties the prefix cache. */
static bool is_lossy(const char *name)
{
	const struct setting *s = setting_find(engine_settings, name);

	return s && s->effect == SETTING_LOSSY;
}

static void on_setting(struct reading *g, const struct history_setting *v)
{
	struct recorded *r = g->r;
	struct change c = { .at = g->now, .after = r->n, .name = v->name, .value = v->value };

	if (!g->begun) {
		put_setting(r, c.name, c.value);
		return;
	}
	if (!strcmp(c.name, "page-size") && r->n_changes &&
		!strcmp(r->change[r->n_changes - 1].name, "pages"))
		r->n_changes--; /* it tells how many pages of the new size follow from it */
	if (ROOM(g, r->change, r->cap_changes, r->n_changes))
		r->change[r->n_changes++] = c;
}

/* What was asked for is a part of its request. Its end is an input, too, unless a setting is why:
 * the log has it, and not the clock. */
static void on_pin(struct reading *g, const struct history *h, const struct ev_pin *p)
{
	struct recorded *r = g->r;
	struct script *s = script_find(r, p->request);

	if (p->action == EV_PIN_expired || p->action == EV_PIN_removed) {
		if (ROOM(g, r->change, r->cap_changes, r->n_changes))
			r->change[r->n_changes++] = (struct change){
				.at = g->now, .after = r->n, .name = "", .value = "", .unpin = p->pin
			};
	} else if (p->action != EV_PIN_kept && s && p->asked > 0 &&
			   p->asked <= history_request(h, s->id)->n_prompt) {
		s->pin = (int32_t)p->asked;
	}
}

static void on_step(struct reading *g, const struct ev_step *s)
{
	struct cost_rows *steps = &g->r->steps;

	if (s->ns > 0 && ROOM(g, steps->row, steps->cap, steps->n))
		steps->row[steps->n++] =
			(struct cost_row){ .shape = g->counter.ended, .ns = (double)s->ns };
	g->whole = g->r->counts;
	g->in_step = false;
	g->now.steps++;
	if (g->n_tokens) {
		g->now.tokens += g->n_tokens;
		g->now.steps = 0;
	}
	g->n_tokens = 0;
}

static bool has_window(const struct ev_memory *m)
{
	return m->kind == EV_MEMORY_KIND_window || m->kind == EV_MEMORY_KIND_recent;
}

/* In a format of its own size, a changed one's pages are others: both come of the heads' size. */
static int32_t size_of(int64_t told)
{
	return told >= 1 && told <= 1 << 16 ? (int32_t)told : 1;
}

/* Told again when a setting changes it, which the change does here, too. */
static void on_memory(struct reading *g, const struct history *h, const struct ev_memory *m)
{
	struct recorded *r = g->r;

	if (g->begun || m->memory != r->memory.n || r->memory.n == MEMORY_GROUPS ||
		!memory_kind_of(m->kind) || (has_window(m) && (m->window < 1 || m->window > INT32_MAX)))
		return;
	r->memory.group[r->memory.n++] = (struct memory_spec){ .kind = memory_kind_of(m->kind),
		.n_layers = 1,
		.kv = { .n_kv_heads = size_of(h->n_kv_heads), .head_dim = size_of(h->head_dim) },
		.window = has_window(m) ? (int32_t)m->window : 0,
		.state_bytes = 1 };
}

static void on_token(struct reading *g, const struct ev_token *t)
{
	const bool forced = t->source == EV_SOURCE_forced;

	if (ev_is_earlier(t->source)) {
		drop_noted(g->r, t->request);
		return;
	}
	g->n_tokens += !forced;
	add_act(g, t->request, forced ? ACT_FORCED : ACT_DRAWN, t->id);
}

/* Told right after its token. */
static void on_bound(const struct recorded *r, const struct ev_bound *b)
{
	struct script *s = script_find(r, b->request);

	if (s && s->n_acts)
		s->act[s->n_acts - 1].only = b->forced == 1;
}

/* Why a log with such an event cannot be scheduled anew, or NULL. */
static const char *cannot(enum ev_kind kind)
{
	switch (kind) {
	case EV_attached:
		return "another server computed it, and did not tell how it scheduled requests";
	case EV_denoise: return "it has a diffusion model's answers, whose steps compute whole answers";
	case EV_search: return "it has a search, whose branches come of what it drew";
	case EV_handover: return "it has prompts that other ranks computed beside its steps";
	default: return NULL;
	}
}

static void on_event(void *arg, const struct history *h, const struct event *ev)
{
	struct reading *g = arg;
	struct script *s;

	whatif_count(&g->counter, ev);
	switch (ev->kind) {
	case EV_session:
		g->r->settings.slots = (int32_t)ev->u.session.slots;
		g->r->settings.page_size = (int32_t)ev->u.session.page_size;
		g->r->settings.pages = (int32_t)ev->u.session.pages;
		break;
	case EV_memory: on_memory(g, h, &ev->u.memory); break;
	case EV_setting:
		if (ev->u.setting.name.data && ev->u.setting.value.data)
			on_setting(g, &h->setting[h->n_settings - 1]);
		break;
	case EV_request: on_request(g, &h->request[h->n_requests - 1], ev->u.request.input); break;
	case EV_token: on_token(g, &ev->u.token); break;
	case EV_pin: on_pin(g, h, &ev->u.pin); break;
	case EV_lookup:
	case EV_batch: g->in_step = true; break;
	case EV_bound: on_bound(g->r, &ev->u.bound); break;
	case EV_rewind: add_act(g, ev->u.rewind.request, ACT_REWIND, ev->u.rewind.kept); break;
	case EV_cancel: add_act(g, ev->u.cancel.request, ACT_CANCEL, 0); break;
	case EV_finish:
		if ((s = script_find(g->r, ev->u.finish.request)))
			s->refused = ev->u.finish.reason == EV_FINISH_refused;
		add_act(g, ev->u.finish.request, ACT_END, ev->u.finish.reason);
		break;
	case EV_step: on_step(g, &ev->u.step); break;
	default: g->r->cannot = cannot(ev->kind) ? cannot(ev->kind) : g->r->cannot; break;
	}
}

/* The log ends before some requests do, maybe in the middle of a step, which does not count: it was
 * killed, or still grows. */
static void end_all(struct reading *g)
{
	const struct act *a;

	if (g->in_step)
		g->r->counts = g->whole;
	for (int32_t i = 0; i < g->r->n; i++) {
		struct script *s = &g->r->script[i];

		s->q = history_request(g->r->history, s->id);
		for (; g->n_tokens && s->n_acts; s->n_acts--) {
			a = &s->act[s->n_acts - 1];
			if (!moment_has_come(&a->at, g->now) || a->kind == ACT_REWIND || a->kind == ACT_CANCEL)
				break;
		}
		if (!s->n_acts || s->act[s->n_acts - 1].kind != ACT_END)
			add_act(g, s->id, ACT_CANCEL, 0);
	}
}

static int whatif_check(const char *path, const struct recorded *r, struct err *e)
{
	char value[64];
	struct err why;

	if (r->cannot)
		return err_set(e, ERR_INPUT, "%s cannot be scheduled anew: %s", path, r->cannot);
	for (const struct setting *s = engine_settings; s->name; s++) {
		setting_text(s, &r->settings, value, sizeof value);
		if (whatif_setting(s->name) && setting_check(s, value, &why))
			return err_set(
				e, ERR_INPUT, "%s: its settings make no sense, or are missing: %s", path, why.text);
	}
	if (r->settings.pages < 1 || r->history->ctx < 1 || r->history->ctx > 1 << 24)
		return err_set(
			e, ERR_INPUT, "%s: its pages and context make no sense, or are missing", path);
	if (!r->n)
		return err_set(e, ERR_INPUT, "%s: no request was recorded", path);
	return 0;
}

int whatif_read(const char *path, struct recorded *r, struct err *e)
{
	struct reading g = { .r = r };
	int rc;

	memset(r, 0, sizeof *r);
	r->settings = (struct engine_options){ .prefill_chunk = -1,
		.evict = "lru",
		.pin_limit = 0.5f,
		.policy = "fcfs",
		.spec = "off",
		.give_back = true,
		.waiting_served_ratio = 0.3f,
		.max_waiting_tokens = 20 };
	g.counter.counts = &r->counts;
	rc = history_read(&r->history, path, on_event, &g, e);
	if (!rc)
		end_all(&g);
	free(g.counter.seen);
	if (!rc && g.no_memory)
		rc = err_set(e, ERR_MEMORY, "%s: no memory for its requests", path);
	if (!rc)
		rc = whatif_check(path, r, e);
	if (rc)
		whatif_free(r);
	return rc;
}

void whatif_free(struct recorded *r)
{
	for (int32_t i = 0; i < r->n; i++)
		free(r->script[i].act);
	free(r->script);
	free(r->change);
	history_close(r->history);
	cost_rows_free(&r->steps);
	memset(r, 0, sizeof *r);
}

/* ---- the question ---- */

const struct setting *whatif_setting(const char *name)
{
	const struct setting *s = setting_find(engine_settings, name);

	return s && (!strcmp(s->group, "Scheduler") || s == &engine_settings[ENGINE_AT_spec]) ? s
																						  : NULL;
}

int whatif_ask(struct whatif_settings *s, const char *name, const char *value, struct err *e)
{
	const struct setting *row = whatif_setting(name);

	if (!row)
		return err_set(e, ERR_USAGE, "%s: a log cannot say what another value of it changes", name);
	if (setting_put(row, &s->to, value, e))
		return -1;
	s->given[row - engine_settings] = true;
	return 0;
}

bool whatif_changes(const struct whatif_settings *asked, const struct change *c, bool real)
{
	const struct setting *row = whatif_setting(c->name);

	if (row == &engine_settings[ENGINE_AT_pages] && asked->given[ENGINE_AT_page_size])
		return false; /* so many of another size */
	if (!row)
		return is_lossy(c->name) || (real && !strcmp(c->name, "rule"));
	return !asked->given[row - engine_settings];
}

struct engine_options whatif_whole(
	const struct recorded *r, const struct whatif_settings *s, const struct engine_options *base)
{
	struct engine_options o = *base;

	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		if (whatif_setting(engine_settings[i].name))
			setting_copy(&engine_settings[i], &o, s->given[i] ? &s->to : &r->settings);
	/* another page size keeps the pool's size in tokens, unless pages are set, too */
	if (s->given[ENGINE_AT_page_size] && !s->given[ENGINE_AT_pages])
		o.pages = (int32_t)((int64_t)r->settings.pages * r->settings.page_size / o.page_size);
	if (o.pages < 1)
		o.pages = s->given[ENGINE_AT_pages] ? r->settings.pages : 1;
	engine_fit_steps(&o, false);
	if (o.budget < o.slots)
		o.budget = o.slots;
	o.ctx = (int32_t)r->history->ctx;
	return o;
}

/* ---- counting ---- */

static bool first_lookup(struct counter *c, int64_t request)
{
	if (request < 0 || request > MAX_REQUESTS)
		return true;
	if (request >= c->n_seen) {
		int64_t n = request + 1024;
		uint8_t *more = realloc(c->seen, (size_t)n);

		if (!more)
			return true;
		memset(more + c->n_seen, 0, (size_t)(n - c->n_seen));
		c->seen = more;
		c->n_seen = n;
	}
	return !c->seen[request]++;
}

static int64_t count_of(int64_t v)
{
	return v > 0 && v < INT64_C(1) << 40 ? v : 0;
}

void whatif_count(struct counter *c, const struct event *ev)
{
	struct whatif_counts *n = c->counts;

	step_shape_event(&c->shape, ev);
	switch (ev->kind) {
	case EV_lookup:
		if (first_lookup(c, ev->u.lookup.request)) {
			n->prompt_tokens += count_of(ev->u.lookup.asked);
			n->hit_tokens += count_of(ev->u.lookup.hit);
		} else {
			n->recomputed += count_of(ev->u.lookup.asked - ev->u.lookup.hit);
		}
		break;
	case EV_page:
		n->evictions += ev->u.page.action == EV_PAGE_evict;
		n->copies += ev->u.page.action == EV_PAGE_copy;
		break;
	case EV_preempt: n->preemptions++; break;
	case EV_step:
		n->steps++;
		n->prefill_rows += count_of(ev->u.step.prefill_rows);
		n->tokens += count_of(ev->u.step.tokens);
		n->drafted += count_of(ev->u.step.draft_rows);
		n->accepted += count_of(ev->u.step.accepted);
		if (count_of(ev->u.step.pages_used) > n->peak_pages)
			n->peak_pages = count_of(ev->u.step.pages_used);
		n->seconds +=
			c->cost ? cost_step_s(c->cost, &c->shape) : (double)count_of(ev->u.step.ns) * 1e-9;
		c->ended = c->shape;
		c->shape = (struct step_shape){ 0 };
		break;
	default: break;
	}
}
