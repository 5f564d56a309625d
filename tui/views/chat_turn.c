/* See chat_turn.h. */
#include "tui/views/chat_turn.h"

#include "base/ids.h"
#include "base/with_files.h"
#include "tui/views/search_tree.h"

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
	return ids_common(a->prompt, a->n_prompt, b->prompt, b->n_prompt) ==
		   at_most(a->n_prompt, b->n_prompt);
}

/* Whose answer a fork continues; else the request itself. */
static const struct tl_request *turn_owner(const struct timeline *t, const struct tl_request *r)
{
	while (timeline_within_answer(t, r))
		r = timeline_request(t, r->origin.request);
	return r;
}

/* Whether the turn that a fork continues is shown above it. */
static bool stands_above(const struct timeline *t, const bool *shown, const struct tl_request *r)
{
	const struct tl_request *own = turn_owner(t, r), *q = own;

	while (q < r && !(shown[q - t->request] && turn_owner(t, q) == own))
		q++;
	return q < r;
}

/* Of two such turns with the same prompt, one is a retry of the other. */
static bool begins_anew(const struct timeline *t, const bool *shown, const struct tl_request *r)
{
	const struct tl_request *own = turn_owner(t, r), *before = previous(t, own);

	if (!before || own->kind != EV_REQUEST_KIND_chat || own->origin.request || own->trimmed_turns ||
		stands_above(t, shown, r))
		return false;
	while (before->origin.request && previous(t, before))
		before = previous(t, before);
	return !begins_alike(before, own);
}

static struct view_text end_words(const struct turn *n, const struct tl_request *r)
{
	const char *why = r->finish_why ? r->finish_why : "";
	const int32_t own = r->n_prompt + r->n_tokens - turn_owner(n->t, r)->n_prompt;
	const char *words;

	switch (r->finish.reason) {
	case EV_FINISH_length:
		return view_form("stopped at its limit of %s token%s%s%s", view_count(own).text,
			plural(own), *why ? ": " : "", why);
	case EV_FINISH_stop: words = "stop string"; break;
	case EV_FINISH_context: words = "the context is full"; break;
	case EV_FINISH_cancelled:
		words = r->kind == EV_REQUEST_KIND_served ? "its client went away" : "stopped by you";
		break;
	case EV_FINISH_refused: words = "refused"; break;
	case EV_FINISH_lost: words = "lost"; break;
	case EV_FINISH_failed: words = "failed"; break;
	default: return (struct view_text){ "" };
	}
	return view_form("%s%s%s", words, *why ? ": " : "", why);
}

const char *turn_loop_help(const struct tl_request *r)
{
	return r->params.temperature > 0 ? "/repeat-penalty 1.1 helps" : "/temp 0.7 helps";
}

/* Notes a repetition loop, common in greedy answers of small models, and, where there is an engine,
 * what helps. */
static struct view_text loop_words(
	const struct turn *n, const struct tl_request *r, struct view_text state)
{
	const bool runs = !state.text[0] && !r->finished;

	if (!r->period)
		return state;
	/* brief after other words, so that what helps is seen at 80 columns */
	state = state.text[0] ? view_form("%.120s · in a loop", state.text)
						  : view_form("in a loop of %d token%s", r->period, plural(r->period));
	if (n->live)
		view_add(&state, ": %s%s",
			!runs             ? ""
			: n->live->paused ? "F5 goes on, ^C ends, "
							  : "^C stops it, ",
			turn_loop_help(r));
	return state;
}

static bool has_free_slot(const struct timeline *t)
{
	int running = 0;

	for (int32_t i = 0; i < t->n_requests; i++)
		running += t->request[i].state == TL_RUNNING;
	return running < t->session.slots;
}

static struct view_text state_words(const struct turn *n, const struct tl_request *r)
{
	if (r->finished)
		return end_words(n, r);
	if (n->t->attached.on && !r->n_tokens)
		return view_form(
			r->state == TL_RUNNING ? "the server reads the prompt" : "waiting for the server");
	if (n->t->attached.on) /* it has begun, whether the server said so or not */
		return n->after;
	if (n->live && n->live->paused && r->state != TL_PREEMPTED && !r->n_tokens)
		return view_form("paused: F5 goes on");
	if (r->state == TL_WAITING)
		return view_form("waiting for %s", has_free_slot(n->t) ? "the next step" : "a slot");
	if (r->state == TL_PREEMPTED)
		return view_form("its pages went to another request; it will be computed again");
	if (!r->n_tokens)
		return view_form("reading the prompt: %s of %s tokens",
			view_count(at_most(r->computed, r->n_prompt)).text, view_count(r->n_prompt).text);
	return n->after;
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

	if (timeline_within_answer(t, r)) {
		n->abandoned = view_form("goes its own way from position %d of %s", r->origin.pos,
			view_label(r->origin.request).text);
		return;
	}
	if (r->trimmed_tokens > 0)
		n->trimmed = view_form("the context was full: %d turn%s (%d tokens) left out",
			r->trimmed_turns, plural(r->trimmed_turns), r->trimmed_tokens);
	if (abandoned && r->looked_up)
		n->abandoned = view_form("%d futures of one prompt; %s of its %s tokens were cached",
			abandoned, view_count(r->lookup.hit).text, view_count(r->lookup.asked).text);
	else if (abandoned)
		n->abandoned = view_form("%d futures of one prompt", abandoned);
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
		if (used < sizeof n->files.text)
			used += (size_t)snprintf(n->files.text + used, sizeof n->files.text - used,
				"%s%.*s, %d line%s", used ? " · " : "after ",
				f.name_size < 60 ? (int)f.name_size : 60, f.name, f.lines, plural(f.lines));
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
		wrap_add_given(&n->answer, t, r, turn_owner(t, r)->n_prompt);
	wrap_add_tokens(&n->answer, t, r);
}

static bool shows(const struct wrap *w, int64_t token)
{
	size_t i = 0;

	while (i < w->size && w->owner && w->owner[i] != token)
		i++;
	return i < w->size && w->owner;
}

static void wrap_turn(struct turn *n, int width, bool ascii)
{
	wrap_lines(&n->asked, width, ascii);
	wrap_lines(&n->answer, width, ascii);
	wrap_add_styled(&n->below, n->after.text, strlen(n->after.text), NULL, MARK_DIM);
	wrap_lines(&n->below, width, ascii);
	n->n_lines = 2 * (n->rule != NULL) + !n->same_question + !!*n->trimmed.text +
				 !!*n->abandoned.text + !!*n->files.text + !!*n->thought.text + n->asked.n_lines +
				 n->answer.n_lines + n->below.n_lines;
}

void turn_of_request(struct turn *n, const struct timeline *t, const struct tl_request *r,
	const struct turn_look *look)
{
	*n = (struct turn){ .t = t, .r = r, .same_question = same_question(t, r) };
	n->rule = begins_anew(t, look->shown, r) ? turn_anew : NULL;
	n->is_choice = is_choice(t, r);
	n->live = look->live;
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
		thought_fold(&n->answer, t, r, turn_owner(t, r)->n_prompt, &n->thought);
	if (!look->marks && !r->grammar) /* what is bound to a form is in that form */
		mark_down(&n->answer, look->width, look->ascii);
	if (look->token >= 0 && !shows(&n->answer, look->token)) {
		wrap_free(&n->answer);
		n->thought.text[0] = '\0';
		add_answer(n, t, r);
	}
	wrap_lines(&n->answer, look->width, look->ascii);
	/* a running answer has a line for its cursor from the start */
	if (!n->answer.n_lines && r->state == TL_RUNNING && r->n_tokens)
		n->after = view_form(" ");
	n->after = loop_words(n, r, state_words(n, r));
	wrap_turn(n, look->width, look->ascii);
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
	if (i + 1 == w->n)
		n->after = w->n == 1 ? view_form("%s · Esc takes it back", w->why)
							 : view_form("%d turns %s · Esc takes the newest back", w->n, w->why);
	if (i > 0 && i + TURNS_WAITING == w->n)
		n->trimmed = view_form("… %d more before", i);
	wrap_turn(n, width, ascii);
}

void turn_of_words(
	struct turn *n, const struct timeline *t, const char *words, int width, bool ascii)
{
	*n = (struct turn){ .t = t, .r = &turn_nobody, .same_question = true, .waits = true };
	n->after = view_form("%s", words);
	wrap_turn(n, width, ascii);
}

void turn_of_search(
	struct turn *n, const struct timeline *t, const struct tl_search *s, int width, bool ascii)
{
	char text[LEADING_MAX];
	bool leads;

	*n = (struct turn){ .t = t, .r = &turn_nobody };
	if (s->text)
		wrap_add_text(&n->asked, s->text, strlen(s->text));
	leads = !s->over && view_search_leading(t, s, text, sizeof text);
	if (leads)
		wrap_add_text(&n->answer, text, strlen(text));
	n->after =
		s->over ? view_form("no answer: %.80s", s->why ? s->why : "stopped")
				: view_form("%.40s: %d run%s, %s answer%s by now%s (/view search)",
					  s->method ? s->method : "", search_running(s),
					  search_waiting(s) ? view_form(", %d wait for a score", search_waiting(s)).text
										: "",
					  view_count(s->n_answers).text, plural(s->n_answers),
					  leads ? "; the best begins so" : "");
	wrap_turn(n, width, ascii);
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
	wrap_free(&n->below);
}

int32_t turn_cursor_line(const struct turn *n, const struct view_state *s)
{
	int32_t line;

	if (!n->marked)
		return -1;
	line = wrap_find(&n->answer,
		n->r->id == s->request ? (int32_t)s->token : WRAP_GIVEN - (int32_t)n->marked->pos);
	if (line < 0) /* the end-of-turn token shows nothing: stay at the end */
		return n->below.n_lines;
	return n->answer.n_lines - 1 - line + n->below.n_lines;
}

void turn_mark(struct turn *n, const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = s->token >= 0 ? timeline_request(t, s->request) : NULL;
	const struct tl_token *k = r && s->token < r->n_tokens ? &r->token[s->token] : NULL;

	if (k && (r == n->r || (timeline_within_answer(t, n->r) && k->pos < n->r->origin.pos &&
							   timeline_branch_token(t, n->r->origin, (int32_t)k->pos) == k)))
		n->marked = k;
}

/* --- turns that the context has no room for --- */

/* Whether a request is of the same turn as the one before it: another answer, or a part of one. */
static bool goes_on(const struct timeline *t, const bool *shown, const struct tl_request *before,
	const struct tl_request *r)
{
	return stands_above(t, shown, r) ||
		   (before && before->n_prompt == r->n_prompt && begins_alike(before, r));
}

struct chat_left chat_left(const struct timeline *t, const bool *shown)
{
	int32_t *turn = calloc((size_t)t->n_requests + 1, sizeof *turn), n = 0, first = 0;
	struct chat_left left = { 0, 0 };
	const struct tl_request *before = NULL;

	for (int32_t i = 0; turn && shown && i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		if (!shown[i] || r->kind == EV_REQUEST_KIND_served || goes_on(t, shown, before, r))
			continue;
		if (begins_anew(t, shown, r))
			n = first = 0;
		first = within((int64_t)first + turn_owner(t, r)->trimmed_turns, 0, n);
		turn[n++] = i;
		before = r;
	}
	if (first)
		left = (struct chat_left){ turn[0], turn[first] };
	free(turn);
	return left;
}
