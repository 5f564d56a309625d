/* The matrix of scores in memory (K_ATTEND_MATRIX), which FlashAttention does without: three passes
 * over a thread's spans, of which the first writes all scores, the second reads them and writes
 * probabilities, and the third reads these. Nothing else differs, so the bits do not either; what
 * the memory in between costs is what such a run is for. Included by attention_body.h. Thread: its
 * caller's. */

/* Scores of the span at index `at` of the store, and then its probabilities. */
static inline float *span_scores_of(const struct work *w, int32_t at)
{
	const struct attend_store *st = &w->store;

	return st->p ? st->p + (size_t)at * (size_t)w->plan->max_queries * K_SPAN : st->s;
}

static float *matrix_at(const struct work *w, int32_t span, int32_t query)
{
	const struct k_attention *a = w->plan->a;
	const size_t row = (size_t)attend_row_of(w->plan, w->item, query);
	const size_t head = (size_t)attend_head_of(w->plan, w->item, query);
	const size_t line = row * (size_t)a->n_heads + head;

	return a->matrix + (line * (size_t)a->matrix_spans + (size_t)span) * K_MATRIX_SPAN;
}

/* Copies what the store has of queries [q, q + nq) of a span to the matrix; or back. */
static void matrix_move(const struct work *w, int32_t span, int32_t q, int32_t nq, int32_t at,
	int32_t at_part, bool back)
{
	const struct attend_store *st = &w->store;

	for (int32_t i = q; i < q + nq; i++) {
		float *there = matrix_at(w, span, i);
		struct {
			float *here;
			size_t n;
		} part[] = { { span_scores_of(w, at) + i * K_SPAN, K_SPAN },
			{ &st->m[at * w->plan->stride + i], 1 },
			{ &st->part_l[at_part * w->plan->stride + i], 1 },
			{ st->sums + (at * w->plan->max_queries + i) * K_SPAN_GROUPS,
				st->sums ? K_SPAN_GROUPS : 0 } };

		for (size_t k = 0; k < sizeof part / sizeof *part; there += part[k++].n)
			if (part[k].n)
				memcpy(back ? part[k].here : there, back ? there : part[k].here,
					part[k].n * sizeof(float));
	}
}
