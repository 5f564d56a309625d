/* Takes the events of a recording into its requests: see history.h. */
#include <stdio.h>

#include "base/array.h"
#include "base/find.h"
#include "sessions/history/history_impl.h"
#include "trace/reader.h"

enum { MAX_TOKENS = 1 << 24 /* of a request */, MAX_VOCAB = 1 << 22 };

static int no_memory(const struct history *h, struct err *e)
{
	return err_set(e, ERR_MEMORY, "%s: out of memory", h->path);
}

/* "" if it is absent; NULL: no memory. */
static char *copy_text(struct ev_span text)
{
	return text.data ? strndup(text.data, text.size) : strdup("");
}

static bool in_vocab(const struct history *h, int64_t id)
{
	return id >= 0 && id < h->vocab;
}

static void broke(struct history_request *r, const char *what, int64_t pos)
{
	if (!r->broken[0])
		snprintf(r->broken, sizeof r->broken, "%s (position %lld)", what, (long long)pos);
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
	return v < low ? low : v > high ? high : v;
}

/* ---- the session ---- */

static int on_session(struct history *h, const struct ev_session *s, struct err *e)
{
	if (h->model_path)
		return 0; /* there is one */
	h->model_path = copy_text(s->model_path);
	h->model_name = copy_text(s->model_name);
	h->model_sha256 = copy_text(s->model_sha256);
	h->backend = copy_text(s->backend);
	h->isa = copy_text(s->isa);
	h->version = copy_text(s->version);
	h->arith = s->arith;
	h->vocab = s->vocab;
	h->threads = s->threads;
	h->ctx = s->ctx;
	h->page_size = s->page_size;
	h->unix_ns = s->unix_ns;
	h->n_layers = s->n_layers;
	h->n_kv_heads = s->n_kv_heads;
	h->head_dim = s->head_dim;
	return h->model_path && h->model_name && h->model_sha256 && h->backend && h->isa && h->version
			   ? 0
			   : no_memory(h, e);
}

static int on_setting(struct history *h, int64_t seq, const struct ev_setting *v, struct err *e)
{
	struct history_setting *s;

	if (!v->name.data || !v->value.data)
		return 0;
	if (!ARRAY_ROOM(h->setting, h->cap_settings, h->n_settings + 1))
		return no_memory(h, e);
	s = &h->setting[h->n_settings++];
	*s = (struct history_setting){ seq, copy_text(v->name), copy_text(v->value) };
	return s->name && s->value ? 0 : no_memory(h, e);
}

static int on_adapter(struct history *h, const struct ev_adapter *v, struct err *e)
{
	struct history_adapter *a;

	if (!ARRAY_ROOM(h->adapter, h->cap_adapters, h->n_adapters + 1))
		return no_memory(h, e);
	a = &h->adapter[h->n_adapters++];
	*a = (struct history_adapter){ copy_text(v->name), copy_text(v->sha256), v->scale };
	return a->name && a->sha256 ? 0 : no_memory(h, e);
}

static int on_vocab(struct history *h, const struct ev_vocab *v, struct err *e)
{
	return !in_vocab(h, v->id) || ev_texts_keep(&h->texts, v) ? 0 : no_memory(h, e);
}

/* ---- requests ---- */

static int begin_take(struct history *h, struct history_request *r, int32_t at, struct err *e)
{
	if (!ARRAY_ROOM(r->take, r->cap_takes, r->n_takes + 1))
		return no_memory(h, e);
	r->take[r->n_takes++] = (struct history_take){ .first = r->n_rows, .at = at };
	return 0;
}

static bool copy_prompt(const struct history *h, struct history_request *r, struct ev_span prompt)
{
	r->n_prompt = (int32_t)(prompt.size / sizeof *r->prompt);
	r->prompt = malloc(prompt.size + 1);
	if (!r->prompt)
		return false;
	if (r->n_prompt)
		memcpy(r->prompt, prompt.data, (size_t)r->n_prompt * sizeof *r->prompt);
	for (int32_t i = 0; i < r->n_prompt; i++)
		if (!in_vocab(h, r->prompt[i]))
			broke(r, "its prompt holds an id that the vocabulary has not", i);
	if (prompt.size % sizeof *r->prompt || !r->n_prompt)
		broke(r, "its prompt is not a list of token ids", 0);
	return true;
}

static int32_t in_range(int64_t v, const struct setting *row)
{
	return (int32_t)clamp(v == EV_NULL_I ? 0 : v, row->low, row->high);
}

/* A number that a setting cannot have is the nearest that it can. Of an engine's request a seed
 * that looks absent is the one whose number means that. */
static struct sample_params params_of(const struct history *h, const struct ev_request *q)
{
	struct sample_params p;

#define READ_INT(v, row) in_range(v, row)
#define READ_FLOAT(v, row) (isnan(v) ? 0 : (float)(v))
#define READ_U64(v, row) (uint64_t)(h->attached && (v) == EV_NULL_I ? 0 : (v))
#define READ_BIAS(v, row) sample_bias_of(v)
#define SAMPLE(type, field, ...)                                                                   \
	p.field = READ_##type(q->field, &answer_settings[ANSWER_AT_##field]);
#include "engine/settings/settings.def"
	return p;
}

static bool copy_texts(struct history_request *r, const struct ev_request *q)
{
	r->text = copy_text(q->text);
	r->user = copy_text(q->user);
	r->stop = copy_text(q->stop);
	r->spec = copy_text(q->spec);
	r->grammar = copy_text(q->grammar);
	r->adapter = q->adapter.size ? copy_text(q->adapter) : strdup("off");
	r->why = strdup("");
	return r->text && r->user && r->stop && r->spec && r->grammar && r->adapter && r->why;
}

static int on_request(struct history *h, int64_t seq, const struct ev_request *q, struct err *e)
{
	struct history_request *r;

	if (h->n_requests && q->request <= h->request[h->n_requests - 1].number)
		return err_set(e, ERR_INPUT,
			"%s: a damaged recording: request %lld comes after request %lld", h->path,
			(long long)q->request, (long long)h->request[h->n_requests - 1].number);
	if (!ARRAY_ROOM(h->request, h->cap_requests, h->n_requests + 1))
		return no_memory(h, e);
	r = &h->request[h->n_requests++];
	*r = (struct history_request){ .number = q->request,
		.seq = seq,
		.finish = -1,
		.kind = (enum ev_code_request_kind)clamp(q->kind, 0, EV_N_request_kind),
		.parent = q->parent > 0 ? q->parent : 0,
		.params = params_of(h, q),
		.sample = q->sample == EV_NULL_I ? 0 : q->sample,
		.max_tokens = q->max_tokens,
		.forced_pos = -1,
		.priority = in_range(q->priority, &answer_settings[ANSWER_AT_priority]),
		.deadline = in_range(q->deadline, &answer_settings[ANSWER_AT_deadline]),
		.bound_from = (int32_t)(q->bound_from > 0 ? clamp(q->bound_from, 1, INT32_MAX) : 0) };
	if (!copy_prompt(h, r, q->prompt) || !copy_texts(r, q))
		return no_memory(h, e);
	r->cut = q->n_prompt != r->n_prompt && r->n_prompt == EV_PROMPT_REFUSED;
	if (q->n_prompt != r->n_prompt)
		broke(r, "its prompt is not of the length it says", r->n_prompt);
	if (r->kind == EV_REQUEST_KIND_verify) /* of a verification itself */
		broke(r, "the tokens it was given are not recorded", r->n_prompt);
	r->n = r->longest = r->n_prompt;
	return begin_take(h, r, r->n_prompt, e);
}

static int on_finish(struct history *h, const struct ev_finish *f, struct err *e)
{
	struct history_request *r = history_request(h, f->request);

	if (!r)
		return 0;
	r->finish = (int)clamp(f->reason, 0, EV_N_finish);
	free(r->why);
	r->why = copy_text(f->why);
	if (!r->why)
		return no_memory(h, e);
	if (r->finish == EV_FINISH_refused && r->cut && !r->n_rows)
		r->broken[0] = '\0';
	if (r->kind != EV_REQUEST_KIND_score && f->generated != r->n - r->n_prompt)
		broke(r, "tokens are missing", r->n);
	if (r->kind == EV_REQUEST_KIND_score && r->finish == EV_FINISH_end &&
		r->n_rows != r->n_prompt - 1)
		broke(r, "scored tokens are missing", r->n_rows + 1);
	return 0;
}

/* Answers of diffusion models, and where they would end. */
static void on_denoise(struct history *h, const struct ev_denoise *d)
{
	struct history_request *r = history_request(h, d->request);
	const int64_t most = r ? (int64_t)r->n_prompt + EV_DENOISED_MOST : 0;
	const int64_t end = clamp(d->pos, -1, most + 1) + clamp(d->tokens, -1, most + 1);

	if (!r || end <= r->n_prompt || end > most)
		return;
	r->denoised = true;
	r->longest = end > r->longest ? (int32_t)end : r->longest;
}

/* ---- their rows ---- */

/* The request of a row. One without a request cannot be computed again, and is counted. */
static struct history_request *whose(struct history *h, int64_t request)
{
	struct history_request *r = history_request(h, request);

	if (!r && !h->n_orphans++)
		h->orphan = request;
	return r;
}

static int add_row(
	struct history *h, struct history_request *r, const struct history_row *row, struct err *e)
{
	if (!ARRAY_ROOM(r->row, r->cap_rows, r->n_rows + 1))
		return no_memory(h, e);
	r->row[r->n_rows++] = *row;
	r->take[r->n_takes - 1].n++;
	return 0;
}

/* Whether a token is marked as not computed here without what makes it so: it was put where the
 * request went back to, or stood in the session that this one continues. */
static bool is_misgiven(
	const struct history *h, const struct history_request *r, const struct ev_token *t)
{
	const bool put =
		t->source == EV_SOURCE_forced && r->n_takes > 1 && r->take[r->n_takes - 1].n == 0;

	return ev_is_given(t->source) && !put && !history_setting(h, "continues", r->seq);
}

/* Whether a token follows those that the request has. */
static bool follows(const struct history *h, struct history_request *r, const struct ev_token *t)
{
	if (r->kind == EV_REQUEST_KIND_score)
		broke(r, "tokens were drawn for a given text", t->pos);
	else if (is_misgiven(h, r, t))
		broke(r, "a token is marked as given, and nothing gave it", t->pos);
	else if (t->pos != r->n || r->n >= MAX_TOKENS)
		broke(r, t->pos > r->n ? "tokens are missing" : "a token comes twice", r->n);
	else if (!in_vocab(h, t->id))
		broke(r, "a token's id is not in the vocabulary", t->pos);
	return !r->broken[0];
}

static int on_token(struct history *h, int64_t seq, const struct ev_token *t, struct err *e)
{
	struct history_request *r = whose(h, t->request);

	if (!r || !follows(h, r, t))
		return 0;
	r->n++;
	r->longest = r->n > r->longest ? r->n : r->longest;
	return add_row(h, r,
		&(struct history_row){ .seq = seq,
			.step = t->step,
			.hash = t->hash,
			.p = t->p,
			.p_draw = t->p_draw,
			.entropy = t->entropy,
			.survivors = t->survivors,
			.id = (int32_t)t->id,
			.pos = (int32_t)t->pos,
			.source = (uint8_t)clamp(t->source, 0, EV_N_source),
			.by_rejection = h->by_rejection.request == r->number && h->by_rejection.pos == t->pos,
			.is_end = t->is_end == 1 },
		e);
}

/* A draft's verdict comes right before the token that results from it. */
static void on_draft(struct history *h, const struct ev_draft *d)
{
	if (d->rule != EV_RULE_rejection || d->verdict == EV_VERDICT_discarded)
		return;
	h->by_rejection.request = d->request;
	h->by_rejection.pos = d->pos;
}

/* Score events have no step number: it is that of the next step. INT64_MAX: it was cut off. */
static int64_t step_after(struct history *h, int64_t seq)
{
	struct event ev;

	if (seq > h->scored.step_seq) {
		const bool found = reader_step_from(h->reader, seq, &ev, &(struct err){ 0 }) == 1;

		h->scored.step_seq = found ? ev.seq : INT64_MAX;
		h->scored.step = found ? ev.u.step.step : INT64_MAX;
	}
	return h->scored.step;
}

/* A row of the prompt's token at pos: nothing was drawn. */
static int add_given(struct history *h, struct history_request *r, int64_t seq, int64_t hash,
	double p, int32_t pos, struct err *e)
{
	return add_row(h, r,
		&(struct history_row){ .seq = seq,
			.step = step_after(h, seq),
			.hash = hash,
			.p = p,
			.p_draw = (double)NAN,
			.entropy = (double)NAN,
			.survivors = EV_NULL_I,
			.id = r->prompt[pos],
			.pos = pos },
		e);
}

static int on_score(struct history *h, int64_t seq, const struct ev_score *s, struct err *e)
{
	struct history_request *r = whose(h, s->request);

	if (!r || r->broken[0])
		return 0;
	if (r->kind != EV_REQUEST_KIND_score || s->pos != r->n_rows + 1 || s->pos >= r->n_prompt) {
		broke(r, "scored tokens are missing", r->n_rows + 1);
		return 0;
	}
	if (s->id != r->prompt[s->pos]) {
		broke(r, "a scored token is not that of the text", s->pos);
		return 0;
	}
	r->take[0].at = 1;
	return add_given(h, r, seq, s->hash, s->logp, (int32_t)s->pos, e);
}

/* A text's vector is the one row of its request, of the last token. */
static int on_embedding(struct history *h, int64_t seq, const struct ev_embedding *v, struct err *e)
{
	struct history_request *r = whose(h, v->request);

	if (!r || r->broken[0])
		return 0;
	if (r->kind != EV_REQUEST_KIND_embed || r->n_rows) {
		broke(r, "a vector comes twice, or of no text", r->n_prompt);
		return 0;
	}
	r->take[0].at = r->n_prompt - 1;
	r->pooling = (enum ev_code_pooling)clamp(v->pooling, 0, EV_N_pooling - 1);
	return add_given(h, r, seq, v->hash, (double)NAN, r->n_prompt - 1, e);
}

static int on_rewind(struct history *h, const struct ev_rewind *w, struct err *e)
{
	struct history_request *r = history_request(h, w->request);

	if (!r || r->broken[0])
		return 0;
	if (w->had != r->n || w->kept < r->n_prompt || w->kept > r->n) {
		broke(r, "it goes back from where it is not", r->n);
		return 0;
	}
	r->n = (int32_t)w->kept;
	return begin_take(h, r, r->n, e);
}

static void on_fork(struct history *h, const struct ev_fork *f)
{
	struct history_request *r = history_request(h, f->request);

	if (r && f->forced != EV_NULL_I)
		r->forced_pos = f->pos;
}

/* ---- all of it ---- */

int history_event(struct history *h, const struct event *ev, struct err *e)
{
	switch (ev->kind) {
	case EV_session: return on_session(h, &ev->u.session, e);
	case EV_attached: h->attached = true; break;
	case EV_setting: return on_setting(h, ev->seq, &ev->u.setting, e);
	case EV_adapter: return on_adapter(h, &ev->u.adapter, e);
	case EV_vocab: return on_vocab(h, &ev->u.vocab, e);
	case EV_request: return on_request(h, ev->seq, &ev->u.request, e);
	case EV_token: return on_token(h, ev->seq, &ev->u.token, e);
	case EV_draft: on_draft(h, &ev->u.draft); break;
	case EV_score: return on_score(h, ev->seq, &ev->u.score, e);
	case EV_embedding: return on_embedding(h, ev->seq, &ev->u.embedding, e);
	case EV_rewind: return on_rewind(h, &ev->u.rewind, e);
	case EV_fork: on_fork(h, &ev->u.fork); break;
	case EV_denoise: on_denoise(h, &ev->u.denoise); break;
	case EV_finish: return on_finish(h, &ev->u.finish, e);
	case EV_closed: h->closed = true; break;
	default: break;
	}
	return 0;
}

int history_end(struct history *h, struct err *e)
{
	if (!h->model_path)
		return err_set(e, ERR_INPUT, "%s: nothing was recorded: it has no session row", h->path);
	if (!h->attached && h->vocab == EV_NULL_I) /* sessions/study */
		return err_set(e, ERR_USAGE,
			"%s: a training, or a file that was changed: no engine answered there. cutaway replay "
			"shows it",
			h->path);
	if (!h->attached && (h->vocab < 1 || h->vocab > MAX_VOCAB))
		return err_set(e, ERR_INPUT, "%s: a damaged recording: a vocabulary of %lld", h->path,
			(long long)h->vocab);
	return 0;
}
