/* See simulate.h. */
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/find.h"

enum { VOCAB = 32000, CTX = 8192, MOST_REQUESTS = 1 << 20 };

/* ---- a load ---- */

struct loading {
	const struct workload_options *o;
	struct workload *w;
};

static double load_when(void *arg)
{
	return workload_when(((struct loading *)arg)->w);
}

static int load_next(void *arg, struct arrival *a, int32_t **ids, struct err *e)
{
	const struct loading *l = arg;
	const int rc = workload_next(l->w, a, e);
	size_t n;

	if (rc < 1)
		return rc;
	n = (size_t)a->n_prompt + (size_t)a->n_output;
	*ids = workload_ids(l->o, a, VOCAB, n);
	return *ids ? 1 : err_no_memory(e, "a request of %zu tokens", n);
}

static void load_ended(void *arg, const struct arrival *a, double now_s)
{
	workload_ended(((struct loading *)arg)->w, a->user, now_s);
}

/* Takes the ranks of a replica from its settings, engine. */
static int take_ranks(struct simulation *s, struct err *e)
{
	const struct engine_options *o = &s->engine;
	struct cost_ranks *k = &s->fleet.ranks;

	*k = (struct cost_ranks){ .tensor = o->tensor_parallel,
		.pipeline = o->pipeline_parallel,
		.sequence = o->sequence_parallel,
		.micro_batches = o->micro_batches,
		.form = formula_form_of(o->exchange) };
	if (o->link && strcmp(o->link, "off") != 0 && link_parse(&k->link, o->link, e))
		return -1;
	return cost_ranks_check(s->fleet.cost, k, e);
}

int simulate_fleet(struct simulation *s, const struct fleet_source *source,
	const struct tally_options *o, struct err *e)
{
	const int64_t start = now_ns();
	int rc;

	s->fleet.engine = &s->engine;
	tally_open(&s->point.tally, o);
	rc = fleet_run(&s->fleet, source, &s->point.tally, &s->counts, e) ||
		 tally_result(&s->point.tally, s->counts.now_s, &s->point.result, e);
	s->wall_s = (double)(now_ns() - start) * 1e-9;
	s->point.stopped = s->counts.stopped;
	return rc ? -1 : 0;
}

int simulate_run(struct simulation *s, struct err *e)
{
	struct workload_options w = s->load.workload;
	struct tally_options t = s->load.tally;
	struct loading l = { .o = &w };
	const struct fleet_source source = { &l, load_when, load_next, load_ended };
	int rc;

	if (take_ranks(s, e))
		return -1;
	if (!s->engine.ctx)
		s->engine.ctx = CTX;
	if (!w.limit || w.limit > s->engine.ctx)
		w.limit = s->engine.ctx > 8 ? s->engine.ctx : 8;
	t.slots = s->engine.slots;
	t.reserve = s->engine.ctx;
	t.page_size = s->engine.page_size;
	if (workload_open(&l.w, &w, e))
		return -1;
	rc = simulate_fleet(s, &source, &t, e);
	s->point.n_cut = workload_n_cut(l.w);
	workload_close(l.w);
	return rc;
}

struct asked {
	int64_t request;
	struct arrival a;
	struct tally_request t;
};

struct reading {
	struct measured *m;
	int64_t first_ns; /* of the first arrival */
	struct tl_split split;
	bool no_memory;
};

/* ---- what a recording measured ---- */

static bool is_answer(const struct history_request *r)
{
	return r->kind != EV_REQUEST_KIND_score && r->kind != EV_REQUEST_KIND_verify &&
		   r->kind != EV_REQUEST_KIND_embed;
}

static void on_request(struct reading *g, const struct history_request *r, int64_t t_ns)
{
	struct measured *m = g->m;
	struct asked *q;

	if (!is_answer(r) || !r->n_prompt || m->n == MOST_REQUESTS)
		return;
	if (!ARRAY_ROOM(m->asked, m->cap, m->n + 1)) {
		g->no_memory = true;
		return;
	}
	g->first_ns = m->n ? g->first_ns : t_ns;
	q = &m->asked[m->n];
	*q = (struct asked){ .request = r->number,
		.a = { .number = m->n,
			.at_s = (double)(t_ns - g->first_ns) * 1e-9,
			.prefix = -1,
			.priority = r->priority,
			.user = strlen(r->user) < 10 ? atoi(r->user) : 0,
			.n_prompt = r->n_prompt } };
	m->n++;
	tally_arrived(&m->point.tally, &q->t, q->a.number, q->a.at_s);
	q->t.n_prompt = q->a.n_prompt;
}

static void on_finish(struct reading *g, struct asked *q, const struct ev_finish *f, double now_s)
{
	q->t.n_cached = f->hit > 0 ? (int32_t)f->hit : 0;
	tally_ended(&g->m->point.tally, &q->t, !q->a.n_output, now_s);
}

/* Not if it does not follow those before it. */
static bool has_token(const struct history_request *r, const struct event *ev)
{
	return r->n_rows && r->row[r->n_rows - 1].seq == ev->seq;
}

/* Those at the start: of the scheduler, what ranks send, and who computes prompts. */
static void on_setting(struct measured *m, const struct history_setting *v)
{
	const struct setting *s = setting_find(engine_settings, v->name);

	if (s &&
		(!strcmp(s->group, "Scheduler") || !strcmp(s->name, "exchange") ||
			!strncmp(s->name, "prefill-", 8)) &&
		s->type != SETTING_TEXT && !m->n)
		setting_put(s, &m->engine, v->value, NULL);
}

static void on_session(struct measured *m, const struct ev_session *s)
{
	m->engine.slots = (int32_t)s->slots;
	m->engine.page_size = (int32_t)s->page_size;
	m->engine.pages = (int32_t)s->pages;
	m->engine.ctx = (int32_t)s->ctx;
	ev_copy(m->point.model, sizeof m->point.model, s->model_name);
}

static void on_event(void *arg, const struct history *h, const struct event *ev)
{
	struct reading *g = arg;
	struct measured *m = g->m;
	const double now_s = (double)(ev->t_ns - g->first_ns) * 1e-9;
	const int64_t request = ev->kind == EV_admit    ? ev->u.admit.request
							: ev->kind == EV_token  ? ev->u.token.request
							: ev->kind == EV_finish ? ev->u.finish.request
													: 0;
	struct asked *q = request ? find_number(request, m->asked, m->n, sizeof *m->asked) : NULL;

	if (ev->kind == EV_session)
		on_session(m, &ev->u.session);
	else if (ev->kind == EV_memory)
		m->n_memories++;
	else if (ev->kind == EV_rank)
		tl_split_add(&g->split, &ev->u.rank);
	else if (ev->kind == EV_setting && h->n_settings)
		on_setting(m, &h->setting[h->n_settings - 1]);
	else if (ev->kind == EV_request)
		on_request(g, &h->request[h->n_requests - 1], ev->t_ns);
	else if (ev->kind == EV_step) {
		m->counts.steps++;
		m->counts.rows += ev->u.step.rows;
		m->counts.busy_s += (double)ev->u.step.ns * 1e-9;
	} else if (q && !isnan(q->t.ended_s))
		return;
	else if (q && ev->kind == EV_admit)
		tally_admitted(&m->point.tally, &q->t, now_s);
	else if (q && ev->kind == EV_finish)
		on_finish(g, q, &ev->u.finish, now_s);
	else if (q && ev->kind == EV_token && has_token(history_request(h, request), ev)) {
		q->a.n_output++;
		tally_tokens(&m->point.tally, &q->t, 1, now_s);
	}
}

static int check(const struct measured *m, const char *path, struct err *e)
{
	char value[64];
	struct err why;

	if (!m->n || m->point.tally.n_ended < m->n)
		return err_set(e, ERR_INPUT,
			"%s: %lld answers, of which %lld ended: nothing to compare with", path, (long long)m->n,
			(long long)m->point.tally.n_ended);
	if (m->n_memories > 1)
		return err_set(e, ERR_INPUT,
			"%s: its model keeps %d kinds of memory; one, keys and values, can be simulated", path,
			m->n_memories);
	for (const struct setting *s = engine_settings; s->name; s++) {
		setting_text(s, &m->engine, value, sizeof value);
		if (!strcmp(s->group, "Scheduler") && setting_check(s, value, &why))
			return err_set(e, ERR_INPUT, "%s: its settings make no sense: %s", path, why.text);
	}
	if (m->engine.pages < 1 || m->engine.ctx < 1 || m->engine.ctx > 1 << 24 ||
		m->engine.page_size < 1)
		return err_set(e, ERR_INPUT, "%s: its pages and context make no sense", path);
	return 0;
}

int measured_read(struct measured *m, const char *path, struct err *e)
{
	const struct tally_options o = { 0 };
	struct reading g = { .m = m, .split = { 1, 1, 1, 1 } };
	int rc;

	*m = (struct measured){ .engine = ENGINE_DEFAULTS };
	tally_open(&m->point.tally, &o);
	rc = history_read(&m->history, path, on_event, &g, e);
	m->engine.tensor_parallel = g.split.tensor;
	m->engine.pipeline_parallel = g.split.pipeline;
	m->engine.sequence_parallel = g.split.sequence;
	if (!rc && g.no_memory)
		rc = err_set(e, ERR_MEMORY, "%s: no memory for its requests", path);
	if (!rc)
		rc = check(m, path, e);
	return rc ? rc : tally_result(&m->point.tally, m->point.tally.last_s, &m->point.result, e);
}

void measured_close(struct measured *m)
{
	free(m->asked);
	history_close(m->history);
	tally_close(&m->point.tally);
}

/* ---- its requests, simulated ---- */

struct replay {
	const struct measured *m;
	int64_t at;
};

static double replay_when(void *arg)
{
	struct replay *r = arg;

	while (r->at < r->m->n && !r->m->asked[r->at].a.n_output)
		r->at++;
	return r->at < r->m->n ? r->m->asked[r->at].a.at_s : (double)INFINITY;
}

static int replay_next(void *arg, struct arrival *out, int32_t **ids, struct err *e)
{
	struct replay *r = arg;
	const struct asked *q = &r->m->asked[r->at++];
	const struct history_request *h = history_request(r->m->history, q->request);

	*out = q->a;
	*ids = malloc((size_t)(h->n_prompt + q->a.n_output) * sizeof **ids);
	if (!*ids)
		return err_no_memory(e, "a request");
	memcpy(*ids, h->prompt, (size_t)h->n_prompt * sizeof **ids);
	for (int32_t i = 0; i < q->a.n_output; i++)
		(*ids)[h->n_prompt + i] = h->row[i].id;
	return 1;
}

int simulate_against(struct simulation *s, const struct measured *m, struct err *e)
{
	struct replay r = { .m = m };
	const struct fleet_source source = { &r, replay_when, replay_next, NULL };

	s->fleet.as_logged = true;
	if (s->fleet.cost->model.split.ranks < 2 && take_ranks(s, e))
		return -1; /* else the prices are of steps of these ranks */
	return simulate_fleet(s, &source, &s->load.tally, e);
}
