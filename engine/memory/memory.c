/* Groups and their pools: see memory.h. */
#include "engine/memory/memory.h"

#include <math.h>
#include <string.h>

static void store_fill(
	struct memory_store *s, const struct memory_spec *spec, int32_t page_size, uint8_t *base)
{
	size_t bytes = spec->kind->page_bytes(spec, page_size);

	s->kv = spec->kv;
	s->kv.page_size = page_size;
	s->kv.n_layers = spec->n_layers;
	s->kv.page_bytes = bytes;
	s->kv.base = base;
	s->state = (struct k_state){ .base = base, .page_bytes = bytes };
	s->is_state = spec->kind->is_state;
	s->recent = spec->recent;
	s->kept = spec->kept;
	s->most_kept = spec->most_kept;
}

int memory_stores_open(struct memory_store *s, const struct memory_specs *specs,
	struct k_ctx *kernels, int32_t page_size, int32_t n_pages, const char *what, struct err *e)
{
	for (int32_t g = 0; g < specs->n; g++) {
		size_t bytes = specs->group[g].kind->page_bytes(&specs->group[g], page_size);
		uint8_t *base = k_alloc(kernels, bytes * (size_t)n_pages, K_PAGES, what, e);

		if (!base)
			return -1;
		store_fill(&s[g], &specs->group[g], page_size, base);
	}
	return 0;
}

void memory_stores_close(
	struct memory_store *s, const struct memory_specs *specs, struct k_ctx *kernels)
{
	for (int32_t g = 0; kernels && g < specs->n; g++)
		k_free(kernels, s[g].state.base);
}

void memory_store_copy(
	const struct memory_store *s, struct k_ctx *kernels, int32_t to, int32_t from)
{
	k_copy(kernels, s->state.base + (size_t)to * s->state.page_bytes,
		s->state.base + (size_t)from * s->state.page_bytes, s->state.page_bytes);
}

/* ---- pools ---- */

enum {
	FAR = INT32_MAX - 1, /* a position further on than any is */
	MOST_ROWS = 4096,    /* of a step, at most */
};

static int32_t see(const struct memory_specs *m, int32_t g, const struct visible *v, int32_t pos,
	struct k_range *out)
{
	const struct memory_spec *s = &m->group[g];
	int32_t n;

	if (m->keep && !s->kind->is_state) {
		out[0] = (struct k_range){ 0, pos + 1 };
		return 1;
	}
	n = s->kind->see(s, v, pos, out);
	while (n > 1 && out[n - 1].first == out[n - 1].end)
		n--;
	return n;
}

/* At one position. */
static struct memory_mask mask_at(const struct memory_specs *m, int32_t g, const struct visible *v,
	int32_t page_size, int32_t pos, int32_t *first)
{
	struct k_range r[VISIBLE_RANGES];
	int32_t n = see(m, g, v, pos, r);
	struct memory_mask s = { .window = r[n - 1].end - r[n - 1].first };

	*first = r[n - 1].first;
	if (n > 1 && !r[0].first)
		s.always = (r[0].end + page_size - 1) / page_size;
	for (int32_t i = 0; i < n - 1; i++)
		s.before += r[i].first ? (r[i].end - r[i].first + page_size - 2) / page_size + 1 : s.always;
	return s;
}

/* The newest range is longest before it begins anew, where it does so by chunks: a row in front of
 * it tells. */
static struct memory_mask mask_of(
	const struct memory_specs *m, int32_t g, const struct visible *v, int32_t page_size)
{
	int32_t first;
	struct memory_mask s = mask_at(m, g, v, page_size, FAR, &first), other;

	if (!first)
		return (struct memory_mask){ INT32_MAX, 0, INT32_MAX };
	other = mask_at(m, g, v, page_size, first - 1, &first);
	s.window = other.window > s.window ? other.window : s.window;
	s.before = other.before > s.before ? other.before : s.before;
	return s;
}

/* Most pages that a sequence has at once in a group, when a step computes `rows` of it; of states
 * also the one before. */
static int32_t most_blocks(
	const struct memory_spec *s, const struct memory_mask *mask, int32_t page_size, int32_t rows)
{
	int64_t n = ((int64_t)mask->window + rows + page_size - 3) / page_size + 1 + mask->before +
				s->kind->is_state;

	return mask->window == INT32_MAX ? INT32_MAX : (int32_t)n;
}

/* As the model's own layers see, whatever the visibility of a run. */
static int32_t own_blocks(const struct memory_specs *m, int32_t g, int32_t page_size, int32_t rows)
{
	const struct memory_mask s = mask_of(m, g, &(struct visible){ 0 }, page_size);

	return most_blocks(&m->group[g], &s, page_size, rows);
}

static int32_t primary_group(const struct memory_specs *m)
{
	for (int32_t g = 0; g < m->n; g++)
		if (m->group[g].kind == &memory_paged)
			return g;
	return 0;
}

/* What the slots need, and as much again for the prefix cache. */
static int32_t slots_need(int32_t most, int32_t slots)
{
	int64_t n = 2 * (int64_t)slots * most;

	return n < INT32_MAX / 2 ? (int32_t)n : INT32_MAX / 2;
}

int64_t memory_room_of(double mb)
{
	return (int64_t)ceil(mb * (1 << 20));
}

/* Snapshots of recurrent states: those wanted, within the room. By default a slot has what it needs
 * between two blocks, whatever that takes. */
static int32_t state_pages(
	const struct memory_specs *m, int32_t g, int32_t page_size, int64_t wanted, int32_t slots)
{
	const struct memory_spec *s = &m->group[g];
	const int64_t least = (int64_t)slots * own_blocks(m, g, page_size, 1);
	const int64_t bytes = (int64_t)s->kind->page_bytes(s, page_size);
	int64_t most = (m->state_room ? m->state_room : MEMORY_STATE_ROOM) / bytes;

	most = !m->state_room && most < least ? least : most;
	return (int32_t)(wanted < most ? wanted : most);
}

/* Of a group beside the primary one. Recent positions, which are large beside codes, have what the
 * slots need between two blocks, and a chunk of one prompt. */
static int32_t pool_pages(const struct memory_specs *m, int32_t g, int32_t page_size,
	int32_t primary_pages, int32_t slots)
{
	const int32_t most = own_blocks(m, g, page_size, MEMORY_ROWS);
	const int32_t between = own_blocks(m, g, page_size, 1);
	int64_t n = slots_need(most, slots);

	if (m->group[g].kind == &memory_recurrent)
		return state_pages(m, g, page_size, primary_pages, slots);
	if (m->group[g].kind == &memory_recent)
		n = (int64_t)slots * between + most - between;
	return n < primary_pages ? (int32_t)n : primary_pages;
}

double memory_gain(const struct memory_specs *specs, int32_t page_size)
{
	const struct memory_spec *primary = &specs->group[primary_group(specs)];
	struct memory_spec plain = *primary;
	double gain;

	plain.kv.format = K_CACHE_f16;
	gain = (double)plain.kind->page_bytes(&plain, page_size) /
		   (double)primary->kind->page_bytes(primary, page_size);
	return gain > 1 ? gain : 1;
}

int32_t memory_default_pages(
	const struct memory_specs *specs, int32_t page_size, int32_t ctx, int32_t slots, int64_t room)
{
	const int32_t primary = primary_group(specs), longest = (ctx + page_size - 1) / page_size,
				  n = longest > 4 * slots ? longest : 4 * slots,
				  most = slots_need(own_blocks(specs, primary, page_size, MEMORY_ROWS), slots);
	const struct memory_spec *of = &specs->group[primary];
	double wanted = round(n * memory_gain(specs, page_size)), all = (double)slots * longest;

	if (room)
		wanted = fmax(
			wanted, fmin(all, floor((double)room / (double)of->kind->page_bytes(of, page_size))));
	if (of->kind == &memory_recurrent)
		return state_pages(specs, primary, page_size, (int64_t)wanted + most, slots);
	return wanted < most ? (int32_t)wanted : most;
}

/* A request alone must always be able to go on. Beside a primary group that keeps all positions, as
 * many pages as it has do for any sequence that it can hold. */
static int check_pages(const struct memory_specs *m, int32_t g, int32_t page_size, int32_t n_pages,
	int32_t primary_pages, struct err *e)
{
	int32_t least = own_blocks(m, g, page_size, 1);
	bool primary_holds_all = own_blocks(m, primary_group(m), page_size, 1) == INT32_MAX;

	if (least == INT32_MAX || n_pages >= least || (primary_holds_all && n_pages >= primary_pages))
		return 0;
	return err_set(e, ERR_USAGE,
		"%d pages: what this model keeps of one sequence takes %d of %d tokens; see %s", n_pages,
		least, page_size,
		m->group[g].kind == &memory_recurrent ? "--state-memory, --pages" : "--pages");
}

/* Rows of a step whose blocks the pool of group g holds beside what they read; INT32_MAX: all. A
 * pool in which not even one row's blocks find room holds any sequence that is short enough. */
static int32_t rows_that_fit(const struct memory *m, int32_t g)
{
	const struct memory_spec *s = &m->spec.group[g];
	bool own_all = own_blocks(&m->spec, g, m->page_size, 1) == INT32_MAX;
	int32_t n_pages = m->pages[g].n_pages, rows = own_all ? MOST_ROWS : MEMORY_ROWS;

	if (most_blocks(s, &m->mask[g], m->page_size, 1) > n_pages ||
		(m->mask[m->primary].window == INT32_MAX && n_pages >= m->pages[m->primary].n_pages))
		return INT32_MAX;
	while (most_blocks(s, &m->mask[g], m->page_size, rows) > n_pages)
		rows--;
	return rows;
}

int32_t memory_unseen_from(const struct memory *m)
{
	struct memory_specs specs = m->spec;
	int32_t least = INT32_MAX;

	specs.keep = false;
	for (int32_t g = 0; g < specs.n; g++) {
		const struct memory_mask s = mask_of(&specs, g, &m->visible, m->page_size);
		int64_t at = ((int64_t)s.always + 1) * m->page_size + s.window - 1;

		if (!specs.group[g].kind->is_state && s.window < INT32_MAX && at < least)
			least = (int32_t)at;
	}
	return least;
}

void memory_set_visible(struct memory *m, const struct visible *v)
{
	m->visible = *v;
	m->most_rows = INT32_MAX;
	for (int32_t g = 0; g < m->spec.n; g++)
		m->mask[g] = mask_of(&m->spec, g, v, m->page_size);
	for (int32_t g = 0; g < m->spec.n; g++) {
		int32_t rows = rows_that_fit(m, g);

		m->most_rows = rows < m->most_rows ? rows : m->most_rows;
	}
}

int memory_open(struct memory *m, struct k_ctx *kernels, const struct memory_specs *specs,
	int32_t page_size, int32_t n_pages, int32_t slots, int32_t n_scratch, struct err *e)
{
	memset(m, 0, sizeof *m);
	m->spec = *specs;
	m->page_size = page_size;
	m->primary = primary_group(specs);
	for (int32_t g = 0; g < specs->n; g++) {
		const struct memory_spec *s = &specs->group[g];
		const int32_t n =
			g == m->primary ? n_pages : pool_pages(specs, g, page_size, n_pages, slots);

		if (check_pages(specs, g, page_size, n, n_pages, e) ||
			pages_open(
				&m->pages[g], g, kernels, s->kind->page_bytes(s, page_size), n, n_scratch, e)) {
			memory_close(m);
			return -1;
		}
		store_fill(&m->store[g], s, page_size, m->pages[g].base);
	}
	memory_set_visible(m, &(struct visible){ 0 });
	return 0;
}

void memory_close(struct memory *m)
{
	for (int32_t g = 0; g < m->spec.n; g++)
		pages_close(&m->pages[g]);
	memset(m, 0, sizeof *m);
}

void memory_listen(
	struct memory *m, void (*on_change)(void *arg, const struct page_change *c), void *arg)
{
	for (int32_t g = 0; g < m->spec.n; g++) {
		m->pages[g].on_change = on_change;
		m->pages[g].arg = arg;
	}
}

int32_t memory_read_blocks(
	const struct memory *m, int32_t g, int32_t pos, struct k_range out[VISIBLE_RANGES])
{
	int32_t n = see(&m->spec, g, &m->visible, pos, out), after = 0;

	for (int32_t i = 0; i < n; i++) {
		int32_t first = out[i].first / m->page_size;

		out[i].first = first < after ? after : first;
		out[i].end = after = (out[i].end - 1) / m->page_size + 1;
	}
	return n;
}

bool memory_reads_block(const struct memory *m, int32_t g, int32_t pos, int32_t block)
{
	struct k_range r[VISIBLE_RANGES];
	int32_t n = memory_read_blocks(m, g, pos, r);

	for (int32_t i = 0; i < n; i++)
		if (block >= r[i].first && block < r[i].end)
			return true;
	return false;
}

int32_t memory_need(const struct memory *m, int32_t g, int32_t tokens, int32_t rows)
{
	const struct memory_mask *s = &m->mask[g];
	int32_t all = tokens / m->page_size + 1, n;

	if (s->window == INT32_MAX)
		return all;
	rows = rows < m->most_rows ? rows : m->most_rows;
	n = (s->window + rows - 2) / m->page_size + 1 + s->before + m->spec.group[g].kind->is_state;
	return n < all ? n : all;
}

int32_t memory_available(const struct memory *m, int32_t g)
{
	const struct pages *p = &m->pages[g];
	int32_t n = p->n_free;

	for (int32_t i = 0; i < p->n_pages; i++)
		n += p->page[i].cached && !p->page[i].refs && !p->page[i].pins;
	return n;
}

void memory_chain(
	int32_t page_size, const int32_t *table, int32_t pos, int32_t n, struct k_state_row *row)
{
	for (int32_t i = 0; i < n; i++) {
		bool stored = i == n - 1 || (pos + i + 1) % page_size == 0;

		row[i].from = i ? K_STATE_ROW : pos ? table[(pos - 1) / page_size] : K_STATE_ZERO;
		row[i].to = stored ? table[(pos + i) / page_size] : -1;
	}
}

void memory_begin_step(struct memory *m)
{
	memset(m->n_scratch_used, 0, sizeof m->n_scratch_used);
}

struct memory_use memory_use(const struct memory *m)
{
	struct memory_use u = { 0 };

	for (int32_t g = 0; g < m->spec.n; g++) {
		const struct pages *p = &m->pages[g];

		u.used += p->n_used;
		u.shared += p->n_shared;
		u.cached += p->n_pages - p->n_free - p->n_used;
		u.pinned += p->n_pinned;
	}
	return u;
}

size_t memory_most_pages(const struct memory *m)
{
	int32_t most = 0;

	for (int32_t g = 0; g < m->spec.n; g++)
		most = m->pages[g].n_pages > most ? m->pages[g].n_pages : most;
	return (size_t)most;
}
