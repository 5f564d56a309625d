/* See bench_mixed.h. */
#include "sessions/bench_mixed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/measure.h"
#include "sessions/bench_prompts.h"
#include "sessions/session.h"

struct mixed {
	struct session session;
	struct engine *engine;  /* the session's */
	struct bench_mixed_line *line;
	double counted; /* when the step before ended */
	uint64_t text, plain_text; /* of all ids */
};

static void on_event(void *arg, const struct event *ev)
{
	struct mixed *m = arg;
	double counted;

	if (ev->kind == EV_token) {
		m->text = (m->text ^ (uint64_t)ev->u.token.id) * 0x100000001b3u;
	} else if (ev->kind == EV_step) {
		counted = engine_counted_ns(m->engine);
		if (!ev->u.step.prefill_rows) {
			m->line->steps++;
			m->line->tokens += (double)ev->u.step.tokens;
			m->line->ns += (double)ev->u.step.ns;
			m->line->counted_ns += counted - m->counted;
		}
		m->counted = counted;
	}
}

static int answer(struct mixed *m, const struct bench_prompt *p, int32_t tokens, struct err *e)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_load, .max_tokens = tokens, .params = SAMPLE_DEFAULTS,
								.text = "bench" };
	int more = -1;
	int32_t *ids;
	size_t n;

	q.params.temperature = 0;
	if (!bench_prompt_encode(p, m->engine, &ids, &n, e)) {
		q.ids = ids;
		q.n_ids = (int32_t)n;
		if (engine_submit(m->engine, &q, e) >= 0)
			while ((more = engine_step(m->engine, e)) > 0)
				;
	}
	free(ids);
	return more;
}

static int run_one(struct mixed *m, const struct bench_prompts *p, const char *spec, int32_t tokens, struct err *e)
{
	snprintf(m->line->spec, sizeof m->line->spec, "%s", spec);
	if (engine_set(m->engine, "spec", spec, e))
		return -1;
	m->text = 0;
	for (int i = 0; i < p->n; i++)
		if (answer(m, &p->prompt[i], tokens, e))
			return -1;
	if (strcmp(spec, "off") != 0 && m->text != m->plain_text)
		return err_set(e, ERR_DIFFERS, "bench: %s changed the text", spec);
	m->plain_text = m->text;
	return 0;
}

/* The session once more, plainly, with the drafters in the shadow. */
static int predict(struct mixed *m, const struct bench_prompts *p, const char *const *spec, int n_specs, int32_t tokens,
				   struct bench_mixed *out, struct err *e)
{
	struct bench_mixed_line unused = { 0 };
	struct engine_shadow s;
	char list[128] = "";
	size_t len = 0;

	for (int i = 0; i < n_specs && len < sizeof list; i++)
		if (strncmp(spec[i], "auto", 4) && strcmp(spec[i], "off"))
			len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? "+" : "", spec[i]);
	if (!len)
		return 0;
	if (len >= sizeof list)
		return err_set(e, ERR_USAGE, "bench: the list of drafters is too long");
	m->line = &unused;
	if (engine_set(m->engine, "shadow", list, e) || run_one(m, p, "off", tokens, e))
		return -1;
	for (int32_t i = 0; engine_shadow_at(m->engine, i, &s); i++)
		for (int k = 0; k < out->n; k++)
			if (!strcmp(out->line[k].spec, s.spec))
				out->line[k].predicted = s.speed;
	return 0;
}

int bench_mixed_run(const struct engine_options *o, const char *const *spec, int n_specs,
					const double cost[DRAFT_COST_ROWS + 1], int32_t tokens, void (*tell)(void *arg, const char *what),
					void *arg, struct bench_mixed *out, struct err *e)
{
	struct bench_prompts prompts;
	struct mixed m = { 0 };
	struct session_options used = { .engine = *o, .sink = on_event, .arg = &m };
	int rc = 0;

	memset(out, 0, sizeof *out);
	used.engine.spec = used.engine.shadow = "off";
	used.engine.prefix_cache = false; /* each meets the session anew */
	used.engine.counted_cost = cost;
	bench_prompts_read(&prompts);
	bench_prompts_mix(&prompts);
	out->prompts = prompts.n;
	if (session_open(&m.session, &used, e))
		return -1;
	m.engine = m.session.engine;
	m.line = out->line;
	rc = session_begin(&m.session, NULL, NULL, e);
	for (int i = -1; i < n_specs && !rc && out->n < BENCH_MIXED; i++) {
		const char *now = i < 0 ? "off" : spec[i];

		if (i >= 0 && !strcmp(now, "off"))
			continue;
		if (tell)
			tell(arg, now);
		m.line = &out->line[out->n++];
		m.line->predicted = (double)NAN;
		rc = run_one(&m, &prompts, now, tokens, e);
	}
	if (!rc)
		rc = predict(&m, &prompts, spec, n_specs, tokens, out, e);
	session_close(&m.session, NULL);
	return rc;
}

static double each(const struct bench_mixed_line *l)
{
	return l->tokens > 0 ? l->counted_ns / l->tokens : (double)NAN;
}

double bench_mixed_auto(const struct bench_mixed *m, const struct bench_mixed_line **best)
{
	const struct bench_mixed_line *own = NULL;

	*best = NULL;
	for (int i = 0; i < m->n; i++) {
		const struct bench_mixed_line *l = &m->line[i];

		if (!strncmp(l->spec, "auto", 4))
			own = l;
		else if (!*best || each(l) < each(*best))
			*best = l;
	}
	return own && *best ? each(*best) / each(own) : (double)NAN;
}
