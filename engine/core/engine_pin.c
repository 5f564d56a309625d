/* Declared prefixes, as callers see them: see engine.h. What they keep is in engine/memory/pin.h,
 * who may pin how much in engine/sched/pins.c. */
#include "engine/core/engine_impl.h"

static struct engine_pin describe(const struct engine *e, const struct pin *p, int64_t now)
{
	struct engine_pin out = { .pin = p->number,
		.asked = p->asked,
		.tokens = p->n_blocks * e->memory.page_size,
		.whole = p->reached == p->n_blocks,
		.ttl_ns = p->ttl_ns,
		.left_ns = p->ends_ns == INT64_MAX ? INT64_MAX : p->ends_ns - now,
		.prompts = p->n_found,
		.given = p->found };

	for (int32_t g = 0; g < e->memory.spec.n; g++) {
		const int32_t pages = pin_pages(&e->prefix, g, p);

		out.pages += pages;
		out.bytes += pages * (int64_t)e->memory.pages[g].page_bytes;
	}
	return out;
}

int32_t engine_pins(struct engine *e, struct engine_pin *out, int32_t cap)
{
	const int64_t now = stream_now(&e->stream);

	sched_pins_expire(&e->sched);
	for (int32_t i = 0; i < e->prefix.n_pins && i < cap; i++)
		out[i] = describe(e, &e->prefix.pin[i], now);
	return e->prefix.n_pins;
}

bool engine_unpin(struct engine *e, int64_t pin)
{
	struct pin *p = pin_find(&e->prefix, pin);

	if (p)
		sched_unpin(&e->sched, p, EV_PIN_removed);
	return p;
}

int64_t engine_rest(struct engine *e)
{
	int64_t first = INT64_MAX;

	if (engine_idle(e))
		for_hooks(e, h, rest) h->ops->rest(e, h->state);
	sched_pins_expire(&e->sched);
	for (int32_t i = 0; i < e->prefix.n_pins; i++)
		if (e->prefix.pin[i].ends_ns < first)
			first = e->prefix.pin[i].ends_ns;
	return first == INT64_MAX ? INT64_MAX : first - stream_now(&e->stream);
}

void engine_clear_prefix(struct engine *e)
{
	sched_pins_end(&e->sched, EV_PIN_cleared);
	prefix_clear(&e->prefix);
}

/* A request that only pins ends at once if it may not. */
static bool pin_submitted(
	struct engine *e, void *state, struct request *r, const struct engine_request *q)
{
	char why[SCHED_WHY];

	(void)state;
	if (q->pin)
		sched_pin(&e->sched, r, q->pin, q->pin_ttl_ns, why);
	if (q->kind != EV_REQUEST_KIND_pin || r->pin)
		return false;
	engine_end_request(e, r, EV_FINISH_refused, why);
	return true;
}

const struct step_hooks pin_hooks = { .name = "pins", .submitted = pin_submitted };
