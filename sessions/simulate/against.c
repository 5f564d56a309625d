/* What a recording measured, and its requests simulated: see simulate.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sessions/simulate/simulate.h"
#include "trace/reader.h"

enum { MOST_REQUESTS = 1 << 20, MOST_TOKENS = 1 << 20 };

struct asked {
	int64_t request;
	struct arrival a;
	struct tally_request t;
	int32_t *ids; /* [a.n_prompt + a.n_output] */
	int32_t cap;
};

struct reading {
	struct measured *m;
	int64_t first_ns; /* of the first arrival */
	bool no_memory;
};

/* ---- reading ---- */

static struct asked *asked_find(struct measured *m, int64_t request)
{
	int64_t lo = 0, hi = m->n;

	while (lo < hi) {
		const int64_t mid = (lo + hi) / 2;

		if (m->asked[mid].request < request)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->n && m->asked[lo].request == request ? &m->asked[lo] : NULL;
}

static bool is_answer(int64_t kind)
{
	return kind != EV_REQUEST_KIND_score && kind != EV_REQUEST_KIND_verify;
}

static bool add_id(struct reading *g, struct asked *q, int32_t id)
{
	const int32_t n = q->a.n_prompt + q->a.n_output;

	if (n < MOST_TOKENS && ARRAY_ROOM(q->ids, q->cap, n + 1))
		q->ids[n] = id;
	else
		g->no_memory = true;
	return !g->no_memory;
}

static void on_request(struct reading *g, const struct ev_request *r, int64_t t_ns)
{
	struct measured *m = g->m;
	const size_t n = r->prompt.size / sizeof(int32_t);
	struct asked *q;

	if (!is_answer(r->kind) || !n || n > MOST_TOKENS ||
		(m->n && m->asked[m->n - 1].request >= r->request) || m->n == MOST_REQUESTS) {
		m->n_left_out++;
		return;
	}
	if (!ARRAY_ROOM(m->asked, m->cap, m->n + 1)) {
		g->no_memory = true;
		return;
	}
	g->first_ns = m->n ? g->first_ns : t_ns;
	q = &m->asked[m->n];
	*q = (struct asked){ .request = r->request,
		.a = { .number = m->n, .at_s = (double)(t_ns - g->first_ns) * 1e-9, .prefix = -1 } };
	q->a.priority = r->priority != EV_NULL_I ? (int32_t)r->priority : 0;
	q->a.user = r->user.size && r->user.size < 10 ? atoi((const char *)r->user.data) : 0;
	for (size_t i = 0; i < n; i++) {
		int32_t id;

		memcpy(&id, (const char *)r->prompt.data + i * sizeof id, sizeof id);
		if (!add_id(g, q, id))
			break;
		q->a.n_prompt++;
	}
	m->n++;
	tally_arrived(&m->point.tally, &q->t, q->a.number, q->a.at_s);
	q->t.n_prompt = q->a.n_prompt;
}

static void on_finish(struct reading *g, struct asked *q, const struct ev_finish *f, double now_s)
{
	q->t.n_cached = f->hit > 0 ? (int32_t)f->hit : 0;
	g->m->n_left_out += !q->a.n_output;
	tally_ended(&g->m->point.tally, &q->t, !q->a.n_output, now_s);
}

/* Those at the start; texts point into the table's words. */
static void on_setting(struct measured *m, const struct ev_setting *v)
{
	char name[32], value[32];
	const struct setting *s;

	snprintf(name, sizeof name, "%.*s", (int)v->name.size, (const char *)v->name.data);
	snprintf(value, sizeof value, "%.*s", (int)v->value.size, (const char *)v->value.data);
	s = setting_find(engine_settings, name);
	if (s && !strcmp(s->group, "Scheduler") && s->type != SETTING_TEXT && !m->n)
		setting_put(s, &m->engine, value, NULL);
}

static void on_session(struct measured *m, const struct ev_session *s)
{
	m->engine.slots = (int32_t)s->slots;
	m->engine.page_size = (int32_t)s->page_size;
	m->engine.pages = (int32_t)s->pages;
	m->engine.ctx = (int32_t)s->ctx;
	snprintf(m->point.model, sizeof m->point.model, "%.*s", (int)s->model_name.size,
		s->model_name.size ? (const char *)s->model_name.data : "");
}

static void on_event(struct reading *g, const struct event *ev)
{
	struct measured *m = g->m;
	const double now_s = (double)(ev->t_ns - g->first_ns) * 1e-9;
	const int64_t request = ev->kind == EV_admit    ? ev->u.admit.request
							: ev->kind == EV_token  ? ev->u.token.request
							: ev->kind == EV_finish ? ev->u.finish.request
													: 0;
	struct asked *q = request ? asked_find(m, request) : NULL;

	if (ev->kind == EV_session)
		on_session(m, &ev->u.session);
	else if (ev->kind == EV_memory)
		m->n_memories++;
	else if (ev->kind == EV_setting)
		on_setting(m, &ev->u.setting);
	else if (ev->kind == EV_request)
		on_request(g, &ev->u.request, ev->t_ns);
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
	else if (q && ev->kind == EV_token && add_id(g, q, (int32_t)ev->u.token.id)) {
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
	struct reading g = { .m = m };
	struct reader *reader;
	struct event ev;
	int rc;

	*m = (struct measured){ .engine = ENGINE_DEFAULTS };
	tally_open(&m->point.tally, &o);
	if (reader_open(&reader, path, e))
		return -1;
	while ((rc = reader_next(reader, &ev, e)) > 0 && !g.no_memory)
		on_event(&g, &ev);
	reader_close(reader);
	if (g.no_memory)
		rc = err_set(e, ERR_MEMORY, "%s: no memory for its requests, or too long ones", path);
	if (!rc)
		rc = check(m, path, e);
	return rc ? rc : tally_result(&m->point.tally, m->point.tally.last_s, &m->point.result, e);
}

void measured_close(struct measured *m)
{
	for (int64_t i = 0; i < m->n; i++)
		free(m->asked[i].ids);
	free(m->asked);
	load_close(&m->point);
}

/* ---- simulating ---- */

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
	const size_t size = (size_t)(q->a.n_prompt + q->a.n_output) * sizeof **ids;

	*out = q->a;
	*ids = malloc(size);
	if (!*ids)
		return err_set(e, ERR_MEMORY, "no memory for a request");
	memcpy(*ids, q->ids, size);
	return 1;
}

static void replay_ended(void *arg, const struct arrival *a, double now_s)
{
	(void)arg, (void)a, (void)now_s;
}

int simulate_against(struct simulation *s, const struct measured *m,
	bool (*given)(const void *arg, const char *name), const void *arg, struct err *e)
{
	struct replay r = { .m = m };
	const struct fleet_source source = { &r, replay_when, replay_next, replay_ended };

	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		if (!given(arg, engine_settings[i].name))
			setting_copy(&engine_settings[i], &s->engine, &m->engine);
	s->fleet.as_logged = true;
	return simulate_fleet(s, &source, &s->load.tally, e);
}
