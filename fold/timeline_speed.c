/* Part of the timeline: the matrix products of the model, what the machine can do, and what steps
 * reached of it. */
#include <ctype.h>

#include "fold/timeline_fold.h"

#define SECOND_NS 1000000000.0

/* The name of a format, as kernels have them: a file may say anything. */
static bool is_format(const char *name)
{
	while (isalnum((unsigned char)*name) || *name == '_' || *name == '/')
		name++;
	return !*name;
}

bool tl_product_of(struct tl_product *p, const struct ev_product *e)
{
	if (!is_index(e->stage, EV_N_stage) || e->inputs < 1 || e->outputs < 1 || e->n < 1 ||
		e->bytes < 1 || e->row_bytes < 0)
		return false;
	*p = (struct tl_product){ .stage = (int32_t)e->stage,
		.inputs = tl_int32(e->inputs),
		.outputs = tl_int32(e->outputs),
		.n = tl_int32(e->n),
		.weights = (double)e->inputs * (double)e->outputs * (double)e->n,
		.bytes = e->bytes,
		.row_bytes = e->row_bytes,
		.each_row = e->each_row == 1 };
	ev_copy(p->format, sizeof p->format, e->format);
	return is_format(p->format);
}

bool tl_fold_product(struct timeline *t, const struct event *ev)
{
	struct tl_product p;

	if (!tl_product_of(&p, &ev->u.product))
		return false;
	if (t->n_products < TL_PRODUCTS)
		t->product[t->n_products++] = p;
	return true;
}

bool tl_fold_adapter(struct timeline *t, const struct event *ev)
{
	const struct ev_adapter *e = &ev->u.adapter;
	struct tl_adapter *a = &t->adapter[t->n_adapters];

	if (e->adapter != t->n_adapters + 1 || t->n_adapters == TL_ADAPTERS)
		return false;
	*a = (struct tl_adapter){ .e = *e };
	ev_copy(a->name, sizeof a->name, e->name);
	t->n_adapters++;
	return true;
}

static void take_top(struct tl_outliers *o, struct ev_span top)
{
	struct {
		uint32_t channel;
		float size;
	} one;

	for (; o->n_top < TL_TOP && ev_item(top, (size_t)o->n_top, &one, sizeof one); o->n_top++) {
		o->channel[o->n_top] = tl_int32(one.channel);
		o->size[o->n_top] = one.size;
	}
}

bool tl_fold_outliers(struct timeline *t, const struct event *ev)
{
	const struct ev_outliers *e = &ev->u.outliers;
	struct tl_outliers *o;

	if (e->nth < 0 || !is_index(e->layer, TL_MAX_LAYERS) || !is_index(e->stage, EV_N_stage) ||
		e->channels < 1)
		return false;
	if (!e->nth)
		t->n_outliers = 0;
	if (t->n_outliers == TL_MOST_OUTLIERS)
		return true;
	o = tl_add(t, &t->outliers, &t->n_outliers, &t->cap_outliers, sizeof *o);
	if (!o)
		return true;
	*o = (struct tl_outliers){ .layer = tl_int32(e->layer),
		.stage = (int32_t)e->stage,
		.channels = tl_int32(e->channels),
		.above_six = tl_int32(e->above_six),
		.largest = e->largest,
		.median = e->median,
		.smoothed = e->smoothed };
	take_top(o, e->top);
	return true;
}

bool tl_fold_importance(struct timeline *t, const struct event *ev)
{
	const struct ev_importance *e = &ev->u.importance;
	struct tl_importance *i;

	if (e->nth < 0 || !is_index(e->layer, TL_MAX_LAYERS))
		return false;
	if (!e->nth)
		t->n_importance = 0;
	if (t->n_importance == TL_MAX_LAYERS)
		return true;
	i = tl_add(t, &t->importance, &t->n_importance, &t->cap_importance, sizeof *i);
	if (!i)
		return true;
	*i = (struct tl_importance){
		.layer = tl_int32(e->layer), .channels = tl_int32(e->channels), .influence = e->influence
	};
	i->n_heads = (int32_t)ev_items(e->heads, i->head, sizeof *i->head, TL_IMPORTANT_HEADS);
	i->n_least = (int32_t)ev_items(e->least, i->least, sizeof *i->least, TL_SIXTEENTHS);
	return true;
}

static double rate_or_0(double v)
{
	return v > 0 && v < 1e18 ? v : 0;
}

/* Other programs can only make a reading too low, so the best counts. */
bool tl_fold_roof(struct timeline *t, const struct event *ev)
{
	const struct ev_roof *e = &ev->u.roof;
	struct tl_roof *r = &t->roof;
	const double least = rate_or_0(e->least);

	if (rate_or_0(e->reads) <= 0)
		return false;
	r->reads = fmax(r->reads, e->reads);
	if (least > 0)
		r->least = r->least > 0 ? fmin(r->least, least) : least;
	r->ints = fmax(r->ints, rate_or_0(e->ints));
	r->floats = fmax(r->floats, rate_or_0(e->floats));
	r->n++;
	r->t_ns = ev->t_ns;
	return true;
}

double timeline_peak_bandwidth(const struct timeline *t)
{
	const double start = t->session.read_bandwidth;

	return t->roof.n ? t->roof.reads : fmax(start, 0);
}

double timeline_bandwidth(const struct tl_sample *m)
{
	return m->wall > 0 && m->kernels.bytes > 0 ? m->kernels.bytes * SECOND_NS / m->wall
											   : (double)NAN;
}

unsigned timeline_phase(const struct tl_step *s)
{
	if (!s->s.prefill_rows)
		return TL_DECODE;
	return s->s.prefill_rows < s->s.rows ? TL_MIXED : TL_PREFILL;
}

static void sample_add(struct tl_sample *m, const struct timeline *t, const struct tl_step *s)
{
	m->n++;
	m->rows += (double)s->s.rows;
	m->tokens += (double)s->s.tokens;
	m->members += s->n_batch;
	for (int32_t i = 0; i < s->n_batch; i++)
		m->depth += (double)t->batch[s->batch_at + i].pos + t->batch[s->batch_at + i].rows;
	m->wall += (double)s->s.ns - (double)s->s.twin_ns;
	m->twin += (double)s->s.twin_ns;
	m->drafters += (double)s->s.drafters_ns;
	m->delay += s->s.run_delay_ns > 0 ? (double)s->s.run_delay_ns : 0;
	m->draft_time_unknown = m->draft_time_unknown || (!s->drafters_known && s->s.draft_rows > 0);
	for (int i = 0; i < EV_N_stage; i++) {
		m->stage[i].ns += (double)s->time[i].ns;
		m->stage[i].bytes += (double)s->time[i].bytes;
		m->stage[i].ops += (double)s->time[i].ops;
	}
}

static void sample_divide(struct tl_sample *m)
{
	const double n = m->n;

	m->depth = m->members > 0 ? m->depth / m->members : 0;
	m->rows /= n;
	m->tokens /= n;
	m->members /= n;
	m->wall /= n;
	m->drafters /= n;
	m->twin /= n;
	m->delay /= n;
	for (int i = 0; i < EV_N_stage; i++) {
		struct tl_cost *c = &m->stage[i];

		*c = (struct tl_cost){ c->ns / n, c->bytes / n, c->ops / n };
		m->kernels.ns += c->ns;
		m->kernels.bytes += c->bytes;
		m->kernels.ops += c->ops;
	}
	m->wall = fmax(m->wall, m->kernels.ns + m->drafters); /* absent, or clocks of two minds */
}

struct tl_sample timeline_sample(const struct timeline *t, unsigned phases)
{
	struct tl_sample m = { .prefill = phases & (TL_PREFILL | TL_MIXED) };

	for (int32_t i = t->n_steps; i-- > 0 && m.n < TL_MEAN;)
		if (t->step[i].timed && (timeline_phase(&t->step[i]) & phases))
			sample_add(&m, t, &t->step[i]);
	if (m.n)
		sample_divide(&m);
	return m;
}
