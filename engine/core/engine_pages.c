/* The pools of pages: made when an engine opens, and anew for settings that change their number,
 * size or format. Thread: the engine's. */
#include "engine/core/engine_impl.h"

static void on_page_change(void *arg, const struct page_change *c)
{
	struct engine *e = arg;
	int64_t first = 0;

	e->step.evicted += c->action == EV_PAGE_evict;
	if (c->action == EV_PAGE_evict)
		engine_handover_evicted(e, c->group, c->page);
	if (!e->begun)
		return;
	for (int32_t g = 0; g < c->group; g++)
		first += e->memory.pages[g].n_pages;
	STREAM_EMIT(&e->stream, page, .page = first + c->page, .action = c->action,
		.request = c->request, .block = c->block < 0 ? EV_NULL_I : c->block, .refs = c->refs,
		.cached = c->cached, .memory = c->group,
		.other = c->action == EV_PAGE_copy ? first + c->other : c->other);
}

int engine_open_pages(struct engine *e, int32_t page_size, int32_t n_pages, struct err *err)
{
	const enum prefix_policy policy = e->prefix.policy;
	const bool on = e->prefix.on;

	if (memory_open(&e->memory, e->kernels, &e->specs, page_size, n_pages, e->info.slots,
			ENGINE_SCRATCH_PAGES, err))
		return -1;
	if (prefix_open(&e->prefix, &e->memory, e->info.ctx / page_size + 1, err)) {
		memory_close(&e->memory);
		return -1;
	}
	memory_set_visible(&e->memory, &e->forward.visible);
	e->prefix.on = on;
	e->prefix.policy = policy;
	memory_listen(&e->memory, on_page_change, e);
	engine_ranks_listen(e);
	engine_handover_forget(e);
	return 0;
}

void engine_close_pages(struct engine *e)
{
	const enum prefix_policy policy = e->prefix.policy;
	const bool on = e->prefix.on;

	prefix_close(&e->prefix);
	memory_close(&e->memory);
	e->prefix.on = on;
	e->prefix.policy = policy;
}

static int32_t default_pages(
	const struct engine *e, const struct memory_specs *specs, const struct engine_options *o)
{
	const int64_t room = o->replicas ? e->info.memory_bytes / 4 / o->replicas : 0;
	const int32_t seen = o->goes_on ? e->info.ctx / ENGINE_GOES_ON + o->budget : e->info.ctx;

	return memory_default_pages(specs, o->page_size, seen, o->slots, room);
}

int32_t engine_default_pages(const struct engine *e, const struct engine_options *o)
{
	return default_pages(e, &e->specs, o);
}

/* Pages of this size for as many tokens as the pool has, or as find room in its bytes if e->specs
 * have another format by now. */
static int32_t pages_again(const struct engine *e, int32_t page_size)
{
	const struct memory *m = &e->memory;
	const int64_t tokens = (int64_t)m->pages[m->primary].n_pages * m->page_size;
	const double more = memory_gain(&e->specs, page_size) / memory_gain(&m->spec, page_size);
	const double pages = round((double)(tokens / page_size) * more);

	return pages < INT32_MAX ? (int32_t)pages : INT32_MAX;
}

/* Makes the pools again, by e->specs, and empties the prefix cache. */
static int make_pages(struct engine *e, int32_t page_size, int32_t pages, struct err *err)
{
	struct prefix old_prefix;
	struct memory old_memory;

	engine_clear_prefix(e); /* emits the evictions */
	old_memory = e->memory;
	old_prefix = e->prefix;
	if (engine_open_pages(e, page_size, pages, err)) {
		e->memory = old_memory;
		e->prefix = old_prefix;
		return -1;
	}
	prefix_keep_evicted(&e->prefix, &old_prefix);
	prefix_close(&old_prefix);
	memory_close(&old_memory);
	if (e->begun)
		engine_emit_memory(e);
	return 0;
}

static int remake(struct engine *e, int32_t page_size, int32_t pages, struct err *err)
{
	if (!pages)
		return err_set(err, ERR_USAGE, "page-size %d: the whole pool has only %lld tokens",
			page_size, (long long)e->memory.pages[e->memory.primary].n_pages * e->memory.page_size);
	return make_pages(e, page_size, pages, err);
}

int engine_remake_pages(struct engine *e, int32_t page_size, struct err *err)
{
	return remake(e, page_size, pages_again(e, page_size), err);
}

/* A pool of the default size has room for a longest sequence, whatever changes. */
static int32_t pages_of_specs(const struct engine *e)
{
	const struct memory *m = &e->memory;
	const int32_t pages = pages_again(e, m->page_size), least = engine_default_pages(e, &e->set);

	if (pages < least && m->pages[m->primary].n_pages == default_pages(e, &m->spec, &e->set))
		return least;
	return pages;
}

int engine_take_specs(struct engine *e, const struct memory_specs *old, struct err *err)
{
	if (!memcmp(&e->specs, old, sizeof *old) ||
		!remake(e, e->memory.page_size, pages_of_specs(e), err))
		return 0;
	e->specs = *old;
	return -1;
}

int engine_apply_pages(struct engine *e, struct engine_options *to, struct err *err)
{
	if (!to->pages)
		to->pages = engine_default_pages(e, to);
	if (to->pages == e->memory.pages[e->memory.primary].n_pages)
		return 0;
	return make_pages(e, e->memory.page_size, to->pages, err);
}

int engine_apply_page_size(struct engine *e, struct engine_options *to, struct err *err)
{
	if (to->page_size == e->memory.page_size)
		return 0;
	if (engine_remake_pages(e, to->page_size, err))
		return -1;
	to->pages = e->memory.pages[e->memory.primary].n_pages;
	return 0;
}

int engine_apply_give_back(struct engine *e, struct engine_options *to, struct err *err)
{
	const struct memory_specs old = e->specs;

	e->specs.keep = !to->give_back;
	if (engine_take_specs(e, &old, err))
		return -1;
	to->pages = e->memory.pages[e->memory.primary].n_pages;
	return 0;
}
