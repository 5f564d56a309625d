/* A load on the engine inside: see load.h. The loop submits what is due and steps, on one thread.
 *
 * By counted time a step takes what its cost says: what happens in it is kept until the event
 * `step`, which moves the clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "load/load.h"
#include "sessions/session.h"

enum { VOCAB = 32000, CTX = 8192, TEMPLATE = 64, EACH = 64 };

/* A request under way. */
struct flight {
	struct tally_request r;
	struct arrival a;
	int32_t drawn, pending; /* tokens, ever; in the step in progress (counted) */
	bool changed;           /* it is in the list of the step */
	enum { RUNS, ENDED, FAILED } state;
};

struct inside {
	const struct load_options *o;
	const struct load_engine *by;
	struct workload_options load;
	struct workload *workload;
	struct session session;
	struct load_point *p;
	struct flight **flight; /* [n_flights] by the engine's number - 1; NULL: it has ended */
	int64_t n_flights, cap_flights, n_open;
	int64_t *changed; /* [n_changed] those of which the step in progress says something (counted) */
	int64_t n_changed, cap_changed;
	bool in_step, no_memory;
	double now_s; /* counted */
	int64_t start_ns;
	struct step_shape shape;
};

static double clock_s(const struct inside *s)
{
	return s->by->counted ? s->now_s : (double)(now_ns() - s->start_ns) * 1e-9;
}

static struct flight *flight_of(const struct inside *s, int64_t request)
{
	return request >= 1 && request <= s->n_flights ? s->flight[request - 1] : NULL;
}

/* ---- tokens that are given ---- */

static bool next_token(void *arg, int64_t request, int32_t *id)
{
	const struct inside *s = arg;
	const struct flight *f = flight_of(s, request);

	*id = workload_id(&s->load, &f->a, VOCAB, f->a.n_prompt + f->drawn);
	return true;
}

static int never_end(void *arg, int64_t request)
{
	(void)arg;
	(void)request;
	return -1;
}

/* ---- what the engine says ---- */

static void land(struct inside *s, int64_t i, double now)
{
	struct flight *f = s->flight[i];

	tally_ended(&s->p->tally, &f->r, f->state == FAILED, now);
	workload_ended(s->workload, f->a.user, now);
	free(f);
	s->flight[i] = NULL;
	s->n_open--;
}

static void report_later(struct inside *s, struct flight *f, int64_t request)
{
	if (f->changed)
		return;
	if (ARRAY_ROOM(s->changed, s->cap_changed, s->n_changed + 1))
		s->changed[s->n_changed++] = request - 1;
	else
		s->no_memory = true;
	f->changed = true;
}

static void end_step(struct inside *s)
{
	s->now_s += cost_step_s(s->by->counted, &s->shape);
	s->shape = (struct step_shape){ 0 };
	for (int64_t i = 0; i < s->n_changed; i++) {
		struct flight *f = s->flight[s->changed[i]];

		f->changed = false;
		if (f->pending)
			tally_tokens(&s->p->tally, &f->r, f->pending, s->now_s);
		f->pending = 0;
		if (f->state != RUNS)
			land(s, s->changed[i], s->now_s);
	}
	s->n_changed = 0;
}

static void on_token(struct inside *s, struct flight *f, int64_t request)
{
	f->drawn++;
	if (s->by->counted) {
		f->pending++;
		report_later(s, f, request);
	} else {
		tally_tokens(&s->p->tally, &f->r, 1, clock_s(s));
	}
}

static void on_finish(struct inside *s, struct flight *f, const struct ev_finish *end)
{
	const enum ev_code_finish reason = (enum ev_code_finish)end->reason;
	const bool well = reason == EV_FINISH_end || reason == EV_FINISH_whole ||
					  reason == EV_FINISH_stop || reason == EV_FINISH_length;

	f->r.n_cached = end->hit > 0 ? (int32_t)end->hit : 0;
	f->state = well ? ENDED : FAILED;
	if (!well && !*s->p->why)
		snprintf(s->p->why, sizeof s->p->why, "%s%s%.*s", ev_code_name("finish", reason),
			end->why.size ? ": " : "", (int)end->why.size,
			end->why.size ? (const char *)end->why.data : "");
	if (s->by->counted && s->in_step)
		report_later(s, f, end->request);
	else
		land(s, end->request - 1, clock_s(s));
}

static void on_event(void *arg, const struct event *ev)
{
	struct inside *s = arg;
	const int64_t request = ev->kind == EV_admit    ? ev->u.admit.request
							: ev->kind == EV_token  ? ev->u.token.request
							: ev->kind == EV_finish ? ev->u.finish.request
													: 0;
	struct flight *f = flight_of(s, request);

	if (f && ev->kind == EV_admit && !ev->u.admit.readmitted) {
		f->r.slot = (int32_t)ev->u.admit.slot;
		tally_admitted(&s->p->tally, &f->r, clock_s(s));
	}
	if (f && ev->kind == EV_token)
		on_token(s, f, request);
	if (f && ev->kind == EV_finish)
		on_finish(s, f, &ev->u.finish);
	if (s->by->counted && step_shape_event(&s->shape, ev))
		end_step(s);
}

/* ---- requests ---- */

int load_ids(const struct workload_options *o, const struct arrival *a, const struct engine *engine,
	int32_t **ids, size_t *n, struct err *e)
{
	struct chat_input chat = engine_chat(engine);
	struct workload_prompt p = { 0 };
	size_t cap = 0;
	int rc = workload_prompt(o, a, &p, e);
	struct chat_message *m = rc ? NULL : calloc((size_t)p.n + 1, sizeof *m);

	if (m && p.system)
		m[chat.n++] = (struct chat_message){ .role = "system", .text = p.system };
	for (int32_t i = 0; m && i < p.n; i++)
		m[chat.n++] =
			(struct chat_message){ .role = i % 2 ? "assistant" : "user", .text = p.text[i] };
	for (size_t i = 0; i < chat.n; i++)
		m[i].size = strlen(m[i].text);
	chat.message = m;
	chat.open = true;
	if (!rc)
		rc = m ? template_ids(&chat, NULL, 0, ids, n, &cap, e) : err_no_memory(e, "a prompt");
	free(m);
	workload_prompt_free(&p);
	return rc ? -1 : 0;
}

int32_t load_limit(const struct engine *engine)
{
	const int32_t ctx = engine_info(engine)->ctx;

	return ctx > TEMPLATE + 8 ? ctx - TEMPLATE : 8;
}

static struct flight *new_flight(struct inside *s, const struct arrival *a, struct err *e)
{
	struct flight *f = calloc(1, sizeof *f);

	if (!f || !ARRAY_ROOM(s->flight, s->cap_flights, s->n_flights + 1)) {
		free(f);
		err_no_memory(e, "the requests of a load");
		return NULL;
	}
	f->a = *a;
	s->flight[s->n_flights++] = f;
	s->n_open++;
	tally_arrived(&s->p->tally, &f->r, a->number, a->at_s);
	f->r.user = a->user;
	return f;
}

static int submit(struct inside *s, const struct arrival *a, struct err *e)
{
	struct engine_request q = engine_answer_request(s->o->answer);
	struct flight *f = new_flight(s, a, e);
	const bool counted = s->by->counted;
	size_t n = counted ? (size_t)a->n_prompt : 0;
	int32_t *ids = counted ? workload_ids(&s->load, a, VOCAB, n) : NULL;
	char user[16], label[32];
	int rc = -1;

	snprintf(user, sizeof user, "%d", (int)a->user);
	snprintf(label, sizeof label, "load %lld", (long long)a->number);
	if (f && (counted ? ids != NULL : !load_ids(&s->load, a, s->session.engine, &ids, &n, e))) {
		f->r.n_prompt = (int32_t)n;
		q.kind = EV_REQUEST_KIND_load;
		q.ids = ids;
		q.n_ids = (int32_t)n;
		q.max_tokens = a->n_output;
		q.sample = a->number;
		q.stop = NULL;
		q.text = label;
		q.ignore_end = !s->o->natural;
		q.user = user;
		q.priority = a->priority;
		rc = engine_submit(s->session.engine, &q, e) < 0 ? -1 : 0;
	}
	free(ids);
	return rc ? err_no_memory(e, "a request of a load") : 0;
}

static int submit_due(struct inside *s, struct err *e)
{
	struct arrival a;

	while (workload_when(s->workload) <= clock_s(s))
		if (workload_next(s->workload, &a, e) < 0 || submit(s, &a, e))
			return -1;
	return 0;
}

/* ---- the run ---- */

static void wait_until(struct inside *s, double at_s)
{
	const double rest = at_s - clock_s(s);
	const struct timespec t = { .tv_nsec = rest > 0.05 ? 50000000 : (long)(rest * 1e9) };

	if (s->by->counted)
		s->now_s = at_s;
	else if (rest > 0)
		nanosleep(&t, NULL);
}

static int step(struct inside *s, struct err *e)
{
	int rc;

	s->in_step = true;
	rc = engine_step(s->session.engine, e);
	s->in_step = false;
	if (s->no_memory)
		return err_no_memory(e, "the requests of a load");
	return rc < 0 ? -1 : rc ? 0 : err_set(e, ERR_USAGE, "requests of the load cannot run");
}

static int drive(struct inside *s, struct err *e)
{
	const struct load_options *o = s->o;

	for (int64_t turn = 1;; turn++) {
		if (submit_due(s, e))
			return -1;
		if (s->n_open && step(s, e))
			return -1;
		if (!s->n_open && !isfinite(workload_when(s->workload)))
			return 0;
		if (!s->n_open)
			wait_until(s, workload_when(s->workload));
		s->p->stopped = o->progress && (!s->by->counted || turn % EACH == 0) &&
						!o->progress(o->arg, &s->p->tally, clock_s(s));
		if (s->p->stopped)
			return 0;
	}
}

/* Prompts and answers fit the context. */
static int open_load(struct inside *s, const struct load_options *o, struct err *e)
{
	const struct engine_info *info = engine_info(s->session.engine);
	const int32_t most = s->by->counted ? info->ctx : load_limit(s->session.engine);
	struct tally_options tally = o->tally;

	s->load = o->workload;
	if (!s->load.limit || s->load.limit > most)
		s->load.limit = most;
	tally.slots = info->slots;
	tally.reserve = info->ctx;
	tally.page_size = engine_state(s->session.engine).page_size;
	tally_open(&s->p->tally, &tally);
	snprintf(s->p->model, sizeof s->p->model, "%s",
		s->by->counted ? "no model, counted time" : info->name);
	return workload_open(&s->workload, &s->load, e);
}

int load_inside(
	const struct load_options *o, const struct load_engine *by, struct load_point *p, struct err *e)
{
	struct inside s = { .o = o, .by = by, .p = p };
	const struct engine_given given = { &s, NULL, next_token, never_end, NULL, 0 };
	struct session_options so = {
		.engine = by->engine, .sink = on_event, .arg = &s, .record = by->record
	};
	int rc;

	if (by->counted) {
		so.engine.given = &given;
		so.engine.model = NULL;
		so.engine.ctx = so.engine.ctx ? so.engine.ctx : CTX;
	}
	if (session_open(&s.session, &so, e))
		return -1;
	engine_observe(s.session.engine, by->record != NULL);
	rc = session_begin(&s.session, NULL, NULL, e) || open_load(&s, o, e);
	s.start_ns = now_ns();
	rc = rc || drive(&s, e);
	if (!rc)
		rc = tally_result(&p->tally, clock_s(&s), &p->result, e);
	p->n_cut = s.workload ? workload_n_cut(s.workload) : 0;
	rc |= session_close(&s.session, e);
	for (int64_t i = 0; i < s.n_flights; i++)
		free(s.flight[i]);
	free(s.flight);
	free(s.changed);
	workload_close(s.workload);
	return rc ? -1 : 0;
}
