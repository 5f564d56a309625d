/* See forward.h: bytes moved and operations done, from shapes. */
#include "engine/run/forward.h"

#include <string.h>

/* Multiply-adds of a row, whose zeros may be left out. */
static uint64_t macs(const struct k_matrix *w)
{
	return (uint64_t)w->n_rows * (uint64_t)w->n_cols / (w->pairs ? 2 : 1);
}

static void count_matmul(const struct forward *f, struct k_op *op)
{
	const struct k_matmul *m = &op->u.matmul;
	uint64_t n = (uint64_t)m->n;

	op->bytes = n * (uint64_t)m->in.dim * 4;
	for (int32_t i = 0; i < m->n_parts; i++) {
		const struct k_matrix *w = m->part[i].w;
		op->bytes += k_matrix_bytes(f->model->kernels, w) + n * (uint64_t)w->n_rows * 4;
		op->ops += 2 * n * macs(w);
	}
}

/* Of 16 positions of all heads. */
static uint64_t group_bytes(const struct k_kv *kv)
{
	return (uint64_t)kv->n_kv_heads * (k_kv_group_bytes(kv, 0) + k_kv_group_bytes(kv, 1));
}

/* Of so many positions, `recent` of them at the end where formats by channel keep f16. */
static uint64_t cache_bytes(const struct k_attention *a, uint64_t positions, uint64_t recent)
{
	const uint64_t coded = a->recent ? positions - recent : positions;

	return (coded * group_bytes(a->kv) + (a->recent ? recent * group_bytes(a->recent) : 0)) /
		   K_GROUP;
}

static const struct forward_mask *mask_of(const struct forward *f, const struct k_attention *a)
{
	const struct forward_mask *s = f->mask;

	for (int i = 0; i < FORWARD_PARTS; i++)
		if (f->part[i].ranges == a->ranges)
			return &f->part[i];
	while (s->ranges != a->ranges)
		s++;
	return s;
}

/* Scores and probabilities of a matrix in memory, each written and read. Pairs of a query and a
 * position, by kv head. */
static uint64_t matrix_bytes(const struct k_attention *a, uint64_t pairs)
{
	const uint64_t heads = (uint64_t)(a->n_heads / a->kv->n_kv_heads);

	return a->matrix && !a->relative ? pairs * heads * 4 * sizeof(float) : 0;
}

static uint64_t pair_ops(const struct k_attention *a, uint64_t pairs)
{
	return pairs * (uint64_t)(a->out.dim / a->kv->n_kv_heads) * 4;
}

static void count_attention(const struct forward *f, struct k_op *op)
{
	const struct k_attention *a = &op->u.attention;
	const struct forward_mask *s = mask_of(f, a);
	const uint64_t pairs = s->pairs * (uint64_t)a->kv->n_kv_heads;

	op->bytes = cache_bytes(a, s->positions, s->recent) + matrix_bytes(a, pairs) +
				(uint64_t)f->n_rows * (uint64_t)a->out.dim * 8;
	op->ops = pair_ops(a, pairs);
}

/* What the rows of a step read of the cache where they do not read all that they see: bytes of each
 * request, by head, those of all its rows together, keys by the group, values by the position; and
 * pairs of each row. */
struct reads {
	uint64_t bytes, pairs;
};
static struct reads read_part(const struct forward *f, const struct k_attention *a)
{
	struct reads n = { 0, 0 };

	for (int32_t i = 0; i < f->n_items * a->kv->n_kv_heads; i++) {
		const int32_t item = i / a->kv->n_kv_heads, head = i % a->kv->n_kv_heads;
		const int32_t end = item + 1 < f->n_items ? f->item_row[item + 1] : f->n_rows;
		const int32_t groups = f->rows[end - 1].pos / K_GROUP + 1;
		const int32_t coded_end = k_coded_end(a->kv, f->rows[f->item_row[item]].pos);

		memset(f->choice.reads, 0, (size_t)groups * sizeof *f->choice.reads);
		for (int32_t r = f->item_row[item]; r < end; r++)
			n.pairs += (uint64_t)k_attention_reads(a, r, head, f->choice.reads);
		for (int32_t g = 0; g < groups; g++) {
			const struct k_kv *kv = a->recent && g * K_GROUP >= coded_end ? a->recent : a->kv;
			const uint64_t values = (uint64_t)__builtin_popcount(f->choice.reads[g]);

			if (values)
				n.bytes += k_kv_group_bytes(kv, 0) + values * k_kv_group_bytes(kv, 1) / K_GROUP;
		}
	}
	return n;
}

/* Counts that in place of all that is seen; returns the bytes of the cache. */
static uint64_t count_read_part(const struct forward *f, struct k_op *op, uint64_t seen)
{
	const struct k_attention *a = &op->u.attention;
	const uint64_t all = mask_of(f, a)->pairs * (uint64_t)a->kv->n_kv_heads;
	const struct reads read = read_part(f, a);

	op->bytes -= seen + matrix_bytes(a, all);
	op->bytes += read.bytes + matrix_bytes(a, read.pairs);
	op->ops = pair_ops(a, read.pairs);
	return read.bytes;
}

void forward_count_read(struct forward *f)
{
	f->cost.kv_bytes = f->cost.kv_whole_bytes = 0;
	for (int32_t i = 0; i < f->program.n_ops; i++) {
		struct k_op *op = &f->program.op[i];
		const struct k_attention *a = &op->u.attention;
		const struct forward_mask *s;
		uint64_t seen;

		if (op->kind != K_OP_attention)
			continue;
		s = mask_of(f, a);
		seen = cache_bytes(a, s->positions, s->recent);
		f->cost.kv_bytes += a->selected || a->stride_mask ? count_read_part(f, op, seen) : seen;
		f->cost.kv_whole_bytes += cache_bytes(a, s->whole, s->whole_recent);
	}
}

static void count_rope(struct k_op *op)
{
	const struct k_rope *a = &op->u.rope;
	uint64_t n = (uint64_t)a->n, q = (uint64_t)a->n_heads * (uint64_t)a->kv->head_dim;
	uint64_t kv = (uint64_t)(a->kv->n_kv_heads * a->kv->head_dim);

	op->bytes = n * (q * 8 + kv * 8 + group_bytes(a->kv) / K_GROUP);
	op->ops = n * (q * 4 + kv * 3);
}

static void count_values(struct k_op *op, struct k_count c)
{
	op->bytes = c.bytes;
	op->ops = c.ops;
}

/* Each slot reads a matrix, or all are read once: an upper bound where few rows share an expert. */
static void count_experts(struct k_op *op)
{
	const struct k_experts *e = &op->u.experts;
	uint64_t slots = (uint64_t)e->n * (uint64_t)e->k, cells = macs(e->w),
			 matrices = slots < (uint64_t)e->n_experts ? slots : (uint64_t)e->n_experts;

	op->bytes = matrices * (cells * (uint64_t)k_types[e->w->type].block_bytes /
								   (uint64_t)k_types[e->w->type].block +
							   (e->w->pairs ? cells / 4 : 0)) + /* their places */
				slots * 4 * (uint64_t)(e->w->n_rows + e->w->n_cols);
	op->ops = 2 * slots * cells;
}

void forward_count(const struct forward *f, struct k_op *op)
{
	op->bytes = op->ops = 0;
	switch (op->kind) {
	case K_OP_matmul: count_matmul(f, op); break;
	case K_OP_attention: count_attention(f, op); break;
	case K_OP_rope: count_rope(op); break;
	case K_OP_experts: count_experts(op); break;
	case K_OP_embed:
		count_values(op, k_count_values(op->u.embed.n, op->u.embed.w->n_cols, 5, 1));
		break;
	case K_OP_norm: count_values(op, k_count_values(op->u.norm.n, op->u.norm.out.dim, 9, 6)); break;
	case K_OP_glu: count_values(op, k_count_values(op->u.glu.n, op->u.glu.out.dim, 12, 18)); break;
	case K_OP_stats:
		count_values(op, k_count_values(op->u.stats.n, op->u.stats.vocab, 4, 20));
		break;
#define X(name)                                                                                    \
	case K_OP_##name: count_values(op, k_##name##_count(&op->u.name)); break;
		K_PLAIN_KINDS(X)
#undef X
	case K_N_KINDS: break;
	}
}

/* The product of this kind, with what it has so far; NULL: there is no room. */
static struct forward_product *product_of(struct forward_product *out, int32_t *n, int32_t most,
	const struct k_op *op, const struct k_matrix *w)
{
	struct forward_product *p = out;

	while (p < out + *n && (p->stage != op->stage || p->type != w->type || p->inputs != w->n_cols ||
							   p->outputs != w->n_rows))
		p++;
	if (p == out + most)
		return NULL;
	if (p == out + *n) {
		*p = (struct forward_product){
			.stage = op->stage, .type = w->type, .inputs = w->n_cols, .outputs = w->n_rows
		};
		++*n;
	}
	return p;
}

static void add_matrix(const struct forward *f, struct forward_product *p, const struct k_matrix *w,
	int32_t times, bool reads)
{
	const uint64_t n = (uint64_t)times, rows = (uint64_t)w->n_rows, cols = (uint64_t)w->n_cols;

	p->n += times;
	p->bytes += n * k_matrix_bytes(f->model->kernels, w);
	p->row_values += n * (rows + (reads ? cols : 0));
}

/* Adds the products of an op to the n ones at out; returns how many there are then. */
static int32_t add_products(const struct forward *f, const struct k_op *op,
	struct forward_product *out, int32_t n, int32_t most)
{
	const struct k_experts *e = &op->u.experts;
	struct forward_product *p;

	/* matrices over the same input read it once */
	for (int32_t i = 0; op->kind == K_OP_matmul && i < op->u.matmul.n_parts; i++) {
		const struct k_matrix *w = op->u.matmul.part[i].w;

		if ((p = product_of(out, &n, most, op, w)) != NULL)
			add_matrix(f, p, w, 1, i == 0);
	}
	if (op->kind == K_OP_columns) {
		const struct k_matrix w = { .type = (enum k_type)op->u.columns.type,
			.n_rows = op->u.columns.n_rows,
			.n_cols = op->u.columns.n_cols,
			.by_column = true };

		if ((p = product_of(out, &n, most, op, &w)) != NULL)
			add_matrix(f, p, &w, 1, true);
	}
	if (op->kind == K_OP_experts && (p = product_of(out, &n, most, op, e->w)) != NULL) {
		p->each_row = true;
		add_matrix(f, p, e->w, e->k, true);
	}
	return n;
}

int32_t forward_products(struct forward *f, struct forward_product *out, int32_t most)
{
	int32_t n = 0;

	forward_program_of_one(f);
	for (int32_t i = 0; i < f->program.n_ops; i++)
		n = add_products(f, &f->program.op[i], out, n, most);
	return n;
}
