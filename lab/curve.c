/* See curve.h. */
#include "lab/curve.h"

#include <stdlib.h>
#include <unistd.h>

#include "lab/partial.h"
#include "base/clock.h"
#include "base/median.h"
#include "engine/core/engine.h"

enum { WARM = 4, TIMED = 16 };

struct scoring {
	const struct curve_options *o;
	struct curve_point *p;
	double step_ns[WARM + TIMED];
	int n_steps;
	bool finished;
	enum ev_code_finish reason;
};

static void on_event(void *arg, const struct event *ev)
{
	struct scoring *s = arg;

	prices_add(&s->p->prices, ev);
	if (ev->kind == EV_step && ev->u.step.rows == 1 && s->n_steps < WARM + TIMED) {
		s->step_ns[s->n_steps++] = (double)ev->u.step.ns;
	} else if (ev->kind == EV_finish) {
		s->finished = true;
		s->reason = (enum ev_code_finish)ev->u.finish.reason;
	}
}

static int run(
	struct engine *engine, struct scoring *s, const struct engine_request *q, struct err *e)
{
	const struct change_options *o = &s->o->common;
	int more = 1;

	s->finished = false;
	if (engine_submit(engine, q, e) < 0)
		return -1;
	while (!s->finished && more > 0) {
		if (o->progress && !o->progress(o->arg, "scoring", s->p->prices.n, q->n_ids))
			return err_set(e, ERR_INTERRUPTED, "stopped while scoring");
		more = engine_step(engine, e);
	}
	if (more < 0)
		return -1;
	if (s->reason == EV_FINISH_refused || s->reason == EV_FINISH_context)
		return err_set(e, ERR_USAGE, "the text is too long for the model's context: cut it");
	return s->reason == EV_FINISH_failed
			   ? err_set(e, ERR_INPUT, "the rounded model gave no numbers (a NaN)")
			   : 0;
}

static int score(
	struct engine *engine, struct scoring *s, const struct curve_options *o, struct err *e)
{
	struct engine_request q;
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	int failed =
		tokenizer_encode(engine_tokenizer(engine), o->text, o->size, false, &ids, &n, &cap, e);

	if (!failed && n < 2)
		failed = err_set(e, ERR_USAGE, "a text of at least two tokens is needed, this has %zu", n);
	q = engine_own_request(EV_REQUEST_KIND_score, ids, (int32_t)n, 0, "curve");
	failed = failed || run(engine, s, &q, e);
	free(ids);
	return failed || !s->p->prices.n ? -1 : 0;
}

/* The median decode step, without the twin. */
static int time_steps(struct engine *engine, struct scoring *s, struct err *e)
{
	const int32_t ids[2] = { 1, 2 };
	const struct engine_request q =
		engine_own_request(EV_REQUEST_KIND_run, ids, 2, WARM + TIMED + 1, "curve");

	s->n_steps = 0;
	if (engine_set(engine, "twin", "off", e) || run(engine, s, &q, e))
		return -1;
	if (s->n_steps == WARM + TIMED)
		s->p->tok_s = 1e9 / median_of(s->step_ns + WARM, TIMED).value;
	return 0;
}

static int measure_file(
	struct curve_point *p, const struct curve_options *o, const char *path, struct err *e)
{
	struct engine_options options = ENGINE_DEFAULTS;
	struct scoring s = { .o = o, .p = p };
	struct engine *engine = NULL;
	int failed;

	options.model = path;
	options.twin = o->model;
	options.threads = o->common.threads;
	options.packed_cache = "off";
	if (engine_open(&engine, &options, e))
		return -1;
	failed = engine_add_sink(engine, on_event, &s);
	engine_begin(engine, NULL);
	failed = failed || score(engine, &s, o, e) || (!p->form.bits && time_steps(engine, &s, e));
	engine_close(engine);
	return failed ? -1 : 0;
}

static int round_file(
	struct curve_point *p, const struct curve_options *o, const char *path, struct err *e)
{
	const struct quant_options q = { .common = o->common,
		.method = p->method,
		.to = p->form,
		.otherwise = K_N_TYPES,
		.alpha = 0.5,
		.damping = 0.01 };
	const int64_t began = now_ns();
	struct quant_result r;
	const int rc = quantize_file(o->model, path, &q, &r, e);

	p->bits = r.bits;
	p->error = r.error;
	p->seconds = (double)(now_ns() - began) * 1e-9;
	return rc;
}

int curve_measure(struct curve_point *p, const struct curve_options *o, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char folder[256], path[280];
	int failed;

	snprintf(folder, sizeof folder, "%.200s/cutaway-curve-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		return err_set(e, ERR_IO, "no folder for temporary models can be made; see TMPDIR");
	snprintf(path, sizeof path, "%s/model.gguf", folder);
	failed = round_file(p, o, path, e) || measure_file(p, o, path, e);
	partial_remove(path); /* begun, if the run was stopped */
	rmdir(folder);
	p->done = !failed;
	return failed ? -1 : 0;
}
