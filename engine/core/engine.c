/* Opens and closes an engine, submits and cancels requests. See engine.h; a step is in
 * engine_step.c. */
#include "engine/core/engine.h"

#include <assert.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

static void vocab_text(const void *tokenizer, int64_t id, struct ev_vocab *out)
{
	struct gguf_text text = tokenizer_bytes(tokenizer, (int32_t)id);

	out->bytes = (struct ev_span){ text.data ? text.data : "", text.size };
	out->special = tokenizer_is_special(tokenizer, (int32_t)id);
}

static int open_parts(struct engine *e, const struct engine_options *o, struct err *err)
{
	int32_t max_blocks = (e->info.ctx + K_GROUP - 1) / K_GROUP + 1, max_out, pages;

	e->prefix.on = engine_keeps_prefixes(e, o);
	if (engine_set_format(e, o, err))
		return -1;
	e->specs.keep = !o->give_back;
	pages = o->pages ? o->pages : engine_default_pages(e, o);
	if (engine_open_pages(e, o->page_size, pages, err) ||
		stream_open(&e->stream, e->tokenizer ? e->info.vocab : 0, vocab_text, e->tokenizer, err) ||
		sched_open(&e->sched, &e->memory, &e->prefix, &e->stream, o->slots, err))
		return -1;
	max_out = o->slots * (1 + DRAFT_MAX);
	if (max_out < ENGINE_SCORE_ROWS)
		max_out = ENGINE_SCORE_ROWS;
	if (e->form && e->form->max_out)
		max_out = e->form->max_out;
	e->sched.max_out = max_out;
	e->sched.plan_first = e->form ? e->form->plan_first : NULL;
	e->sched.budget = o->budget;
	e->sched.chunk = o->prefill_chunk;
	e->plan.item = calloc((size_t)o->slots, sizeof *e->plan.item);
	e->draft.jobs = calloc((size_t)o->slots, sizeof *e->draft.jobs);
	e->draft.seen = calloc((size_t)o->slots, sizeof *e->draft.seen);
	e->draft.branch = calloc(ENGINE_SCRATCH_PAGES, sizeof *e->draft.branch);
	e->draft.seen_row = calloc(ENGINE_MAX_BUDGET, sizeof *e->draft.seen_row);
	e->draft.seen_top = calloc((size_t)o->slots, (DRAFT_NODES + 1) * sizeof *e->draft.seen_top);
	for (int i = 0; e->draft.branch && i < ENGINE_SCRATCH_PAGES; i++)
		if (memory_table_open(&e->draft.branch[i], max_blocks + DRAFT_MAX))
			return err_no_memory(err, "block tables");
	if (!e->plan.item || !e->draft.jobs || !e->draft.seen || !e->draft.branch ||
		!e->draft.seen_row || !e->draft.seen_top)
		return err_no_memory(err, "%d slots", o->slots);
	return e->compute->open_steps(e, o, max_out, err);
}

static int open_hooks(struct engine *e, struct err *err)
{
	for (int i = 0; step_hooks_table[i]; i++) {
		struct engine_hook *h = &e->hook[e->n_hooks];

		assert(e->n_hooks < STEP_HOOKS_MOST);
		h->ops = step_hooks_table[i];
		e->n_hooks++;
		if (h->ops->size && !(h->state = calloc(1, h->ops->size)))
			return err_no_memory(err, "the hook %s", h->ops->name);
		if (h->ops->open && h->ops->open(e, &h->state, err))
			return -1;
	}
	return 0;
}

static void close_hooks(struct engine *e)
{
	for (int i = e->n_hooks - 1; i >= 0; i--) {
		struct engine_hook *h = &e->hook[i];

		if (h->ops->close && (h->state || !h->ops->size))
			h->ops->close(e, h->state);
		if (h->ops->size)
			free(h->state);
		h->state = NULL;
	}
	e->n_hooks = 0;
}

void *engine_hook_state(const struct engine *e, const struct step_hooks *ops)
{
	for (int i = 0; i < e->n_hooks; i++)
		if (e->hook[i].ops == ops)
			return e->hook[i].state;
	return NULL;
}

/* Opens what the settings in e->set require. */
static int open_all(struct engine *e, struct err *err)
{
	struct engine_options *o = &e->set;

	e->info.slots = o->slots;
	e->compute = o->given ? &compute_given : &compute_model;
	if (engine_adapters_check(e, o, err) || engine_handover_check(o, err) ||
		engine_ranks_open(e, o, err) || e->compute->open(e, o, err))
		return -1;
	for (int i = 0; request_forms[i]; i++)
		if (request_forms[i]->of(e))
			e->form = request_forms[i];
	engine_fit_steps(o, e->kernels && !k_is_host(e->kernels));
	if (o->abandon && atomic_load(o->abandon))
		return err_set(err, ERR_INTERRUPTED, "the opening of %s was stopped", o->model);
	/* the other ranks have applied all settings when they meet, and steps are measured before this
	 * one has: a setting that changes which ops there are goes first */
	if (open_parts(e, o, err) || open_hooks(e, err) || engine_apply_skip(e, o, err) ||
		engine_apply_visible(e, o, err) || engine_ranks_meet(e, err) ||
		(o->counted_cost && engine_need_cost(e, DRAFT_COST_ROWS, err)) ||
		engine_apply_settings(e, err) || engine_ranks_ready(e, err) ||
		engine_handover_ready(e, err))
		return -1;
	o->model = e->model_path;
	o->isa = e->info.isa;
	o->threads = e->info.threads;
	o->ctx = e->info.ctx;
	o->date = e->date;
	o->pages = e->memory.pages[e->memory.primary].n_pages;
	o->abandon = NULL;
	return 0;
}

/* The day of the setting, or this one's where the machine stands; noon in UTC, so that no zone of
 * time makes another day of it. */
static int read_date(struct engine *e, struct err *err)
{
	const char *date = e->set.date;
	time_t now = time(NULL);
	struct tm day = { 0 };
	const char *end = date ? strptime(date, "%Y-%m-%d", &day) : NULL;
	const int month = day.tm_mon;

	if (!date && !localtime_r(&now, &day))
		return err_set(err, ERR_IO, "the system has no date; give --date");
	day.tm_hour = 12;
	day.tm_min = day.tm_sec = day.tm_isdst = 0;
	e->info.now = timegm(&day); /* to it 30 February is a day of March */
	if (date && (!end || *end || strlen(date) != 10 || day.tm_mon != month))
		return err_set(err, ERR_USAGE, "date %.40s: a day is needed, as 2026-07-31", date);
	strftime(e->date, sizeof e->date, "%Y-%m-%d", &day);
	return 0;
}

int engine_open(struct engine **out, const struct engine_options *o, struct err *err)
{
	struct engine *e;
	struct err own = { 0 };

	*out = NULL;
	if (!err)
		err = &own; /* loading reads it to see whether something failed */
	if (!o->model && !o->given)
		return err_set(err, ERR_USAGE, "no model file is given; use --model FILE, or `make model`");
	e = calloc(1, sizeof *e);
	if (!e)
		return err_no_memory(err, "the engine");
	e->measure.counted = o->counted_cost;
	if (!engine_check_options(o, &e->set, err) && !read_date(e, err) && !open_all(e, err)) {
		*out = e;
		return 0;
	}
	engine_close(e);
	return -1;
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	close_hooks(e);
	if (e->begun)
		STREAM_EMIT(&e->stream, closed, .steps = e->n_steps);
	e->begun = false;
	engine_close_draft(e); /* it may hold memory of the kernels */
	sched_close(&e->sched);
	constraints_close(&e->constraints);
	stream_close(&e->stream);
	engine_close_pages(e);
	if (e->compute)
		e->compute->close(e);
	free(e->plan.item);
	free(e->draft.jobs);
	free(e->draft.seen);
	for (int i = 0; e->draft.branch && i < ENGINE_SCRATCH_PAGES; i++)
		memory_table_close(&e->draft.branch[i]);
	free(e->draft.branch);
	free(e->draft.seen_row);
	free(e->draft.seen_top);
	free(e->model_sha256);
	free(e->lora);
	free(e);
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}

struct chat_input engine_chat(const struct engine *e)
{
	return (struct chat_input){ .c = e->info.chat, .t = e->tokenizer, .now = e->info.now };
}

struct engine_state engine_state(const struct engine *e)
{
	return (struct engine_state){ .pages = e->memory.pages[e->memory.primary].n_pages,
		.page_size = e->memory.page_size,
		.page_bytes = e->memory.pages[e->memory.primary].page_bytes,
		.unseen_from = memory_unseen_from(&e->memory) };
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
	return e->tokenizer;
}

int engine_add_sink(struct engine *e, ev_sink *sink, void *arg)
{
	return stream_add(&e->stream, sink, arg);
}

void engine_begin(struct engine *e, const char *model_sha256)
{
	assert(!e->begun);
	stream_begin(&e->stream);
	e->begun = true;
	free(e->model_sha256);
	e->model_sha256 = model_sha256 ? strdup(model_sha256) : NULL;
	engine_emit_session(e);
	engine_emit_memory(e);
	engine_emit_products(e);
	engine_emit_adapters(e);
	engine_ranks_emit(e);
	engine_emit_settings(e);
	for_hooks(e, h, begun) h->ops->begun(e, h->state);
}

int engine_hash_model(
	const struct engine *e, const atomic_bool *stop, char out[SHA256_HEX], struct err *err)
{
	return file_sha256_of(e->model_path, &e->model->weights.stamp, stop, out, err);
}

bool engine_idle(const struct engine *e)
{
	if (e->sched.n_running || e->sched.n_queue)
		return false;
	for_hooks(e, h, busy) if (h->ops->busy(e, h->state)) return false;
	return true;
}

int64_t engine_steps(const struct engine *e)
{
	return e->n_steps;
}

/* ---- requests ---- */

/* --ctx helps up to what the model was made for; beyond it positions must count inside the cache.
 */
static void say_too_long(const struct engine *e, int32_t need, char why[ENGINE_WHY])
{
	const int32_t made = e->model ? e->model->config.ctx_train : need;
	const int n =
		snprintf(why, ENGINE_WHY, "%d tokens do not fit a context of %d; ", need, e->info.ctx);

	if (need <= made)
		snprintf(why + n, ENGINE_WHY - (size_t)n, "see --ctx");
	else if (!model_turns(e->model))
		snprintf(why + n, ENGINE_WHY - (size_t)n, "this model was made for %d", made);
	else
		snprintf(why + n, ENGINE_WHY - (size_t)n,
			"this model was made for %d: --ctx %d --visible stream:4+window:%d goes beyond", made,
			need, made - 4);
}

/* Says why a request can never fit, or returns false. */
static bool never_fits(const struct engine *e, const struct request *r, char why[ENGINE_WHY])
{
	const bool draws = !r->how->given && r->kind != EV_REQUEST_KIND_embed;
	const int32_t need = r->n_ids + draws;
	const char *form = e->form && e->form->never_fits ? e->form->never_fits(r) : "";

	if (e->lost.code)
		snprintf(why, ENGINE_WHY, "%s", e->lost.text);
	else if (*form)
		snprintf(why, ENGINE_WHY, "%s", form);
	else if (need > e->info.ctx)
		say_too_long(e, need, why);
	else
		return sched_never_fits(&e->sched, r, why);
	return true;
}

static int check_sampling(const struct engine *e, const struct engine_request *q, struct err *err)
{
	const struct sample_bias *b = &q->params.logit_bias;

	for (int32_t i = 0; i < b->n; i++)
		if (b->entry[i].id >= (uint32_t)e->info.vocab)
			return err_set(err, ERR_USAGE, "logit-bias: token id %u is not in the vocabulary of %d",
				b->entry[i].id, e->info.vocab);
	if (q->top < 0 || q->top > SAMPLE_TOP)
		return err_set(err, ERR_USAGE, "at most %d candidates of a row can be told", SAMPLE_TOP);
	return 0;
}

static int check_ids(const struct engine *e, const struct engine_request *q, struct err *err)
{
	if (q->n_ids < 1)
		return err_set(err, ERR_USAGE, "the prompt is empty; a request needs at least one token");
	if (q->kind == EV_REQUEST_KIND_score && q->n_ids < 2)
		return err_set(err, ERR_USAGE,
			"a text of one token has nothing to score: its first token follows nothing");
	if (q->kind == EV_REQUEST_KIND_verify && (q->n_prompt < 1 || q->n_prompt >= q->n_ids))
		return err_set(err, ERR_USAGE, "a prompt of %d of %d tokens leaves nothing to verify",
			q->n_prompt, q->n_ids);
	if (q->pin < (q->kind == EV_REQUEST_KIND_pin) || q->pin > q->n_ids || q->pin_ttl_ns < 0 ||
		(q->pin && q->kind == EV_REQUEST_KIND_score))
		return err_set(err, ERR_USAGE, "a pin of %d tokens of %d", q->pin, q->n_ids);
	if (q->parent && (q->fork_pos < 0 || q->fork_pos + q->forced > q->n_ids))
		return err_set(err, ERR_USAGE, "a fork at position %d of %d tokens", q->fork_pos, q->n_ids);
	for (int32_t i = 0; i < q->n_ids; i++)
		if (q->ids[i] < 0 || q->ids[i] >= e->info.vocab)
			return err_set(err, ERR_USAGE, "token id %d is not in the vocabulary of %d", q->ids[i],
				e->info.vocab);
	return 0;
}

static int64_t submit(struct engine *e, const struct engine_request *q,
	const struct request_owner *owner, void *data, struct request **out, struct err *err)
{
	struct request *r = request_new(q, e->info.ctx, &e->memory);
	int64_t id = e->n_requests + 1;
	char why[ENGINE_WHY] = "";

	if (!r)
		return err_no_memory(err, "a request of %d tokens", q->n_ids);
	if ((e->form && e->form->open(e, r, err)) || engine_bind(e, q, owner, r, err) ||
		engine_adapt(e, q, r, err)) {
		request_free(r);
		return -1;
	}
	sched_pins_expire(&e->sched);
	r->id = e->n_requests = id;
	r->arrival_ns = stream_now(&e->stream);
	r->pooling = (enum ev_code_pooling)(q->pooling - 1);
	engine_emit_request(e, r, never_fits(e, r, why));
	if (q->parent && q->fork_pos)
		engine_emit_fork(e, r, q);
	if (!*why && sched_add(&e->sched, r, err)) {
		snprintf(why, sizeof why, "no memory");
		id = -1;
	}
	if (*why) {
		engine_emit_finish(e, r, EV_FINISH_refused, why);
		request_free(r);
		return id;
	}
	r->owner = owner;
	r->owner_data = data;
	for_hooks(e, h, submitted) if (h->ops->submitted(e, h->state, r, q)) return id;
	if (out)
		*out = r;
	return id;
}

int64_t engine_submit_owned(struct engine *e, const struct engine_request *q,
	const struct request_owner *owner, void *data, struct request **out, struct err *err)
{
	struct engine_request own = *q;
	int32_t *ids = NULL;
	int64_t id = -1;

	if (!(e->form && e->form->vet(e, &own, owner, &ids, err)) && !check_ids(e, &own, err) &&
		!check_sampling(e, &own, err) && !engine_check_pooling(e, &own, err))
		id = submit(e, &own, owner, data, out, err);
	free(ids);
	return id;
}

int64_t engine_submit(struct engine *e, const struct engine_request *q, struct err *err)
{
	return engine_submit_owned(e, q, NULL, NULL, NULL, err);
}

static void emit_noted(struct engine *e, struct request *r, const struct ev_token *token, int32_t n)
{
	for (; n > 0; n--, token++) {
		struct event ev = { .kind = EV_token, .u.token = *token };

		stream_vocab(&e->stream, (int32_t)token->id);
		ev.u.token.step = e->n_steps;
		ev.u.token.request = r->id;
		ev.u.token.pos = r->n_ids++;
		ev.u.token.is_end = engine_is_end(e, (int32_t)token->id);
		stream_emit(&e->stream, &ev);
	}
}

int64_t engine_note_answer(struct engine *e, const struct engine_request *q,
	const struct ev_token *token, int32_t n, enum ev_code_finish reason, int64_t arrival_ns,
	struct err *err)
{
	struct request *r;

	for (int32_t i = 0; i < n; i++)
		if (token[i].id < 0 || token[i].id >= e->info.vocab)
			return err_set(err, ERR_USAGE, "token id %lld is not in the vocabulary of %d",
				(long long)token[i].id, e->info.vocab);
	if (check_ids(e, q, err))
		return -1;
	if (q->n_ids + n > e->info.ctx)
		return err_set(err, ERR_USAGE,
			"an answer up to position %d: the context holds %d; see --ctx", q->n_ids + n,
			e->info.ctx);
	r = request_new(q, e->info.ctx, &e->memory);
	if (!r)
		return err_no_memory(err, "an answer of %d tokens", n);
	if (engine_adapt(e, q, r, err)) {
		request_free(r);
		return -1;
	}
	r->id = ++e->n_requests;
	r->arrival_ns = arrival_ns == EV_NULL_I ? stream_now(&e->stream) : arrival_ns;
	r->last_step = e->n_steps;
	engine_emit_request(e, r, false);
	emit_noted(e, r, token, n);
	engine_emit_finish(e, r, reason, NULL);
	request_free(r);
	return e->n_requests;
}

bool engine_cancel(struct engine *e, int64_t request)
{
	struct request *r = sched_find(&e->sched, request);

	if (!r)
		return false;
	STREAM_EMIT(&e->stream, cancel, .request = request);
	engine_finish(e, r, EV_FINISH_cancelled, NULL);
	return true;
}

void engine_note_setting(struct engine *e, const char *name, const char *value)
{
	STREAM_EMIT(&e->stream, setting, .name = ev_text(name), .value = ev_text(value));
}

void engine_note(struct engine *e, struct event *ev)
{
	stream_emit(&e->stream, ev);
}

void engine_note_trim(struct engine *e, int64_t request, int64_t tokens, int64_t turns)
{
	STREAM_EMIT(&e->stream, trim, .request = request, .tokens = tokens, .turns = turns);
}
