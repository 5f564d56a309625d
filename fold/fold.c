/* See timeline.h. Who folds what, and the session's own data. */

#include <stdio.h>

#include "base/array.h"
#include "fold/timeline_fields.h"
#include "fold/timeline_fold.h"

enum { VOCAB_MAX = 1 << 21, SETTINGS_MAX = 256 };

void timeline_init(struct timeline *t)
{
	memset(t, 0, sizeof *t);
}

void timeline_free(struct timeline *t)
{
	tl_free(&tl_shape_timeline, t);
	timeline_init(t);
}

void timeline_empty(struct timeline *t)
{
	struct timeline kept = {
		.vocab = t->vocab, .n_vocab = t->n_vocab, .vocab_seq = t->vocab_seq, .older = t->older
	};

	t->vocab = NULL;
	t->n_vocab = 0;
	timeline_free(t);
	*t = kept;
}

void *tl_add(struct timeline *t, void *array, int32_t *n, int32_t *cap, size_t size)
{
	char *items;

	if (!array_grow(array, size, cap, sizeof *cap, (size_t)*n + 1)) {
		t->full = true;
		return NULL;
	}
	memcpy(&items, array, sizeof items);
	return memset(items + (size_t)(*n)++ * size, 0, size);
}

void *tl_push(void *items, int32_t *n, int32_t most, size_t size)
{
	char *first = items;

	if (*n == most)
		memmove(first, first + size, (size_t)-- * n * size);
	return first + (size_t)(*n)++ * size;
}

bool tl_room(struct timeline *t, float **of, size_t n)
{
	float *more = realloc(*of, n * sizeof *more);

	t->full |= !more;
	*of = more ? more : *of;
	return more;
}

char *tl_text(struct timeline *t, struct ev_span s)
{
	char *text = s.data ? malloc(s.size + 1) : NULL;

	if (s.data && !text)
		t->full = true;
	if (text) {
		memcpy(text, s.data, s.size);
		text[s.size] = '\0';
	}
	return text;
}

int32_t tl_int32(int64_t v)
{
	return v < 0 ? -1 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

float tl_part(double p)
{
	return p >= 0 && p <= 1 ? (float)p : NAN;
}

/* A player goes back with the texts that it knows. */
void tl_vocab_room(struct timeline *t, int32_t n)
{
	if (n <= 0 || n == t->n_vocab)
		return;
	for (int32_t i = 0; i < t->n_vocab; i++)
		free(t->vocab[i].bytes);
	free(t->vocab);
	t->vocab = calloc((size_t)n, sizeof *t->vocab);
	t->full |= !t->vocab;
	t->n_vocab = t->vocab ? n : 0;
	t->vocab_seq = 0;
}

bool tl_fold_session(struct timeline *t, const struct event *ev)
{
	const struct ev_session *e = &ev->u.session;
	int32_t n_vocab = tl_int32(e->vocab);

	if (t->begun || n_vocab > VOCAB_MAX || e->pages > TL_PAGES_MAX || e->n_layers > TL_MAX_LAYERS)
		return false;
	t->begun = true;
	t->session = *e;
	t->version = tl_text(t, e->version);
	t->build = tl_text(t, e->build);
	t->backend = tl_text(t, e->backend);
	t->isa = tl_text(t, e->isa);
	t->model_path = tl_text(t, e->model_path);
	t->model_name = tl_text(t, e->model_name);
	t->model_sha256 = tl_text(t, e->model_sha256);
	tl_vocab_room(t, n_vocab);
	tl_pages_reset(t);
	return true;
}

void tl_settle(void *event, enum ev_kind kind, int64_t absent)
{
	char *member = event;

	for (int i = 0; i < ev_info[kind].n_fields; i++) {
		const enum ev_type type = ev_info[kind].fields[i].type;

		if (type == EV_TYPE_I && *(int64_t *)(void *)member < 0)
			*(int64_t *)(void *)member = absent;
		if (type >= EV_TYPE_T)
			*(struct ev_span *)(void *)member = (struct ev_span){ NULL, 0 };
		member += ev_field_size(type);
	}
}

/* The page size changes only in an idle engine, which then makes its pool anew. */
static void pool_changed(struct timeline *t, const struct tl_setting *s)
{
	long value = strtol(s->value, NULL, 10);

	if (value < 1 || value > TL_PAGES_MAX || !t->begun)
		return;
	if (!strcmp(s->name, "pages") && value != t->session.pages)
		t->session.pages = value;
	else if (!strcmp(s->name, "page-size") && value != t->session.page_size)
		t->session.page_size = value;
	else
		return;
	tl_pages_reset(t);
}

bool tl_fold_setting(struct timeline *t, const struct event *ev)
{
	const struct ev_setting *e = &ev->u.setting;
	struct tl_setting s = { .seq = ev->seq };
	int32_t i = 0;

	ev_copy(s.name, sizeof s.name, e->name);
	ev_copy(s.value, sizeof s.value, e->value);
	while (i < t->n_settings && strcmp(t->setting[i].name, s.name) != 0)
		i++;
	if (!s.name[0] || i == SETTINGS_MAX)
		return false;
	snprintf(s.first, sizeof s.first, "%.63s", i < t->n_settings ? t->setting[i].first : s.value);
	if (i == t->n_settings &&
		!tl_add(t, &t->setting, &t->n_settings, &t->cap_settings, sizeof *t->setting))
		return true;
	tl_slo_set(t, &s);
	t->setting[i] = s;
	pool_changed(t, &s);
	return true;
}

bool tl_fold_vocab(struct timeline *t, const struct event *ev)
{
	const struct ev_vocab *e = &ev->u.vocab;
	struct tl_vocab *v;

	if (!is_index(e->id, t->n_vocab) || e->bytes.size > INT32_MAX)
		return false;
	v = &t->vocab[e->id];
	if (v->bytes || !e->bytes.data)
		return true;
	v->bytes = tl_text(t, e->bytes);
	v->size = v->bytes ? (int32_t)e->bytes.size : 0;
	v->special = e->special == 1;
	return true;
}

/* Hashes, seeds, sample numbers, ranks and starts may be any; everything else that is a number has
 * bounds. */
static bool may_be_any(const char *name)
{
	static const char *const any[] = { "hash", "seed", "sample", "unix_ns", "priority", "rank",
		"start_ns" };
	size_t i = 0;

	while (i < sizeof any / sizeof *any && strcmp(name, any[i]) != 0)
		i++;
	return i < sizeof any / sizeof *any;
}

bool tl_time_in_bounds(const struct event *ev)
{
	return ev->t_ns >= 0 && ev->t_ns <= TL_INT_MAX;
}

bool tl_ints_in_bounds(const struct event *ev)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;

	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *f = &info->fields[i];
		int64_t v;

		memcpy(&v, member, sizeof v);
		if (f->type == EV_TYPE_I && v != EV_NULL_I && (v < -1 || v > TL_INT_MAX) &&
			!may_be_any(f->name))
			return false;
		member += ev_field_size(f->type);
	}
	return true;
}

bool tl_fold_cancel(struct timeline *t, const struct event *ev)
{
	return tl_request_find(t, ev->u.cancel.request) != NULL;
}

bool tl_fold_score(struct timeline *t, const struct event *ev)
{
	return tl_request_find(t, ev->u.score.request) != NULL;
}

bool tl_fold_embedding(struct timeline *t, const struct event *ev)
{
	return tl_request_find(t, ev->u.embedding.request) != NULL;
}

bool tl_fold_closed(struct timeline *t, const struct event *ev)
{
	(void)ev;
	return t->closed = true;
}

void tl_fold_search_again(struct timeline *t, const struct event *ev)
{
	if (tl_ints_in_bounds(ev))
		tl_fold_searches(t, ev);
}

void timeline_fold(struct timeline *t, const struct event *ev)
{
	static bool (*const fold[EV_N_KINDS])(struct timeline * t, const struct event *ev) = {
#define EVENT(name, doc) tl_fold_##name,
#include "event/events.def"
	};

	if (t->full)
		return;
	if (ev->seq <= t->last_seq || ev->seq > TL_INT_MAX || !tl_time_in_bounds(ev)) {
		t->n_odd++;
		return;
	}
	t->n_lost += ev->seq - t->last_seq - 1;
	t->last_seq = ev->seq;
	if (ev->t_ns > t->last_t_ns)
		t->last_t_ns = ev->t_ns;
	if ((int)!is_index(ev->kind, EV_N_KINDS) || !tl_ints_in_bounds(ev) ||
		!((int)fold[ev->kind](t, ev) & tl_fold_searches(t, ev)))
		t->n_odd++;
}
