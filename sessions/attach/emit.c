/* What a server told becomes events. See attach_impl.h. */
#include <search.h>

#include <xxhash.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/median.h"
#include "base/version.h"
#include "sessions/attach/attach_impl.h"

/* ---- texts ---- */

static void emit_text(struct attach *a, int64_t id, const char *bytes, size_t size)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab = (struct ev_vocab){ .id = id, .bytes = { size ? bytes : "", size }, .special = 0 };
	stream_emit(&a->stream, &ev);
}

/* A text that the server told without a number, and the number that it has here. */
struct own_text {
	int64_t id;
	struct ev_span text;
};

static int by_text(const void *a, const void *b)
{
	const struct ev_span *x = &((const struct own_text *)a)->text;
	const struct ev_span *y = &((const struct own_text *)b)->text;

	return x->size == y->size ? memcmp(x->data, y->data, x->size)
							  : (x->size > y->size) - (x->size < y->size);
}

/* -1: no memory, or too many. */
static int64_t own_id(struct attach *a, const char *bytes, size_t size)
{
	const struct own_text key = { .text = { bytes, size } };
	struct own_text *t, **known = tfind(&key, &a->own, by_text);

	if (known)
		return (*known)->id;
	if (a->n_own == EV_OWN_IDS || !(t = malloc(sizeof *t + size)))
		return -1;
	*t = (struct own_text){ EV_OWN_IDS + a->n_own, { memcpy(t + 1, bytes, size), size } };
	if (!tsearch(t, &a->own, by_text)) {
		free(t);
		return -1;
	}
	a->n_own++;
	emit_text(a, t->id, bytes, size);
	return t->id;
}

/* An id that comes with another text than before is not that text's. */
static int64_t id_of(struct attach *a, const struct attach_token *t)
{
	const uint32_t hash = (uint32_t)XXH3_64bits(t->bytes, t->size) | 1;

	if (t->id < 0 || t->id >= EV_OWN_IDS || (a->known[t->id] && a->known[t->id] != hash))
		return own_id(a, t->bytes, t->size);
	if (!a->known[t->id]) {
		a->known[t->id] = hash;
		emit_text(a, t->id, t->bytes, t->size);
	}
	return t->id;
}

void attach_emit_free(struct attach *a)
{
	tdestroy(a->own, free);
	free(a->known);
}

/* ---- the session ---- */

static struct ev_span text_or_absent(const char *text)
{
	return *text ? ev_text(text) : (struct ev_span){ NULL, 0 };
}

void attach_emit_session(struct attach *a)
{
	const struct attach_server_info *t = &a->reported;
	struct event ev;

	stream_begin(&a->stream);
	ev_init(&ev, EV_session);
	ev.u.session.unix_ns = unix_ns();
	ev.u.session.version = ev_text(CUTAWAY_VERSION);
	ev.u.session.model_name = text_or_absent(t->model);
	ev.u.session.ctx = t->ctx;
	ev.u.session.slots = t->slots;
	stream_emit(&a->stream, &ev);
	ev_init(&ev, EV_attached);
	ev.u.attached = (struct ev_attached){ .url = ev_text(t->url),
		.server = ev_text(a->server->name),
		.version = text_or_absent(t->version),
		.model = text_or_absent(t->model),
		.p = ev_text(a->server->p),
		.slots = t->slots,
		.ctx = t->ctx,
		.pages = t->pages,
		.page_size = t->page_size,
		.poll_ns = a->o.poll_ms ? (int64_t)a->o.poll_ms * 1000000 : EV_NULL_I };
	stream_emit(&a->stream, &ev);
}

void attach_emit_setting(struct attach *a, const char *name, const char *value)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text(name);
	ev.u.setting.value = ev_text(value);
	stream_emit(&a->stream, &ev);
}

void attach_emit_step(struct attach *a, int64_t tokens)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = a->step++;
	ev.u.step.tokens = tokens;
	ev.u.step.running = a->polled.running;
	ev.u.step.waiting = a->polled.waiting;
	stream_emit(&a->stream, &ev);
}

/* ---- a request ---- */

void attach_emit_request(struct attach_answer *r, enum ev_code_request_kind kind, const char *text)
{
	struct event ev;
	struct ev_request *q = &ev.u.request;
	struct json stop = { 0 };
	char *stops = NULL;
	size_t size;

	ev_init(&ev, EV_request);
	q->request = r->request = ++r->a->n_requests;
	q->kind = kind;
	q->text = ev_text(text);
	q->max_tokens = r->settings.max_tokens;
	q->temperature = (double)r->settings.params.temperature;
	q->top_p = (double)r->settings.params.top_p;
	if (r->a->server->samples) {
		q->top_k = r->settings.params.top_k;
		q->min_p = (double)r->settings.params.min_p;
	}
	if (r->settings.params.seed)
		q->seed = (int64_t)r->settings.params.seed;
	if (*r->settings.stop.text) {
		json_array(&stop, NULL);
		for (char *const *s = r->settings.stop.text; *s; s++)
			json_text(&stop, NULL, *s);
		stops = json_take(&stop, &size);
	}
	q->stop = stops ? ev_text(stops) : q->stop;
	stream_emit(&r->a->stream, &ev);
	free(stops);
	r->began_ns = r->last_ns = stream_now(&r->a->stream);
}

void attach_emit_extra(struct attach_answer *r, const struct attach_extra *x)
{
	struct event ev;

	r->prompt = x->prompt != EV_NULL_I ? x->prompt : r->prompt;
	r->cached = x->cached != EV_NULL_I ? x->cached : r->cached;
	if (x->works && !r->works) {
		r->works = true;
		ev_init(&ev, EV_admit);
		ev.u.admit.request = r->request;
		stream_emit(&r->a->stream, &ev);
	}
	if (r->looked_up || r->prompt == EV_NULL_I || r->cached == EV_NULL_I || r->cached > r->prompt)
		return;
	r->looked_up = true;
	ev_init(&ev, EV_lookup);
	ev.u.lookup.request = r->request;
	ev.u.lookup.asked = r->prompt;
	ev.u.lookup.hit = r->cached;
	ev.u.lookup.reason = EV_PREFIX_unknown;
	stream_emit(&r->a->stream, &ev);
}

/* The time since the token before. Between those that come together there is none to be seen. */
static int64_t note_time(struct attach_answer *r)
{
	const int64_t now = stream_now(&r->a->stream), ns = now - r->last_ns;

	if (!r->n_tokens && !r->n_pieces)
		r->first_ns = now;
	else if (ARRAY_ROOM(r->gap, r->cap_gaps, r->n_gaps + 1))
		r->gap[r->n_gaps++] = r->last_step == r->a->step ? 0 : (double)ns;
	r->last_ns = now;
	r->last_step = r->a->step;
	return ns;
}

int attach_emit_token(struct attach_answer *r, const struct attach_token *t,
	const struct attach_token *top, int n_top, enum ev_code_source source)
{
	struct ev_candidate candidate[ATTACH_TOP];
	const int64_t id = id_of(r->a, t);
	struct event ev;
	int n = 0;

	attach_emit_extra(r, &(struct attach_extra){ EV_NULL_I, EV_NULL_I, true });
	for (int i = 0; i < n_top && n < ATTACH_TOP; i++) {
		const int64_t other = id_of(r->a, &top[i]);
		int at = n;

		if (other < 0)
			continue;
		for (; at && (double)candidate[at - 1].p < top[i].p; at--) /* vLLM: the drawn one first */
			candidate[at] = candidate[at - 1];
		candidate[at] = (struct ev_candidate){ .id = (uint32_t)other,
			.logit = NAN,
			.p = (float)top[i].p,
			.arrival = NAN,
			.cut = EV_CUT_unknown };
		n++;
	}
	if (id < 0)
		return -1;
	ev_init(&ev, EV_token);
	ev.u.token.step = r->a->step;
	ev.u.token.request = r->request;
	ev.u.token.pos = r->n_tokens + r->n_pieces;
	ev.u.token.id = id;
	ev.u.token.p = t->p;
	ev.u.token.source = source;
	ev.u.token.is_end = t->is_end ? 1 : EV_NULL_I;
	ev.u.token.ns = note_time(r);
	if (n)
		ev.u.token.candidates = (struct ev_span){ candidate, (size_t)n * sizeof *candidate };
	stream_emit(&r->a->stream, &ev);
	*(source == EV_SOURCE_piece ? &r->n_pieces : &r->n_tokens) += 1;
	return 0;
}

/* Latencies between pieces are none between tokens. */
void attach_emit_finish(struct attach_answer *r)
{
	struct event ev;
	struct ev_finish *f = &ev.u.finish;

	ev_init(&ev, EV_finish);
	f->request = r->request;
	f->step = r->a->step;
	f->reason = r->reason;
	f->generated = r->generated != EV_NULL_I ? r->generated : r->n_pieces ? EV_NULL_I : r->n_tokens;
	if (r->n_tokens + r->n_pieces)
		f->first_token_ns = r->first_ns - r->began_ns;
	f->total_ns = stream_now(&r->a->stream) - r->began_ns;
	f->hit = r->looked_up ? r->cached : EV_NULL_I;
	f->prompt = r->prompt;
	f->why = text_or_absent(r->why);
	if (r->n_gaps && !r->n_pieces) {
		f->itl_p50_ns = (int64_t)quantile_of(sorted_of(r->gap, r->n_gaps), r->n_gaps, 0.5);
		f->itl_p99_ns = (int64_t)quantile_of(r->gap, r->n_gaps, 0.99);
	}
	stream_emit(&r->a->stream, &ev);
}
