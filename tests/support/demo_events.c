/* See demo_events.h. A scheduler in small: it keeps slots, block tables and the prefix cache as the
 * engine does, so that its events agree with each other. */
#include "tests/support/demo_events.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/support/demo_script.h"

enum {
	N_PAGES = 512,
	PAGE = 16,
	SLOTS = 8,
	CHUNK = 128,
	MAX_IDS = 400,
	N_VOCAB = 49152,
	LAYERS = 30,
	MAX_WORDS = 1024,
	TABLE = MAX_IDS / PAGE + 1,
	K = 4
};

struct demo_request {
	const struct demo_script *s;
	int32_t ids[MAX_IDS], n_prompt, n_ids; /* prompt and answer, as the script has them */
	/* rows in the cache; tokens generated; and before a preemption */
	int32_t computed, made, made_before;
	int32_t table[TABLE], n_table;
	bool arrived, running, done, preempted, cached;
	int slot;
	int64_t arrival_ns, first_ns, hit;
};

struct demo {
	ev_sink *sink;
	void *arg;
	int64_t seq, t_ns, step;
	uint64_t random;
	char word[MAX_WORDS][24];
	int32_t n_words;
	int32_t refs[N_PAGES];
	bool cached[N_PAGES], slot[SLOTS];
	struct demo_request r[DEMO_REQUESTS];
	struct ev_step sum;
};

static double draw(struct demo *d)
{
	d->random = d->random * 6364136223846793005u + 1442695040888963407u;
	return (double)(d->random >> 40) / (double)(1 << 24);
}

static struct ev_span text_span(const char *text)
{
	return (struct ev_span){ text, strlen(text) };
}

static void send(struct demo *d, struct event *ev)
{
	ev->seq = ++d->seq;
	ev->t_ns = d->t_ns;
	d->sink(d->arg, ev);
}

static int32_t id_of_word(int32_t index)
{
	return (index * 193 + 7) % N_VOCAB;
}

/* The id of a word; told as a vocab event when it is new. */
static int32_t word_id(struct demo *d, const char *text, size_t size)
{
	struct event ev;
	int32_t i = 0;

	while (i < d->n_words && (strlen(d->word[i]) != size || memcmp(d->word[i], text, size)))
		i++;
	if (i == d->n_words) {
		assert(i < MAX_WORDS && size < sizeof d->word[i]);
		memcpy(d->word[i], text, size);
		d->n_words++;
		ev_init(&ev, EV_vocab);
		ev.u.vocab.id = id_of_word(i);
		ev.u.vocab.bytes = (struct ev_span){ text, size };
		ev.u.vocab.special = size > 4 && !memcmp(text, "<|im", 4);
		send(d, &ev);
	}
	return id_of_word(i);
}

/* '|' parts tokens; the bars inside of <|im_end|> do not. */
static int32_t tokenize(struct demo *d, const char *text, int32_t *ids)
{
	int32_t n = 0;

	while (*text) {
		size_t size =
			!strncmp(text, "<|", 2) ? (size_t)(strstr(text, "|>") + 2 - text) : strcspn(text, "|");

		assert(n < MAX_IDS);
		if (size)
			ids[n++] = word_id(d, text, size);
		text += size;
		text += *text == '|';
	}
	return n;
}

/* Products of a small model, and what the machine can do. */
static void tell_machine(struct demo *d)
{
	static const struct ev_product product[] = {
		{ EV_STAGE_qkv, { "Q4_1", 4 }, 576, 960, 30, 10368000, 184320, 0 },
		{ EV_STAGE_out, { "Q4_1", 4 }, 576, 576, 30, 6220800, 138240, 0 },
		{ EV_STAGE_gate_up, { "Q4_1", 4 }, 576, 1536, 60, 33177600, 437760, 0 },
		{ EV_STAGE_down, { "Q4_1", 4 }, 1536, 576, 30, 16588800, 253440, 0 },
		{ EV_STAGE_head, { "Q8_0", 4 }, 576, 49152, 1, 30277632, 198912, 0 },
	};
	struct event ev;

	for (size_t i = 0; i < sizeof product / sizeof *product; i++) {
		ev_init(&ev, EV_product);
		ev.u.product = product[i];
		send(d, &ev);
	}
	ev_init(&ev, EV_roof);
	ev.u.roof =
		(struct ev_roof){ .reads = 33.6e9, .least = 21.2e9, .ints = 1700e9, .floats = 600e9 };
	send(d, &ev);
}

static void tell_session(struct demo *d)
{
	static const char *const settings[][2] = { { "temp", "0.7" }, { "top-p", "0.9" },
		{ "spec", "ngram:4" }, { "prefix-cache", "on" }, { "seed", "0" } };
	struct event ev;
	struct ev_session *s = &ev.u.session;

	ev_init(&ev, EV_session);
	*s = (struct ev_session){ .unix_ns = 1790000000000000000,
		.version = text_span("demo"),
		.build = text_span("none"),
		.arith = 1,
		.backend = text_span("cpu"),
		.isa = text_span("avx2"),
		.threads = 2,
		.model_path = text_span("demo.gguf"),
		.model_name = text_span("SmolLM2-135M-Instruct Q4_1"),
		.model_bytes = 91000000,
		.weight_bytes = 84000000,
		.n_layers = LAYERS,
		.n_heads = 9,
		.n_kv_heads = 3,
		.head_dim = 64,
		.dim = 576,
		.vocab = N_VOCAB,
		.ctx = 8192,
		.slots = SLOTS,
		.pages = N_PAGES,
		.page_size = PAGE,
		.page_bytes = PAGE * LAYERS * 768,
		.read_bandwidth = 33.6e9,
		.params = 134515008,
		.memory_bytes = 16000000000 };
	send(d, &ev);
	tell_machine(d);
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		ev_init(&ev, EV_setting);
		ev.u.setting.name = text_span(settings[i][0]);
		ev.u.setting.value = text_span(settings[i][1]);
		send(d, &ev);
	}
}

static void tell_page(struct demo *d, enum ev_code_page_action action, int32_t page,
	int64_t request, int64_t block, int64_t other)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page =
		(struct ev_page){ page, action, request, block, d->refs[page], d->cached[page], other, 0 };
	send(d, &ev);
}

static int32_t page_take(struct demo *d, struct demo_request *r)
{
	int32_t page = 0;

	while (d->refs[page] || d->cached[page])
		page++;
	d->refs[page] = 1;
	tell_page(d, EV_PAGE_alloc, page, r->s->id, r->n_table, EV_NULL_I);
	return page;
}

static void table_grow(struct demo *d, struct demo_request *r, int32_t rows)
{
	while (r->n_table * PAGE < rows)
		r->table[r->n_table] = page_take(d, r), r->n_table++;
}

static void table_release(struct demo *d, struct demo_request *r)
{
	for (int32_t b = r->n_table; b-- > 0;) {
		int32_t page = r->table[b];

		d->refs[page]--;
		tell_page(d, EV_PAGE_release, page, r->s->id, b, EV_NULL_I);
		if (!d->refs[page] && !d->cached[page])
			tell_page(d, EV_PAGE_free, page, EV_NULL_I, -1, EV_NULL_I);
	}
	r->n_table = 0;
}

static void cache_full_pages(struct demo *d, struct demo_request *r)
{
	for (int32_t b = 0; b < r->n_table && (b + 1) * PAGE <= r->computed; b++)
		if (!d->cached[r->table[b]]) {
			d->cached[r->table[b]] = true;
			tell_page(d, EV_PAGE_cache, r->table[b], r->s->id, b, EV_NULL_I);
		}
	r->cached = true;
}

static void arrive(struct demo *d, struct demo_request *r)
{
	struct event ev;
	struct ev_request *q = &ev.u.request;

	r->arrived = true;
	r->arrival_ns = d->t_ns;
	r->n_prompt = tokenize(d, r->s->prompt, r->ids);
	r->n_ids = r->n_prompt + tokenize(d, r->s->answer, r->ids + r->n_prompt);
	r->ids[r->n_ids++] = word_id(d, "<|im_end|>", 10);
	ev_init(&ev, EV_request);
	q->request = r->s->id;
	q->kind = r->s->kind;
	q->parent = r->s->parent ? r->s->parent : EV_NULL_I;
	q->sample = r->s->sample;
	q->text = text_span(r->s->text);
	q->prompt = (struct ev_span){ r->ids, (size_t)r->n_prompt * 4 };
	q->n_prompt = r->n_prompt;
	q->max_tokens = 256;
	q->temperature = 0.7;
	q->top_k = 40;
	q->top_p = 0.9;
	q->min_p = 0;
	q->repeat_penalty = 1;
	q->frequency_penalty = q->presence_penalty = 0;
	q->penalty_window = 64;
	q->seed = 0;
	q->spec = text_span("ngram:4");
	send(d, &ev);
}

static void finish(
	struct demo *d, struct demo_request *r, enum ev_code_finish reason, const char *why)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = r->s->id;
	ev.u.finish.step = d->step;
	ev.u.finish.reason = reason;
	ev.u.finish.generated = r->made_before + r->made;
	ev.u.finish.first_token_ns = r->first_ns ? r->first_ns - r->arrival_ns : EV_NULL_I;
	ev.u.finish.total_ns = d->t_ns - r->arrival_ns;
	ev.u.finish.hit = r->hit;
	if (why)
		ev.u.finish.why = text_span(why);
	r->done = true;
	if (r->running) {
		cache_full_pages(d, r);
		table_release(d, r);
		d->slot[r->slot] = false;
		r->running = false;
	}
	send(d, &ev);
}

static int32_t common(const struct demo_request *a, const struct demo_request *b, int32_t n)
{
	int32_t i = 0;

	while (i < n && i < b->computed && a->ids[i] == b->ids[i])
		i++;
	return i;
}

static void lookup(struct demo *d, struct demo_request *r)
{
	struct demo_request *near = NULL;
	struct event ev;
	struct ev_lookup *l = &ev.u.lookup;
	int32_t best = 0;

	for (int i = 0; i < DEMO_REQUESTS; i++)
		if (&d->r[i] != r && d->r[i].cached && common(r, &d->r[i], r->n_prompt) > best) {
			near = &d->r[i];
			best = common(r, near, r->n_prompt);
		}
	ev_init(&ev, EV_lookup);
	l->request = r->s->id;
	l->asked = r->n_prompt;
	l->reason = near ? EV_PREFIX_diverged : EV_PREFIX_empty;
	l->hit_pages = (best < r->n_prompt ? best : r->n_prompt - 1) / PAGE;
	for (int32_t b = 0; b < l->hit_pages; b++)
		if (!d->cached[near->table[b]])
			l->hit_pages = b;
	l->hit = l->hit_pages * PAGE;
	if (near) {
		l->nearest = near->s->id;
		l->diverge_pos = best;
		l->expected = near->ids[best];
		l->got = r->ids[best];
		if (best >= near->computed)
			l->reason = EV_PREFIX_tail;
		if (best == r->n_prompt)
			l->reason = EV_PREFIX_hit;
	}
	for (int32_t b = 0; b < l->hit_pages; b++) {
		/* the pages of the nearest stay cached, so their numbers are still right */
		int32_t page = near->table[b];

		d->refs[page]++;
		r->table[r->n_table++] = page;
		tell_page(d, EV_PAGE_share, page, r->s->id, b, EV_NULL_I);
	}
	r->computed = (int32_t)l->hit;
	r->hit = l->hit;
	send(d, &ev);
}

static void admit(struct demo *d, struct demo_request *r)
{
	struct event ev;

	r->slot = 0;
	while (d->slot[r->slot])
		r->slot++;
	d->slot[r->slot] = r->running = true;
	ev_init(&ev, EV_admit);
	ev.u.admit = (struct ev_admit){ r->s->id, r->slot, d->t_ns - r->arrival_ns, r->preempted, 0 };
	r->preempted = false;
	send(d, &ev);
	lookup(d, r);
}

static void candidates(
	struct demo *d, int32_t id, struct ev_candidate *c, int n, int *rank, int *kept)
{
	double left = 1, sum = 0, first = 0.02 + 0.3 * draw(d);

	*rank = draw(d) < 0.82 ? 0 : 1;
	*kept = 0;
	for (int i = 0; i < n; i++) {
		double p = left * (0.52 + 0.35 * draw(d)); /* more than half of it: sorted */

		c[i].id = (uint32_t)(i == *rank ? id : id_of_word((int32_t)(draw(d) * d->n_words)));
		c[i].p = (float)p;
		c[i].logit = (float)(14.2 + log(p));
		c[i].cut = sum < 0.9 || i <= *rank ? EV_CUT_kept : EV_CUT_top_p;
		c[i].arrival = c[i].cut ? NAN : (float)(first * (i == *rank ? 1 : 1.3 + 3 * draw(d)));
		*kept += !c[i].cut;
		left -= p;
		sum += p;
	}
}

/* One token at the end of r; it is the script's, so only the numbers are drawn. */
static void tell_token(struct demo *d, struct demo_request *r, enum ev_code_source source)
{
	struct ev_candidate c[6];
	struct ev_stage st[EV_N_STAGES];
	int32_t pos = r->n_prompt + r->made, id = r->ids[pos];
	int rank, kept;
	double mass = 0;
	struct event ev;
	struct ev_token *k = &ev.u.token;

	candidates(d, id, c, 6, &rank, &kept);
	for (int i = 0; i < kept; i++)
		mass += (double)c[i].p;
	st[0] = (struct ev_stage){ N_VOCAB, 1, c[rank].logit };
	st[1] = (struct ev_stage){ N_VOCAB, 1, c[rank].logit / 0.7f };
	st[2] = (struct ev_stage){ 40, 0.961f, c[rank].p / 0.961f };
	st[3] = (struct ev_stage){ (uint32_t)kept, (float)mass, (float)((double)c[rank].p / mass) };
	st[4] = st[3];
	st[4].mass = 1;
	ev_init(&ev, EV_token);
	k->step = d->step;
	k->request = r->s->id;
	k->pos = pos;
	k->id = id;
	k->p = (double)c[rank].p;
	k->p_draw = k->p / mass;
	k->entropy = 0.2 + 2.6 * draw(d);
	k->hash = (int64_t)(d->random * 2654435761u);
	k->source = source;
	k->survivors = kept;
	k->candidates = (struct ev_span){ c, sizeof c };
	k->stages = (struct ev_span){ st, sizeof st };
	k->is_end = pos == r->n_ids - 1;
	send(d, &ev);
	if (!r->made++ && !r->made_before)
		r->first_ns = d->t_ns;
	d->sum.tokens++;
}

static void tell_draft(
	struct demo *d, struct demo_request *r, int nth, int32_t id, enum ev_code_verdict verdict)
{
	struct event ev;
	struct ev_draft *e = &ev.u.draft;
	int32_t pos = r->n_prompt + r->made + (verdict == EV_VERDICT_discarded ? nth : 0);

	ev_init(&ev, EV_draft);
	e->step = d->step;
	e->request = r->s->id;
	e->pos = pos;
	e->nth = nth;
	e->drafter = text_span("ngram");
	e->id = id;
	e->rule = EV_RULE_race;
	e->verdict = verdict;
	e->q = 1;
	e->p = verdict == EV_VERDICT_accepted ? 0.5 + 0.5 * draw(d) : 0.2 * draw(d);
	e->arrival = 0.21 + draw(d);
	if (verdict != EV_VERDICT_discarded) {
		e->winner = r->ids[pos];
		e->winner_arrival = verdict == EV_VERDICT_accepted ? e->arrival : 0.21 * draw(d);
	}
	send(d, &ev);
	d->sum.accepted += verdict == EV_VERDICT_accepted;
	d->sum.rejected += verdict == EV_VERDICT_rejected;
}

/* Drafts n tokens; returns false when the end was reached. */
static void verify(struct demo *d, struct demo_request *r, int n)
{
	bool lost = false;

	for (int i = 1; i <= n; i++) {
		bool right = !lost && draw(d) < r->s->accept;
		int32_t wrong = id_of_word((int32_t)(draw(d) * d->n_words));

		if (lost) {
			tell_draft(d, r, i, wrong, EV_VERDICT_discarded);
		} else if (right) {
			tell_draft(d, r, i, r->ids[r->n_prompt + r->made], EV_VERDICT_accepted);
			tell_token(d, r, EV_SOURCE_accepted);
		} else {
			tell_draft(d, r, i, wrong, EV_VERDICT_rejected);
			tell_token(d, r, EV_SOURCE_corrected);
			lost = true;
		}
	}
	if (!lost)
		tell_token(d, r, EV_SOURCE_bonus);
}

static void tell_attention(struct demo *d, struct demo_request *r, int32_t rows)
{
	static unsigned char share[LAYERS * TABLE];
	unsigned char zero[2 * LAYERS];
	int32_t n = (rows + PAGE - 1) / PAGE;
	double w[TABLE];
	struct event ev;

	for (int l = 0; l < LAYERS; l++) {
		double sum = 0;

		for (int b = 0; b < n; b++) {
			double age = n - 1 - b;

			w[b] = 0.012 + 0.03 * draw(d) + (b == 0 ? 0.3 + 0.02 * l : 0) + 0.45 * exp(-age / 1.5) +
				   ((b * 7 + l / 6) % 9 == 3 ? 0.09 : 0);
			sum += w[b];
		}
		for (int b = 0; b < n; b++)
			share[l * n + b] = (unsigned char)(255 * sqrt(w[b] / sum) + 0.5);
		zero[2 * l] = 0x40;
		zero[2 * l + 1] = (unsigned char)(0xd0 + 30 * draw(d));
	}
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ .step = d->step,
		.request = r->s->id,
		.pos = rows - 1,
		.pages = n,
		.share = { share, (size_t)(LAYERS * n) },
		.threshold = 1e-4,
		.near_zero = { zero, sizeof zero } };
	send(d, &ev);
}

static void member(struct demo *d, struct demo_request *r)
{
	int32_t left = r->n_prompt - r->computed, drafts = 0, rows;
	struct event ev;
	enum ev_code_work work = EV_WORK_decode;

	if (left > 0) {
		rows = left < CHUNK ? left : CHUNK;
		work = EV_WORK_prefill;
		d->sum.prefill_rows += rows;
	} else {
		if (r->made > 2 && draw(d) < 0.6)
			drafts = r->n_ids - r->n_prompt - r->made - 1;
		drafts = drafts > K ? K : drafts;
		work = drafts ? EV_WORK_verify : EV_WORK_decode;
		rows = 1 + drafts;
		d->sum.decode_rows++;
		d->sum.draft_rows += drafts;
	}
	d->sum.rows += rows;
	table_grow(d, r, r->computed + rows);
	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){ d->step, r->s->id, r->slot, work, r->computed, rows };
	send(d, &ev);
	if (drafts)
		verify(d, r, drafts);
	else if (r->computed + rows >= r->n_prompt)
		tell_token(d, r, EV_SOURCE_plain);
	r->computed = work == EV_WORK_prefill ? r->computed + rows : r->n_prompt + r->made - 1;
	tell_attention(d, r, r->computed);
	if (r->made && !r->cached)
		cache_full_pages(d, r);
}

static void tell_times(struct demo *d)
{
	static const struct {
		double share, bytes;
	} stage[EV_N_stage] = { [EV_STAGE_embed] = { 0.002, 1152 },
		[EV_STAGE_norm] = { 0.02, 69120 },
		[EV_STAGE_qkv] = { 0.12, 9e6 },
		[EV_STAGE_rope] = { 0.01, 92160 },
		[EV_STAGE_attention] = { 0.10, 3e6 },
		[EV_STAGE_out] = { 0.06, 5e6 },
		[EV_STAGE_gate_up] = { 0.26, 33e6 },
		[EV_STAGE_act] = { 0.018, 184320 },
		[EV_STAGE_down] = { 0.13, 17e6 },
		[EV_STAGE_head] = { 0.27, 17e6 },
		[EV_STAGE_stats] = { 0.01, 196608 } };
	double rows = (double)d->sum.rows, total = 2.6e6 + 0.21e6 * rows + 0.2e6 * draw(d);
	struct ev_stage_time told[EV_N_stage];
	struct event ev;

	d->sum.kernel_ns = (int64_t)total;
	d->sum.ns = (int64_t)(total * 1.03) + 40000;
	d->sum.drafters_ns = d->sum.draft_rows ? 60000 : 0;
	for (size_t i = 0; i < EV_N_stage; i++) {
		told[i] = (struct ev_stage_time){ i, (uint64_t)(total * stage[i].share),
			(uint64_t)stage[i].bytes, (uint64_t)(stage[i].bytes * 3.2 * rows) };
		d->sum.bytes += (int64_t)told[i].bytes;
		d->sum.ops += (int64_t)told[i].ops;
	}
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ d->step, { told, sizeof told } };
	send(d, &ev);
}

static void close_step(struct demo *d)
{
	struct event ev;

	for (int i = 0; i < DEMO_REQUESTS; i++) {
		d->sum.running += d->r[i].running;
		d->sum.waiting += d->r[i].arrived && !d->r[i].running && !d->r[i].done;
		d->sum.tail_waste_bytes +=
			d->r[i].running ? (d->r[i].n_table * PAGE - d->r[i].computed) * 23040 : 0;
		d->sum.reserve_waste_bytes += d->r[i].running ? (8192 - d->r[i].computed) * 23040LL : 0;
	}
	for (int i = 0; i < N_PAGES; i++) {
		d->sum.pages_used += d->refs[i] > 0;
		d->sum.pages_shared += d->refs[i] > 1;
		d->sum.pages_cached += !d->refs[i] && d->cached[i];
	}
	d->sum.step = d->step;
	ev_init(&ev, EV_step);
	ev.u.step = d->sum;
	d->t_ns += d->sum.ns;
	send(d, &ev);
}

/* What happens once: evictions of the first request's last pages, and a preemption. */
static void incidents(struct demo *d)
{
	struct demo_request *victim = &d->r[4];
	struct event ev;

	if (d->step == 70)
		for (int32_t page = N_PAGES; page-- > 0;)
			if (d->cached[page] && !d->refs[page] && d->sum.evicted < 2) {
				d->cached[page] = false;
				d->sum.evicted++;
				tell_page(d, EV_PAGE_evict, page, EV_NULL_I, -1, 40);
				tell_page(d, EV_PAGE_free, page, EV_NULL_I, -1, EV_NULL_I);
			}
	if (d->step == 58 && victim->running) {
		ev_init(&ev, EV_preempt);
		ev.u.preempt =
			(struct ev_preempt){ victim->s->id, victim->n_table, victim->computed, 2, 0 };
		table_release(d, victim);
		d->slot[victim->slot] = victim->running = false;
		victim->preempted = true;
		send(d, &ev);
		/* what it had said is now part of what must be computed again */
		victim->n_prompt += victim->made;
		victim->made_before += victim->made;
		victim->made = 0;
	}
}

static bool may_run(const struct demo *d, const struct demo_request *r)
{
	return r->arrived && !r->running && !r->done && !(r->preempted && d->step < 66);
}

static void run_step(struct demo *d)
{
	memset(&d->sum, 0, sizeof d->sum);
	d->step++;
	for (int i = 0; i < DEMO_REQUESTS; i++) {
		struct demo_request *r = &d->r[i];

		if (!r->arrived && demo_script[i].at_step <= d->step)
			arrive(d, r);
		if (r->s->id == 6 && r->arrived && !r->done)
			finish(d, r, EV_FINISH_refused, "the prompt has 9,412 tokens and the context 8,192");
	}
	incidents(d);
	for (int i = 0; i < DEMO_REQUESTS; i++)
		if (may_run(d, &d->r[i]) && !(i == 8 && d->step < 130))
			admit(d, &d->r[i]);
	for (int i = 0; i < DEMO_REQUESTS; i++)
		if (d->r[i].running)
			member(d, &d->r[i]);
	tell_times(d);
	close_step(d);
	for (int i = 0; i < DEMO_REQUESTS; i++)
		if (d->r[i].running && d->r[i].n_prompt + d->r[i].made >= d->r[i].n_ids)
			finish(d, &d->r[i], EV_FINISH_end, NULL);
}

void demo_play(ev_sink *sink, void *arg, int n_steps)
{
	static struct demo d; /* too large for a stack */
	struct event ev;

	memset(&d, 0, sizeof d);
	d.sink = sink;
	d.arg = arg;
	d.random = 20240229;
	for (int i = 0; i < DEMO_REQUESTS; i++)
		d.r[i].s = &demo_script[i];
	tell_session(&d);
	for (int i = 0; i < n_steps && i < DEMO_STEPS; i++)
		run_step(&d);
	if (n_steps >= DEMO_STEPS) {
		ev_init(&ev, EV_closed);
		ev.u.closed.steps = d.step;
		send(&d, &ev);
	}
}
