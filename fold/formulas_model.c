/* See formulas_sheet.h: what the timeline says of model and machine. */
#include <string.h>

#include "fold/formulas.h"
#include "fold/formulas_exchange.h"
#include "fold/formulas_sheet.h"
#include "fold/machine_table.h"

static const struct formula_machine published[] = {
#define X(id, name, gb_s, ints, halves, floats, gb, source)                                        \
	{ #id, name, source, gb_s * 1e9, ints * 1e9, halves * 1e9, floats * 1e9, gb * 1e9 },
	MACHINES(X)
#undef X
};
enum { N_PUBLISHED = sizeof published / sizeof *published };

bool formula_machine_at(const struct timeline *t, int i, struct formula_machine *out)
{
	if (i < 0 || i > N_PUBLISHED)
		return false;
	if (i > 0) {
		*out = published[i - 1];
		return true;
	}
	*out = (struct formula_machine){ .id = "this",
		.name = "this machine",
		.source = "measured: /roof measure reads it again",
		.reads = timeline_peak_bandwidth(t),
		.ints = t->roof.ints,
		.halves = t->roof.floats,
		.floats = t->roof.floats,
		.memory = t->session.memory_bytes > 0 ? (double)t->session.memory_bytes : 0 };
	return true;
}

int formula_machine_named(const char *id)
{
	if (!strcmp(id, "this"))
		return 0;
	for (int i = 0; i < N_PUBLISHED; i++)
		if (!strcmp(published[i].id, id))
			return i + 1;
	return -1;
}

struct formula_stage formula_stage(const struct timeline *t, int stage)
{
	struct formula_stage s = { 0 };

	for (int32_t i = 0; i < t->n_products; i++) {
		const struct tl_product *p = &t->product[i];

		if (p->stage != stage)
			continue;
		s.weights += (double)p->weights;
		*(p->each_row ? &s.each_bytes : &s.bytes) += (double)p->bytes;
		s.row_bytes += (double)p->row_bytes;
		if (!s.widest || p->weights > s.widest->weights)
			s.widest = p;
	}
	s.ints = s.widest && !formula_is_float(s.widest->format);
	return s;
}

/* A group of keys and values, or of states; a log without groups has one of all layers. */
static int groups_of(const struct timeline *t, struct ev_memory out[TL_MEMORY])
{
	const struct ev_session *s = &t->session;

	memcpy(out, t->memory, sizeof t->memory);
	if (t->n_memory)
		return t->n_memory;
	out[0] = (struct ev_memory){ .kind = EV_MEMORY_KIND_paged,
		.layers = s->n_layers,
		.window = EV_NULL_I,
		.page_size = s->page_size,
		.page_bytes = s->page_bytes };
	return s->page_size > 0 && s->page_bytes > 0;
}

double formula_group_bytes(const struct ev_memory *m, double depth)
{
	if (tl_keeps_states(m))
		return (double)m->page_bytes;
	return m->page_size > 0 ? formula_kept(depth, (double)m->window) * (double)m->page_bytes /
								  (double)m->page_size
							: 0;
}

double formula_sequence_bytes(const struct timeline *t, double depth)
{
	struct ev_memory g[TL_MEMORY];
	const int n = groups_of(t, g);
	double bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += formula_group_bytes(&g[i], depth);
	return bytes;
}

double formula_token_bytes(const struct timeline *t)
{
	struct ev_memory g[TL_MEMORY];
	const int n = groups_of(t, g);
	double bytes = 0;

	for (int i = 0; i < n; i++)
		if (!tl_keeps_states(&g[i]) && g[i].kind != EV_MEMORY_KIND_recent && g[i].page_size > 0)
			bytes += (double)g[i].page_bytes / (double)g[i].page_size;
	return bytes;
}

double formula_attention_ops(const struct timeline *t, double depth)
{
	const double width = (double)t->session.n_heads * (double)t->session.head_dim;
	struct ev_memory g[TL_MEMORY];
	const int n = groups_of(t, g);
	double ops = 0;

	for (int i = 0; i < n; i++)
		if (!tl_keeps_states(&g[i]) && g[i].kind != EV_MEMORY_KIND_recent)
			ops += 4 * width * (double)g[i].layers * formula_kept(depth, (double)g[i].window);
	return ops;
}
