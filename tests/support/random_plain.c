/* See random_session.h: the same requests one by one, in an engine that knows no tricks. */
#include <string.h>

#include "engine/core/engine_impl.h"
#include "engine/search/search.h"
#include "tests/support/random_session.h"

struct plain {
	struct engine *e;
	struct heard heard;
};

/* What ranks send was lossy, of some requests at least. */
static void split_as(struct engine_options *o, const struct engine *e)
{
	char text[16];

	if (!engine_get(e, "tensor-parallel", text, sizeof text)) {
		o->tensor_parallel = text[0] - '0';
		engine_get(e, "expert-parallel", text, sizeof text);
		o->expert_parallel = !strcmp(text, "on");
	}
}

static void plain_open(
	struct plain *p, const struct engine *e, const struct session *s, const struct heard *h)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	memset(p, 0, sizeof *p);
	o.model = session_model_path(s);
	o.threads = 1;
	o.ctx = SESSION_CTX;
	o.packed_cache = "off";
	o.prefix_cache = false;
	o.pages = 160;           /* more than a search of all slots needs */
	o.slots = e->info.slots; /* as many simulations of mcts at once */
	if (h->halved)
		split_as(&o, e);
	if (engine_open(&p->e, &o, &err))
		session_fail("plain: %s", err.text);
	heard_open(&p->heard);
	p->heard.canvas = p->e->info.diffusion;
	engine_add_sink(p->e, heard_event, &p->heard);
	engine_begin(p->e, NULL);
}

/* The settings that change rows or draws. */
static void plain_set(struct plain *p, const char value[SESSION_SETTINGS][24])
{
	const struct setting *s;

	for (int i = 0; (s = heard_setting(i)); i++) {
		struct err err = { 0 };

		if (strcmp(p->heard.value[i], value[i]) && engine_set(p->e, s->name, value[i], &err))
			session_fail("plain: %s", err.text);
	}
}

static void run_out(struct plain *p)
{
	struct err err = { 0 };
	int more;

	while ((more = engine_step(p->e, &err)) > 0)
		;
	if (more < 0)
		session_fail("plain: %s", err.text);
}

static const struct heard_request *plain_run(struct plain *p, const struct engine_request *q)
{
	struct err err = { 0 };

	heard_forget(&p->heard);
	p->heard.now = q;
	if (engine_submit(p->e, q, &err) < 0)
		session_fail("plain: %s", err.text);
	run_out(p);
	return &p->heard.request[1];
}

static bool was_drawn(const struct heard_request *r, int32_t pos)
{
	return r->source[pos] < EV_SOURCE_forced;
}

/* By itself: not where few pages ended it early. */
static bool has_ended(const struct heard_request *r)
{
	return r->reason >= 0 && !(r->reason == EV_FINISH_context && r->n < SESSION_CTX) &&
		   r->reason != EV_FINISH_cancelled && r->reason != EV_FINISH_dropped;
}

/* Rows, and draws if they are the same. */
static void compare_rows(
	const struct heard_request *r, const struct heard_request *p, int32_t i, bool rows, bool draws)
{
	for (int32_t pos = 1; pos < r->n || pos <= r->scored; pos++) {
		if (rows && r->told[pos] && p->told[pos] && r->hash[pos] != p->hash[pos])
			session_fail("request %d, kind %d, %d tokens of prompt: another row at %d", i, r->kind,
				r->n_prompt, pos);
		if (draws && r->told[pos] && !p->told[pos] && p->reason != EV_FINISH_failed)
			session_fail("request %d, kind %d: plain has no row at %d", i, r->kind, pos);
		if (draws && r->told[pos] && p->told[pos] && was_drawn(r, pos) && r->id[pos] != p->id[pos])
			session_fail("request %d, kind %d, %d tokens of prompt: %d at %d, plain has %d", i,
				r->kind, r->n_prompt, r->id[pos], pos, p->id[pos]);
	}
}

/* The same request. */
static void compare_whole(struct plain *p, const struct heard_request *r, int32_t i)
{
	struct engine_request q = r->q;
	const struct heard_request *o;

	q.parent = 0;
	q.fork_pos = 0;
	q.pin = 0;
	o = plain_run(p, &q);
	compare_rows(r, o, i, true, true);
	if (!has_ended(r))
		return;
	if (r->reason != o->reason || r->n != o->n || r->scored != o->scored)
		session_fail("request %d, kind %d: ends %d at %d, plain %d at %d", i, r->kind, r->reason,
			r->n, o->reason, o->n);
	if (r->vector != o->vector)
		session_fail("request %d: another vector", i);
}

/* Its tokens as given ones. */
static void compare_tokens(struct plain *p, const struct heard_request *r, int32_t i, bool draws)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_score,
		.ids = r->id,
		.n_ids = r->n,
		.n_prompt = r->n_prompt,
		.params = r->params,
		.sample = r->sample,
		.text = "" };

	if (r->n <= r->n_prompt || r->input)
		return;
	compare_rows(r, plain_run(p, &q), i, true, false);
	if (!draws || !r->own)
		return;
	q.kind = EV_REQUEST_KIND_verify;
	q.grammar = r->q.grammar;
	q.bound_from = r->q.bound_from;
	compare_rows(r, plain_run(p, &q), i, true, true);
}

static void compare_request(struct plain *p, const struct heard *h, int32_t i)
{
	const struct heard_request *r = &h->request[i];
	const bool draws = !h->rejects || r->kind == EV_REQUEST_KIND_score ||
					   r->kind == EV_REQUEST_KIND_verify || r->kind == EV_REQUEST_KIND_embed;

	if (r->reason == EV_FINISH_refused || r->kind == EV_REQUEST_KIND_pin)
		return;
	plain_set(p, r->value);
	if (r->own && !r->back && draws)
		compare_whole(p, r, i);
	else if (!h->canvas)
		compare_tokens(p, r, i, draws);
}

enum score_verdict session_judge(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e)
{
	static unsigned n_asked;

	(void)arg, (void)wait_ms, (void)e;
	if (!text)
		return SCORE_FAILED;
	*score = 0;
	for (size_t i = 0; i < size; i++)
		*score += (unsigned char)text[i] % 7;
	return ++n_asked % 3 ? SCORE_LATER : SCORE_KNOWN;
}

static void compare_search(struct plain *p, struct engine *e, const struct session_search *s)
{
	struct search_options o = { .method = s->method, .score = s->judged ? session_judge : NULL };
	struct search_view v, w;
	struct err err = { 0 };
	int64_t id;

	if (!engine_search_look(e, s->id, &v) || !v.done || v.cancelled || v.err.code)
		return;
	plain_set(p, s->value);
	heard_forget(&p->heard);
	id = engine_search(p->e, &o, &s->q, &err);
	if (id < 0)
		session_fail("plain: %s: %s", s->method, err.text);
	run_out(p);
	if (!engine_search_look(p->e, id, &w) || !w.done || v.n_answers != w.n_answers)
		session_fail("%s: %d answers, plain %d", s->method, v.n_answers, w.n_answers);
	for (int i = 0; i < v.n_answers; i++)
		if (v.answer[i].n != w.answer[i].n || v.answer[i].score != w.answer[i].score ||
			v.answer[i].reason != w.answer[i].reason ||
			memcmp(v.answer[i].ids, w.answer[i].ids, (size_t)v.answer[i].n * sizeof(int32_t)))
			session_fail("%s: answer %d: %d tokens, score %a, end %d; plain %d, %a, %d", s->method,
				i, v.answer[i].n, v.answer[i].score, v.answer[i].reason, w.answer[i].n,
				w.answer[i].score, w.answer[i].reason);
	engine_search_close(p->e, id);
}

void plain_compare(struct engine *e, const struct session *s, struct heard *h,
	const struct session_search *search, int n_searches)
{
	struct plain p;

	plain_open(&p, e, s, h);
	for (int32_t i = 1; i <= h->n; i++)
		compare_request(&p, h, i);
	for (int i = 0; i < n_searches && !h->rejects && !h->cut; i++)
		compare_search(&p, e, &search[i]);
	engine_close(p.e);
	heard_close(&p.heard);
}
