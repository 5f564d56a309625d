/* Declared prefixes over HTTP: POST /pin, GET /pins, DELETE /pins/N, and what an answer says of the
 * pin that its request asked for. The table of those that live is kept from events, so that no
 * client waits for a step to read it. */
#include "serve/serve_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static struct served_pin *served_pin_find(struct serve *s, int64_t number)
{
	for (int32_t i = 0; i < s->n_pins; i++)
		if (s->pin[i].pin == number)
			return &s->pin[i];
	return NULL;
}

static void forget_pin(struct serve *s, struct served_pin *p)
{
	if (!p)
		return;
	memmove(p, p + 1, (size_t)(s->pin + s->n_pins - (p + 1)) * sizeof *p);
	s->n_pins--;
}

static void begin_time(struct served_pin *p, const struct ev_pin *e)
{
	p->ttl_ns = e->ttl_ns == EV_NULL_I ? INT64_MAX : e->ttl_ns;
	p->ends_ns = p->ttl_ns == INT64_MAX ? INT64_MAX : now_ns() + p->ttl_ns;
}

static struct served_pin *take_asked(struct serve *s, const struct ev_pin *e)
{
	struct served_pin *p = s->n_pins < SERVED_PINS ? &s->pin[s->n_pins++] : NULL;

	if (!p)
		return NULL;
	*p = (struct served_pin){
		.pin = e->pin, .asked = e->asked, .tokens = e->tokens, .pages = e->pages, .bytes = e->bytes
	};
	begin_time(p, e);
	return p;
}

static void take_pin(struct serve *s, struct choice *c, const struct ev_pin *e)
{
	struct served_pin *p = served_pin_find(s, e->pin);

	if (e->action == EV_PIN_asked)
		p = take_asked(s, e);
	else if (e->action == EV_PIN_renewed && p)
		begin_time(p, e);
	else if (e->action == EV_PIN_kept && p)
		p->whole = true;
	else if (e->action > EV_PIN_refused)
		forget_pin(s, p);
	s->metrics.pins_refused += e->action == EV_PIN_refused;
	s->metrics.pins = s->n_pins;
	if (c && e->action == EV_PIN_refused)
		snprintf(
			c->refused, sizeof c->refused, "%.*s", (int)e->why.size, (const char *)e->why.data);
	if (!c || !p || e->action > EV_PIN_renewed)
		return;
	c->pin = *p;
	c->pin.renewed =
		e->action == EV_PIN_renewed || (e->action == EV_PIN_kept && e->pin != e->request);
}

void pins_add(struct serve *s, struct choice *c, const struct event *ev)
{
	struct served_pin *p;

	if (ev->kind == EV_pin) {
		take_pin(s, c, &ev->u.pin);
		return;
	}
	p = ev->u.lookup.pin == EV_NULL_I ? NULL : served_pin_find(s, ev->u.lookup.pin);
	if (p && ev->u.lookup.pinned > 0) {
		p->prompts++;
		p->given += ev->u.lookup.pinned;
	}
	if (c && !c->pinned)
		c->pinned = ev->u.lookup.pinned;
	s->metrics.pinned_tokens += ev->u.lookup.pinned;
}

/* ---- what clients are told ---- */

static double seconds(int64_t ns)
{
	return ns == INT64_MAX ? (double)INFINITY : (double)ns / 1e9; /* told as null */
}

static void put_pin(struct json *j, const char *name, const struct served_pin *p)
{
	const int64_t left = p->ends_ns == INT64_MAX ? INT64_MAX : p->ends_ns - now_ns();

	json_object(j, name);
	json_int(j, "pin", p->pin);
	json_text(j, "state", p->whole ? "kept" : "computing");
	json_int(j, "declared_tokens", p->asked);
	json_int(j, "tokens", p->tokens);
	json_int(j, "pages", p->pages);
	json_int(j, "bytes", p->bytes);
	json_real(j, "ttl", seconds(p->ttl_ns), 6);
	json_real(j, "expires_in", seconds(left > 0 ? left : 0), 6);
	json_int(j, "prompts", p->prompts);
	json_int(j, "given_tokens", p->given);
	json_end(j);
}

static void put_refused(struct json *j, const char *name, const char *why)
{
	json_object(j, name);
	json_text(j, "state", "refused");
	json_text(j, "why", why);
	json_end(j);
}

void reply_pin(struct json *j, const struct job *job)
{
	const struct choice *c = job->n_choices ? &job->choice[0] : NULL;

	if (c && c->pin.pin)
		put_pin(j, "pin", &c->pin);
	else if (c && *c->refused)
		put_refused(j, "pin", c->refused);
}

char *pins_made(struct job *job, size_t *size)
{
	const struct choice *c = &job->choice[0];
	struct json j = { 0 };

	if (c->pin.pin)
		put_pin(&j, NULL, &c->pin);
	else
		put_refused(&j, NULL, c->refused);
	return json_take(&j, size);
}

char *pins_list(struct job *job, size_t *size, struct err *e)
{
	struct serve *s = job->s;
	struct json j = { 0 };

	(void)e;
	pthread_mutex_lock(&s->lock);
	json_object(&j, NULL);
	json_text(&j, "object", "list");
	json_int(&j, "pages_pinned", s->metrics.pages_pinned);
	json_array(&j, "data");
	for (int32_t i = 0; i < s->n_pins; i++)
		put_pin(&j, NULL, &s->pin[i]);
	pthread_mutex_unlock(&s->lock);
	return json_take(&j, size);
}

struct unpin_job {
	const char *pin; /* its number; NULL: all */
	int32_t n;
};

static void remove_pins(struct engine *engine, void *arg)
{
	struct unpin_job *u = arg;
	struct engine_pin pin[SERVED_PINS];
	const int32_t n = engine_pins(engine, pin, SERVED_PINS);

	for (int32_t i = 0; i < n && i < SERVED_PINS; i++) {
		char number[24];

		snprintf(number, sizeof number, "%lld", (long long)pin[i].pin);
		if (!u->pin || !strcmp(u->pin, number))
			u->n += engine_unpin(engine, pin[i].pin);
	}
}

char *pins_delete(struct job *job, size_t *size, struct err *e)
{
	struct unpin_job u = { .pin = job->rest };
	struct json j = { 0 };

	if (!actor_call(job->s->session->actor, remove_pins, &u)) {
		err_set(e, ERR_INTERRUPTED, "the server ends");
		return NULL;
	}
	job->missing = u.pin && !u.n;
	if (job->missing) {
		err_set(e, ERR_USAGE, "there is no pin %.40s; see GET /pins", u.pin);
		return NULL;
	}
	json_object(&j, NULL);
	json_int(&j, "removed", u.n);
	return json_take(&j, size);
}
