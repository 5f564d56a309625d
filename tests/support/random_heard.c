/* See random_session.h: what an engine told, in the order in which it must be told. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "tests/support/random_session.h"

void session_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("# ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

void heard_open(struct heard *h)
{
	memset(h, 0, sizeof *h);
	h->request = calloc(SESSION_REQUESTS, sizeof *h->request);
	if (!h->request)
		abort();
}

void heard_forget(struct heard *h)
{
	h->before += h->n;
	h->n = 0;
}

void heard_close(struct heard *h)
{
	free(h->request);
}

const struct setting *heard_setting(int i)
{
	const struct setting *s = engine_settings;

	for (; s->name; s++)
		if (s->effect != SETTING_LOSSLESS && strcmp(s->name, "rule") && !i--)
			return s;
	return NULL;
}

static struct heard_request *of(struct heard *h, int64_t request)
{
	const int64_t at = request - h->before;

	if (at < 1 || at > h->n)
		session_fail("request %lld was never told", (long long)request);
	return &h->request[at];
}

static void on_setting(struct heard *h, const struct ev_setting *s)
{
	for (int i = 0; heard_setting(i); i++)
		if (ev_is(s->name, heard_setting(i)->name))
			ev_copy(h->value[i], sizeof h->value[i], s->value);
	h->rejects |= ev_is(s->name, "rule") && ev_is(s->value, "rejection");
	h->halved |= ev_is(s->name, "exchange") && ev_is(s->value, "f16");
}

static void on_request(struct heard *h, const struct ev_request *q)
{
	struct heard_request *r = &h->request[++h->n];

	if (q->request != h->before + h->n || h->n >= SESSION_REQUESTS)
		session_fail("request %lld comes after %d", (long long)q->request, h->n - 1);
	memset(r, 0, sizeof *r);
	r->kind = (enum ev_code_request_kind)q->kind;
	r->own = h->now && q->kind != EV_REQUEST_KIND_search;
	if (r->own) {
		r->q = *h->now;
		memcpy(r->given, h->now->ids, (size_t)h->now->n_ids * sizeof *r->given);
		r->q.ids = r->given;
	}
	h->now = NULL;
	r->n = r->n_prompt = (int32_t)q->n_prompt;
	if (q->n_prompt <= SESSION_CTX)
		memcpy(r->id, q->prompt.data, q->prompt.size);
	r->params = sample_params_of(q);
	r->sample = q->sample;
	r->reason = -1;
	r->input = q->input == EV_NULL_I ? 0 : (int32_t)q->input;
	memcpy(r->value, h->value, sizeof r->value);
}

static void on_token(struct heard *h, const struct ev_token *t)
{
	struct heard_request *r = of(h, t->request);

	if (r->reason >= 0)
		session_fail("request %d: a token after its end", (int)t->request);
	if (t->pos >= SESSION_CTX + 8)
		session_fail("request %d: a token at %d", (int)t->request, (int)t->pos);
	if (t->pos != r->n && !h->canvas && r->kind != EV_REQUEST_KIND_verify)
		session_fail("request %d: a token at %d after %d", (int)t->request, (int)t->pos, r->n - 1);
	r->id[t->pos] = (int32_t)t->id;
	r->hash[t->pos] = t->hash;
	r->told[t->pos] = t->hash != EV_NULL_I;
	r->source[t->pos] = (uint8_t)t->source;
	if (r->n <= t->pos)
		r->n = (int32_t)t->pos + 1;
}

static void on_score(struct heard *h, const struct ev_score *s)
{
	struct heard_request *r = of(h, s->request);

	if (s->pos != (r->scored ? r->scored : r->input) + 1)
		session_fail("request %d: a score at %d after %d", (int)s->request, (int)s->pos, r->scored);
	r->scored = (int32_t)s->pos;
	r->hash[s->pos] = s->hash;
	r->told[s->pos] = true;
}

/* It ended for want of pages, alone: there are too few for its tokens, or for the copy of a whole
 * last block that the cache has, too. */
static void check_room(const struct heard *h, const struct heard_request *r)
{
	const struct memory *m = &h->e->memory;

	for (int32_t g = 0; g < m->spec.n; g++)
		if (memory_need(m, g, r->n, r->n) > memory_available(m, g))
			return;
	session_fail("kind %d: no page for %d tokens where pages are free", r->kind, r->n);
}

static void on_finish(struct heard *h, const struct ev_finish *f)
{
	struct heard_request *r = of(h, f->request);

	if (r->reason >= 0)
		session_fail("request %d ends twice", (int)f->request);
	r->reason = (int)f->reason;
	if (r->reason == EV_FINISH_context && r->n < SESSION_CTX && h->e && !h->canvas &&
		r->kind != EV_REQUEST_KIND_verify)
		check_room(h, r);
	h->cut |=
		r->kind == EV_REQUEST_KIND_search && r->reason == EV_FINISH_context && r->n < SESSION_CTX;
	if (r->reason == EV_FINISH_failed && !r->q.grammar)
		session_fail("request %d failed: %.*s", (int)f->request, (int)f->why.size,
			(const char *)f->why.data);
}

void heard_event(void *arg, const struct event *ev)
{
	struct heard *h = arg;

	if (ev->seq != h->seq + 1)
		session_fail("event %lld comes after %lld", (long long)ev->seq, (long long)h->seq);
	h->seq = ev->seq;
	switch (ev->kind) {
	case EV_setting: on_setting(h, &ev->u.setting); break;
	case EV_request: on_request(h, &ev->u.request); break;
	case EV_token: on_token(h, &ev->u.token); break;
	case EV_score: on_score(h, &ev->u.score); break;
	case EV_rewind:
		of(h, ev->u.rewind.request)->n = (int32_t)ev->u.rewind.kept;
		of(h, ev->u.rewind.request)->back = true;
		break;
	case EV_embedding: of(h, ev->u.embedding.request)->vector = ev->u.embedding.hash; break;
	case EV_admit:
	case EV_preempt:
		if (of(h, ev->u.admit.request)->reason >= 0)
			session_fail("request %d has ended", (int)ev->u.admit.request);
		break;
	case EV_cancel: h->cut |= of(h, ev->u.cancel.request)->kind == EV_REQUEST_KIND_search; break;
	case EV_finish: on_finish(h, &ev->u.finish); break;
	default: break;
	}
}
