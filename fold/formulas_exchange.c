/* See formulas_exchange.h. The code that does it: engine/ranks/tensor.c, exchange.c. */
#include "fold/formulas_exchange.h"

#include "base/link.h"
#include "fold/timeline_fold.h"

enum { BLOCK = 32, LINE = 64 /* an array of a message takes whole lines */ };
enum { MOST_WIDE = 1 << 21, MOST_N = 1 << 10, MOST_ROWS = 1 << 16 };

bool formula_is_float(const char *format)
{
	return !strcmp(format, "F32") || !strcmp(format, "F16") || !strcmp(format, "BF16");
}

enum formula_form formula_form_of(const char *setting)
{
	return setting && !strcmp(setting, "f32")   ? FORMULA_F32
		   : setting && !strcmp(setting, "f16") ? FORMULA_F16
												: FORMULA_Q8;
}

static int64_t lines(int64_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

/* Units of this rank, of so many: floor(u (r + 1) / n) - floor(u r / n). */
static int64_t share(int64_t units, int32_t rank, int32_t ranks)
{
	return units * (rank + 1) / ranks - units * rank / ranks;
}

/* Columns in whole blocks, of which the last may be short. */
static int64_t columns(int64_t n, const struct formula_split *s, int32_t rank)
{
	const int64_t blocks = (n + BLOCK - 1) / BLOCK, own = share(blocks, rank, s->ranks) * BLOCK;

	return rank == s->ranks - 1 && n % BLOCK ? own - BLOCK + n % BLOCK : own;
}

static bool splits_rows(int64_t outputs, const struct formula_split *s)
{
	return outputs >= (int64_t)s->ranks * BLOCK;
}

static bool splits_heads(const struct formula_split *s)
{
	return s->kv_heads >= s->ranks && s->head_dim % BLOCK == 0;
}

static bool splits_inner(int64_t inputs, const struct formula_split *s)
{
	return splits_rows(inputs, s) && inputs % BLOCK == 0;
}

/* What a product reads: as it reads it, 8 bits with a scale and a sum a block, or floats. */
static int64_t input_bytes(const struct tl_product *p, const struct formula_split *s, int64_t width)
{
	if (s->form == FORMULA_F32 || formula_is_float(p->format))
		return lines(4 * s->rows * width);
	return 2 * lines(4 * s->rows * (width / BLOCK)) + lines(s->rows * width);
}

/* What a block adds to the residual stream. */
static int64_t output_bytes(const struct formula_split *s, int64_t width)
{
	return lines((s->form == FORMULA_F16 ? 2 : 4) * s->rows * width);
}

/* n exchanges of so many bytes, each to all others. */
static void add(
	struct formula_exchanged *x, const struct formula_split *s, int64_t n, int64_t bytes)
{
	x->exchanges += n;
	x->sent += n * bytes * (s->ranks - 1);
}

static void add_outputs(struct formula_exchanged *x, const struct formula_split *s,
	const struct tl_product *p, int32_t rank)
{
	if (splits_rows(p->outputs, s))
		add(x, s, p->n, output_bytes(s, columns(p->outputs, s, rank)));
	else if (s->form == FORMULA_F16)
		add(x, s, p->n, 0); /* each rank has all, and rounds it alone */
}

/* The outputs of a product whose rows are split, though what reads them is not. */
static void add_plain(struct formula_exchanged *x, const struct formula_split *s,
	const struct tl_product *p, int32_t rank)
{
	if (splits_rows(p->outputs, s))
		add(x, s, p->n, lines(4 * s->rows * columns(p->outputs, s, rank)));
}

static void add_product(struct formula_exchanged *x, const struct formula_split *s,
	const struct tl_product *p, int32_t rank)
{
	switch (p->stage) {
	case EV_STAGE_qkv:
		if (!splits_heads(s))
			add_plain(x, s, p, rank);
		break;
	case EV_STAGE_out:
		if (splits_heads(s))
			add(x, s, p->n,
				input_bytes(p, s, p->inputs / s->kv_heads * share(s->kv_heads, rank, s->ranks)));
		add_outputs(x, s, p, rank);
		break;
	case EV_STAGE_gate_up:
		if (!splits_inner(p->outputs, s))
			add_plain(x, s, p, rank);
		break;
	case EV_STAGE_down:
		if (splits_inner(p->inputs, s))
			add(x, s, p->n, input_bytes(p, s, columns(p->inputs, s, rank)));
		add_outputs(x, s, p, rank);
		break;
	default: /* the head: rank 0 gets the logits */
		if (!splits_rows(p->outputs, s) || !s->out_rows)
			break;
		x->exchanges += p->n;
		x->sent += rank ? p->n * lines(4 * s->out_rows * columns(p->outputs, s, rank)) : 0;
	}
}

static int32_t count(const struct formula_split *s, int stage)
{
	int32_t n = 0;

	for (int32_t i = 0; i < s->n_products; i++)
		n += s->product[i].stage == stage ? s->product[i].n : 0;
	return n;
}

/* Bounded, so that sums of products of hostile numbers fit. */
static bool is_known(const struct tl_product *p)
{
	if (p->each_row || p->inputs > MOST_WIDE || p->outputs > MOST_WIDE || p->n > MOST_N)
		return false;
	return p->stage == EV_STAGE_qkv || p->stage == EV_STAGE_out || p->stage == EV_STAGE_gate_up ||
		   p->stage == EV_STAGE_down || p->stage == EV_STAGE_head;
}

bool formula_is_dense(const struct formula_split *s)
{
	for (int32_t i = 0; i < s->n_products; i++)
		if (!is_known(&s->product[i]))
			return false;
	return s->rows > 0 && s->rows <= MOST_ROWS && s->out_rows <= s->rows && s->layers > 0 &&
		   s->kv_heads > 0 && s->ranks > 1 && s->ranks <= TL_MOST_RANKS &&
		   count(s, EV_STAGE_out) == s->layers && count(s, EV_STAGE_down) == s->layers &&
		   count(s, EV_STAGE_gate_up) >= s->layers && count(s, EV_STAGE_head) == 1;
}

struct formula_exchanged formula_exchanged(const struct formula_split *s, int32_t rank)
{
	struct formula_exchanged x = { 0 };

	for (int32_t i = 0; i < s->n_products; i++)
		add_product(&x, s, &s->product[i], rank);
	return x;
}

/* Of units that are dealt out, the most that a rank has. */
static double most_of(int64_t units, int32_t ranks)
{
	return (double)((units + ranks - 1) / ranks) / (double)units;
}

double formula_product_share(const struct formula_split *s, const struct tl_product *p)
{
	if (p->stage == EV_STAGE_qkv && splits_heads(s))
		return most_of(s->kv_heads, s->ranks);
	return splits_rows(p->outputs, s) ? most_of((p->outputs + BLOCK - 1) / BLOCK, s->ranks) : 1;
}

double formula_attention_share(const struct formula_split *s)
{
	return splits_heads(s) ? most_of(s->kv_heads, s->ranks) : 1;
}

int64_t formula_exchanged_bytes(const struct formula_split *s)
{
	int64_t bytes = 0;

	for (int32_t rank = 0; rank < s->ranks; rank++)
		bytes += formula_exchanged(s, rank).sent;
	return bytes;
}

/* Ranks that split each layer, all of them the same. */
static int32_t tensor_ranks(const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_ranks; i++)
		if (t->rank[i].has.stage > 0 || t->rank[i].has.part != i)
			return 0;
	return t->n_ranks;
}

/* Columns of zeros are left out of some products, which are not split then. */
static bool leaves_out(const struct timeline *t)
{
	const char *zeros = timeline_setting(t, "skip-zeros"),
			   *below = timeline_setting(t, "skip-below");

	return (zeros && !strcmp(zeros, "on")) || (below && strtod(below, NULL) > 0);
}

struct formula_split formula_split_of(const struct timeline *t, int64_t rows, int64_t out_rows)
{
	return (struct formula_split){ .product = t->product,
		.n_products = t->n_products,
		.layers = tl_int32(t->session.n_layers),
		.kv_heads = tl_int32(t->session.n_kv_heads),
		.head_dim = tl_int32(t->session.head_dim),
		.ranks = leaves_out(t) ? 0 : tensor_ranks(t),
		.rows = rows,
		.out_rows = out_rows,
		.form = formula_form_of(timeline_setting(t, "exchange")) };
}

/* ---- beside what was counted ---- */

static const struct tl_step *newest_step(const struct timeline *t)
{
	for (int32_t i = t->n_steps; i-- > 0;) {
		const struct tl_step *s = &t->step[i];

		if (s->n_traffic > 0 && s->n_traffic == t->n_ranks && timeline_phase(s) == TL_DECODE &&
			!t->traffic[s->traffic_at].watched)
			return s;
	}
	return NULL;
}

/* By the link that the setting makes of the ranks'; what a rank sends goes to each of the others at
 * once. */
static double link_ns(const struct timeline *t, const struct formula_split *of)
{
	const char *setting = timeline_setting(t, "link");
	struct link_speed link;
	struct err ignored = { 0 };
	double most = 0;

	if (!setting || link_parse(&link, setting, &ignored))
		return (double)NAN;
	for (int32_t r = 0; r < of->ranks; r++)
		most = fmax(most, (double)formula_exchanged(of, r).sent / (of->ranks - 1));
	return (double)formula_exchanged(of, 0).exchanges * (double)link.latency_ns +
		   (link.rate > 0 ? most / link.rate * 1e9 : 0);
}

struct formula_ranks formula_ranks(const struct timeline *t, double rows, bool predicted)
{
	const double no = (double)NAN;
	struct formula_ranks r = { t->n_ranks, { no, no }, { no, no }, { no, no } };
	const struct tl_step *step = predicted || t->n_ranks < 2 ? NULL : newest_step(t);
	const int64_t n = step ? step->s.rows : rows < MOST_ROWS ? (int64_t)ceil(rows) : MOST_ROWS;
	const struct formula_split of = formula_split_of(t, n, n);
	double sent = 0;

	if (formula_is_dense(&of)) {
		r.bytes[0] = (double)formula_exchanged_bytes(&of) / (double)n;
		r.exchanges[0] = (double)formula_exchanged(&of, 0).exchanges;
		r.ns[0] = link_ns(t, &of);
	}
	for (int32_t i = 0; step && i < step->n_traffic; i++)
		sent += (double)t->traffic[step->traffic_at + i].sent;
	if (step) {
		r.bytes[1] = sent / (double)n;
		r.exchanges[1] = (double)t->traffic[step->traffic_at].exchanges;
		r.ns[1] = (double)t->traffic[step->traffic_at].exchange_ns;
	}
	return r;
}
