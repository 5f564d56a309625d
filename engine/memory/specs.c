/* What the layers of a model keep, by group. See memory.h. */
#include "engine/memory/memory.h"

const struct memory_kind *memory_kind_of(int64_t code)
{
	for (int i = 0; memory_kinds[i]; i++)
		if ((int64_t)memory_kinds[i]->code == code)
			return memory_kinds[i];
	return NULL;
}

/* ---- what a model keeps ---- */

static bool same_group(const struct memory_spec *a, const struct memory_spec *b)
{
	return a->kind == b->kind &&
		   (a->kind->is_state ||
			   (a->window == b->window && a->kv.n_kv_heads == b->kv.n_kv_heads &&
				   a->kv.head_dim == b->kv.head_dim && a->kv.value_dim == b->kv.value_dim));
}

int memory_join(struct memory_specs *m, const struct memory_spec *layer, int32_t *group,
	int32_t *index, size_t *at, struct err *e)
{
	int32_t g = 0;

	while (g < m->n && !same_group(&m->group[g], layer))
		g++;
	if (g == MEMORY_GROUPS)
		return err_set(e, ERR_INPUT,
			"the layers of this model keep more than %d different kinds of memory", MEMORY_GROUPS);
	if (g == m->n) {
		m->group[m->n] = *layer;
		m->group[m->n].n_layers = 0;
		m->group[m->n++].state_bytes = 0;
	}
	if (at)
		*at = m->group[g].state_bytes;
	m->group[g].state_bytes += layer->state_bytes;
	*index = m->group[g].n_layers++;
	*group = g;
	return 0;
}

struct memory_specs memory_paged_specs(int32_t n_layers, int32_t n_kv_heads, int32_t head_dim)
{
	return (struct memory_specs){ .n = 1,
		.group[0] = { .kind = &memory_paged,
			.n_layers = n_layers,
			.kv = { .n_kv_heads = n_kv_heads, .head_dim = head_dim } } };
}

/* The last positions of group g, in f16. What a row reads of them begins with a span. */
static int32_t add_recent(struct memory_specs *m, int32_t g)
{
	struct memory_spec s = m->group[g];

	s.kind = &memory_recent;
	s.kv.format = K_CACHE_f16;
	if (!s.window || s.window > s.kv.residual + K_SPAN - 1)
		s.window = s.kv.residual + K_SPAN - 1;
	m->group[m->n] = s;
	return m->n++;
}

int memory_set_format(struct memory_specs *m, enum k_cache format, int32_t residual, struct err *e)
{
	const bool by_channel = k_cache_by_channel((int32_t)format);
	int32_t own = 0, keys = 0;

	for (; own < m->n && m->group[own].kind != &memory_recent; own++)
		keys += !m->group[own].kind->is_state;
	if (by_channel && own + keys > MEMORY_GROUPS)
		return err_set(e, ERR_USAGE,
			"cache-format %s: the layers of this model keep %d kinds of memory, and with the last "
			"tokens of each they are more than %d; q8 needs none",
			k_cache_name((int)format), own, MEMORY_GROUPS);
	m->n = own;
	for (int32_t g = 0; g < own; g++)
		if (!m->group[g].kind->is_state) {
			m->group[g].kv.format = format;
			m->group[g].kv.residual = residual;
			m->group[g].recent = by_channel ? add_recent(m, g) : 0;
		}
	return 0;
}

enum k_cache memory_format(const struct memory_specs *m)
{
	for (int32_t g = 0; g < m->n; g++)
		if (!m->group[g].kind->is_state)
			return m->group[g].kv.format;
	return K_CACHE_f16;
}

void memory_set_key_ranges(struct memory_specs *m, bool key_ranges)
{
	for (int32_t g = 0; g < m->n; g++)
		m->group[g].kv.key_ranges =
			key_ranges && !m->group[g].kind->is_state && !m->group[g].window;
}

static int32_t add_kept(struct memory_specs *m, int32_t g, int32_t most)
{
	const struct memory_spec *of = &m->group[g];

	m->group[m->n] = (struct memory_spec){ .kind = &memory_kept,
		.n_layers = of->n_layers,
		.most_kept = most,
		.state_bytes = (size_t)of->n_layers * (size_t)of->kv.n_kv_heads * k_heavy_floats(most) *
					   sizeof(float) };
	return m->n++;
}

int memory_set_kept(struct memory_specs *m, int32_t most, struct err *e)
{
	int32_t own = 0, keys = 0;

	for (; own < m->n && m->group[own].kind != &memory_kept; own++)
		keys += m->group[own].kind == &memory_paged;
	if (most && own + keys > MEMORY_GROUPS)
		return err_set(e, ERR_USAGE,
			"visible h2o: the layers of this model keep %d kinds of memory, and with what heads "
			"keep they are more than %d",
			own, MEMORY_GROUPS);
	m->n = own;
	for (int32_t g = 0; g < own; g++)
		if (m->group[g].kind == &memory_paged)
			m->group[g].kept = most ? add_kept(m, g, most) : 0;
	return 0;
}

bool memory_has_states(const struct memory_specs *m)
{
	for (int32_t g = 0; g < m->n; g++)
		if (m->group[g].kind->is_state)
			return true;
	return false;
}
