/* See compare.h: the fold. */
#include "sessions/compare/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/find.h"
#include "trace/reader.h"

/* ---- marks ---- */

static enum compare_phase phase_of(const char *word)
{
	static const char *const names[] = { "", "warm-up", "run", "score" };

	for (int i = COMPARE_WARM_UP; i <= COMPARE_SCORE; i++)
		if (!strcmp(word, names[i]))
			return (enum compare_phase)i;
	return COMPARE_OTHER;
}

static void drop_answers(struct compare_side *s)
{
	for (int k = 0; k < s->n_answers; k++) {
		free(s->answer[k].text);
		free(s->answer[k].id);
		free(s->answer[k].gap);
	}
	free(s->answer);
	s->answer = NULL;
	s->n_answers = s->cap_answers = s->in_step = 0;
	s->logp = 0;
	s->n_scored = 0;
}

/* "A score 37: LABEL"; anything else ends what was marked. side -1: of the mark. */
static void fold_mark(struct compare *c, int side, const char *value)
{
	char letter = 'A', word[16] = "";
	const char *label = strstr(value, ": ");
	long long from = 0;

	if (sscanf(value, "%c %15[a-z-] %lld", &letter, word, &from) < 2 || !label ||
		(letter != 'A' && letter != 'B')) {
		c->side[0].phase = c->side[1].phase = COMPARE_OTHER;
		return;
	}
	c->newest = side < 0 ? letter - 'A' : side;
	struct compare_side *s = &c->side[c->newest];
	if (s->phase == COMPARE_OTHER) /* it begins: what came before is not of it */
		drop_answers(s);
	s->phase = phase_of(word);
	s->score_from = from;
	s->marked = true;
	snprintf(s->label, sizeof s->label, "%s", label + 2);
}

static void fold_setting(struct compare *c, int side, const struct ev_setting *ev)
{
	char value[COMPARE_LABEL + 40];

	if (!ev_is(ev->name, COMPARE_MARK))
		return;
	ev_copy(value, sizeof value, ev->value);
	fold_mark(c, side, value);
}

/* ---- answers ---- */

static bool is_answer(const struct compare_side *s, int side, int64_t kind)
{
	if (s->phase == COMPARE_RUN || s->phase == COMPARE_WARM_UP)
		return true;
	return s->phase == COMPARE_OTHER && side >= 0 && !s->marked &&
		   (kind == EV_REQUEST_KIND_chat || kind == EV_REQUEST_KIND_run ||
			   kind == EV_REQUEST_KIND_load);
}

static void fold_request(struct compare *c, int side, const struct event *ev)
{
	struct compare_side *s = &c->side[side < 0 ? c->newest : side];
	const struct ev_request *q = &ev->u.request;
	const int64_t last = s->n_answers ? s->answer[s->n_answers - 1].request : 0;

	if (s->phase == COMPARE_SCORE)
		s->scored = q->request;
	if (!is_answer(s, side, q->kind) || q->request <= last)
		return;
	if (!ARRAY_ROOM(s->answer, s->cap_answers, s->n_answers + 1)) {
		c->no_memory = true;
		return;
	}
	s->answer[s->n_answers++] = (struct compare_answer){ .request = q->request,
		.text = strndup(q->text.data ? q->text.data : "", q->text.size),
		.n_prompt = q->n_prompt > 0 && q->n_prompt < 1 << 30 ? (int32_t)q->n_prompt : 0,
		.asked_ns = (double)ev->t_ns,
		.counted = s->phase != COMPARE_WARM_UP };
	c->no_memory |= !s->answer[s->n_answers - 1].text;
}

/* Of the first token of a step. */
static void begin_step(struct compare *c, struct compare_answer *a, const struct event *ev)
{
	const double ns = (double)ev->t_ns;

	if (!a->n) {
		a->first_ns = ns;
		a->first_step = ev->u.token.step;
	} else if (ARRAY_ROOM(a->gap, a->cap_gaps, a->n_gaps + 1)) {
		a->gap[a->n_gaps++] = (ns - a->newest_ns) / 1e6;
	} else {
		c->no_memory = true;
	}
	a->newest_ns = ns;
	a->step = ev->u.token.step;
}

static void fold_token(struct compare *c, struct compare_answer *a, const struct event *ev)
{
	if (!ARRAY_ROOM(a->id, a->cap, a->n + 1)) {
		c->no_memory = true;
		return;
	}
	if (!a->n || ev->u.token.step != a->step)
		begin_step(c, a, ev);
	a->id[a->n++] = (int32_t)ev->u.token.id;
	a->n_first += a->step == a->first_step;
}

static void fold_step(struct compare_side *s, const struct ev_step *ev)
{
	struct compare_answer *a;

	if (ev->step != s->step || s->in_step >= s->n_answers)
		return;
	a = &s->answer[s->in_step];
	a->steps++;
	a->rows += (double)ev->rows;
	a->bytes += (double)ev->bytes;
	a->pages = ev->pages_used > a->pages ? ev->pages_used : a->pages;
}

static void fold_finish(struct compare_answer *a, const struct ev_finish *ev)
{
	a->over = true;
	a->finish = (int)ev->reason;
	a->counted &= ev->reason < EV_FINISH_cancelled;
	ev_copy(a->why, sizeof a->why, ev->why);
}

static void fold_session(struct compare_side *s, const struct ev_session *ev)
{
	char backend[16], isa[16];

	s->vocab = ev->vocab;
	ev_copy(s->model, sizeof s->model, ev->model_name);
	ev_copy(backend, sizeof backend, ev->backend);
	ev_copy(isa, sizeof isa, ev->isa);
	snprintf(
		s->machine, sizeof s->machine, "%s %s, %lld threads", backend, isa, (long long)ev->threads);
}

/* Request that the event is of, 0: of none that the fold asks for. */
static int64_t request_of(const struct event *ev)
{
	switch (ev->kind) {
	case EV_batch: return ev->u.batch.request;
	case EV_token: return ev->u.token.request;
	case EV_rewind: return ev->u.rewind.request;
	case EV_finish: return ev->u.finish.request;
	default: return 0;
	}
}

static void fold_answer(struct compare *c, struct compare_side *s, const struct event *ev)
{
	struct compare_answer *a =
		find_number(request_of(ev), s->answer, s->n_answers, sizeof *s->answer);

	if (!a)
		return;
	if (ev->kind == EV_batch) {
		s->step = ev->u.batch.step;
		s->in_step = (int)(a - s->answer);
	} else if (ev->kind == EV_token) {
		fold_token(c, a, ev);
	} else if (ev->kind == EV_rewind) {
		a->counted = false;
	} else if (ev->kind == EV_finish) {
		fold_finish(a, &ev->u.finish);
	}
}

static void fold_side(struct compare *c, struct compare_side *s, const struct event *ev)
{
	switch (ev->kind) {
	case EV_session: fold_session(s, &ev->u.session); break;
	case EV_vocab: c->no_memory |= !ev_texts_keep(&s->texts, &ev->u.vocab); break;
	case EV_step: fold_step(s, &ev->u.step); break;
	case EV_score:
		if (ev->u.score.request == s->scored && ev->u.score.pos >= s->score_from) {
			s->logp += ev->u.score.logp;
			s->n_scored++;
		}
		break;
	default: fold_answer(c, s, ev);
	}
}

void compare_fold(struct compare *c, int side, const struct event *ev)
{
	if (ev->kind == EV_setting)
		fold_setting(c, side, &ev->u.setting);
	else if (ev->kind == EV_request)
		fold_request(c, side, ev);
	else
		for (int i = 0; i < 2; i++)
			if (side < 0 || side == i)
				fold_side(c, &c->side[i], ev);
}

/* ---- files ---- */

struct reading {
	struct compare *c;
	int side;
};

static void fold(void *arg, const struct event *ev)
{
	const struct reading *g = arg;

	compare_fold(g->c, g->side, ev);
}

int compare_read(struct compare *c, int side, const char *path, struct err *e)
{
	const uint64_t kinds = EV_BIT(session) | EV_BIT(setting) | EV_BIT(vocab) | EV_BIT(request) |
						   EV_BIT(batch) | EV_BIT(token) | EV_BIT(score) | EV_BIT(rewind) |
						   EV_BIT(step) | EV_BIT(finish);

	for (int i = 0; i < 2; i++)
		if (side < 0 || side == i)
			snprintf(c->side[i].label, sizeof c->side[i].label, "%s", basename(path));
	return reader_each(path, kinds, 0, fold, &(struct reading){ c, side }, e)
			   ? -1
			   : compare_check(c, side < 0 ? path : NULL, e);
}

int compare_check(const struct compare *c, const char *path, struct err *e)
{
	if (c->no_memory)
		return err_no_memory(e, "what is compared");
	if (path && !(c->side[0].marked && c->side[1].marked))
		return err_set(e, ERR_USAGE,
			"%.300s holds no comparison; two recordings, or the settings of two sides, are needed",
			path);
	return 0;
}

void compare_free(struct compare *c)
{
	for (int i = 0; i < 2; i++) {
		drop_answers(&c->side[i]);
		ev_texts_free(&c->side[i].texts);
	}
	*c = (struct compare){ 0 };
}
