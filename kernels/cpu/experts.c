/* Products of a mixture of experts, rows of one expert together: its weights are read and unpacked
 * once for up to GROUP rows, where the reference reads them for each. A row's sums do not depend on
 * the rows beside it, so bits are the same. See k_each_expert() in isa.h. Thread: called by all
 * threads of a pool; no state. */
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/format/formats.h"

enum { GROUP = 32, ALIGN = 64 };

/* Parts of a thread's scratch; the products take what lies before them. */
struct sorted {
	int32_t *slot, *first;   /* [n * k] slots by expert; [n_experts + 1] where each begins */
	struct k_acts in;        /* [GROUP] rows side by side, of what the weights' format reads */
	float *out;              /* [GROUP, n_rows] */
	unsigned char *at, *end; /* what is free */
};

static void *take(struct sorted *s, size_t bytes)
{
	unsigned char *p = s->at;

	bytes = k_align(bytes, ALIGN);
	if (!p || bytes > (size_t)(s->end - p)) {
		s->at = NULL;
		return NULL;
	}
	s->at += bytes;
	return p;
}

/* False: they do not fit, which takes a matrix of more than 50 thousand rows. */
static bool lend(const struct k_experts *a, unsigned char *scratch, struct sorted *s)
{
	const size_t dim = (size_t)a->in.dim, wide = GROUP * dim;

	*s = (struct sorted){ .at = scratch + K_SCRATCH_BYTES / 4, .end = scratch + K_SCRATCH_BYTES };
	s->slot = take(s, (size_t)a->n * (size_t)a->k * sizeof *s->slot);
	s->first = take(s, ((size_t)a->n_experts + 1) * sizeof *s->first);
	s->out = take(s, GROUP * (size_t)a->w->n_rows * sizeof *s->out);
	s->in = (struct k_acts){ .dim = a->in.dim };
	if (!k_is_quantised(a->w->type)) {
		s->in.x = take(s, wide * sizeof *s->in.x);
	} else {
		s->in.q = take(s, wide);
		s->in.d = take(s, wide / K_QBLOCK * sizeof *s->in.d);
		s->in.sx = take(s, wide / K_QBLOCK * sizeof *s->in.sx);
	}
	return s->at != NULL;
}

/* By counting; slots of one expert stay in order. */
static void sort(const struct k_experts *a, struct sorted *s)
{
	const int64_t n = (int64_t)a->n * a->k;

	memset(s->first, 0, ((size_t)a->n_experts + 1) * sizeof *s->first);
	for (int64_t i = 0; i < n; i++)
		s->first[a->ids[i] + 1]++;
	for (int32_t e = 0; e < a->n_experts; e++)
		s->first[e + 1] += s->first[e];
	for (int64_t i = 0; i < n; i++)
		s->slot[s->first[a->ids[i]]++] = (int32_t)i;
}

static struct k_acts row_of(const struct k_experts *a, int32_t slot)
{
	return k_acts_row(&a->in, a->each ? slot : slot / a->k);
}

static void copy_row(const struct k_acts *from, const struct k_acts *to, size_t row)
{
	const size_t dim = (size_t)to->dim, blocks = dim / K_QBLOCK;

	if (to->x)
		memcpy(to->x + row * dim, from->x, dim * sizeof *to->x);
	if (!to->q)
		return;
	memcpy(to->q + row * dim, from->q, dim);
	memcpy(to->d + row * blocks, from->d, blocks * sizeof *to->d);
	memcpy(to->sx + row * blocks, from->sx, blocks * sizeof *to->sx);
}

/* Rows of expert e: one is read where it stands, and so is written. */
static void multiply(const struct k_experts *a, const struct sorted *s, const int32_t *slot,
	int32_t n, void *scratch, k_fn *matmul)
{
	const int32_t e = a->ids[slot[0]];
	const struct k_matrix *w = &a->w[e];
	const size_t n_rows = (size_t)w->n_rows;
	struct k_op op = { .kind = K_OP_matmul };
	struct k_matmul *m = &op.u.matmul;

	if (!w->data) /* another rank's */
		return;
	m->n_parts = 1;
	m->n = n;
	m->part[0].w = w;
	m->part[0].bias = a->bias ? a->bias + (size_t)e * n_rows : NULL;
	m->in = n > 1 ? s->in : row_of(a, slot[0]);
	m->part[0].out = n > 1 ? s->out : a->out + (size_t)slot[0] * n_rows;
	for (int32_t i = 0; n > 1 && i < n; i++) {
		const struct k_acts row = row_of(a, slot[i]);

		copy_row(&row, &s->in, (size_t)i);
	}
	matmul(&op, 0, 1, scratch);
	for (int32_t i = 0; n > 1 && i < n; i++)
		memcpy(a->out + (size_t)slot[i] * n_rows, s->out + (size_t)i * n_rows,
			n_rows * sizeof *a->out);
}

void k_each_expert(struct k_op *op, int tid, int n_threads, void *scratch, k_fn *matmul)
{
	const struct k_experts *a = &op->u.experts;
	int64_t lo, hi;
	struct sorted s = { 0 };
	const bool many = a->n > 1 && lend(a, scratch, &s);

	if (many)
		sort(a, &s);
	k_split((int64_t)a->n * a->k, tid, n_threads, &lo, &hi);
	for (int64_t i = lo, n; i < hi; i += n) {
		const int32_t one = (int32_t)i, *slot = many ? s.slot + i : &one;

		for (n = 1; many && n < GROUP && i + n < hi && a->ids[slot[n]] == a->ids[slot[0]];)
			n++;
		multiply(a, &s, slot, (int32_t)n, scratch, matmul);
	}
}
