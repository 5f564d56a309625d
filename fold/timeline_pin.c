/* Part of the timeline: declared prefixes, live and ended. */
#include "fold/timeline_fold.h"

static struct tl_pin *tl_pin_find(struct timeline *t, int64_t number)
{
	for (int32_t i = t->n_pins; i-- > 0;)
		if (t->pin[i].pin == number && timeline_pin_lives(&t->pin[i]))
			return &t->pin[i];
	return NULL;
}

/* The oldest that ended makes room; NULL: all live, which no engine allows. */
static struct tl_pin *tl_pin_new(struct timeline *t)
{
	int32_t at = 0;

	if (t->n_pins == TL_PINS) {
		while (at < TL_PINS && timeline_pin_lives(&t->pin[at]))
			at++;
		if (at == TL_PINS)
			return NULL;
		t->n_pins--;
		memmove(&t->pin[at], &t->pin[at + 1], (size_t)(t->n_pins - at) * sizeof *t->pin);
	}
	return &t->pin[t->n_pins++];
}

bool tl_fold_pin(struct timeline *t, const struct event *ev)
{
	const struct ev_pin *e = &ev->u.pin;
	struct tl_pin *p = tl_pin_find(t, e->pin);

	if (e->pin < 1 || !is_index(e->action, EV_N_pin_action))
		return false;
	if (e->action == EV_PIN_refused)
		return true;
	if (e->action == EV_PIN_asked) {
		p = p ? NULL : tl_pin_new(t);
		if (p)
			*p = (struct tl_pin){ .pin = e->pin,
				.asked = tl_or_0(e->asked),
				.tokens = tl_or_0(e->tokens),
				.pages = tl_or_0(e->pages),
				.bytes = tl_or_0(e->bytes) };
	}
	if (!p)
		return false;
	if (e->action == EV_PIN_asked || e->action == EV_PIN_renewed) {
		p->t_ns = ev->t_ns;
		p->ttl_ns = e->ttl_ns;
	}
	if (e->action != EV_PIN_renewed)
		p->last = (enum ev_code_pin_action)e->action;
	return true;
}

void tl_pin_gives(struct timeline *t, const struct ev_lookup *e)
{
	struct tl_pin *p = e->pin == EV_NULL_I ? NULL : tl_pin_find(t, e->pin);

	if (!p || e->pinned < 0 || e->pinned > e->hit)
		return;
	p->prompts++;
	p->given += e->pinned;
}
