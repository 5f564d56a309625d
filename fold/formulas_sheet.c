/* See formulas_sheet.h. */
#include "fold/formulas_sheet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "fold/formulas.h"
#include "fold/formulas_exchange.h"

#define ABSENT ((double)NAN)
#define NS 1e9

/* What the lines are made from. */
struct numbers {
	const struct timeline *t;
	struct formula_sheet *s;
	double params, weights, layers, heads, kv_heads, head_dim, element;
	double kv;                                 /* of a sequence of the depth */
	double room;                               /* bytes of all pages; 0: pages of several sizes */
	double matrices, row_bytes, product_bytes; /* of all stages, a row; a step */
};

__attribute__((format(printf, 6, 7))) static struct formula_line *line(struct formula_sheet *s,
	enum formula_unit unit, const char *rule, double formula, double seen, const char *label, ...)
{
	struct formula_line *l = &s->line[s->n < FORMULA_LINES ? s->n++ : FORMULA_LINES - 1];
	va_list args;

	*l = (struct formula_line){
		.unit = unit, .formula = formula, .seen = s->predicted ? ABSENT : seen
	};
	snprintf(l->rule, sizeof l->rule, "%s", rule);
	va_start(args, label);
	vsnprintf(l->label, sizeof l->label, label, args);
	va_end(args);
	return l;
}

static void part(struct formula_sheet *s, const char *name)
{
	line(s, FORMULA_HEAD, "", ABSENT, ABSENT, "%s", name);
}

/* What the formula leaves out, if it parts from what was seen. */
__attribute__((format(printf, 2, 3))) static void note(
	struct formula_line *l, const char *form, ...)
{
	va_list args;

	if (!isfinite(l->seen) || !isfinite(l->formula) ||
		fabs(l->formula - l->seen) <= 0.1 * fabs(l->seen))
		return;
	va_start(args, form);
	vsnprintf(l->note, sizeof l->note, form, args);
	va_end(args);
	text_cleaned(l->note, sizeof l->note, l->note, strlen(l->note)); /* of a setting, perhaps */
}

static double or_absent(double v)
{
	return v > 0 && isfinite(v) ? v : ABSENT;
}

static double rows_bytes(const struct formula_stage *g, double rows)
{
	return g->bytes + rows * (g->each_bytes + g->row_bytes);
}

/* ---- memory ---- */

static void weight_lines(struct numbers *n)
{
	struct formula_line *l;

	l = line(n->s, FORMULA_BYTES, "2·P", or_absent(2 * n->params), or_absent(n->weights),
		"weights, 16 bits");
	note(l, "the file's formats%s: %.2f bits a weight on average, with the scales of their blocks",
		n->t->session.pair_bytes > 0 ? ", and 2:4" : "", 8 * n->weights / n->params);
}

static double counted_kv(const struct numbers *n)
{
	return or_absent(formula_token_bytes(n->t));
}

static void kv_lines(struct numbers *n)
{
	const double seen = counted_kv(n);
	struct formula_line *l;

	if (!(n->heads > 0) || !(n->kv_heads > 0))
		return;
	l = line(n->s, FORMULA_EXACT_BYTES, "2·L·N·H·b",
		formula_kv(n->layers, n->heads, n->head_dim, n->element), seen, "KV a token, as MHA");
	note(l, "GQA: %.0f of %.0f heads have keys and values of their own", n->kv_heads, n->heads);
	l = line(n->s, FORMULA_EXACT_BYTES, "2·L·K·H·b",
		formula_kv(n->layers, n->kv_heads, n->head_dim, n->element), seen, "KV a token");
	note(l, "layers that keep no keys and values, or of other widths");
	line(n->s, FORMULA_EXACT_BYTES, "2·L·1·H·b", formula_kv(n->layers, 1, n->head_dim, n->element),
		ABSENT, "KV a token, as MQA");
}

/* The newest decode step after which requests still ran: they have pages; or NULL. */
static const struct ev_step *step_with_pages(const struct timeline *t)
{
	for (int32_t i = t->n_steps; i-- > 0;)
		if (t->step[i].s.running > 0 && t->step[i].s.pages_used > 0 && t->n_memory == 1 &&
			timeline_phase(&t->step[i]) == TL_DECODE)
			return &t->step[i].s;
	return NULL;
}

static void note_pages(const struct numbers *n, struct formula_line *l, const struct ev_step *last)
{
	const char *visible = timeline_setting(n->t, "visible");

	if (visible && strcmp(visible, "full") != 0)
		note(l, "visible %.48s: pages that no later row can see are given back", visible);
	else
		note(l,
			"pages are whole: %.0f KB of the last ones are not used yet; shared ones count once",
			last ? (double)last->tail_waste_bytes / 1e3 : 0);
}

static void memory_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const struct ev_step *last = step_with_pages(n->t);
	const double pages =
		last ? (double)last->pages_used * (double)n->t->memory[0].page_bytes : ABSENT;
	const double running = last ? (double)last->running : 1;
	struct formula_line *l;

	l = line(s, FORMULA_BYTES, "kv·S, by memory group", n->kv, pages / running, "KV of a sequence");
	note_pages(n, l, last);
	l = line(s, FORMULA_BYTES, "B·kv·S + weights", formula_memory(s->batch, n->kv, n->weights),
		n->weights + pages, "memory in use");
	note_pages(n, l, last);
	l = line(s, FORMULA_COUNT, "(memory − weights) / (kv·S)",
		s->machine.memory > 0 ? formula_largest_batch(s->machine.memory, n->weights, n->kv)
							  : ABSENT,
		s->machine.memory > 0 ? floor(n->room / n->kv) : ABSENT, "largest batch that fits");
	note(l, "the pool has %.0f pages (--pages), not all of the memory of %.0f GB",
		(double)n->t->n_pages, s->machine.memory / 1e9);
	line(s, FORMULA_COUNT, "weights / kv", n->weights * s->depth / n->kv, ABSENT,
		"KV = weights, tokens");
}

/* ---- a step ---- */

/* What a stage takes at its roof; 0: it has no products and is not attention. */
static double stage_seconds(const struct numbers *n, int stage)
{
	const struct formula_sheet *s = n->s;
	const struct formula_machine *m = &s->machine;
	const struct formula_stage g = formula_stage(n->t, stage);

	if (stage == EV_STAGE_attention)
		return formula_roofline(
			s->rows * formula_attention_ops(n->t, s->depth), s->batch * n->kv, m->floats, m->reads);
	if (!(g.weights > 0))
		return 0;
	return formula_roofline(2 * s->rows * g.weights, rows_bytes(&g, s->rows),
		g.ints && m->ints > 0 ? m->ints
		: m->halves > 0       ? m->halves
							  : m->floats,
		m->reads);
}

static double step_seconds(const struct numbers *n)
{
	double seconds = 0;

	for (int i = 0; i < EV_N_stage; i++)
		seconds += stage_seconds(n, i);
	return seconds;
}

/* The stage that takes most time beyond its roof. */
static int slowest_stage(const struct numbers *n)
{
	double most = 0;
	int stage = 0;

	for (int i = 0; i < EV_N_stage; i++) {
		const double roof = stage_seconds(n, i), over = n->s->sample.stage[i].ns / NS - roof;

		if (roof > 0 && over > most) {
			most = over;
			stage = i;
		}
	}
	return stage;
}

static void work_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const struct tl_cost *k = &s->sample.kernels;
	const double other = s->rows * n->row_bytes;
	struct formula_line *l;

	l = line(s, FORMULA_BYTES, "weights + B·kv·S", formula_memory(s->batch, n->kv, n->weights),
		or_absent(k->bytes), "bytes of a step");
	note(l, "activations of the products (%.1f MB), norms and logits; a prefix that is shared",
		other / 1e6);
	l = line(s, FORMULA_OPS, "2·rows·(W + 2·N·H·S·L)",
		s->rows * (2 * n->matrices + formula_attention_ops(n->t, s->depth)), or_absent(k->ops),
		"operations");
	note(l, "norms, positions, activations, scans and convolutions, statistics of the logits");
}

/* Other programs on the same CPUs make threads wait, and a barrier waits for all of them. */
static void note_slowest(const struct numbers *n, struct formula_line *l)
{
	const struct tl_sample *m = &n->s->sample;
	const int slow = slowest_stage(n);
	char delay[64] = "unpacking, barriers, planning";

	if (m->delay > 0.1 * m->wall)
		snprintf(delay, sizeof delay, "a thread waited %.1f ms for a CPU", m->delay / 1e6);
	note(l, "%s: %.2f ms, its roof allows %.2f; %s", ev_code_name("stage", slow),
		m->stage[slow].ns / 1e6, stage_seconds(n, slow) * 1e3, delay);
}

static void note_latency(
	const struct tl_sample *m, double latency, double reads, struct formula_line *l)
{
	if (m->wall < latency * NS)
		note(l, "faster than the roof: it was read while the machine was busy (/roof measure)");
	else
		note(l,
			"arithmetic; kernels take %.2f ms, %.0f %% of the roof's bandwidth; %.2f ms are no "
			"kernel",
			m->kernels.ns / 1e6, 100 * m->kernels.bytes / fmax(m->kernels.ns, 1) * NS / reads,
			(m->wall - m->kernels.ns) / 1e6);
}

static void speed_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const double bytes = formula_memory(s->batch, n->kv, n->weights), reads = s->machine.reads;
	const double latency = formula_latency(bytes, reads), roof = step_seconds(n);
	const double tokens = s->batch * (s->drafts > 0 ? formula_expected(s->accept, s->drafts) : 1);
	const struct tl_sample *m = &s->sample;
	struct formula_line *l;

	if (!(reads > 0)) {
		line(s, FORMULA_NS, "bytes / bandwidth", ABSENT, or_absent(m->wall), "latency");
		return;
	}
	l = line(s, FORMULA_NS, "bytes / bandwidth", latency * NS, or_absent(m->wall), "latency");
	note_latency(m, latency, reads, l);
	l = line(s, FORMULA_NS, "Σ max(bytes / BW, ops / peak)", roof * NS, or_absent(m->wall),
		"latency under both roofs");
	if (m->wall < roof * NS)
		note_latency(m, roof, reads, l);
	else
		note_slowest(n, l);
	l = line(s, FORMULA_TOKENS_S, s->drafts > 0 ? "B·E / latency" : "B / latency",
		formula_throughput(tokens, latency), m->wall > 0 ? m->tokens / m->wall * NS : ABSENT,
		"throughput");
	note(l, "what the latency leaves out");
	line(s, FORMULA_TOKENS_S, "bandwidth / (kv·S)", reads / n->kv, ABSENT, "its limit, B large");
}

/* ---- intensity ---- */

static void stage_line(struct numbers *n, int stage)
{
	const struct formula_stage g = formula_stage(n->t, stage);
	const struct tl_cost *c = &n->s->sample.stage[stage];
	struct formula_line *l;

	if (!(g.weights > 0))
		return;
	l = line(n->s, FORMULA_INTENSITY, "2·rows·w / (bytes + rows·act)",
		formula_intensity(n->s->rows, g.weights, g.bytes, g.each_bytes + g.row_bytes),
		c->bytes > 0 && c->ops > 0 ? c->ops / c->bytes : ABSENT, "%s %s %dx%d",
		ev_code_name("stage", stage), g.widest->format, (int)g.widest->inputs,
		(int)g.widest->outputs);
	note(l, "ops of this stage that are no product, or steps of different numbers of rows");
}

static void intensity_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const struct formula_machine *m = &s->machine;
	const struct tl_cost *c = &s->sample.stage[EV_STAGE_attention], *k = &s->sample.kernels;
	struct formula_line *l;

	for (int i = 0; i < EV_N_stage; i++)
		stage_line(n, i);
	if (n->heads > 0 && n->kv_heads > 0) {
		l = line(s, FORMULA_INTENSITY, "2·N / (K·b) · rows / B",
			formula_attention_intensity(n->heads, n->kv_heads, n->element) * s->rows / s->batch,
			c->bytes > 0 ? c->ops / c->bytes : ABSENT, "attention");
		note(l, "queries and results, which count where the text is short");
	}
	l = line(s, FORMULA_INTENSITY, "operations / bytes",
		s->rows * (2 * n->matrices + formula_attention_ops(n->t, s->depth)) /
			formula_memory(s->batch, n->kv, n->weights),
		k->bytes > 0 ? k->ops / k->bytes : ABSENT, "the whole step");
	note(l, "activations, norms and logits among the bytes");
	line(s, FORMULA_INTENSITY, "int8 peak / bandwidth",
		m->ints > 0 && m->reads > 0 ? formula_ridge(m->ints, m->reads) : ABSENT, ABSENT,
		"ridge, integers");
	line(s, FORMULA_INTENSITY, "f16 or f32 peak / bandwidth",
		m->halves > 0 && m->reads > 0   ? formula_ridge(m->halves, m->reads)
		: m->floats > 0 && m->reads > 0 ? formula_ridge(m->floats, m->reads)
										: ABSENT,
		ABSENT, "ridge, floats");
	line(s, FORMULA_NUMBER, "ridge · bytes / (2·W)",
		m->ints > 0 && m->reads > 0 && n->matrices > 0
			? formula_ridge(m->ints, m->reads) * n->product_bytes / (2 * n->matrices)
			: ABSENT,
		ABSENT, "knee: rows at the ridge");
}

/* ---- speculation, the cache ---- */

static void speculation_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const struct tl_sample *m = &s->sample;
	struct formula_line *l;

	line(s, FORMULA_NUMBER, "accepted / verified", s->accept, ABSENT, "acceptance rate a");
	l = line(s, FORMULA_NUMBER, "(1 − a^(k+1)) / (1 − a)",
		s->drafts > 0 ? formula_expected(s->accept, s->drafts) : 1,
		m->members > 0 ? m->tokens / m->members : ABSENT, "tokens a step, k = %.3g", s->drafts);
	note(l, "a is not the same at each depth of a draft, and drafts are not all k long");
}

/* The conversation's newest if none is named, else the newest of all; or NULL. */
static const struct tl_request *request_of(const struct timeline *t, int64_t id)
{
	const struct tl_request *r = id ? timeline_request(t, id) : timeline_chat(t);

	return r || id || !t->n_requests ? r : &t->request[t->n_requests - 1];
}

static void cache_lines(struct numbers *n, int64_t request)
{
	const struct tl_request *r = request_of(n->t, request);
	const char *setting = timeline_setting(n->t, "kv-cache");
	const int cached = !setting || strcmp(setting, "off") != 0;
	const double prompt = r ? (double)r->n_prompt : 0, tokens = r ? r->n_tokens : 0;
	double seen[2][2] = { { ABSENT, ABSENT }, { ABSENT, ABSENT } };
	struct formula_line *l;

	if (prompt < 1 || tokens < 1)
		return;
	part(n->s, "what the cache saves");
	seen[cached][0] = seen[cached][1] = 0;
	for (int32_t i = 0; i < r->n_tokens; i++) {
		seen[cached][0] += r->token[i].rows >= 0 ? (double)r->token[i].rows : ABSENT;
		seen[cached][1] += r->token[i].pairs >= 0 ? (double)r->token[i].pairs : ABSENT;
	}
	line(n->s, FORMULA_COUNT, "p + (p + 1) + … + (p + T − 1)", formula_rows(prompt, tokens, 0),
		seen[0][0], "rows without a cache");
	l = line(n->s, FORMULA_COUNT, "p + T − 1", formula_rows(prompt, tokens, 1), seen[1][0],
		"rows of a request");
	note(l, "tokens that the prefix cache spared; drafts that were rejected; rows computed again");
	line(n->s, FORMULA_COUNT, "Σ t·(t + 1) / 2", formula_pairs(prompt, tokens, 0), seen[0][1],
		"pairs without a cache");
	l = line(n->s, FORMULA_COUNT, "(p + T − 1)·(p + T) / 2", formula_pairs(prompt, tokens, 1),
		seen[1][1], "query-key pairs");
	note(l, "the same rows; a window that shows a row fewer positions");
}

/* ---- ranks ---- */

static void rank_lines(struct numbers *n)
{
	struct formula_sheet *s = n->s;
	const struct formula_ranks r = formula_ranks(n->t, s->rows, s->predicted);
	const double bytes = formula_memory(s->batch, n->kv, n->weights), reads = s->machine.reads;

	if (r.ranks < 2)
		return;
	part(s, "ranks");
	line(s, FORMULA_EXACT_BYTES, "Σ (n − 1)·own outputs / rows", r.bytes[0], r.bytes[1],
		"sent a token by %d ranks", r.ranks);
	line(s, FORMULA_COUNT, "4·L + 1, heads split", r.exchanges[0], r.exchanges[1],
		"exchanges a step");
	line(s, FORMULA_NS, "X·latency + bytes / rate", r.ns[0], r.ns[1], "time in exchanges");
	line(s, FORMULA_NS, "(bytes / bandwidth)·(1 − 1 / n)",
		reads > 0 ? formula_latency(bytes, reads) * NS * (1 - 1.0 / r.ranks) : ABSENT, ABSENT,
		"which pays if it is below");
}

/* ---- all ---- */

static double accepted_share(const struct timeline *t)
{
	const struct tl_speculation sp = timeline_speculation(t, 0);

	return sp.n_verified > 0 ? (double)sp.n_accepted / (double)sp.n_verified : ABSENT;
}

/* Before the first decode step: one sequence of 1,024 tokens. */
static void settle(const struct timeline *t, struct formula_knobs k, struct formula_sheet *s)
{
	const struct tl_sample *m = &s->sample;
	const double members = m->members > 0 ? m->members : 1;

	s->predicted = k.batch > 0 || k.depth > 0 || k.drafts >= 0 || k.machine > 0 || !m->n;
	s->batch = k.batch > 0 ? k.batch : members;
	s->depth = k.depth > 0 ? k.depth : m->depth > 0 ? m->depth : 1024;
	s->drafts = k.drafts >= 0 ? k.drafts : fmax(m->rows / members - 1, 0);
	s->rows = s->batch * (s->drafts + 1);
	s->accept = accepted_share(t);
	formula_machine_at(t, k.machine, &s->machine);
}

static struct numbers numbers_of(const struct timeline *t, struct formula_sheet *s)
{
	const struct ev_session *e = &t->session;
	struct numbers n = { .t = t, .s = s };

	n.params = (double)e->params;
	n.weights = (double)e->weight_bytes;
	n.layers = (double)e->n_layers;
	n.heads = (double)e->n_heads;
	n.kv_heads = (double)e->n_kv_heads;
	n.head_dim = (double)e->head_dim;
	n.kv = formula_sequence_bytes(t, s->depth);
	n.element = formula_token_bytes(t) / formula_kv(n.layers, n.kv_heads, n.head_dim, 1);
	n.room =
		t->n_memory == 1 ? (double)t->memory[0].pages * (double)t->memory[0].page_bytes : ABSENT;
	for (int i = 0; i < EV_N_stage; i++) {
		const struct formula_stage g = formula_stage(t, i);

		n.matrices += g.weights;
		n.row_bytes += g.row_bytes;
		n.product_bytes += g.bytes + g.each_bytes;
	}
	return n;
}

void formula_sheet(
	const struct timeline *t, int64_t request, struct formula_knobs k, struct formula_sheet *out)
{
	struct numbers n;

	*out = (struct formula_sheet){ .known = t->begun && t->session.weight_bytes > 0,
		.sample = timeline_sample(t, TL_DECODE) };
	if (!out->known)
		return;
	settle(t, k, out);
	n = numbers_of(t, out);
	part(out, "memory");
	weight_lines(&n);
	kv_lines(&n);
	memory_lines(&n);
	part(out, "a decode step");
	work_lines(&n);
	speed_lines(&n);
	part(out, "arithmetic intensity, op/byte");
	intensity_lines(&n);
	part(out, "speculation");
	speculation_lines(&n);
	rank_lines(&n);
	cache_lines(&n, request);
}
