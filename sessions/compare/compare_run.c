/* See compare_run.h. */
#include "sessions/compare/compare_run.h"

#include <stdlib.h>
#include <string.h>

void compare_sink(void *arg, const struct event *ev)
{
	const struct compare_sink *s = arg;

	if (s->lock)
		pthread_mutex_lock(s->lock);
	compare_fold(s->c, s->side, ev);
	if (s->lock)
		pthread_mutex_unlock(s->lock);
}

/* ---- one answer ---- */

/* Setting a value anew applies it anew. */
static int set_again(struct engine *engine, const char *name, struct err *e)
{
	char value[512];

	engine_get(engine, name, value, sizeof value);
	return strcmp(value, "off") != 0 ? engine_set(engine, name, value, e) : 0;
}

int compare_fresh(struct engine *engine, struct err *e)
{
	char cache[8];

	engine_get(engine, "prefix-cache", cache, sizeof cache);
	if (!strcmp(cache, "on") && (engine_set(engine, "prefix-cache", "off", e) ||
									engine_set(engine, "prefix-cache", "on", e)))
		return -1;
	return set_again(engine, "spec", e);
}

void compare_mark(
	struct engine *engine, int side, enum compare_phase phase, int64_t from, const char *label)
{
	static const char *const names[] = { "", "warm-up", "run", "score" };
	char value[COMPARE_LABEL + 40] = "off";

	if (phase == COMPARE_SCORE)
		snprintf(value, sizeof value, "%c score %lld: %s", 'A' + side, (long long)from, label);
	else if (phase)
		snprintf(value, sizeof value, "%c %s: %s", 'A' + side, names[phase], label);
	engine_note_setting(engine, COMPARE_MARK, value);
}

/* Steps until nothing runs. The recording is written before the other side's turn. */
static int finish(const struct compare_plan *p, int side, int64_t request, struct err *e)
{
	struct session *s = p->session[side];
	int more = 1;

	while (more > 0 && !engine_idle(s->engine)) {
		if (atomic_load(p->stop))
			engine_cancel(s->engine, request);
		more = engine_step(s->engine, e);
	}
	if (more < 0)
		return -1;
	if (s->writer)
		writer_flush(s->writer);
	return atomic_load(p->stop) ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

static int submit(
	const struct compare_plan *p, int side, const struct engine_request *q, struct err *e)
{
	const int64_t request = engine_submit(p->session[side]->engine, q, e);

	return request < 0 ? -1 : finish(p, side, request, e);
}

/* The answer must have ended in a way that can be compared. */
static int check_answer(const struct compare *c, int side, const char *text, struct err *e)
{
	const struct compare_side *s = &c->side[side];
	const struct compare_answer *a = s->n_answers ? &s->answer[s->n_answers - 1] : NULL;

	if (compare_check(c, NULL, e))
		return -1;
	if (a && a->over && a->finish == EV_FINISH_refused)
		return err_set(
			e, ERR_USAGE, "%c: the prompt '%.60s' does not fit: %s", 'A' + side, text, a->why);
	if (a && a->over && a->finish == EV_FINISH_failed)
		return err_set(e, ERR_INPUT,
			"%c: the arithmetic gave a NaN: the weights are damaged, or made so", 'A' + side);
	return 0;
}

static int answer(
	const struct compare_plan *p, struct compare *c, int side, int prompt, int run, struct err *e)
{
	struct engine *engine = p->session[side]->engine;
	const struct compare_prompt *t = &p->prompt[prompt];
	struct engine_request q = engine_answer_request(p->answer[side]);

	q.kind = EV_REQUEST_KIND_run;
	q.ids = t->ids[side];
	q.n_ids = (int32_t)t->n_ids[side];
	q.text = t->text;
	if (compare_fresh(engine, e))
		return -1;
	compare_mark(engine, side, run < 0 ? COMPARE_WARM_UP : COMPARE_RUN, 0, p->label[side]);
	if (p->report)
		p->report(p->arg, prompt, run, side);
	return submit(p, side, &q, e) ? -1 : check_answer(c, side, t->text, e);
}

/* ---- A's answers, under both ---- */

static bool same_tokens(const struct engine *a, const struct engine *b)
{
	const struct tokenizer *x = engine_tokenizer(a), *y = engine_tokenizer(b);
	const int32_t n = tokenizer_n_vocab(x);

	if (n != tokenizer_n_vocab(y))
		return false;
	for (int32_t i = 0; i < n; i++) {
		const struct gguf_text s = tokenizer_bytes(x, i), t = tokenizer_bytes(y, i);

		if (s.size != t.size || (s.size && memcmp(s.data, t.data, s.size) != 0))
			return false;
	}
	return true;
}

static const struct compare_answer *first_answer(const struct compare_side *s, const char *text)
{
	for (int i = 0; i < s->n_answers; i++)
		if (s->answer[i].counted && s->answer[i].over && !strcmp(s->answer[i].text, text))
			return &s->answer[i];
	return NULL;
}

/* A's answer after the side's own prompt. */
static int score(const struct compare_plan *p, const struct compare_answer *a, int side,
	const struct compare_prompt *t, struct err *e)
{
	struct engine *engine = p->session[side]->engine;
	const size_t from = t->n_ids[side], n = from + (size_t)a->n;
	int32_t *ids = malloc(n * sizeof *ids);
	struct engine_request q;
	int rc;

	if (!ids)
		return err_no_memory(e, "a text of %zu tokens", n);
	memcpy(ids, t->ids[side], from * sizeof *ids);
	memcpy(ids + from, a->id, (size_t)a->n * sizeof *ids);
	q = engine_own_request(EV_REQUEST_KIND_score, ids, (int32_t)n, 0, t->text);
	compare_mark(engine, side, COMPARE_SCORE, (int64_t)from, p->label[side]);
	rc = submit(p, side, &q, e);
	free(ids);
	return rc;
}

static int score_all(const struct compare_plan *p, const struct compare *c, struct err *e)
{
	if (!same_tokens(p->session[0]->engine, p->session[1]->engine))
		return 0;
	for (int i = 0; i < p->n_prompts; i++) {
		const struct compare_answer *a = first_answer(&c->side[0], p->prompt[i].text);

		for (int side = 0; a && a->n && side < 2; side++)
			if (!engine_info(p->session[side]->engine)->diffusion &&
				score(p, a, side, &p->prompt[i], e))
				return -1;
	}
	return 0;
}

int compare_run(const struct compare_plan *p, struct compare *c, struct err *e)
{
	int rc = 0;

	for (int prompt = 0; prompt < p->n_prompts; prompt++)
		for (int run = -1; !rc && run < p->repeat; run++)
			for (int turn = 0; !rc && turn < 2; turn++)
				rc = answer(p, c, (turn + run + 1) & 1, prompt, run, e);
	rc = rc ? rc : score_all(p, c, e);
	for (int side = 0; side < 2; side++) {
		compare_mark(p->session[side]->engine, side, COMPARE_OTHER, 0, "");
		if (p->session[side]->writer)
			writer_flush(p->session[side]->writer);
	}
	return rc;
}
