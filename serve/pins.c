/* Declared prefixes over HTTP: POST /pin, GET /pins, DELETE /pins/N, and what an answer says of the
 * pin that its request asked for. The table of those that live is kept from events, so that no
 * client waits for a step to read it. */
#include "serve/serve_impl.h"

#include "base/clock.h"

static struct served_pin *served_pin_find(struct replica *r, int64_t number)
{
	for (int32_t i = 0; i < r->n_pins; i++)
		if (r->pin[i].pin == number)
			return &r->pin[i];
	return NULL;
}

static void forget_pin(struct replica *r, struct served_pin *p)
{
	if (!p)
		return;
	memmove(p, p + 1, (size_t)(r->pin + r->n_pins - (p + 1)) * sizeof *p);
	r->n_pins--;
}

static void begin_time(struct served_pin *p, const struct ev_pin *e)
{
	p->ttl_ns = e->ttl_ns == EV_NULL_I ? INT64_MAX : e->ttl_ns;
	p->ends_ns = p->ttl_ns == INT64_MAX ? INT64_MAX : now_ns() + p->ttl_ns;
}

static struct served_pin *take_asked(struct replica *r, const struct ev_pin *e)
{
	struct served_pin *p = r->n_pins < SERVED_PINS ? &r->pin[r->n_pins++] : NULL;

	if (!p)
		return NULL;
	*p = (struct served_pin){
		.pin = e->pin, .asked = e->asked, .tokens = e->tokens, .pages = e->pages, .bytes = e->bytes
	};
	begin_time(p, e);
	return p;
}

static void take_pin(struct replica *r, struct choice *c, const struct ev_pin *e)
{
	struct served_pin *p = served_pin_find(r, e->pin);

	if (e->action == EV_PIN_asked)
		p = take_asked(r, e);
	else if (e->action == EV_PIN_renewed && p)
		begin_time(p, e);
	else if (e->action == EV_PIN_kept && p)
		p->whole = true;
	else if (e->action > EV_PIN_refused)
		forget_pin(r, p);
	r->metrics.pins_refused += e->action == EV_PIN_refused;
	r->metrics.pins = r->n_pins;
	if (c && e->action == EV_PIN_refused)
		ev_copy(c->refused, sizeof c->refused, e->why);
	if (!c || !p || e->action > EV_PIN_renewed)
		return;
	c->pin = *p;
	c->pin.renewed =
		e->action == EV_PIN_renewed || (e->action == EV_PIN_kept && e->pin != e->request);
}

void pins_add(struct replica *r, struct choice *c, const struct event *ev)
{
	struct served_pin *p;

	if (ev->kind == EV_pin) {
		take_pin(r, c, &ev->u.pin);
		return;
	}
	p = ev->u.lookup.pin == EV_NULL_I ? NULL : served_pin_find(r, ev->u.lookup.pin);
	if (p && ev->u.lookup.pinned > 0) {
		p->prompts++;
		p->given += ev->u.lookup.pinned;
	}
	if (c && !c->pinned)
		c->pinned = ev->u.lookup.pinned;
	r->metrics.pinned_tokens += ev->u.lookup.pinned;
}

/* ---- what clients are told ---- */

static double seconds(int64_t ns)
{
	return ns == INT64_MAX ? (double)INFINITY : (double)ns / 1e9; /* told as null */
}

static void put_pin(struct json *j, const struct replica *r, const struct served_pin *p)
{
	const int64_t left = p->ends_ns == INT64_MAX ? INT64_MAX : p->ends_ns - now_ns();

	json_put(j, "{'pin': %ld", p->pin);
	reply_replica(j, r);
	json_put(j, "'state': %s, 'declared_tokens': %ld, 'tokens': %ld, 'pages': %ld, 'bytes': %ld",
		p->whole ? "kept" : "computing", p->asked, p->tokens, p->pages, p->bytes);
	json_put(j, "'ttl': %.6g, 'expires_in': %.6g, 'prompts': %ld, 'given_tokens': %ld}",
		seconds(p->ttl_ns), seconds(left > 0 ? left : 0), p->prompts, p->given);
}

/* Of the pin that was asked for. */
static void put_asked(struct json *j, const struct choice *c)
{
	if (c->pin.pin)
		put_pin(j, c->replica, &c->pin);
	else
		json_put(j, "{'state': 'refused', 'why': %s}", c->refused);
}

void reply_pin(struct json *j, const struct job *job)
{
	const struct choice *c = job->n_choices ? &job->choice[0] : NULL;

	if (!c || (!c->pin.pin && !*c->refused))
		return;
	json_put(j, "'pin':");
	put_asked(j, c);
}

void pins_made(struct job *job, struct json *j)
{
	put_asked(j, &job->choice[0]);
}

static int64_t pages_pinned(const struct serve *s)
{
	int64_t n = 0;

	for (int32_t i = 0; i < s->n_replicas; i++)
		n += s->replica[i].metrics.pages_pinned;
	return n;
}

void pins_list(struct job *job, struct json *j)
{
	struct serve *s = job->s;

	pthread_mutex_lock(&s->lock);
	json_put(j, "{'object': 'list', 'pages_pinned': %ld, 'data': [", pages_pinned(s));
	for (int32_t i = 0; i < s->n_replicas; i++)
		for (int32_t k = 0; k < s->replica[i].n_pins; k++)
			put_pin(j, &s->replica[i], &s->replica[i].pin[k]);
	pthread_mutex_unlock(&s->lock);
}

/* "PIN", or of several replicas "REPLICA/PIN": which replica, -1: all. Its number goes to *pin. */
static int32_t replica_of(const struct serve *s, const char *rest, const char **pin)
{
	const char *slash = rest ? strchr(rest, '/') : NULL;

	*pin = slash ? slash + 1 : rest;
	for (int32_t i = 0; slash && i < s->n_replicas; i++) {
		char number[16];

		if (snprintf(number, sizeof number, "%d/", i) == slash + 1 - rest &&
			!strncmp(number, rest, (size_t)(slash + 1 - rest)))
			return i;
	}
	return slash ? s->n_replicas : -1;
}

/* Each replica numbers its own. */
static bool is_clear(struct serve *s, int32_t of, const char *pin)
{
	const long long number = pin ? strtoll(pin, NULL, 10) : 0;
	int n = 0;

	pthread_mutex_lock(&s->lock);
	for (int32_t i = 0; pin && i < s->n_replicas; i++)
		n += served_pin_find(&s->replica[i], number) != NULL;
	pthread_mutex_unlock(&s->lock);
	return of >= 0 || n < 2;
}

/* The engine's thread. */
static void remove_pins(struct engine *engine, void *arg)
{
	const struct job_call *call = arg;
	struct job *j = call->job;
	struct engine_pin pin[SERVED_PINS];
	const char *asked;
	const int32_t of = replica_of(j->s, j->rest, &asked);
	const int32_t n =
		of < 0 || of == call->replica->index ? engine_pins(engine, pin, SERVED_PINS) : 0;
	int32_t removed = 0;

	for (int32_t i = 0; i < n && i < SERVED_PINS; i++) {
		char number[24];

		snprintf(number, sizeof number, "%lld", (long long)pin[i].pin);
		if (!asked || !strcmp(asked, number))
			removed += engine_unpin(engine, pin[i].pin);
	}
	pthread_mutex_lock(&j->s->lock);
	j->removed += removed;
	job_settle(j);
	job_unref(j);
}

void pins_remove(struct job *j)
{
	struct serve *s = j->s;
	const char *pin;
	const int32_t of = replica_of(s, j->rest, &pin);
	const bool clear = is_clear(s, of, pin);

	pthread_mutex_lock(&s->lock);
	j->submitted = true;
	j->unsettled = s->n_replicas;
	j->settled = !clear;
	pthread_mutex_unlock(&s->lock);
	if (!clear)
		err_set(&j->error, ERR_USAGE,
			"several replicas have a pin %.40s: DELETE /pins/REPLICA/%.40s ends one", pin, pin);
	for (int32_t i = 0; i < s->n_replicas && clear; i++)
		if (!job_post(j, &s->replica[i], remove_pins)) {
			pthread_mutex_lock(&s->lock);
			err_set(&j->error, ERR_INTERRUPTED, "the server ends");
			job_settle(j);
		}
}

void pins_removed(struct job *job, struct json *j)
{
	const char *pin;

	replica_of(job->s, job->rest, &pin);
	job->missing = pin && !job->removed;
	if (job->missing)
		err_set(&job->error, ERR_USAGE, "there is no pin %.40s; see GET /pins", job->rest);
	else
		json_put(j, "{'removed': %d", job->removed);
}
