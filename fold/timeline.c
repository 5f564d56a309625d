/* See timeline.h. Who folds what, the session's own data, and the questions that views ask. */
#include "fold/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "fold/timeline_fold.h"

enum { VOCAB_MAX = 1 << 21, SETTINGS_MAX = 256 };
#define SECOND_NS 1000000000.0

void timeline_init(struct timeline *t)
{
	memset(t, 0, sizeof *t);
}

void tl_request_free(struct tl_request *r)
{
	free(r->text);
	free(r->prompt);
	free(r->stop);
	free(r->spec);
	free(r->finish_why);
	free(r->token);
	free(r->pages);
	free(r->attention.share);
	free(r->attention.near_zero);
	free(r->attention.head_share);
}

void timeline_free(struct timeline *t)
{
	for (int32_t i = 0; i < t->n_requests; i++)
		tl_request_free(&t->request[i]);
	for (int32_t i = 0; i < t->n_vocab; i++)
		free(t->vocab[i].bytes);
	for (int32_t i = 0; i < t->n_futures; i++)
		free(t->future[i].token);
	free(t->future);
	free(t->vocab);
	free(t->request);
	free(t->page);
	free(t->step);
	free(t->batch);
	free(t->draft);
	free(t->window);
	free(t->window_id);
	tl_searches_free(t);
	free(t->setting);
	free(t->preempt);
	free(t->version);
	free(t->build);
	free(t->backend);
	free(t->isa);
	free(t->model_path);
	free(t->model_name);
	free(t->model_sha256);
	timeline_init(t);
}

void *tl_grow(struct timeline *t, void *array, int32_t n, int32_t *cap, size_t size)
{
	int32_t more = *cap < 16 ? 16 : *cap < INT32_MAX / 2 ? *cap * 2 : INT32_MAX;
	void *grown;

	if (n < *cap)
		return array;
	grown = n < more ? reallocarray(array, (size_t)more, size) : NULL;
	if (grown)
		*cap = more;
	else
		t->full = true;
	return grown;
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

uint32_t tl_get32(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

float tl_get_float(const unsigned char *p)
{
	uint32_t bits = tl_get32(p);
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

bool tl_fold_session(struct timeline *t, const struct ev_session *e)
{
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
	if (n_vocab > 0) {
		for (int32_t i = 0; i < t->n_vocab; i++) /* a player goes back with the texts that it knows */
			free(t->vocab[i].bytes);
		free(t->vocab);
		t->vocab = calloc((size_t)n_vocab, sizeof *t->vocab);
		t->full |= !t->vocab;
		t->n_vocab = t->vocab ? n_vocab : 0;
	}
	tl_pages_reset(t);
	return true;
}

static void copy_span(char *to, size_t cap, struct ev_span s)
{
	size_t n = !s.data ? 0 : s.size < cap - 1 ? s.size : cap - 1;

	if (n)
		memcpy(to, s.data, n);
	to[n] = '\0';
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

bool tl_fold_setting(struct timeline *t, const struct ev_setting *e, int64_t seq)
{
	struct tl_setting s = { .seq = seq };
	int32_t i = 0;

	copy_span(s.name, sizeof s.name, e->name);
	copy_span(s.value, sizeof s.value, e->value);
	while (i < t->n_settings && strcmp(t->setting[i].name, s.name) != 0)
		i++;
	if (!s.name[0] || i == SETTINGS_MAX)
		return false;
	if (i == t->n_settings) {
		struct tl_setting *more = tl_grow(t, t->setting, i, &t->cap_settings, sizeof *more);

		if (!more)
			return true;
		t->setting = more;
		t->n_settings++;
	}
	t->setting[i] = s;
	pool_changed(t, &s);
	return true;
}

bool tl_fold_vocab(struct timeline *t, const struct ev_vocab *e)
{
	struct tl_vocab *v;

	if (e->id < 0 || e->id >= t->n_vocab || e->bytes.size > INT32_MAX)
		return false;
	v = &t->vocab[e->id];
	if (v->bytes || !e->bytes.data)
		return true;
	v->bytes = tl_text(t, e->bytes);
	v->size = v->bytes ? (int32_t)e->bytes.size : 0;
	v->special = e->special == 1;
	return true;
}

/* Hashes, seeds and sample numbers may be any; everything else that is a number has bounds. */
static bool ints_in_bounds(const struct event *ev)
{
	static const char *const free_range[] = { "hash", "seed", "sample", "unix_ns" };
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;

	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *f = &info->fields[i];
		bool bounded = f->type == EV_TYPE_I;
		int64_t v;

		for (size_t k = 0; bounded && k < sizeof free_range / sizeof *free_range; k++)
			bounded = strcmp(f->name, free_range[k]) != 0;
		memcpy(&v, member, sizeof v);
		if (bounded && v != EV_NULL_I && (v < -1 || v > TL_INT_MAX))
			return false;
		member += ev_field_size(f->type);
	}
	return true;
}

static bool fold_kind(struct timeline *t, const struct event *ev)
{
	switch (ev->kind) {
	case EV_session: return tl_fold_session(t, &ev->u.session);
	case EV_memory: return tl_fold_memory(t, &ev->u.memory);
	case EV_setting: return tl_fold_setting(t, &ev->u.setting, ev->seq);
	case EV_vocab: return tl_fold_vocab(t, &ev->u.vocab);
	case EV_request: return tl_fold_request(t, &ev->u.request, ev->t_ns);
	case EV_admit: return tl_fold_admit(t, &ev->u.admit, ev->t_ns);
	case EV_lookup: return tl_fold_lookup(t, &ev->u.lookup);
	case EV_page: return tl_fold_page(t, &ev->u.page, ev->t_ns);
	case EV_preempt: return tl_fold_preempt(t, &ev->u.preempt);
	case EV_cancel: return tl_request_find(t, ev->u.cancel.request) != NULL;
	case EV_rewind: return tl_fold_rewind(t, &ev->u.rewind);
	case EV_fork: return tl_fold_fork(t, &ev->u.fork);
	case EV_trim: return tl_fold_trim(t, &ev->u.trim);
	case EV_batch: return tl_fold_batch(t, &ev->u.batch);
	case EV_token: return tl_fold_token(t, &ev->u.token, ev->seq, ev->t_ns);
	case EV_score: return tl_request_find(t, ev->u.score.request) != NULL;
	case EV_draft: return tl_fold_draft(t, &ev->u.draft);
	case EV_cost: return tl_fold_cost(t, &ev->u.cost);
	case EV_shadow: return tl_fold_shadow(t, &ev->u.shadow);
	case EV_choice: return tl_fold_choice(t, &ev->u.choice);
	case EV_window: return tl_fold_window(t, &ev->u.window);
	case EV_attention: return tl_fold_attention(t, &ev->u.attention);
	case EV_head: return tl_fold_head(t, &ev->u.head);
	case EV_time: return tl_fold_time(t, &ev->u.time);
	case EV_step: return tl_fold_step(t, &ev->u.step, ev->seq, ev->t_ns);
	case EV_finish: return tl_fold_finish(t, &ev->u.finish, ev->t_ns);
	case EV_search:
	case EV_sharing: return true; /* tl_fold_searches() did */
	case EV_closed: return t->closed = true;
	case EV_N_KINDS: break;
	}
	return false;
}

void tl_fold_search_again(struct timeline *t, const struct event *ev)
{
	if (ints_in_bounds(ev))
		tl_fold_searches(t, ev);
}

void timeline_fold(struct timeline *t, const struct event *ev)
{
	if (t->full)
		return;
	if (ev->seq <= t->last_seq || ev->seq > TL_INT_MAX || ev->t_ns < 0 || ev->t_ns > TL_INT_MAX) {
		t->n_odd++;
		return;
	}
	t->n_lost += ev->seq - t->last_seq - 1;
	t->last_seq = ev->seq;
	if (ev->t_ns > t->last_t_ns)
		t->last_t_ns = ev->t_ns;
	if ((int)ev->kind < 0 || ev->kind >= EV_N_KINDS || !ints_in_bounds(ev) ||
		!(fold_kind(t, ev) & tl_fold_searches(t, ev)))
		t->n_odd++;
}

struct tl_request *tl_request_find(struct timeline *t, int64_t id)
{
	return find_number(id, t->request, t->n_requests, sizeof *t->request);
}

const struct tl_request *timeline_request(const struct timeline *t, int64_t id)
{
	return tl_request_find((struct timeline *)t, id);
}

const struct tl_step *timeline_step(const struct timeline *t, int64_t step)
{
	return find_number(step, t->step, t->n_steps, sizeof *t->step);
}

const struct tl_step *timeline_last_step(const struct timeline *t)
{
	return t->n_steps ? &t->step[t->n_steps - 1] : NULL;
}

const char *timeline_setting(const struct timeline *t, const char *name)
{
	for (int32_t i = 0; i < t->n_settings; i++)
		if (!strcmp(t->setting[i].name, name))
			return t->setting[i].value;
	return NULL;
}

bool timeline_exact(const struct timeline *t)
{
	const char *exact = timeline_setting(t, "exact");

	return !exact || strcmp(exact, "off") != 0;
}

const struct tl_request *timeline_chat(const struct timeline *t)
{
	for (int32_t i = t->n_requests; i-- > 0;) {
		enum ev_code_request_kind kind = t->request[i].kind;

		if (kind == EV_REQUEST_KIND_chat || kind == EV_REQUEST_KIND_fork ||
			kind == EV_REQUEST_KIND_run)
			return &t->request[i];
	}
	return NULL;
}

const char *timeline_token_bytes(const struct timeline *t, int32_t id, int32_t *size)
{
	const struct tl_vocab *v = id >= 0 && id < t->n_vocab ? &t->vocab[id] : NULL;

	*size = v && v->bytes ? v->size : 0;
	return *size ? v->bytes : "";
}

static bool step_has(const struct timeline *t, const struct tl_step *s, int64_t request)
{
	for (int32_t i = 0; i < s->n_batch; i++)
		if (t->batch[s->batch_at + i].request == request)
			return true;
	return false;
}

/* Tokens of r in steps from `first` on. */
static int32_t tokens_since(const struct tl_request *r, int64_t first)
{
	int32_t n = 0;

	while (n < r->n_tokens && r->token[r->n_tokens - 1 - n].step >= first)
		n++;
	return n;
}

/* From its first token to its end. */
static double mean_rate(const struct ev_finish *f)
{
	double ns = (double)f->total_ns - (double)f->first_token_ns;

	return f->first_token_ns > 0 && ns > 0 ? (double)(f->generated - 1) * SECOND_NS / ns : (double)NAN;
}

double timeline_rate(const struct timeline *t, int64_t request)
{
	const struct tl_request *r = request ? timeline_request(t, request) : NULL;
	double ns = 0, tokens = 0;
	int64_t first = 0;

	if (request && !r)
		return (double)NAN;
	for (int32_t i = t->n_steps; i-- > 0 && ns < SECOND_NS;) {
		const struct tl_step *s = &t->step[i];

		if (r && r->n_tokens && s->s.step > r->token[r->n_tokens - 1].step)
			continue; /* it had ended: its last second counts */
		if (r && r->admitted_ns != EV_NULL_I && s->t_ns < r->admitted_ns)
			break;
		if (r && !step_has(t, s, request))
			continue;
		ns += (double)s->s.ns;
		tokens += (double)s->s.tokens;
		first = s->s.step;
	}
	if (r)
		tokens = tokens_since(r, first);
	if (r && ns <= 0 && r->finished && r->finish.generated > 1)
		return mean_rate(&r->finish);
	return ns > 0 ? tokens * SECOND_NS / ns : (double)NAN;
}

static int64_t setting_seq(const struct timeline *t, const char *name)
{
	for (int32_t i = 0; i < t->n_settings; i++)
		if (!strcmp(t->setting[i].name, name))
			return t->setting[i].seq;
	return 0;
}

static int64_t drafter_seq(const struct timeline *t)
{
	int64_t spec = setting_seq(t, "spec"), rule = setting_seq(t, "rule");

	return spec > rule ? spec : rule;
}

bool timeline_drafter_since(const struct timeline *t, int64_t step)
{
	const struct tl_step *s = timeline_step(t, step);

	return !s || s->seq > drafter_seq(t); /* a step that is open has the newest */
}

static void count_drafts(struct tl_speculation *out, const struct tl_draft *d, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		bool again = i && d[i - 1].request == d[i].request && d[i - 1].depth == d[i].depth &&
					 d[i - 1].verdict != EV_VERDICT_unread;

		if (d[i].verdict == EV_VERDICT_unread || d[i].depth > TL_PLACES)
			continue;
		out->verified[d[i].depth - 1] += !again;
		out->accepted[d[i].depth - 1] += d[i].verdict == EV_VERDICT_accepted;
	}
}

struct tl_speculation timeline_speculation(const struct timeline *t)
{
	struct tl_speculation out = { 0 };
	int64_t since = drafter_seq(t);

	for (int32_t i = t->n_steps, n = 0; i-- > 0 && n < TL_WINDOW && t->step[i].seq > since; n++) {
		const struct tl_step *s = &t->step[i];

		if (s->s.prefill_rows)
			continue;
		out.tokens += s->s.tokens;
		out.members += s->n_batch;
		count_drafts(&out, t->draft + s->draft_at, s->n_draft);
	}
	return out;
}

double timeline_roof(const struct timeline *t)
{
	const char *told = timeline_setting(t, "roof");
	double roof = told ? strtod(told, NULL) * 1e9 : 0, start = t->session.read_bandwidth;

	return roof > 0 ? roof : start > 0 ? start : 0;
}

double timeline_bandwidth(const struct timeline *t)
{
	double bytes = 0, ns = 0;

	for (int32_t i = t->n_steps, n = 0; i-- > 0 && n < TL_MEAN;) {
		const struct ev_step *s = &t->step[i].s;

		if (s->prefill_rows || s->kernel_ns <= 0 || s->bytes <= 0)
			continue;
		n++;
		bytes += (double)s->bytes;
		ns += (double)s->kernel_ns;
	}
	return ns > 0 ? bytes * SECOND_NS / ns : (double)NAN;
}
