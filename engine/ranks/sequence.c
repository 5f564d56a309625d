/* Sequence parallelism for prompts (Li et al. 2021, "Sequence Parallelism: Long Sequence Training
 * from System Perspective", without its ring): each rank computes some of a step's rows, and after
 * each layer's keys and values are stored, the groups of 16 positions that hold them go to all
 * other ranks, byte by byte as they lie in the pages. Steps of few rows are rank 0's; what they
 * store goes to the others at their end. See ranks.h. */

#include "base/array.h"
#include "engine/ranks/ranks.h"
#include "engine/ranks/stored.h"

enum { LEAST = 32 /* rows of a rank: fewer are not worth an exchange in each layer */ };

/* ---- who computes which rows ---- */

/* A group of 16 positions is one rank's alone, so that what it sends of it is whole. */
static int32_t group_start(const struct forward *f, int32_t row)
{
	while (row < f->n_rows && row > 0 && f->rows[row].seq == f->rows[row - 1].seq &&
		   f->rows[row].pos % K_GROUP)
		row++;
	return row;
}

static bool can_cut(const struct forward *f, int32_t first, int32_t end)
{
	struct ranks_rows r = { .all = f->n_rows, .n = f->n_rows };

	for (int32_t i = first; i < end; i++) {
		struct k_op op = f->program.op[i];

		if (!ranks_cut_rows(&op, &r))
			return false;
	}
	return !f->n_also;
}

static void share_rows(struct ranks *k, const struct forward *f)
{
	const bool cut = f->n_rows >= LEAST * k->n_sequence && can_cut(f, k->embed_end, k->head_at);

	for (int32_t r = 0; r <= k->n_sequence; r++)
		k->row[r] = !r     ? 0
					: !cut ? f->n_rows
					: r == k->n_sequence
						? f->n_rows
						: group_start(f, ranks_span(f->n_rows, r, k->n_sequence).first);
}

static bool alone(const struct ranks *k, const struct forward *f)
{
	return k->row[1] == f->n_rows;
}

/* ---- pages ---- */

/* A walk over the groups that rows of a rank are in. */
struct groups {
	const struct forward *f;
	int32_t row, end, also; /* the next ones */
	int32_t seq, group;     /* the newest */
};

static bool next_group(struct groups *g)
{
	const struct forward *f = g->f;

	while (g->row < g->end || g->also < f->n_also) {
		const struct k_also *also = g->row < g->end ? NULL : &f->also[g->also];
		const struct k_row *row = &f->rows[also ? also->row : g->row];
		const int32_t seq = also ? also->seq : row->seq, group = row->pos / K_GROUP;

		if (also)
			g->also++;
		else
			g->row++;
		if (seq == g->seq && group == g->group)
			continue;
		g->seq = seq;
		g->group = group;
		return true;
	}
	return false;
}

/* Copies the keys and values of a rank's rows in the layer of op; returns the bytes. */
static size_t copy_groups(const struct forward *f, const struct k_rope *op, int32_t first,
	int32_t end, uint8_t *data, bool pack)
{
	struct groups g = { f, first, end, first < end ? 0 : f->n_also, -1, -1 };
	const int32_t in_page = op->kv->page_size / K_GROUP;
	size_t n = 0;

	while (next_group(&g))
		n += stored_copy_group(op->kv, op->layer, op->pages[g.seq][g.group / in_page],
			g.group % in_page, data ? data + n : NULL, pack);
	return n;
}

/* Of the ropes among ops first … end - 1. */
static size_t copy_layers(const struct ranks *k, const struct forward *f, int32_t first,
	int32_t end, int32_t rank, uint8_t *data, bool pack)
{
	size_t n = 0;

	for (int32_t i = first; i < end; i++)
		if (f->program.op[i].kind == K_OP_rope)
			n += copy_groups(f, &f->program.op[i].u.rope, k->row[rank], k->row[rank + 1],
				data ? data + n : NULL, pack);
	return n;
}

/* What ropes among these ops stored goes to all others. */
static int pass_pages(
	struct ranks *k, const struct forward *f, int32_t first, int32_t end, struct err *e)
{
	struct message out[TRANSPORT_RANKS], in[TRANSPORT_RANKS];
	const int32_t self = k->transport->rank;
	size_t all = 0, size[TRANSPORT_RANKS];
	int32_t n_out = 0, n_in = 0;
	uint8_t *at;

	for (int32_t r = 0; r < k->n_sequence; r++)
		all += size[r] = copy_layers(k, f, first, end, r, NULL, false);
	if (!ARRAY_ROOM(k->passed, k->cap_passed, all + 1))
		return err_no_memory(e, "the pages that ranks pass on");
	copy_layers(k, f, first, end, self, k->passed, true);
	at = k->passed + size[self];
	for (int32_t i = 1; i < k->n_sequence; i++) {
		const int32_t from = (self + k->n_sequence - i) % k->n_sequence;

		if (size[self])
			out[n_out++] = (struct message){ (self + i) % k->n_sequence, k->passed, size[self] };
		if (size[from])
			in[n_in++] = (struct message){ from, at, size[from] };
		at += size[from];
	}
	if (ranks_pass(k, f, out, n_out, in, n_in, e))
		return -1;
	for (int32_t i = 0; i < n_in; i++)
		copy_layers(k, f, first, end, in[i].rank, in[i].data, false);
	return 0;
}

/* ---- a step ---- */

static bool reads_pages_alone(const struct k_op *op)
{
	return op->kind == K_OP_encode || op->kind == K_OP_key_range;
}

/* Ops of all rows of the step follow a rope, those of the own rows all else. */
static int run_layers(
	struct ranks *k, struct forward *f, const struct ranks_rows *own, struct err *e)
{
	int32_t at = k->embed_end;

	for (int32_t i = at; i < k->head_at; i++) {
		const struct k_op *op = &f->program.op[i];

		if (op->kind == K_OP_rope) {
			if ((own->n && ranks_run_ops(k, f, at, i + 1, own, e)) || pass_pages(k, f, i, i + 1, e))
				return -1;
			at = i + 1;
		} else if (reads_pages_alone(op)) {
			if ((own->n && ranks_run_ops(k, f, at, i, own, e)) ||
				ranks_run_ops(k, f, i, i + 1, NULL, e))
				return -1;
			at = i + 1;
		}
	}
	return own->n ? ranks_run_ops(k, f, at, k->head_at, own, e) : 0;
}

static int gather_stream(struct ranks *k, struct forward *f, struct err *e)
{
	const size_t row = (size_t)f->model->config.dim;
	struct message m[TRANSPORT_RANKS];
	int32_t n = 0;

	for (int32_t r = 1; r < k->n_sequence; r++)
		if (k->row[r + 1] > k->row[r] && (!k->transport->rank || k->transport->rank == r))
			m[n++] = (struct message){ k->transport->rank ? 0 : r, f->x + (size_t)k->row[r] * row,
				(size_t)(k->row[r + 1] - k->row[r]) * row * sizeof *f->x };
	return k->transport->rank ? ranks_pass(k, f, m, n, NULL, 0, e)
							  : ranks_pass(k, f, NULL, 0, m, n, e);
}

int ranks_run_sequence(struct ranks *k, struct forward *f, struct err *e)
{
	const int32_t self = k->transport->rank;
	struct ranks_rows own = { .all = f->n_rows };

	share_rows(k, f);
	own.first = k->row[self];
	own.n = k->row[self + 1] - own.first;
	if (alone(k, f))
		return (!self && ranks_run_ops(k, f, 0, f->program.n_ops, NULL, e)) ||
					   pass_pages(k, f, k->embed_end, k->head_at, e)
				   ? -1
				   : 0;
	if (ranks_run_ops(k, f, 0, k->embed_end, NULL, e) || run_layers(k, f, &own, e) ||
		gather_stream(k, f, e))
		return -1;
	if (atomic_load(f->nan_row) && own.first)
		atomic_fetch_add(f->nan_row, own.first);
	return self ? 0 : ranks_run_ops(k, f, k->head_at, f->program.n_ops, NULL, e);
}
