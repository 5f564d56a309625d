/* A split program, op by op, with the exchanges between. See ranks.h. */
#include <string.h>

#include "base/clock.h"
#include "engine/ranks/ranks.h"

static size_t whole_lines(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

static size_t floats_bytes(const struct ranks_exchange *x, int32_t columns)
{
	return whole_lines((size_t)x->n * (size_t)columns * sizeof(float));
}

static size_t scales_bytes(const struct ranks_exchange *x, int32_t columns)
{
	return whole_lines((size_t)x->n * (size_t)(columns / K_QBLOCK) * sizeof(float));
}

size_t ranks_bytes(const struct ranks_exchange *x, int32_t columns)
{
	size_t n = 0;

	if (x->x)
		n += x->half ? whole_lines((size_t)x->n * (size_t)columns * sizeof(uint16_t))
					 : floats_bytes(x, columns);
	if (x->q)
		n += 2 * scales_bytes(x, columns) + whole_lines((size_t)x->n * (size_t)columns);
	return n;
}

/* Where the parts of a message lie. */
static struct k_acts acts_at(const struct ranks_exchange *x, uint8_t *at, int32_t columns)
{
	struct k_acts a = { .dim = columns };

	if (x->x) {
		a.x = (float *)(void *)at;
		at += floats_bytes(x, columns);
	}
	if (x->q) {
		a.d = (float *)(void *)at;
		a.sx = (float *)(void *)(at + scales_bytes(x, columns));
		a.q = (int8_t *)(at + 2 * scales_bytes(x, columns));
	}
	return a;
}

static int32_t width(const struct ranks_exchange *x, int32_t rank)
{
	return x->columns[rank].end - x->columns[rank].first;
}

struct k_acts ranks_local(const struct ranks *k, const struct ranks_exchange *x)
{
	return acts_at(x, k->local + x->local, width(x, k->rank));
}

/* ---- placing what came ---- */

static void place_floats(
	const struct ranks_exchange *x, float *to, const float *from, size_t at, int32_t n)
{
	if (x->residual)
		for (int32_t i = 0; i < n; i++)
			to[at + (size_t)i] = from[i] + x->residual[at + (size_t)i];
	else
		memcpy(to + at, from, (size_t)n * sizeof *from);
}

static void place_blocks(
	const struct ranks_exchange *x, const struct k_acts *from, size_t at, size_t own, int32_t n)
{
	memcpy(x->to.q + at, from->q + own, (size_t)n);
	memcpy(
		x->to.d + at / K_QBLOCK, from->d + own / K_QBLOCK, (size_t)(n / K_QBLOCK) * sizeof(float));
	memcpy(x->to.sx + at / K_QBLOCK, from->sx + own / K_QBLOCK,
		(size_t)(n / K_QBLOCK) * sizeof(float));
}

static void quantise(const struct ranks_exchange *x, const float *from, size_t at, int32_t n)
{
	for (int32_t i = 0; i < n; i += K_QBLOCK) {
		const size_t block = (at + (size_t)i) / K_QBLOCK;

		k_quantise_block(from + i, x->to.q + at + i, x->to.d + block, x->to.sx + block);
	}
}

static void widen(float *to, const uint16_t *from, size_t n)
{
	while (n-- > 0)
		to[n] = k_f16_to_f32(from[n]);
}

static void place(
	const struct ranks *k, const struct ranks_exchange *x, int32_t rank, uint8_t *data)
{
	const int32_t n = width(x, rank);
	struct k_acts from = acts_at(x, data, n);

	if (x->half) {
		from.x = (float *)(void *)(k->local + x->local);
		widen(from.x, (const uint16_t *)(const void *)data, (size_t)x->n * (size_t)n);
	}
	for (int32_t r = 0; r < x->n; r++) {
		const size_t at = (size_t)r * (size_t)x->to.dim + (size_t)x->columns[rank].first;
		const size_t own = (size_t)r * (size_t)n;

		if (x->x && x->to.x)
			place_floats(x, x->to.x, from.x + own, at, n);
		if (x->requantise)
			quantise(x, from.x + own, at, n);
		if (x->q)
			place_blocks(x, &from, at, own, n);
	}
}

/* ---- exchanges ---- */

/* Own columns of whole rows, side by side; rows only move towards the front. */
static void take_own(const struct ranks *k, const struct ranks_exchange *x)
{
	const size_t n = (size_t)width(x, k->rank), first = (size_t)x->columns[k->rank].first;

	for (int32_t r = 0; r < x->n; r++)
		memmove(x->to.x + (size_t)r * n, x->to.x + (size_t)r * (size_t)x->to.dim + first,
			n * sizeof *x->to.x);
}

static uint8_t *received_from(const struct ranks *k, const struct ranks_exchange *x, int32_t rank)
{
	return k->received + (size_t)rank * k->local_bytes + x->local;
}

static void copy_some(void *to, const void *from, size_t first, size_t n, size_t each)
{
	if (from)
		memcpy(to, (const uint8_t *)from + first * each, n * each);
}

/* Rows that lie among those of others, put together. */
static uint8_t *together(const struct ranks *k, const struct ranks_exchange *x)
{
	const int32_t columns = width(x, k->rank);
	const size_t n = (size_t)x->n * (size_t)columns, first = (size_t)x->first * (size_t)columns;
	struct ranks_exchange all = *x;
	uint8_t *to = received_from(k, x, k->n);
	struct k_acts from, own = acts_at(x, to, columns);

	all.n = x->of;
	from = ranks_local(k, &all);
	copy_some(own.x, from.x, first, n, sizeof *own.x);
	copy_some(own.q, from.q, first, n, 1);
	copy_some(own.d, from.d, first / K_QBLOCK, n / K_QBLOCK, sizeof *own.d);
	copy_some(own.sx, from.sx, first / K_QBLOCK, n / K_QBLOCK, sizeof *own.sx);
	return to;
}

/* What is sent: with f16, in place of what was computed. */
static uint8_t *sent(const struct ranks *k, const struct ranks_exchange *x)
{
	uint8_t *own = k->local + x->local, *to = received_from(k, x, k->rank);
	const size_t n = (size_t)x->n * (size_t)width(x, k->rank);

	if (x->from)
		memcpy(own, x->from, n * sizeof *x->from);
	else if (x->n != x->of)
		own = together(k, x);
	if (!x->half)
		return own;
	for (size_t i = 0; i < n; i++)
		((uint16_t *)(void *)to)[i] = k_f32_to_f16(((const float *)(const void *)own)[i]);
	return to;
}

/* The rank of the transport that has a part; of the head, in the last stage. */
static int32_t rank_of(const struct ranks *k, const struct ranks_exchange *x, int32_t part)
{
	return (x->root ? k->n_stages - 1 : k->stage) * k->n + part;
}

static int gather(struct ranks *k, const struct ranks_exchange *x, struct err *e)
{
	struct message out[TRANSPORT_RANKS], in[TRANSPORT_RANKS];
	const int32_t self = k->transport->rank;
	const bool sends = !x->root || (k->stage == k->n_stages - 1 && self);
	const bool receives = !x->root || !self;
	int32_t n_out = 0, n_in = 0;
	uint8_t *own = sent(k, x);

	for (int32_t i = 0; i < k->n; i++) {
		const int32_t part = (k->rank + k->n - i) % k->n, from = rank_of(k, x, part);
		const int32_t to = x->root ? 0 : rank_of(k, x, (k->rank + i) % k->n);

		if (x->alone)
			break;
		if (sends && width(x, k->rank) && to != self && (!x->root || !i))
			out[n_out++] = (struct message){ to, own, ranks_bytes(x, width(x, k->rank)) };
		if (receives && width(x, part) && from != self)
			in[n_in++] =
				(struct message){ from, received_from(k, x, part), ranks_bytes(x, width(x, part)) };
	}
	if (transport_exchange(k->transport, out, n_out, in, n_in, e))
		return -1;
	for (int32_t part = 0; receives && part < k->n; part++)
		place(k, x, part, rank_of(k, x, part) == self ? own : received_from(k, x, part));
	return 0;
}

/* Times of the lane are computing and exchanging by turns, so what comes twice is added up. */
static void note_lane(struct ranks *k, const struct forward *f, bool exchange, uint64_t ns)
{
	struct ranks_count *c = &k->count;

	if (!f->n_observed || c->n_lane == RANKS_LANE)
		return;
	ns = ns < UINT32_MAX ? ns : UINT32_MAX;
	if (exchange && !c->n_lane)
		c->lane[c->n_lane++] = 0;
	if (c->n_lane % 2 == exchange)
		c->lane[c->n_lane++] = (uint32_t)ns;
	else if (c->lane[c->n_lane - 1] < UINT32_MAX - ns)
		c->lane[c->n_lane - 1] += (uint32_t)ns;
}

static int run_some(
	struct ranks *k, const struct forward *f, struct k_op *op, int32_t n, struct err *e)
{
	struct k_program some = f->program;
	const int64_t start = now_ns();
	uint64_t ns;
	int failed = 0;

	some.op = op;
	some.n_ops = n;
	if (n > 0)
		failed = k_run(k->kernels, &some, e);
	ns = (uint64_t)(now_ns() - start);
	k->count.compute_ns += ns;
	note_lane(k, f, false, ns);
	return failed;
}

static int run_exchange(
	struct ranks *k, const struct forward *f, const struct ranks_exchange *x, struct err *e)
{
	const int64_t start = now_ns();
	int failed = 0;

	if (x->take)
		take_own(k, x);
	else if (x->ids)
		failed = ranks_gather_slots(k, x, e);
	else
		failed = gather(k, x, e);
	note_lane(k, f, true, (uint64_t)(now_ns() - start));
	return failed;
}

/* own: columns of this rank */
static struct ranks_exchange exchange_of(
	const struct ranks_exchange *x, const struct ranks_rows *r, int32_t own)
{
	struct ranks_exchange some = *x;
	const int32_t each = x->n / r->all, first = r->first * each;
	const size_t at = (size_t)first * (size_t)x->to.dim;

	some.n = r->n * each;
	some.of = x->n;
	some.first = first;
	some.to = program_acts_from(x->to, first);
	if (x->ids)
		some.ids += first;
	if (x->residual)
		some.residual += at;
	if (x->from)
		some.from += (size_t)first * (size_t)own;
	return some;
}

/* Of some rows, ops are copied and cut; their times go where those of the whole ops are. */
static int run_rows(struct ranks *k, struct forward *f, int32_t first, int32_t end,
	const struct ranks_rows *rows, struct err *e)
{
	int failed;

	if (!rows)
		return run_some(k, f, f->program.op + first, end - first, e);
	for (int32_t i = first; i < end; i++) {
		k->cut[i - first] = f->program.op[i];
		ranks_cut_rows(&k->cut[i - first], rows);
	}
	failed = run_some(k, f, k->cut, end - first, e);
	for (int32_t i = first; f->program.timed && i < end; i++)
		f->program.op[i].ns += k->cut[i - first].ns;
	return failed;
}

int ranks_run_ops(struct ranks *k, struct forward *f, int32_t first, int32_t end,
	const struct ranks_rows *rows, struct err *e)
{
	const int32_t begin = first;

	for (int32_t i = 0; i < k->n_exchanges; i++) {
		const struct ranks_exchange *x = &k->exchange[i];
		struct ranks_exchange some;
		const int32_t at = x->at;

		if (at <= begin || at > end)
			continue;
		if (rows) {
			some = exchange_of(x, rows, width(x, k->rank));
			x = &some;
		}
		if (run_rows(k, f, first, at, rows, e) || run_exchange(k, f, x, e))
			return -1;
		first = at;
	}
	return run_rows(k, f, first, end, rows, e);
}

int ranks_run_exchanges(struct ranks *k, struct forward *f, int32_t at, struct err *e)
{
	for (int32_t i = 0; i < k->n_exchanges; i++)
		if (k->exchange[i].at == at && run_exchange(k, f, &k->exchange[i], e))
			return -1;
	return 0;
}

int ranks_pass(struct ranks *k, const struct forward *f, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, struct err *e)
{
	const int64_t start = now_ns();
	const int failed = transport_exchange(k->transport, out, n_out, in, n_in, e);

	note_lane(k, f, true, (uint64_t)(now_ns() - start));
	return failed;
}

int ranks_send(
	struct ranks *k, struct forward *f, int32_t to, void *data, size_t bytes, struct err *e)
{
	return ranks_pass(k, f, &(struct message){ to, data, bytes }, 1, NULL, 0, e);
}

int ranks_receive(
	struct ranks *k, struct forward *f, int32_t from, void *data, size_t bytes, struct err *e)
{
	return ranks_pass(k, f, NULL, 0, &(struct message){ from, data, bytes }, 1, e);
}

int ranks_run(struct ranks *k, struct forward *f, struct err *e)
{
	k->count.began_ns = now_ns();
	k->count.n_lane = 0;
	ranks_own_heads(k, f);
	if (k->n_sequence > 1)
		return ranks_run_sequence(k, f, e);
	if (k->n_stages > 1)
		return ranks_run_stages(k, f, e);
	return ranks_run_ops(k, f, 0, f->program.n_ops, NULL, e);
}
