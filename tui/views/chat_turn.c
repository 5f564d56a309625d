/* See chat_turn.h. */
#include "tui/views/chat_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/with_files.h"
#include "tui/views/chat_mark.h"
#include "tui/views/chat_thought.h"
#include "tui/views/search_tree.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

enum { LEADING_MAX = 8000 };

const char turn_anew[] = "a new conversation: the model sees nothing from above";

static const struct tl_request *previous(const struct timeline *t, const struct tl_request *r)
{
	while (r-- > t->request)
		if (view_is_chat(r))
			return r;
	return NULL;
}

/* Another choice of the request before it: a server counts them by their samples. */
static bool next_choice(const struct tl_request *before, const struct tl_request *r)
{
	return before->kind == EV_REQUEST_KIND_served && before->finished == r->finished &&
		   r->id == before->id + 1 && r->sample == before->sample + 1 &&
		   r->params.seed == before->params.seed && r->text && before->text &&
		   !strcmp(before->text, r->text);
}

static bool same_question(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *before = previous(t, r);

	if (r->kind == EV_REQUEST_KIND_served)
		return before && next_choice(before, r);
	return r->kind == EV_REQUEST_KIND_fork && before && !timeline_within_answer(t, r) &&
		   !timeline_within_answer(t, before) && before->kind == EV_REQUEST_KIND_fork &&
		   before->parent == r->parent && before->text && r->text && !strcmp(before->text, r->text);
}

static bool begins_alike(const struct tl_request *a, const struct tl_request *b)
{
	int32_t n = a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt;

	return !n || !memcmp(a->prompt, b->prompt, (size_t)n * sizeof *a->prompt);
}

/* Of two such turns with the same prompt, one is a retry of the other. */
bool turn_begins_anew(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *before = previous(t, r);

	if (!before || r->kind != EV_REQUEST_KIND_chat || r->origin.request || r->trimmed_turns)
		return false;
	while (before->origin.request && previous(t, before))
		before = previous(t, before);
	return !begins_alike(before, r);
}

/* The first position of the answer that a fork continues. */
static int32_t answer_begin(const struct timeline *t, const struct tl_request *r)
{
	while (timeline_within_answer(t, r))
		r = timeline_request(t, r->origin.request);
	return r->n_prompt;
}

static void end_words(struct turn *n, const struct tl_request *r)
{
	const char *why = r->finish_why ? r->finish_why : "";
	const char *words = "";
	char limit[VIEW_NUM + 32], count[VIEW_NUM];

	view_count(count, r->n_prompt + r->n_tokens - answer_begin(n->t, r));
	snprintf(limit, sizeof limit, "stopped at its limit of %s tokens", count);
	switch (r->finish.reason) {
	case EV_FINISH_length: words = limit; break;
	case EV_FINISH_stop: words = "stop string"; break;
	case EV_FINISH_context: words = "the context is full"; break;
	case EV_FINISH_cancelled:
		words = r->kind == EV_REQUEST_KIND_served ? "its client went away" : "stopped by you";
		break;
	case EV_FINISH_refused: words = "refused"; break;
	case EV_FINISH_lost: words = "lost"; break;
	case EV_FINISH_failed: words = "failed"; break;
	}
	snprintf(
		n->after, sizeof n->after, "%s%s%s", words, *words && *why ? ": " : "", *words ? why : "");
}

/* Notes a repetition loop, common in greedy answers of small models, and what helps. */
static void loop_words(struct turn *n, const struct tl_request *r)
{
	const char *helps =
		r->params.temperature > 0 ? "/repeat-penalty 1.1 helps" : "/temp 0.7 draws others";
	const size_t used = strlen(n->after);

	if (r->period && used) /* brief, so that what helps is seen at 80 columns */
		snprintf(n->after + used, sizeof n->after - used, " · in a loop: %s", helps);
	else if (r->period)
		snprintf(n->after, sizeof n->after, "in a loop of %d token%s: %s%s", r->period,
			r->period == 1 ? "" : "s",
			r->finished ? ""
			: n->paused ? "F5 goes on, Ctrl-C ends, "
						: "Ctrl-C stops it, ",
			helps);
}

static bool has_free_slot(const struct timeline *t)
{
	int running = 0;

	for (int32_t i = 0; i < t->n_requests; i++)
		running += t->request[i].state == TL_RUNNING;
	return running < t->session.slots;
}

static void state_words(struct turn *n, const struct tl_request *r)
{
	char done[VIEW_NUM], of[VIEW_NUM];

	if (r->finished)
		end_words(n, r);
	else if (n->t->attached.on && !r->n_tokens)
		snprintf(n->after, sizeof n->after,
			r->state == TL_RUNNING ? "the server reads the prompt" : "waiting for the server");
	else if (n->t->attached.on)
		; /* it has begun, whether the server said so or not */
	else if (n->paused && r->state != TL_PREEMPTED && !r->n_tokens)
		snprintf(n->after, sizeof n->after, "paused: F5 goes on");
	else if (r->state == TL_WAITING)
		snprintf(n->after, sizeof n->after, "waiting for %s",
			has_free_slot(n->t) ? "the next step" : "a slot");
	else if (r->state == TL_PREEMPTED)
		snprintf(n->after, sizeof n->after,
			"its pages went to another request; it will be computed again");
	else if (!r->n_tokens)
		snprintf(n->after, sizeof n->after, "reading the prompt: %s of %s tokens",
			view_count(done, r->computed < r->n_prompt ? r->computed : r->n_prompt),
			view_count(of, r->n_prompt));
	loop_words(n, r);
}

/* Number of consecutive forks, or choices, of the same question from r on. */
static int n_abandoned(const struct timeline *t, const struct tl_request *r)
{
	int n = 1;

	for (const struct tl_request *f = r + 1; f < t->request + t->n_requests; f++)
		if (view_is_chat(f)) {
			if (!same_question(t, f))
				break;
			n++;
		}
	return n;
}

static void side_words(struct turn *n, const struct timeline *t, const struct tl_request *r)
{
	int abandoned = r->kind == EV_REQUEST_KIND_fork && !n->same_question ? n_abandoned(t, r) : 0;
	char hit[VIEW_NUM], asked[VIEW_NUM];

	if (timeline_within_answer(t, r)) {
		snprintf(n->abandoned, sizeof n->abandoned, "goes its own way from position %d of %s",
			r->origin.pos, view_label(r->origin.request).text);
		return;
	}
	if (r->trimmed_tokens > 0)
		snprintf(n->trimmed, sizeof n->trimmed,
			"the context was full: %d turn%s (%d tokens) left out", r->trimmed_turns,
			r->trimmed_turns == 1 ? "" : "s", r->trimmed_tokens);
	if (abandoned && r->looked_up)
		snprintf(n->abandoned, sizeof n->abandoned,
			"%d futures of one prompt; %s of its %s tokens were cached", abandoned,
			view_count(hit, r->lookup.hit), view_count(asked, r->lookup.asked));
	else if (abandoned)
		snprintf(n->abandoned, sizeof n->abandoned, "%d futures of one prompt", abandoned);
}

static bool is_choice(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *end = t->request + t->n_requests;

	return r->kind == EV_REQUEST_KIND_served &&
		   (same_question(t, r) || (r + 1 < end && next_choice(r, r + 1)));
}

/* The name of the client, on one line. */
static void add_who(struct turn *n, const struct tl_request *r)
{
	size_t size = 0;
	char *who = r->kind == EV_REQUEST_KIND_served && r->user && *r->user
					? text_clean(r->user, strlen(r->user), false, &size)
					: NULL;

	if (who) {
		wrap_add_text(&n->asked, who, size);
		wrap_add_text(&n->asked, ": ", 2);
		n->n_who = size + 1;
	}
	free(who);
}

/* Files that were sent before the question are named, not shown. */
static void files_words(struct turn *n, const char *text)
{
	struct with_file f;
	size_t used = 0, size;

	for (; (size = with_files_next(text, &f)); text += size)
		if (used < sizeof n->files)
			used += (size_t)snprintf(n->files + used, sizeof n->files - used, "%s%.*s, %d line%s",
				used ? " · " : "after ", f.name_size < 60 ? (int)f.name_size : 60, f.name, f.lines,
				f.lines == 1 ? "" : "s");
}

/* Where the question stands in the prompt its tokens are known. False: it does not stand there to
 * the byte, as where a tokenizer has its own blanks. */
static bool add_pieces(struct turn *n, const char *typed)
{
	const size_t size = strlen(typed);
	struct wrap prompt = { 0 };
	const char *at = NULL;

	wrap_add_given(&prompt, n->t, n->r, 0);
	for (const char *next = prompt.text; next && size; next++) {
		next = memmem(next, prompt.size - (size_t)(next - prompt.text), typed, size);
		if (!next)
			break;
		at = next;
	}
	if (at && !prompt.failed)
		wrap_add_styled(&n->asked, at, size, prompt.owner + (at - prompt.text), 0);
	wrap_free(&prompt);
	return n->asked.size > 0;
}

static void add_answer(struct turn *n, const struct timeline *t, const struct tl_request *r)
{
	if (timeline_within_answer(t, r))
		wrap_add_given(&n->answer, t, r, answer_begin(t, r));
	wrap_add_tokens(&n->answer, t, r);
}

static bool shows(const struct wrap *w, int64_t token)
{
	size_t i = 0;

	while (i < w->size && w->owner && w->owner[i] != token)
		i++;
	return i < w->size && w->owner;
}

void turn_of_request(struct turn *n, const struct timeline *t, const struct tl_request *r,
	const struct turn_look *look)
{
	*n = (struct turn){ .t = t, .r = r, .same_question = same_question(t, r) };
	n->rule = turn_begins_anew(t, r) ? turn_anew : NULL;
	n->is_choice = is_choice(t, r);
	n->paused = look->paused;
	side_words(n, t, r);
	if (r->text && !n->same_question) {
		const char *typed = with_files_typed(r->text);

		add_who(n, r);
		files_words(n, r->text);
		if (!look->pieces || n->n_who || !add_pieces(n, typed))
			wrap_add_text(&n->asked, typed, strlen(typed));
	}
	add_answer(n, t, r);
	if (!look->thoughts)
		thought_fold(&n->answer, t, r, answer_begin(t, r), n->thought, sizeof n->thought);
	if (!look->marks && !r->grammar) /* what is bound to a form is in that form */
		mark_down(&n->answer, look->width, look->ascii);
	if (look->token >= 0 && !shows(&n->answer, look->token)) {
		wrap_free(&n->answer);
		n->thought[0] = '\0';
		add_answer(n, t, r);
	}
	wrap_lines(&n->asked, look->width, look->ascii);
	wrap_lines(&n->answer, look->width, look->ascii);
	/* a running answer has a line for its cursor from the start */
	if (!n->answer.n_lines && r->state == TL_RUNNING && r->n_tokens)
		snprintf(n->after, sizeof n->after, " ");
	state_words(n, r);
	n->n_lines = 2 * (n->rule != NULL) + !n->same_question + (n->trimmed[0] != 0) +
				 (n->abandoned[0] != 0) + (n->files[0] != 0) + (n->thought[0] != 0) +
				 n->asked.n_lines + n->answer.n_lines + (n->after[0] != 0);
}

const struct tl_search *turn_searching(const struct timeline *t)
{
	const struct tl_search *s = timeline_search(t, 0);
	const struct tl_request *r = timeline_chat(t);

	if (!s || s->taken || (s->over && s->winner) ||
		(s->over && r && s->n_nodes && r->id > s->node[0].request))
		return NULL;
	return s;
}

const struct tl_request turn_nobody = { .kind = EV_REQUEST_KIND_chat, .state = TL_FINISHED };

void turn_of_waiting(struct turn *n, const struct timeline *t, const struct view_waiting *w, int i,
	int width, bool ascii)
{
	size_t next, size = text_line(w->text[i], width - 1, ascii, &next);

	*n = (struct turn){
		.t = t, .r = &turn_nobody, .same_question = i > 0 && i + TURNS_WAITING > w->n, .waits = true
	};
	wrap_add_text(&n->asked, w->text[i], size);
	if (w->text[i][size])
		wrap_add_text(&n->asked, "…", strlen("…"));
	wrap_lines(&n->asked, width, ascii);
	if (i + 1 < w->n)
		n->after[0] = '\0';
	else if (w->n == 1)
		snprintf(n->after, sizeof n->after, "%s · Esc takes it back", w->why);
	else
		snprintf(
			n->after, sizeof n->after, "%d turns %s · Esc takes the newest back", w->n, w->why);
	if (i > 0 && i + TURNS_WAITING == w->n)
		snprintf(n->trimmed, sizeof n->trimmed, "… %d more before", i);
	n->n_lines = !n->same_question + (n->trimmed[0] != 0) + n->asked.n_lines + (n->after[0] != 0);
}

void turn_of_words(struct turn *n, const struct timeline *t, const char *words)
{
	*n = (struct turn){ .t = t, .r = &turn_nobody, .same_question = true, .waits = true };
	snprintf(n->after, sizeof n->after, "%s", words);
	n->n_lines = 1;
}

void turn_of_search(
	struct turn *n, const struct timeline *t, const struct tl_search *s, int width, bool ascii)
{
	char text[LEADING_MAX], answers[VIEW_NUM], wait[32] = "";
	bool leads;

	*n = (struct turn){ .t = t, .r = &turn_nobody };
	if (s->text)
		wrap_add_text(&n->asked, s->text, strlen(s->text));
	leads = !s->over && view_search_leading(t, s, text, sizeof text);
	if (leads)
		wrap_add_text(&n->answer, text, strlen(text));
	wrap_lines(&n->asked, width, ascii);
	wrap_lines(&n->answer, width, ascii);
	if (s->over)
		snprintf(n->after, sizeof n->after, "no answer: %.80s", s->why ? s->why : "stopped");
	else if (search_waiting(s))
		snprintf(wait, sizeof wait, ", %d wait for a score", search_waiting(s));
	if (!s->over)
		snprintf(n->after, sizeof n->after, "%.40s: %d run%s, %s answer%s by now%s (/view search)",
			s->method ? s->method : "", search_running(s), wait, view_count(answers, s->n_answers),
			s->n_answers == 1 ? "" : "s", leads ? "; the best begins so" : "");
	n->n_lines = 1 + n->asked.n_lines + n->answer.n_lines + 1;
}

void turn_shorten(struct turn *n, int32_t lines)
{
	if (n->marked || n->answer.n_lines <= lines)
		return;
	n->skip = n->answer.n_lines - lines;
	n->n_lines -= n->skip;
}

void turn_free(struct turn *n)
{
	wrap_free(&n->asked);
	wrap_free(&n->answer);
}

int32_t turn_cursor_line(const struct turn *n, const struct view_state *s)
{
	int32_t line;

	if (!n->marked)
		return -1;
	line = n->r->id == s->request ? wrap_find(&n->answer, (int32_t)s->token)
								  : wrap_find_given(&n->answer, (int32_t)n->marked->pos);
	if (line < 0) /* the end-of-turn token shows nothing: stay at the end */
		return n->after[0] != 0;
	return n->answer.n_lines - 1 - line + (n->after[0] != 0);
}

void turn_mark(struct turn *n, const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = s->token >= 0 ? timeline_request(t, s->request) : NULL;
	const struct tl_token *k = r && s->token < r->n_tokens ? &r->token[s->token] : NULL;

	if (k && (r == n->r || (timeline_within_answer(t, n->r) && k->pos < n->r->origin.pos &&
							   timeline_branch_token(t, n->r->origin, (int32_t)k->pos) == k)))
		n->marked = k;
}
