/* certify: runs the cases, compares, counts. See certify.h; what a case is, how mixed ones are
 * chosen and how they run is in certify_axes.c, certify_plan.c and certify_run.c.
 *
 * Value 0 of every axis is the base. Each case records a trail: for each scored or generated token
 * its position, id and hash of logits. The hash covers the whole row of logits, so an equal trail
 * is an equal computation. Each text has a base run of its own, and so has each KV cache format
 * and what an adapter computes, since its bits differ; the f16 runs without one give the
 * certificate's hash. Thread: the caller's. */
#include "sessions/certify/certify.h"

#include "base/clock.h"
#include "base/text.h"
#include "engine/model/gguf.h"
#include "sessions/certify/certify_private.h"

enum speed { FAST, SLOW, N_SPEEDS };

struct certify {
	const struct certify_options *o;
	struct axes axes;
	struct workload work[N_TEXTS];
	/* n = 0: not run; base_of() */
	struct row_trace base[2][2][2][K_N_CACHES][N_TEXTS];
	struct row_trace row_trace; /* of the case under way */
	certify_grid tries;
	struct mixed_list list;
	uint64_t random;
	double start;
	double took[N_SPEEDS], guessed[N_SPEEDS]; /* seconds of the cases run, measured and predicted */
	double to_come[N_SPEEDS];                 /* predicted seconds of the planned cases */
	certify_report *report;
	void *arg;
	struct certify_summary *sum;
	struct err differs; /* the first difference */
};

static double now(void)
{
	return (double)now_ns() * 1e-9;
}

/* ---- time ---- */

static enum speed speed_of(const struct certify_plan *p)
{
	return axes_slow(p->axes, p->choice) ? SLOW : FAST;
}

/* Measured over predicted time so far. */
static double pace(const struct certify *c, enum speed s)
{
	return c->guessed[s] > 0 ? c->took[s] / c->guessed[s] : 1;
}

static void learn(struct certify *c, const struct certify_plan *p, double seconds)
{
	c->took[speed_of(p)] += seconds;
	c->guessed[speed_of(p)] += plan_cost(p);
}

/* Not before one case has been compared: nothing would have been proven. */
static bool too_late(struct certify *c, const struct certify_plan *p)
{
	double takes = plan_cost(p) * pace(c, speed_of(p));
	bool late =
		c->o->seconds > 0 && c->sum->n_cases > 0 && now() - c->start + takes > c->o->seconds;
	c->to_come[speed_of(p)] -= plan_cost(p);
	c->sum->n_untried += late;
	c->sum->out_of_time |= late;
	return late;
}

/* Predicted seconds of the planned cases, cut at the time limit. */
static double time_left(const struct certify *c)
{
	double takes = c->to_come[FAST] * pace(c, FAST) + c->to_come[SLOW] * pace(c, SLOW);
	double rest = c->o->seconds - c->sum->seconds;
	takes = takes > 0 ? takes : 0;
	return c->o->seconds <= 0 || takes < rest ? takes : rest > 0 ? rest : 0;
}

/* ---- comparing ---- */

/* Each row must equal the base's at its position; positions repeat where the case was rewound. Only
 * a brief case may lack some. */
static bool compare(
	struct certify *c, const struct certify_plan *p, const struct row_trace *base, const char *what)
{
	const struct row_trace *t = &c->row_trace;
	struct err found = { 0 };
	bool had[sizeof t->row / sizeof *t->row] = { false };
	int32_t want = plan_scored(p) + p->work.n_generated, missing = 0;
	for (int32_t i = 0; !found.code && i < t->n; i++) {
		int32_t j = 0;
		while (j < want - 1 && base->row[j].pos != t->row[i].pos)
			j++;
		had[j] = true;
		if (!trace_equal(base, j, t, i))
			trace_difference(&found, what, i, base, j, t);
	}
	for (int32_t j = p->scored ? 0 : plan_scored(p); j < want; j++)
		missing += !had[j];
	if (!found.code && (!t->n || (missing && !p->brief)))
		err_set(&found, ERR_DIFFERS, "%s: %d tokens are missing that the base has", what, missing);
	if (found.code && !c->differs.code)
		c->differs = found;
	return !found.code;
}

/* ---- one case ---- */

/* What other draws, other rows or another text give must be compared with its like. */
static struct row_trace *base_of(
	struct certify *c, const struct certify_plan *p, enum text_size size)
{
	return &c->base[p->choice[AXIS_RULE] != 0][p->choice[AXIS_GRAMMAR]]
				   [p->choice[AXIS_ADAPTER] == CERTIFY_OWN][p->choice[AXIS_CACHE]][size];
}

static int run_base(
	struct certify *c, const struct certify_plan *of, enum text_size size, struct err *e)
{
	const int choice[N_AXES] = { [AXIS_RULE] = of->choice[AXIS_RULE] != 0,
		[AXIS_GRAMMAR] = of->choice[AXIS_GRAMMAR],
		[AXIS_ADAPTER] = of->choice[AXIS_ADAPTER] == CERTIFY_OWN,
		[AXIS_CACHE] = of->choice[AXIS_CACHE] };
	struct certify_plan p = plan_case(&c->axes, c->work, choice, size, false);
	struct row_trace *base = base_of(c, of, size);
	struct evidence ev;
	int32_t want = plan_scored(&p) + p.work.n_generated;
	double begin = now();
	if (certify_run_case(&p, base, &ev, e))
		return -1;
	learn(c, &p, now() - begin);
	snprintf(c->sum->memory, sizeof c->sum->memory, "%s", ev.memory);
	if (base->n != want)
		return err_set(e, ERR_INPUT,
			"certify: the base run gave %d tokens of %d; is the model damaged?", base->n, want);
	if (!choice[AXIS_RULE] && !choice[AXIS_GRAMMAR] && !choice[AXIS_ADAPTER] && !choice[AXIS_CACHE])
		c->sum->hash = trace_hash(c->sum->hash, base);
	return 0;
}

static void count_pairs(
	struct certify *c, const struct certify_plan *p, const struct evidence *ev, int a, int i)
{
	const struct axes *axes = &c->axes;
	for (int b = a + 1; b < N_AXES; b++)
		for (int j = 1; j < axes->axis[b].n; j++) {
			uint8_t *pair = &c->sum->pair[axes->first[a] + i][axes->first[b] + j];
			if (*pair == CERTIFY_PAIR_LEFT && evidence_has_pair(p, ev, a, i, b, j)) {
				*pair = CERTIFY_PAIR_MET;
				c->sum->pairs_met++;
			}
		}
}

/* Notes which values and pairs took effect, by the evidence. Returns how many axes were idle. */
static int count(struct certify *c, const struct certify_plan *p, const struct evidence *ev,
	char *seen, char *idle, size_t cap)
{
	int n_idle = 0;
	for (int a = 0; a < N_AXES; a++) {
		for (int i = 1; i < c->axes.axis[a].n; i++) {
			struct certify_value *v = &c->sum->value[c->axes.first[a] + i];
			bool works = evidence_has(p, ev, a, i), chosen = p->choice[a] == i;
			v->cases += works;
			v->rows += works ? c->row_trace.n : 0;
			v->idle += chosen && !works;
			n_idle += chosen && !works;
			if (chosen && !works)
				text_append(idle, cap, ", ", "%s", c->axes.axis[a].name);
			if (chosen)
				evidence_say(p, ev, (enum axis)a, seen, cap);
			if (works)
				count_pairs(c, p, ev, a, i);
		}
	}
	return n_idle;
}

static int try(struct certify *c, const char *axis, const char *what, const struct certify_plan *p,
	enum text_size size, bool mixed, struct err *e)
{
	struct evidence ev;
	const struct row_trace *base = base_of(c, p, size);
	char seen[512] = "", idle[512] = "", label[480];
	if (!base->n && run_base(c, p, size, e))
		return -1;
	double begin = now();
	if (certify_run_case(p, &c->row_trace, &ev, e))
		return -1;
	learn(c, p, now() - begin);
	snprintf(label, sizeof label, "%s %s", axis, what);
	bool equal = compare(c, p, base, label);
	int n_idle = count(c, p, &ev, seen, idle, sizeof idle);
	struct certify_summary *s = c->sum;
	s->n_cases++;
	s->n_mixed += mixed;
	s->n_differ += !equal;
	s->n_idle += n_idle > 0;
	s->n_tokens += c->row_trace.n;
	s->seconds = now() - c->start;
	struct certify_case reported = { axis, what, seen, idle, c->row_trace.n, equal, s->n_cases,
		s->seconds, time_left(c), s->pairs_met, s->pairs_possible };
	c->report(c->arg, &reported);
	return 0;
}

/* ---- every value alone ---- */

/* The reference kernels only score a text that is long enough for two spans of attention. */
static struct certify_plan plan_alone(
	const struct certify *c, const int *choice, enum text_size *size)
{
	bool slow = axes_slow(&c->axes, choice);
	bool defines =
		!strcmp(c->axes.axis[AXIS_KERNELS].value[choice[AXIS_KERNELS]], "ref") && !c->o->quick;
	const bool coded = k_cache_by_channel(choice[AXIS_CACHE]); /* it has TEXT_DEEP, then */
	*size = defines && !coded ? TEXT_MIDDLE
			: slow && !coded  ? TEXT_SHORT
			: plan_tokens(&c->axes, choice) > c->work[TEXT_LONG].n_ids && c->work[TEXT_DEEP].n_ids
				? TEXT_DEEP
				: TEXT_LONG;
	struct certify_plan p = plan_case(&c->axes, c->work, choice, *size, false);
	axes_spec(&p);
	if (!c->axes.diffusion) /* the first tokens of a longer canvas are others */
		p.work.n_generated = defines ? 0 : slow ? 2 : p.work.n_generated;
	return p;
}

static int index_of(const struct axis_values *a, const char *value)
{
	int i = a->n - 1;
	while (i > 0 && strcmp(a->value[i], value))
		i--;
	return i;
}

/* Slow kernels come last, so that a time limit cuts theirs. only_plan: adds up the predicted
 * time. */
static int try_values(struct certify *c, bool only_plan, struct err *e)
{
	for (int k = 0; k < 2 * N_AXES; k++) {
		int a = k % N_AXES;
		const struct axis_values *v = &c->axes.axis[a];
		for (int i = 1; i < (c->o->quick ? v->n_quick : v->n); i++) {
			int choice[N_AXES] = { 0 };
			enum text_size size;
			choice[a] = i;
			if (a == AXIS_CACHE) /* on the reference kernels: the base run uses others */
				choice[AXIS_KERNELS] = index_of(&c->axes.axis[AXIS_KERNELS], "ref");
			if (axes_slow(&c->axes, choice) != (k >= N_AXES))
				continue;
			struct certify_plan p = plan_alone(c, choice, &size);
			if (only_plan)
				c->to_come[speed_of(&p)] += plan_cost(&p);
			else if (!too_late(c, &p) && try(c, v->name, v->value[i], &p, size, false, e))
				return -1;
		}
	}
	return 0;
}

/* ---- mixed cases ---- */

static void describe(const struct certify *c, const int *choice, char *what, size_t cap)
{
	for (int a = 0; a < N_AXES; a++)
		if (choice[a])
			text_append(
				what, cap, ", ", "%s %s", c->axes.axis[a].name, c->axes.axis[a].value[choice[a]]);
}

static struct certify_plan plan_item(const struct certify *c, const struct mixed_case *m)
{
	struct certify_plan p = plan_case(&c->axes, c->work, m->choice, m->size, true);

	axes_spec(&p);
	return p;
}

static void plan_list(struct certify *c)
{
	int most = c->o->mixed ? c->o->mixed - c->sum->n_mixed : 0;
	c->to_come[FAST] = c->to_come[SLOW] = 0;
	plan_mixed(&c->axes, c->work, c->sum->pair, c->tries, most, &c->random, &c->list);
	for (int i = 0; i < c->list.n; i++)
		c->to_come[axes_slow(&c->axes, c->list.item[i].choice) ? SLOW : FAST] +=
			c->list.item[i].cost;
}

/* The cases of the list with such kernels. Returns how many were run, or -1. */
static int try_list(struct certify *c, enum speed speed, struct err *e)
{
	int n = 0;
	for (int i = 0; i < c->list.n; i++) {
		const struct mixed_case *m = &c->list.item[i];
		struct certify_plan p = plan_item(c, m);
		char what[400] = "";
		if (speed_of(&p) != speed || too_late(c, &p))
			continue;
		describe(c, m->choice, what, sizeof what);
		plan_note_try(&c->axes, m->choice, c->tries);
		n++;
		if (try(c, "mixed", what, &p, m->size, true, e))
			return -1;
	}
	return n;
}

/* Runs the fast cases of the list; then those of a new list, for the pairs of which a value was
 * idle; when none are left, the slow ones likewise. The lists depend on the evidence, which depends
 * on the tokens alone; time only cuts the last. */
static int try_mixed(struct certify *c, struct err *e)
{
	int n = 1;
	while (c->list.n && n) {
		int32_t untried = c->sum->n_untried;
		n = try_list(c, FAST, e);
		if (!n)
			n = try_list(c, SLOW, e);
		if (n < 0)
			return -1;
		if (c->o->mixed && c->sum->n_mixed >= c->o->mixed)
			return 0;
		if (n) { /* cases cut by the limit are in the new list again */
			c->sum->n_untried = untried;
			plan_list(c);
		}
	}
	return 0;
}

/* ---- setting up ---- */

static void list_rule(struct certify_summary *s, const char *why)
{
	int i = 0;
	while (i < s->n_rules && strcmp(s->rule[i].text, why))
		i++;
	if (i == CERTIFY_MAX_RULES)
		return;
	s->n_rules += i == s->n_rules;
	s->rule[i].text = why;
	s->rule[i].n_pairs++;
}

static void list_pairs(struct certify *c, int a, int b)
{
	struct certify_summary *s = c->sum;
	for (int i = 1; i < c->axes.axis[a].n; i++)
		for (int j = 1; j < c->axes.axis[b].n; j++) {
			const char *why = axes_clash(&c->axes, a, i, b, j);
			s->pair[c->axes.first[a] + i][c->axes.first[b] + j] =
				why ? CERTIFY_PAIR_IMPOSSIBLE : CERTIFY_PAIR_LEFT;
			s->pairs_possible += !why;
			if (why)
				list_rule(s, why);
		}
}

static void list_values(struct certify *c)
{
	struct certify_summary *s = c->sum;
	for (int a = 0; a < N_AXES; a++) {
		const struct axis_values *v = &c->axes.axis[a];
		for (int i = 0; i < v->n; i++) {
			struct certify_value *out = &s->value[s->n_values++];
			snprintf(out->axis, sizeof out->axis, "%s", v->name);
			snprintf(out->value, sizeof out->value, "%s", v->value[i]);
			out->base = !i;
		}
	}
	for (int a = 0; a < N_AXES; a++)
		for (int b = a + 1; b < N_AXES; b++)
			list_pairs(c, a, b);
}

static int list_formats(const char *path, char *out, size_t cap, struct err *e)
{
	struct gguf *g = NULL;
	bool seen[K_N_TYPES] = { false };
	if (gguf_open(&g, path, e))
		return -1;
	for (int32_t i = 0; i < gguf_n_tensors(g); i++)
		seen[gguf_tensor_at(g, i)->type] = true;
	gguf_close(g);
	for (int t = 0; t < K_N_TYPES; t++)
		if (seen[t])
			text_append(out, cap, " ", "%s", k_types[t].name);
	return 0;
}

/* Reads model, formats and machine from an engine with the base's options. */
static int learn_subject(struct certify *c, struct err *e)
{
	struct certify_plan p = { .axes = &c->axes };
	struct engine_options o = axes_options(&p);
	struct certify_summary *s = c->sum;
	struct engine *engine = NULL;
	o.lora = c->o->lora; /* one that does not fit is told at once */
	if (list_formats(c->o->model, s->formats, sizeof s->formats, e) || engine_open(&engine, &o, e))
		return -1;
	const struct engine_info *info = engine_info(engine);
	snprintf(s->model, sizeof s->model, "%s", info->name);
	snprintf(s->isa, sizeof s->isa, "%s", info->isa);
	s->threads = info->threads;
	bool long_enough = info->ctx >= CERTIFY_LONGEST + c->work[TEXT_DEEP].n_generated;

	axes_fit_context(&c->axes, c->work, info->ctx);
	c->axes.kept = axes_kept(o.visible);
	if (!long_enough || (c->o->quick && !c->axes.kept))
		c->work[TEXT_DEEP] = (struct workload){ 0, 0 };
	/* the largest chunk, which is the last value, needs a text that is longer */
	if (!long_enough || c->o->quick || c->axes.kept || info->start >= 0)
		c->axes.axis[AXIS_CHUNK].n--;
	if (!long_enough || c->o->quick)
		c->axes.axis[AXIS_CACHE].n = c->axes.axis[AXIS_CACHE].n_quick;
	axes_number_values(&c->axes);
	axes_fit_model(
		&c->axes, engine, c->work[c->work[TEXT_DEEP].n_ids ? TEXT_DEEP : TEXT_LONG].n_ids);
	engine_close(engine);
	return 0;
}

static int prove(struct certify *c, struct err *e)
{
	axes_fill(&c->axes, c->o);
	if (learn_subject(c, e))
		return -1;
	list_values(c);
	plan_list(c);
	try_values(c, true, e);
	/* base runs of the first format; other formats run when a case needs them */
	const struct certify_plan base[] = { { .axes = &c->axes },
		{ .axes = &c->axes, .choice[AXIS_RULE] = 1 },
		{ .axes = &c->axes, .choice[AXIS_GRAMMAR] = c->axes.axis[AXIS_GRAMMAR].n - 1 },
		{ .axes = &c->axes, .choice[AXIS_ADAPTER] = c->axes.axis[AXIS_ADAPTER].n > CERTIFY_OWN } };

	for (int size = 0; size < N_TEXTS; size++)
		for (size_t i = 0; c->work[size].n_ids && i < sizeof base / sizeof *base; i++)
			if (!base_of(c, &base[i], (enum text_size)size)->n &&
				run_base(c, &base[i], (enum text_size)size, e))
				return -1;
	return try_values(c, false, e) || try_mixed(c, e) ? -1 : 0;
}

int certify_run(const struct certify_options *o, certify_report *report, void *arg,
	struct certify_summary *sum, struct err *e)
{
	struct certify *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(e, ERR_MEMORY, "out of memory");
	*sum = (struct certify_summary){ .n_axes = N_AXES };
	c->o = o;
	c->report = report;
	c->arg = arg;
	c->sum = sum;
	c->random = o->seed;
	c->start = now();
	c->work[TEXT_SHORT] = (struct workload){ 18, 12 };
	c->work[TEXT_HALF] = (struct workload){ 66, 12 };
	c->work[TEXT_MIDDLE] = (struct workload){ 132, 16 };
	c->work[TEXT_LONG] = o->quick ? (struct workload){ 150, 20 } : (struct workload){ 200, 32 };
	c->work[TEXT_DEEP] = (struct workload){ CERTIFY_LONGEST, 12 };
	int status = prove(c, e);
	sum->seconds = now() - c->start;
	if (!status && sum->n_differ)
		status = err_set(e, ERR_DIFFERS, "%s", c->differs.text);
	free(c);
	return status;
}
