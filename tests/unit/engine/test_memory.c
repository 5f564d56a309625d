/* Memory groups under the scheduler, against a naive model. A page holds, for each position, a hash
 * of the tokens up to it; a state is that hash. Each row checks that what it reads is what its own
 * tokens give, whatever was shared, copied, evicted, given back, rewound, forked, preempted or
 * drafted. The next token is a function of the hash, so that drafts are accepted now and then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft/tree.h"
#include "engine/sched/sched.h"
#include "tests/extend/memory_lately.c"
#include "tests/extend/policy_longest.c"
#include "tests/extend/visible_chunk.c"
#include "tests/support/invariants.h"

extern const struct sched_policy policy_fcfs, policy_shortest;
const struct sched_policy *const sched_policies[] = { &policy_fcfs, &policy_shortest,
	&policy_longest, NULL };

extern const struct visible_policy visible_sinks;
const struct visible_policy *const visible_policies[] = { &visible_full, &visible_window,
	&visible_sinks, &visible_chunk, NULL };

enum { CTX = 400, SIZE = 16, SLOTS = 4, MOST = 60, ROWS = 600, SEEDS = 16 };

struct world {
	struct k_ctx *kernels;
	struct memory memory;
	struct prefix prefix;
	struct stream stream;
	struct sched sched;
	struct plan plan;
	struct memory_table branch[64];
	int32_t n_branches;
	int64_t n, step, n_done;
	uint32_t random;
	int n_pinned, n_refused, n_given;
	int n_preempted, n_hits, n_accepted, n_rewound, n_from_cache, n_forked, n_unseen, n_copies;
};

static struct memory_spec paged(void)
{
	return (struct memory_spec){
		.kind = &memory_paged, .n_layers = 1, .kv = { .n_kv_heads = 1, .head_dim = 16 }
	};
}

static struct memory_spec window(int32_t w)
{
	return (struct memory_spec){ .kind = &memory_window,
		.n_layers = 1,
		.kv = { .n_kv_heads = 1, .head_dim = 16 },
		.window = w };
}

static struct memory_spec state(void)
{
	return (struct memory_spec){ .kind = &memory_recurrent, .n_layers = 1, .state_bytes = 64 };
}

static uint32_t below(struct world *w, uint32_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 17;
	w->random ^= w->random << 5;
	return w->random % n;
}

static uint64_t mix(uint64_t h, int32_t id)
{
	h = (h ^ (uint32_t)(id + 1)) * 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

/* After the first n tokens. */
static uint64_t hash_of(const struct request *r, int32_t n)
{
	uint64_t h = 0;

	for (int32_t i = 0; i < n; i++)
		h = mix(h, r->ids[i]);
	return h;
}

static int32_t next_id(uint64_t h)
{
	return (int32_t)(h >> 17) & 3;
}

/* ---- what pages hold ---- */

static uint64_t *cell(struct world *w, int32_t g, int32_t page, int32_t pos)
{
	const struct pages *p = &w->memory.pages[g];

	assert_true(page >= 0 && page < p->n_pages + p->n_scratch);
	return (uint64_t *)(void *)(p->base + (size_t)page * p->page_bytes + (size_t)(pos % SIZE) * 64);
}

static uint64_t *state_of(struct world *w, int32_t g, int32_t page)
{
	return cell(w, g, page, 0);
}

struct row {
	int32_t pos, parent; /* row before it on its path, or -1: what was computed before the step */
	const struct memory_table *table;
	uint64_t hash;
};

/* The hash after the token at position p of the row's path. */
static uint64_t path_hash(const struct request *r, const struct row *row, int32_t at, int32_t p)
{
	for (; at >= 0; at = row[at].parent)
		if (row[at].pos == p)
			return row[at].hash;
	return hash_of(r, p + 1);
}

static void store_row(
	struct world *w, const struct row *row, int32_t at, const struct memory_table *table)
{
	for (int32_t g = 0; g < w->memory.spec.n; g++)
		if (!w->memory.spec.group[g].kind->is_state)
			*cell(w, g, table->page[g][row[at].pos / SIZE], row[at].pos) = row[at].hash;
}

static void check_row(struct world *w, const struct request *r, const struct row *row, int32_t at)
{
	for (int32_t g = 0; g < w->memory.spec.n; g++) {
		const struct memory_spec *s = &w->memory.spec.group[g];
		struct k_range seen[VISIBLE_RANGES];

		visible_ranges(&w->memory.visible, s->window, row[at].pos, seen);
		for (int32_t i = 0;
			 !s->kind->is_state && i < visible_n_ranges(&w->memory.visible, s->window); i++)
			for (int32_t p = seen[i].first; p < seen[i].end; p++)
				if (*cell(w, g, row[at].table->page[g][p / SIZE], p) != path_hash(r, row, at, p))
					fail_msg("request %lld, group %d: position %d as the row at %d reads it",
						(long long)r->id, g, p, row[at].pos);
	}
}

static void run_states(struct world *w, const struct request *r, const struct row *row, int32_t n,
	int32_t n_known, int32_t g, struct k_state_row *rows)
{
	uint64_t now = 0;

	memory_chain(SIZE, r->table.page[g], row[0].pos, n_known, rows);
	draft_states(&w->memory, g, &r->draft, rows + n_known);
	for (int32_t i = 0; i < n; i++) {
		if (rows[i].from != K_STATE_ROW)
			now = rows[i].from == K_STATE_ZERO ? 0 : *state_of(w, g, rows[i].from);
		if (now != (row[i].pos ? path_hash(r, row, row[i].parent, row[i].pos - 1) : 0))
			fail_msg("request %lld, group %d: the state before position %d", (long long)r->id, g,
				row[i].pos);
		now = row[i].hash;
		if (rows[i].to >= 0)
			*state_of(w, g, rows[i].to) = now;
	}
}

/* ---- a step, as the engine does it ---- */

static int32_t fill_rows(struct world *w, const struct plan_item *item, struct row *row)
{
	const struct request *r = item->r;
	int32_t n_known = item->n_rows - item->n_drafts, n_branches = w->n_branches, n = 0;
	int8_t branch[DRAFT_NODES];

	for (; n < n_known; n++)
		row[n] = (struct row){ item->pos + n, n - 1, &r->table, hash_of(r, item->pos + n + 1) };
	draft_branches(&r->draft, branch);
	for (int32_t i = 0, made = 0; i < item->n_drafts; i++, n++) {
		int32_t parent = n_known + r->draft.parent[i];

		if (branch[i] > made) {
			made = branch[i];
			assert_true(draft_branch(&w->memory, &r->table, item->pos, draft_reach(&r->draft),
				&w->branch[w->n_branches++]));
		}
		row[n] = (struct row){ row[parent].pos + 1, parent,
			branch[i] ? &w->branch[n_branches + branch[i] - 1] : &r->table,
			mix(row[parent].hash, r->draft.id[i]) };
	}
	return n;
}

static void compute_rows(struct world *w, const struct plan_item *item, const struct row *row,
	int32_t n, struct k_state_row rows[][ROWS])
{
	int32_t n_known = item->n_rows - item->n_drafts;

	for (int32_t i = 0; i < n; i++)
		store_row(w, row, i, row[i].table);
	for (int32_t i = n_known; i < n; i++) /* a branch has its ancestors of this step, too */
		for (int32_t up = row[i].parent;
			 up >= n_known - 1 && up >= 0 && row[i].table != row[row[i].parent].table;
			 up = row[up].parent)
			store_row(w, row, up, row[i].table);
	for (int32_t i = 0; i < n; i++)
		check_row(w, item->r, row, i);
	for (int32_t g = 0; g < w->memory.spec.n; g++)
		if (w->memory.spec.group[g].kind->is_state)
			run_states(w, item->r, row, n, n_known, g, rows[g]);
}

static void settle(struct world *w, const struct plan_item *item, int32_t first_branch,
	int32_t node, struct k_state_row rows[][ROWS])
{
	const struct request *r = item->r;
	int8_t branch[DRAFT_NODES];

	if (node < 0)
		return;
	for (int32_t g = 0; g < w->memory.spec.n; g++)
		if (w->memory.spec.group[g].kind->is_state)
			draft_keep_states(&w->memory, g, &r->table, &r->draft, node, item->pos,
				rows[g] + item->n_rows - item->n_drafts);
	draft_branches(&r->draft, branch);
	if (branch[node])
		draft_keep_branch(&w->memory, &r->table, &w->branch[first_branch + branch[node] - 1],
			item->pos, item->pos + draft_depth(&r->draft, node));
}

static void draw(struct request *r)
{
	r->ids[r->n_ids] = next_id(hash_of(r, r->n_ids));
	r->n_ids++;
}

static void run_item(struct world *w, const struct plan_item *item)
{
	static struct k_state_row rows[MEMORY_GROUPS][ROWS];
	static struct row row[ROWS];
	struct request *r = item->r;
	int32_t first_branch = w->n_branches, node = -1, kept = -1;

	compute_rows(w, item, row, fill_rows(w, item, row), rows);
	r->computed += item->n_rows - item->n_drafts;
	while (item->n_out && r->n_ids < r->limit) {
		draw(r);
		node = item->n_drafts ? draft_child(&r->draft, node, r->ids[r->n_ids - 1]) : -1;
		if (node < 0 || r->n_ids == r->limit)
			break;
		kept = node;
		r->computed++;
		w->n_accepted++;
	}
	settle(w, item, first_branch, kept, rows);
	sched_register(&w->sched, r);
	if (r->n_ids == r->limit) {
		sched_remove(&w->sched, r);
		request_free(r);
		w->n_done++;
	}
}

static void propose(void *arg, struct request **r, int32_t n, int32_t nodes)
{
	struct world *w = arg;
	struct draft_room room;

	memory_begin_step(&w->memory);
	room = draft_room_of(&w->memory);
	for (int32_t i = 0; i < n; i++) {
		struct draft *t = &r[i]->draft;
		int32_t depth = r[i]->limit - r[i]->n_ids - 1, want = (int32_t)below(w, 9);
		struct draft_job job = {
			.n = r[i]->n_ids, .nodes = nodes, .depth = depth < 16 ? depth : 16, .out = t
		};

		t->n = 0;
		for (int32_t k = 0; k < want && depth > 0; k++)
			draft_add(t, (int32_t)below(w, (uint32_t)t->n + 1) - 1, (int32_t)below(w, 4), 1);
		draft_fit(t, &job, &room);
	}
}

static void check_pins(struct world *w);

static void step(struct world *w)
{
	w->sched.step = ++w->step;
	sched_plan(&w->sched, &w->plan);
	memory_begin_step(&w->memory);
	w->n_branches = 0;
	for (int32_t i = 0; i < SLOTS; i++)
		assert_false(w->sched.slot[i] && w->sched.slot[i]->out_of_pages);
	for (int32_t i = 0; i < w->plan.n_items; i++)
		run_item(w, &w->plan.item[i]);
	memory_check(&w->memory);
	prefix_check(&w->prefix);
	sched_check(&w->sched);
	check_pins(w);
}

/* ---- what comes from outside ---- */

static struct request *submit(struct world *w, const int32_t *ids, int32_t n, int32_t drawn)
{
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .ids = ids, .n_ids = n, .max_tokens = drawn
	};
	struct request *r = request_new(&q, CTX, &w->memory);
	struct err e = { 0 };

	assert_non_null(r);
	r->id = ++w->n;
	assert_int_equal(sched_add(&w->sched, r, &e), 0);
	return r;
}

/* Prompts of few families, so that they share beginnings, and continue what others drew. */
static void submit_any(struct world *w)
{
	int32_t ids[CTX], n = 1 + (int32_t)below(w, 120), family = (int32_t)below(w, 3),
					  own = (int32_t)below(w, 60);
	struct request *r;
	uint64_t h = 0;

	for (int32_t i = 0; i < n; i++) {
		ids[i] = i < 4 ? family : i > n - own ? (int32_t)below(w, 4) : next_id(h);
		h = mix(h, ids[i]);
	}
	r = submit(w, ids, n, 1 + (int32_t)below(w, 90));
	if (below(w, 3) == 0)
		sched_pin(&w->sched, r, 1 + (int32_t)below(w, (uint32_t)n), 0, (char[SCHED_WHY]){ 0 });
}

/* Whatever came since, who begins like a pin and goes on finds all of it. */
static void check_pins(struct world *w)
{
	for (int32_t i = 0; i < w->prefix.n_pins; i++) {
		const struct pin *p = &w->prefix.pin[i];
		int32_t ids[CTX + 1], n = p->n_blocks * SIZE;

		memcpy(ids, p->ids, (size_t)n * sizeof *ids);
		ids[n] = -7; /* nobody's */
		if (p->reached == p->n_blocks)
			assert_int_equal(prefix_length(&w->prefix, 0, ids, n + 1, n), n);
	}
}

static void unpin_any(struct world *w)
{
	const int32_t n = w->prefix.n_pins;

	if (n)
		sched_unpin(&w->sched, &w->prefix.pin[below(w, (uint32_t)n)], EV_PIN_removed);
}

static struct request *any_running(struct world *w)
{
	struct request *r = w->sched.slot[below(w, SLOTS)];

	return r && r->n_ids > r->n_prompt && r->computed == r->n_ids - 1 ? r : NULL;
}

static void rewind_any(struct world *w)
{
	struct request *r = any_running(w);
	int32_t keep, own;

	if (!r)
		return;
	keep = r->n_prompt + (int32_t)below(w, (uint32_t)(r->n_ids - r->n_prompt) + 1);
	own = memory_resume(
		&w->memory, &r->table, r->computed, keep - 1 < r->computed ? keep - 1 : r->computed);
	r->n_ids = keep;
	r->draft.n = 0;
	w->n_from_cache += sched_resume(&w->sched, r, keep - 1) > own;
	sched_rewind(&w->sched, r, keep - 1);
	w->n_rewound++;
}

/* As a search does: all that the parent has computed, at once. */
static void fork_any(struct world *w)
{
	struct request *r = any_running(w), *fork;

	if (!r || w->sched.n_running == SLOTS || r->n_ids + 30 > CTX)
		return;
	fork = submit(w, r->ids, r->n_ids, 20);
	fork->ids[fork->n_ids - 1] = (int32_t)below(w, 4); /* its newest token is its own */
	assert_int_equal(sched_fork(&w->sched, r, fork), r->computed);
	w->n_forked++;
}

static const char *visible = "full"; /* of the run */

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	w->n_preempted += ev->kind == EV_preempt;
	w->n_pinned += ev->kind == EV_pin && ev->u.pin.action == EV_PIN_kept;
	w->n_refused += ev->kind == EV_pin && ev->u.pin.action == EV_PIN_refused;
	w->n_given += ev->kind == EV_lookup && ev->u.lookup.pinned > 0;
	w->n_hits += ev->kind == EV_lookup && ev->u.lookup.hit > 0;
}

static void on_change(void *arg, const struct page_change *c)
{
	struct world *w = arg;

	w->n_unseen += c->action == EV_PAGE_unseen;
	w->n_copies += c->action == EV_PAGE_copy;
}

static void world_open(
	struct world *w, const struct memory_specs *specs, int32_t pages, uint32_t seed)
{
	struct k_ctx *kernels = w->kernels;
	struct visible seen;
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	w->kernels = kernels;
	w->random = seed * 2654435761u + 1;
	assert_int_equal(memory_open(&w->memory, kernels, specs, SIZE, pages, SLOTS, 64, &e), 0);
	assert_int_equal(visible_parse(&seen, visible, &e), 0);
	memory_set_visible(&w->memory, &seen);
	assert_int_equal(prefix_open(&w->prefix, &w->memory, CTX / SIZE + 1, &e), 0);
	assert_int_equal(stream_open(&w->stream, 0, NULL, NULL, &e), 0);
	assert_int_equal(sched_open(&w->sched, &w->memory, &w->prefix, &w->stream, SLOTS, &e), 0);
	w->sched.policy = sched_policies[seed % 3];
	w->sched.budget = 96;
	w->sched.chunk = seed % 3 ? 40 : 0;
	w->sched.max_out = 64;
	w->sched.pin_limit = 0.4f; /* what is left has room for the longest request */
	w->sched.propose = seed % 4 ? propose : NULL;
	w->sched.arg = w;
	w->prefix.on = seed % 5 != 0;
	w->plan.item = calloc(SLOTS, sizeof *w->plan.item);
	for (int i = 0; i < 64; i++)
		assert_int_equal(memory_table_open(&w->branch[i], CTX / SIZE + 4), 0);
	memory_listen(&w->memory, on_change, w);
	stream_add(&w->stream, on_event, w);
	stream_begin(&w->stream);
}

static void world_close(struct world *w)
{
	sched_close(&w->sched);
	prefix_close(&w->prefix);
	memory_close(&w->memory);
	stream_close(&w->stream);
	for (int i = 0; i < 64; i++)
		memory_table_close(&w->branch[i]);
	free(w->plan.item);
}

static void run_world(struct world *w, uint32_t seed)
{
	int steps = 0;

	while ((w->n < MOST || w->n_done < w->n) && steps++ < 4000) {
		if (w->n < MOST && below(w, 3) == 0)
			submit_any(w);
		if (w->n < MOST && below(w, 12) == 0)
			fork_any(w);
		if (steps < 1500 && below(w, 10) == 0)
			rewind_any(w);
		if (below(w, 8) == 0)
			unpin_any(w);
		step(w);
	}
	sched_pins_end(&w->sched, EV_PIN_cleared);
	if (w->n_done < w->n)
		fail_msg("seed %u: %lld of %lld ended", seed, (long long)w->n_done, (long long)w->n);
	if (w->prefix.on)
		prefix_clear(&w->prefix);
	for (int32_t g = 0; g < w->memory.spec.n; g++)
		assert_int_equal(w->memory.pages[g].n_free, w->memory.pages[g].n_pages);
}

static struct world world;

static void run_all(const struct memory_specs *specs, int32_t pages, bool unseen)
{
	struct world sum = { 0 };
	struct err e = { 0 };

	assert_int_equal(k_open(&world.kernels, "ref", NULL, 1, &e), 0);
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		world_open(&world, specs, pages + (int32_t)(seed % 4) * 2, seed);
		run_world(&world, seed);
		sum.n_preempted += world.n_preempted;
		sum.n_hits += world.n_hits;
		sum.n_pinned += world.n_pinned;
		sum.n_refused += world.n_refused;
		sum.n_given += world.n_given;
		sum.n_accepted += world.n_accepted;
		sum.n_rewound += world.n_rewound;
		sum.n_from_cache += world.n_from_cache;
		sum.n_forked += world.n_forked;
		sum.n_unseen += world.n_unseen;
		sum.n_copies += world.n_copies;
		world_close(&world);
	}
	k_close(world.kernels);
	print_message(
		"# %d preempted, %d hits, %d accepted, %d rewound (%d from the cache), %d forked, %d "
		"unseen, %d copied\n",
		sum.n_preempted, sum.n_hits, sum.n_accepted, sum.n_rewound, sum.n_from_cache, sum.n_forked,
		sum.n_unseen, sum.n_copies);
	print_message("# %d pins kept, %d refused, %d prompts began with one\n", sum.n_pinned,
		sum.n_refused, sum.n_given);
	assert_true(sum.n_pinned && sum.n_refused && sum.n_given);
	assert_true(sum.n_hits && sum.n_accepted && sum.n_rewound && sum.n_forked && sum.n_copies);
	assert_int_equal(sum.n_unseen > 0, unseen);
	assert_true(sum.n_preempted > 0);
}

static void test_paged(void **arg)
{
	const struct memory_specs specs = { .n = 1, .group = { paged() } };

	(void)arg;
	run_all(&specs, 26, false);
}

static void test_paged_and_window(void **arg)
{
	const struct memory_specs specs = { .n = 2, .group = { window(24), paged() } };

	(void)arg;
	run_all(&specs, 26, true);
}

static void test_window(void **arg)
{
	const struct memory_specs specs = { .n = 1, .group = { window(40) } };

	(void)arg;
	run_all(&specs, 12, true);
}

static void test_states(void **arg)
{
	const struct memory_specs specs = { .n = 1, .group = { state() } };

	(void)arg;
	run_all(&specs, 7, true);
}

/* The example of docs/extend.md. */
static void test_lately(void **arg)
{
	struct memory_spec lately = paged();
	struct memory_specs specs = { .n = 2, .group = { paged() } };

	(void)arg;
	lately.kind = &memory_lately;
	lately.window = 8; /* what rows are checked by */
	specs.group[1] = lately;
	run_all(&specs, 26, true);
}

static void test_all_kinds(void **arg)
{
	const struct memory_specs specs = { .n = 4,
		.group = { paged(), state(), window(17), window(64) } };

	(void)arg;
	run_all(&specs, 26, true);
}

/* What the run hides goes back too, and what all rows see stays: sequences of CTX tokens in fewer
 * pages than they have blocks. */
static void test_sinks(void **arg)
{
	const struct memory_specs one = { .n = 1, .group = { paged() } };
	const struct memory_specs all = { .n = 3, .group = { window(24), paged(), state() } };

	(void)arg;
	visible = "sinks:20+window:40";
	run_all(&one, 14, true);
	run_all(&all, 16, true);
	visible = "window:33";
	run_all(&one, 12, true);
	visible = "chunk:50";
	run_all(&one, 12, true);
	visible = "full";
}

/* Kept, they are there until the sequence ends, of a window too. */
static void test_kept(void **arg)
{
	const struct memory_specs specs = { .n = 2, .group = { window(24), paged() }, .keep = true };

	(void)arg;
	visible = "sinks:20+window:40";
	run_all(&specs, 26, false);
	visible = "full";
}

/* Pages between sinks and window go from the cache before others do, and who goes on at the end
 * finds what it needs. */
static void test_sinks_in_the_cache(void **arg)
{
	const struct memory_specs specs = { .n = 1, .group = { paged() } };
	int32_t ids[200];
	struct err e = { 0 };

	(void)arg;
	assert_int_equal(k_open(&world.kernels, "ref", NULL, 1, &e), 0);
	visible = "sinks:4+window:32";
	world_open(&world, &specs, 10, 15);
	world.prefix.on = true;
	world.sched.propose = NULL;
	for (int i = 0; i < 200; i++)
		ids[i] = i % 5;
	submit(&world, ids, 200, 2);
	for (int i = 0; i < 40 && world.n_done < 1; i++)
		step(&world);
	assert_int_equal(world.n_done, 1);
	/* the cache holds some of the 13 blocks, in a pool of 10 pages */
	assert_true(world.memory.pages[0].n_free < 10);
	submit(&world, ids, 200, 2);
	step(&world);
	assert_int_equal(world.n_hits, 1);
	while (world.n_done < 2)
		step(&world);
	world_close(&world);
	k_close(world.kernels);
	visible = "full";
}

/* A short sequence needs no pages for the whole of a long window; states it always needs. */
static void test_few_pages(void **arg)
{
	struct memory_specs specs = { .n = 2, .group = { paged(), window(512) } };
	struct memory m;
	struct err e = { 0 };

	(void)arg;
	assert_int_equal(memory_open(&m, NULL, &specs, 16, 8, 1, 0, &e), 0);
	assert_int_equal(m.most_rows, INT32_MAX);
	memory_close(&m);
	specs.n = 1;
	specs.group[0] = window(512);
	assert_int_equal(memory_open(&m, NULL, &specs, 16, 8, 1, 0, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
}

/* Where the user says nothing: a longest sequence; with room, one for each slot that it holds. */
static void test_default_pages(void **arg)
{
	struct memory_specs specs = memory_paged_specs(4, 2, 64);
	const int64_t page = (int64_t)specs.group[0].kind->page_bytes(&specs.group[0], 16);

	(void)arg;
	assert_int_equal(memory_default_pages(&specs, 16, 2048, 8, 0), 128);
	assert_int_equal(memory_default_pages(&specs, 16, 2048, 64, 0), 256);
	assert_int_equal(memory_default_pages(&specs, 16, 2048, 8, 5000 * page), 1024);
	assert_int_equal(memory_default_pages(&specs, 16, 2048, 8, 300 * page + 1), 300);
	assert_int_equal(memory_default_pages(&specs, 16, 2048, 8, 1), 128);
	specs.group[0] = window(64); /* no more than twice what the slots can need */
	assert_in_range(memory_default_pages(&specs, 16, 1 << 20, 2, INT64_MAX), 8, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paged),
		cmocka_unit_test(test_paged_and_window),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_lately),
		cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_sinks_in_the_cache),
		cmocka_unit_test(test_few_pages),
		cmocka_unit_test(test_default_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
