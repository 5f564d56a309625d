/* See random_session.h: what a session does, and what holds after each of it. */
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "engine/search/search.h"
#include "tests/support/invariants.h"
#include "tests/support/random_session.h"

enum { SEARCHES = 24, ROOM = 120, STEPS_TO_END = 100000 };

struct run {
	struct engine *e;
	struct heard heard;
	struct session_search search[SEARCHES];
	int n_searches;
	bool drafters, talk;
};

/* ---- requests ---- */

/* Texts of some families: those of one begin alike, and many repeat themselves. */
static int32_t some_text(uint64_t *s, int32_t vocab, int32_t ids[SESSION_CTX + 8])
{
	const uint32_t family = session_below(s, 4);
	int32_t n = 1 + (int32_t)session_below(s, session_below(s, 5) ? 50 : 165), own;

	if (session_below(s, 5) == 0)
		n = 16 * (1 + (int32_t)session_below(s, 5));
	own = session_below(s, 3) ? (int32_t)session_below(s, (uint32_t)n + 1) : n;
	for (int32_t i = 0; i < n; i++) {
		uint64_t word = family * 1000 + (uint32_t)i;

		if (i >= own)
			word = random_u64(s);
		ids[i] = 3 + (int32_t)(random_u64(&word) % (uint32_t)(vocab - 3));
	}
	if (own < n || session_below(s, 3))
		for (int32_t i = n / 2; i < n; i++)
			ids[i] = ids[i % (n / 2 + 1)];
	return n;
}

static struct sample_params some_params(uint64_t *s, int32_t vocab)
{
	static const float temperature[] = { 0, 0, 0.7f, 1.3f, 0.2f, 5 };
	struct sample_params p = SAMPLE_DEFAULTS;

	p.temperature = temperature[session_below(s, 6)];
	p.seed = session_below(s, 4) ? session_below(s, 3) : UINT64_MAX - session_below(s, 2);
	if (session_below(s, 3) == 0)
		p.repeat_penalty = 1.3f, p.penalty_window = (int32_t)session_below(s, 64);
	if (session_below(s, 5) == 0)
		p.presence_penalty = 0.7f, p.frequency_penalty = -0.3f;
	if (session_below(s, 4) == 0)
		p.top_k = 1 + (int32_t)session_below(s, 40);
	if (session_below(s, 4) == 0)
		p.top_p = session_below(s, 3) ? 0.8f : 0;
	if (session_below(s, 6) == 0)
		p.min_p = session_below(s, 3) ? 0.1f : 1;
	if (session_below(s, 6) == 0)
		for (int32_t id = (int32_t)session_below(s, 17); id < vocab; id += 17)
			if (p.logit_bias.n < 20)
				sample_bias_add(&p.logit_bias, id, id % 3 ? 3 : -100, NULL);
	return p;
}

#define KIND                                                                                       \
	"schema:{\"properties\":{\"kind\":{\"enum\":[\"one\",\"two\"]}},\"required\":[\"kind\"]}"
static const char *const grammar[] = { "json", "regex:[a-f]{3}(-[0-9]{2}){2,4}",
	"choice:alpha|alphabet|beta", "regex:[a-z ]{1,60}", "regex:a*", KIND,
	"gbnf:root ::= \"x\" root | \"y\"" };
static const char *const stop[][3] = { { "a", "zz" }, { "ing" }, { "e t", "xq" }, { "the" } };

static struct engine_request some_request(uint64_t *s, int32_t vocab, int32_t *ids)
{
	static const int32_t last[] = { 5, 40, 100, 101, 102, 103, 200, 250 };
	static const char *const user[] = { NULL, NULL, "a", "b" };
	struct engine_request q = { .kind = EV_REQUEST_KIND_run, .ids = ids, .text = "" };

	q.n_ids = some_text(s, vocab, ids);
	q.max_tokens = session_below(s, 8) ? 1 + (int32_t)session_below(s, 40) : 0;
	q.params = some_params(s, vocab);
	q.sample = session_below(s, 3) ? session_below(s, 4) : (int64_t)(random_u64(s) >> 1);
	q.top = session_below(s, 4) ? 0 : (int32_t)session_below(s, 21);
	if (session_below(s, 4) == 0)
		q.grammar = grammar[session_below(s, sizeof grammar / sizeof *grammar)];
	else
		q.ignore_end = session_below(s, 2);
	if (session_below(s, 4) == 0)
		q.stop = stop[session_below(s, 4)];
	if (session_below(s, 6) == 0)
		q.stop_ids = last, q.n_stop_ids = 1 + (int32_t)session_below(s, 8);
	q.user = user[session_below(s, 4)];
	q.priority = (int32_t)session_below(s, 3);
	q.deadline = session_below(s, 3) ? 0 : 1 + (int32_t)session_below(s, 60);
	return q;
}

static void submit(struct run *r, const struct engine_request *asked)
{
	struct engine_request own = *asked, *q = &own;
	struct err err = { 0 };
	int64_t id;

	if (r->heard.n > SESSION_REQUESTS - ROOM)
		return;
	if (r->heard.canvas) /* each of its steps computes all positions */
		own.max_tokens = 1 + own.max_tokens % 8;
	r->heard.now = q;
	id = engine_submit(r->e, q, &err);
	r->heard.now = NULL;
	if (r->talk)
		fprintf(stderr, "#   request %lld: kind %d, %d tokens, at most %d, temperature %g%s%s %s\n",
			(long long)id, (int)q->kind, q->n_ids, q->max_tokens, (double)q->params.temperature,
			q->grammar ? ", grammar " : "", q->grammar ? q->grammar : "", err.text);
}

static void op_ask(struct run *r, uint64_t s)
{
	int32_t ids[SESSION_CTX + 8];
	struct engine_request q = some_request(&s, r->e->info.vocab, ids);

	if (session_below(&s, 8) == 0)
		q.pin = 1 + (int32_t)session_below(&s, (uint32_t)q.n_ids);
	submit(r, &q);
}

static void op_samples(struct run *r, uint64_t s)
{
	int32_t ids[SESSION_CTX + 8];
	struct engine_request q = some_request(&s, r->e->info.vocab, ids);

	for (uint32_t n = 2 + session_below(&s, 3); n > 0; n--, q.sample++)
		submit(r, &q);
}

static void op_given(struct run *r, uint64_t s)
{
	static const enum ev_code_request_kind kind[] = { EV_REQUEST_KIND_score, EV_REQUEST_KIND_embed,
		EV_REQUEST_KIND_pin };
	int32_t ids[SESSION_CTX + 8];
	struct engine_request q = some_request(&s, r->e->info.vocab, ids);

	q.kind = kind[session_below(&s, 3)];
	q.grammar = NULL;
	if (q.kind == EV_REQUEST_KIND_pin)
		q.pin = 1 + (int32_t)session_below(&s, (uint32_t)q.n_ids);
	if (q.kind == EV_REQUEST_KIND_pin && session_below(&s, 3) == 0)
		q.pin_ttl_ns = 1; /* over at the next step: any more would depend on the machine */
	if (q.kind == EV_REQUEST_KIND_embed)
		q.pooling = (int)session_below(&s, 3);
	submit(r, &q);
}

static struct heard_request *some_heard(struct run *r, uint64_t *s)
{
	/* of the newest more often */
	const uint32_t most = session_below(s, 2) && r->heard.n > 6 ? 6 : (uint32_t)r->heard.n;

	return r->heard.n ? &r->heard.request[r->heard.n - (int32_t)session_below(s, most)] : NULL;
}

static void op_verify(struct run *r, uint64_t s)
{
	const struct heard_request *h = some_heard(r, &s);
	struct engine_request q;

	if (!h || !h->own || h->kind != EV_REQUEST_KIND_run || h->n_prompt > SESSION_CTX)
		return;
	q = h->q;
	q.kind = EV_REQUEST_KIND_verify;
	q.ids = h->id;
	q.n_ids = h->n;
	q.n_prompt = h->n_prompt;
	q.pin = 0;
	q.params = h->params;
	submit(r, &q);
}

static void op_fork(struct run *r, uint64_t s)
{
	const struct heard_request *h = some_heard(r, &s);
	int32_t ids[SESSION_CTX + 8];
	struct engine_request q = some_request(&s, r->e->info.vocab, ids);

	if (!h || h->n < 2 || h->n >= SESSION_CTX || h->n_prompt > SESSION_CTX)
		return;
	q.kind = EV_REQUEST_KIND_fork;
	q.parent = h - r->heard.request;
	q.fork_pos = 1 + (int32_t)session_below(&s, (uint32_t)h->n - 1);
	q.forced = session_below(&s, 2);
	ids[q.fork_pos] = ids[0];
	memcpy(ids, h->id, (size_t)q.fork_pos * sizeof *ids);
	q.n_ids = q.fork_pos + q.forced;
	submit(r, &q);
}

static void op_cancel(struct run *r, uint64_t s)
{
	const struct heard_request *h = some_heard(r, &s);

	if (h)
		engine_cancel(r->e, h - r->heard.request);
}

static void op_rewind(struct run *r, uint64_t s)
{
	const struct heard_request *h = some_heard(r, &s);
	struct err err = { 0 };

	for (int i = 0; h && i < 5 && (h->reason >= 0 || h->n <= h->n_prompt); i++)
		h = some_heard(r, &s);
	if (!h || h->n < h->n_prompt)
		return;
	engine_rewind(r->e, h - r->heard.request,
		h->n - (int32_t)session_below(&s, (uint32_t)(h->n - h->n_prompt) + 1),
		session_below(&s, 2) ? -1 : (int32_t)session_below(&s, (uint32_t)r->e->info.vocab), &err);
}

/* ---- searches ---- */

static void op_search(struct run *r, uint64_t s)
{
	static const char *const method[] = { "beam:2", "beam:4", "beam:3,0.5", "beam:1", "best:3",
		"best:6", "mcts:8,2", "mcts:6,2,5" };
	struct session_search *to = &r->search[r->n_searches];
	struct search_options o = { .method = to->method, .scorer = "judge" };
	struct err err = { 0 };

	if (r->n_searches == SEARCHES || r->heard.n > SESSION_REQUESTS - 2 * ROOM)
		return;
	snprintf(to->method, sizeof to->method, "%s", method[session_below(&s, 8)]);
	to->q = some_request(&s, r->e->info.vocab, to->ids);
	to->judged = session_below(&s, 3) == 0;
	o.score = to->judged ? session_judge : NULL;
	to->q.ignore_end = false;
	to->q.max_tokens = 1 + to->q.max_tokens % 40; /* each of which may be another branch */
	to->q.stop_ids = NULL;
	to->q.n_stop_ids = 0;
	memcpy(to->value, r->heard.value, sizeof to->value);
	to->id = engine_search(r->e, &o, &to->q, &err);
	r->n_searches += to->id > 0;
}

static void op_search_end(struct run *r, uint64_t s)
{
	struct session_search *at;

	if (!r->n_searches)
		return;
	at = &r->search[session_below(&s, (uint32_t)r->n_searches)];
	if (session_below(&s, 2)) {
		engine_search_cancel(r->e, at->id);
		return;
	}
	engine_search_close(r->e, at->id);
	*at = r->search[--r->n_searches];
	at->q.ids = at->ids;
}

/* ---- the rest ---- */

static void op_unpin(struct run *r, uint64_t s)
{
	struct engine_pin pin[64];
	const int32_t n = engine_pins(r->e, pin, 64);

	if (n)
		engine_unpin(r->e, pin[session_below(&s, (uint32_t)n)].pin);
}

static void op_look(struct run *r, uint64_t s)
{
	if (session_below(&s, 2))
		engine_look_closely(r->e);
	else
		engine_observe(r->e, session_below(&s, 3));
}

static void step(struct run *r)
{
	struct err err = { 0 };

	if (engine_step(r->e, &err) < 0)
		session_fail("step: %s", err.text);
	engine_check(r->e);
}

static void op_steps(struct run *r, uint64_t s)
{
	for (uint32_t n = 1 + session_below(&s, 6); n > 0; n--)
		step(r);
}

static void op_all(struct run *r, uint64_t s)
{
	(void)s;
	for (int i = 0; !engine_idle(r->e); i++) {
		if (i == STEPS_TO_END)
			session_fail("it does not end");
		step(r);
	}
}

static void op_set(struct run *r, uint64_t s)
{
	const struct setting *set = NULL;
	const struct session_choice *c = NULL;
	const char *value;
	struct err err = { 0 };
	int failed;

	while (!set || set->when == SETTING_OPEN) {
		c = &session_choices[session_below(&s, (uint32_t)session_n_choices)];
		set = setting_find(engine_settings, c->name);
	}
	value = session_value(&s, c, r->drafters);
	if (set->when != SETTING_ANY && session_below(&s, 2))
		op_all(r, 0);
	failed = engine_set(r->e, c->name, session_path(value), &err);
	if (r->talk)
		fprintf(stderr, "#   %s %s%s%s\n", c->name, value, failed ? ": " : "", err.text);
}

static const struct {
	const char *name;
	int often;
	void (*run)(struct run *r, uint64_t s);
} ops[] = { { "steps", 40, op_steps }, { "all", 2, op_all }, { "ask", 14, op_ask },
	{ "samples", 3, op_samples }, { "given", 6, op_given }, { "verify", 3, op_verify },
	{ "fork", 5, op_fork }, { "cancel", 3, op_cancel }, { "rewind", 7, op_rewind },
	{ "search", 3, op_search }, { "search-end", 1, op_search_end }, { "set", 12, op_set },
	{ "unpin", 1, op_unpin }, { "look", 2, op_look } };

int session_some_op(uint64_t *state)
{
	int all = 0, kind = 0;

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		all += ops[i].often;
	for (int at = (int)session_below(state, (uint32_t)all); at >= ops[kind].often; kind++)
		at -= ops[kind].often;
	return kind;
}

const char *session_op_name(int kind)
{
	return ops[kind].name;
}

static int try_open(struct run *r, const struct session *s, int but, struct err *err)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = session_model_path(s);
	o.threads = 1;
	o.ctx = s->goes_on ? SESSION_CTX / ENGINE_GOES_ON : SESSION_CTX;
	o.goes_on = s->goes_on;
	o.packed_cache = "off";
	for (int i = 0; i < s->n_set; i++) {
		static char path[SESSION_SETTINGS][256];

		snprintf(path[i], sizeof path[i], "%s", session_path(s->set[i].value));
		if (i != but && !s->set[i].off &&
			setting_put(setting_find(engine_settings, s->set[i].name), &o, path[i], err))
			session_fail("%s", err->text);
	}
	return engine_open(&r->e, &o, err);
}

/* Not all settings go together: without one of them, most do. */
static bool open_some(struct run *r, const struct session *s)
{
	struct err err = { 0 };

	for (int but = -1; but < s->n_set; but++) {
		if (but >= 0 && s->set[but].off)
			continue;
		if (!try_open(r, s, but, &err)) {
			if (r->talk && but >= 0)
				fprintf(stderr, "#   without %s\n", s->set[but].name);
			return true;
		}
		if (r->talk)
			fprintf(stderr, "#   %s\n", err.text);
		err.code = 0;
	}
	return false;
}

/* All has ended, and nothing is held but what the prefix cache keeps. */
static void check_end(struct run *r)
{
	struct search_view v;

	op_all(r, 0);
	for (int32_t i = 1; i <= r->heard.n; i++)
		if (r->heard.request[i].reason < 0)
			session_fail("request %d did not end", i);
	for (int i = 0; i < r->n_searches; i++)
		if (engine_search_look(r->e, r->search[i].id, &v) && !v.done)
			session_fail("search %lld did not end", (long long)r->search[i].id);
	for (int g = 0; g < r->e->memory.spec.n; g++)
		if (r->e->memory.pages[g].n_used)
			session_fail("%d pages are in use", r->e->memory.pages[g].n_used);
}

bool session_run(const struct session *s, bool talk)
{
	static struct run r;

	memset(&r, 0, sizeof r);
	r.talk = talk;
	r.drafters = session_has_drafters(s->model);
	if (!open_some(&r, s))
		return false;
	heard_open(&r.heard);
	r.heard.e = r.e;
	r.heard.canvas = r.e->info.diffusion;
	engine_add_sink(r.e, heard_event, &r.heard);
	engine_begin(r.e, NULL);
	for (int i = 0; i < s->n_ops; i++) {
		if (s->op[i].off)
			continue;
		if (talk)
			fprintf(stderr, "# %d: %s\n", i, ops[s->op[i].kind].name);
		ops[s->op[i].kind].run(&r, s->op[i].draw);
		engine_check(r.e);
	}
	if (s->seed % 8)
		check_end(&r); /* else it is closed while requests run */
	plain_compare(r.e, s, &r.heard, r.search, r.n_searches);
	engine_close(r.e);
	heard_close(&r.heard);
	return true;
}
