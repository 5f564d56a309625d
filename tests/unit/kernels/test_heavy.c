/* Heavy hitters (rule 22) against a definition over the whole sequence at once, which knows no
 * chunks, pages or states: equal bits of what attention gives and of what is kept, for every
 * instruction set and number of threads, however the rows are cut into steps and pages; with drafts
 * that are rejected, and with a budget that all fits in against attention that reads all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/visible.h"
#include "tests/support/isa_rig.h"

enum {
	T = 530, /* positions */
	GROUPS = T / K_GROUP + 1,
	SPANS = T / K_SPAN + 1,
	MOST_HEADS = 9,
	DRAFTS = 3
};

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size, most;
};
static const struct shape shapes[] = { { 64, 9, 3, 64, 5 }, { 32, 4, 4, 16, 1 },
	{ 48, 2, 1, 128, 9 }, { 24, 4, 2, 48, 3 }, { 32, 4, 1, 16, 80 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* A sequence; what the definition makes of it. */
struct text {
	const struct shape *s;
	struct cache c;
	float *q, *want;                             /* [T, n_heads * head_dim] */
	uint8_t kept[SPANS + 1][MOST_HEADS][GROUPS]; /* which groups rows of a span read */
};

static size_t width_of(const struct shape *s)
{
	return (size_t)(s->n_heads * s->head_dim);
}

/* One row alone, reading the groups of `reads` [n_kv_heads, GROUPS]. */
static void define_row(struct text *x, int32_t pos, uint8_t reads[][GROUPS], float *share)
{
	const size_t width = width_of(x->s);
	struct k_row row = { .pos = pos };
	struct k_range all = { 0, pos + 1 };
	uint8_t selected[MOST_HEADS * SPANS] = { 0 };
	struct k_op op = { .kind = K_OP_attention };

	for (int32_t h = 0; h < x->s->n_kv_heads; h++)
		for (int32_t g = 0; g <= pos / K_GROUP; g++)
			selected[h * SPANS + g / 8] |= (uint8_t)(reads[h][g] << g % 8);
	op.u.attention = (struct k_attention){ .q = x->q + (size_t)pos * width,
		.out = { .x = x->want + (size_t)pos * width, .dim = (int32_t)width },
		.n_heads = x->s->n_heads,
		.n = 1,
		.rows = &row,
		.ranges = &all,
		.n_ranges = 1,
		.selected = selected,
		.selected_stride = SPANS,
		.pages = x->c.pages,
		.kv = &x->c.kv,
		.share = share,
		.share_stride = GROUPS };
	rig_run(ref, &op);
}

/* Of the groups that a head may keep those of which fewer than `most` are better. */
static void define_kept(const uint8_t *may, const float *score, int32_t most, uint8_t *kept)
{
	for (int32_t g = 0; g < GROUPS; g++) {
		int32_t better = 0;

		for (int32_t i = 0; i < GROUPS; i++)
			better += may[i] && (score[i] > score[g] || (score[i] == score[g] && i < g));
		kept[g] = may[g] && better < most;
	}
}

/* Rule 22, position by position. */
static void define(struct text *x)
{
	static float score[MOST_HEADS][GROUPS], share[MOST_HEADS * GROUPS];
	static uint8_t reads[MOST_HEADS][GROUPS];
	const int32_t n_rep = x->s->n_heads / x->s->n_kv_heads;

	memset(score, 0, sizeof score);
	memset(x->kept, 0, sizeof x->kept);
	for (int32_t pos = 0; pos < T; pos++) {
		const int32_t span = pos / K_SPAN;

		memcpy(reads, x->kept[span], sizeof reads);
		for (int32_t h = 0; h < x->s->n_kv_heads; h++)
			for (int32_t g = span > 0 ? 8 * span - 8 : 0; g <= pos / K_GROUP; g++)
				reads[h][g] = 1;
		define_row(x, pos, reads, share);
		for (int32_t h = 0; h < x->s->n_heads; h++)
			for (int32_t g = 0; g <= pos / K_GROUP; g++)
				if (reads[h / n_rep][g])
					score[h / n_rep][g] += share[h * GROUPS + g];
		for (int32_t h = 0; pos % K_SPAN == K_SPAN - 1 && h < x->s->n_kv_heads; h++) {
			for (int32_t g = 8 * span; g < GROUPS; g++)
				reads[h][g] = 0;
			define_kept(reads[h], score[h], x->s->most, x->kept[span + 1][h]);
		}
	}
}

static void text_open(struct text *x, const struct shape *s)
{
	const size_t n = T * width_of(s);

	x->s = s;
	rig_seed((uint64_t)(s - shapes));
	cache_open(&x->c, K_CACHE_f16, s->page_size, 1, s->n_kv_heads, s->head_dim, 1, T + DRAFTS);
	x->q = rig_get(n * sizeof *x->q);
	x->want = rig_get(n * sizeof *x->want);
	rig_fill(x->q, n, 1.5f);
	define(x);
}

static void text_close(struct text *x)
{
	cache_close(&x->c);
	rig_free_all((void *[]){ x->q, x->want, NULL });
}

/* ---- the ops, in steps ---- */

struct steps {
	struct text *x;
	struct k_ctx *ctx;
	struct k_state state;           /* [blocks + DRAFTS] pages */
	float *attn_score, *room, *out; /* of one step */
};

static void run_rows(
	struct steps *w, const struct k_row *rows, const struct k_state_row *states, int32_t n)
{
	const struct shape *s = w->x->s;
	const size_t width = width_of(s);
	float *q = rig_get((size_t)n * width * sizeof *q);
	int32_t begins[K_SPAN] = { 0 }, keep[K_SPAN];
	struct k_range ranges[K_SPAN];
	uint8_t *selected = rig_get((size_t)(n * s->n_kv_heads * SPANS));
	const struct k_heavy of = { rows, states, &w->state, 16, s->n_kv_heads, s->most, n };
	struct k_op op = { .kind = K_OP_h2o_lookup, .u.h2o_lookup = { of, begins, selected, SPANS } };

	for (int32_t r = 0; r < n; r++) {
		keep[r] = s->most;
		memcpy(q + (size_t)r * width, w->x->q + (size_t)rows[r].pos * width, width * sizeof *q);
		/* a rejected draft is another token */
		q[(size_t)r * width] += states[r].to >= w->x->c.n_blocks ? 1 : 0;
	}
	rig_run(w->ctx, &op);
	k_see_all(rows, n, ranges);
	op = (struct k_op){ .kind = K_OP_attention,
		.u.attention = { .q = q,
			.out = { .x = w->out, .dim = (int32_t)width },
			.n_heads = s->n_heads,
			.n = n,
			.rows = rows,
			.ranges = ranges,
			.n_ranges = 1,
			.selected = selected,
			.selected_stride = SPANS,
			.pages = w->x->c.pages,
			.kv = &w->x->c.kv,
			.attn_score = w->attn_score,
			.attn_score_stride = GROUPS } };
	rig_run(w->ctx, &op);
	op = (struct k_op){ .kind = K_OP_attn_score,
		.u.attn_score = { of, w->attn_score, keep, w->room, GROUPS, s->n_heads } };
	rig_run(w->ctx, &op);
	rig_free_all((void *[]){ q, selected, NULL });
}

/* Rows from pos on, as memory_chain() has them. */
static void chain(const struct steps *w, int32_t pos, int32_t n, struct k_state_row *row)
{
	const int32_t size = w->x->s->page_size;

	for (int32_t i = 0; i < n; i++) {
		const bool stored = i == n - 1 || (pos + i + 1) % size == 0;

		row[i].from = i ? K_STATE_ROW : pos ? w->x->c.table[(pos - 1) / size] : K_STATE_ZERO;
		row[i].to = stored ? w->x->c.table[(pos + i) / size] : -1;
	}
}

/* Steps of up to `chunk` rows; a step of one row has drafts behind it, two of which are siblings,
 * as far as its span goes. */
static void run_text(struct steps *w, int32_t chunk)
{
	const size_t width = width_of(w->x->s);

	for (int32_t pos = 0, n; pos < T; pos += n) {
		const int32_t left = K_SPAN - pos % K_SPAN, most = T - pos < left ? T - pos : left;
		struct k_row rows[K_SPAN] = { { 0 } };
		struct k_state_row states[K_SPAN];
		int32_t drafts;

		n = 1 + (int32_t)(rig_next() % (uint32_t)chunk);
		n = n < most ? n : most;
		drafts = n == 1 && most > 2 ? DRAFTS : 0;
		chain(w, pos, n, states);
		for (int32_t i = 0; i < n + drafts; i++)
			rows[i] = (struct k_row){ .pos = pos + (i < n       ? i
													   : i == n ? n
																: n + 1),
				.observe = -1 };
		for (int32_t i = 0; i < drafts; i++)
			states[n + i] =
				(struct k_state_row){ i < 2 ? K_STATE_ROW : states[n].to, w->x->c.n_blocks + i };
		run_rows(w, rows, states, n + drafts);
		assert_memory_equal(
			w->out, w->x->want + (size_t)pos * width, (size_t)n * width * sizeof(float));
	}
}

static void check_steps(struct text *x, struct k_ctx *ctx, int32_t chunk)
{
	const size_t floats = 16 + (size_t)x->s->n_kv_heads * k_heavy_floats(x->s->most);
	const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
	struct steps w = { .x = x, .ctx = ctx, .state.page_bytes = bytes };

	w.state.base = rig_get(bytes * (size_t)(x->c.n_blocks + DRAFTS));
	w.room = rig_get((size_t)x->s->n_kv_heads * k_heavy_floats(x->s->most) * sizeof *w.room);
	w.attn_score = rig_get((size_t)(K_SPAN * x->s->n_heads * GROUPS) * sizeof *w.attn_score);
	w.out = rig_get(K_SPAN * width_of(x->s) * sizeof *w.out);
	run_text(&w, chunk);
	rig_free_all((void *[]){ w.state.base, w.attn_score, w.room, w.out, NULL });
}

static void test_definition(void **state)
{
	(void)state;
	for (int i = 0; i < N_SHAPES; i++) {
		static struct text x;

		text_open(&x, &shapes[i]);
		check_steps(&x, ref, 60);
		for (int k = i % 2; k < n_fast; k += 2)
			check_steps(&x, fast[k], k % 3 == 0 ? 4 : k % 3 == 1 ? 40 : K_SPAN);
		text_close(&x);
	}
}

/* Something is forgotten, not the same by all heads; what is forgotten never comes back. */
static void test_forgets(void **state)
{
	static struct text x;
	int differ = 0, gone = 0;

	(void)state;
	text_open(&x, &shapes[0]);
	for (int32_t span = 2; span < SPANS; span++)
		for (int32_t h = 0; h < x.s->n_kv_heads; h++) {
			int32_t n = 0;

			for (int32_t g = 0; g < GROUPS; g++) {
				n += x.kept[span][h][g];
				differ += x.kept[span][h][g] != x.kept[span][0][g];
				gone += g < 8 * (span - 1) && !x.kept[span][h][g];
				assert_false(g < 8 * (span - 2) && x.kept[span][h][g] && !x.kept[span - 1][h][g]);
			}
			assert_int_equal(n, 5);
		}
	assert_true(differ > 0 && gone > 0);
	text_close(&x);
}

/* A budget for all of it: the bits of attention that reads all. */
static void test_all(void **state)
{
	static struct text x;
	struct k_row rows[T];
	struct k_range ranges[T];
	struct k_op op = { .kind = K_OP_attention };
	struct k_acts out;

	(void)state;
	text_open(&x, &shapes[4]);
	out = acts_new(T, (int32_t)width_of(x.s), true, false);
	for (int32_t pos = 0; pos < T; pos++)
		rows[pos] = (struct k_row){ .pos = pos, .observe = -1 };
	k_see_all(rows, T, ranges);
	op.u.attention = (struct k_attention){ .q = x.q,
		.out = out,
		.n_heads = x.s->n_heads,
		.n = T,
		.rows = rows,
		.ranges = ranges,
		.n_ranges = 1,
		.pages = x.c.pages,
		.kv = &x.c.kv };
	rig_run(ref, &op);
	assert_memory_equal(out.x, x.want, T * width_of(x.s) * sizeof(float));
	acts_free(&out);
	text_close(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definition),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_all),
	};

	return cmocka_run_group_tests_name("heavy", tests, rig_setup, rig_teardown);
}
