/* A search in the chat. See chat.h. */

#include <ctype.h>

#include "engine/search/search.h"
#include "tui/chat/chat.h"

enum { LOOK_NS = 1000000000 }; /* in case the event of its end was lost */

int chat_search_form(const char *typed, char out[CHAT_SEARCH_METHOD])
{
	size_t n = 0;
	bool named = false, gap = false;

	for (; *typed; typed++) {
		bool parts = isspace((unsigned char)*typed) || *typed == ':' || *typed == ',';

		if (!parts && gap && n)
			out[n++] = named ? ',' : ':';
		named |= !parts && gap && n;
		gap = parts;
		if (!parts)
			out[n++] = *typed;
		if (n + 2 > CHAT_SEARCH_METHOD)
			return -1;
	}
	out[n] = '\0';
	return 0;
}

/* ---- on the engine's thread, between two steps ---- */

struct call {
	struct search_options options;
	struct engine_request request;
	struct chat_search *search;
	bool cancel;
	/* out */
	struct search_view view;
	double score;
	bool over;
	struct err err;
};

static void check(struct engine *engine, void *arg)
{
	struct call *c = arg;

	engine_search_check(engine, &c->options, &c->err);
}

static void begin(struct engine *engine, void *arg)
{
	struct call *c = arg;
	int64_t id = engine_search(engine, &c->options, &c->request, &c->err);

	c->search->running = id > 0 ? id : 0;
}

/* When it has ended, copies its results and closes it. */
static void chat_search_look(struct engine *engine, void *arg)
{
	struct call *c = arg;
	struct chat_search *s = c->search;

	if (c->cancel)
		engine_search_cancel(engine, s->running);
	if (engine_search_look(engine, s->running, &c->view) && !c->view.done)
		return;
	c->over = true;
	c->score = c->view.n_answers ? c->view.answer[0].score : 0;
	if (c->view.taken && s->trimmed_turns)
		engine_note_trim(engine, c->view.taken, s->trimmed_tokens, s->trimmed_turns);
	engine_search_close(engine, s->running);
}

/* ---- on the UI's ---- */

int chat_search_set(struct app *a, const char *typed, struct err *e)
{
	char method[CHAT_SEARCH_METHOD];
	struct call call = { .options.method = method };

	if (chat_search_form(typed, method) < 0)
		return err_set(e, ERR_USAGE, "/search %.40s …: that is no search", typed);
	if (strcmp(method, "off") != 0)
		actor_call(a->chat->live.session.actor, check, &call);
	if (call.err.code)
		return err_set(e, call.err.code, "%s", call.err.text);
	snprintf(a->chat->search.method, sizeof a->chat->search.method, "%s",
		strcmp(method, "off") ? method : "");
	chat_note(a, "search", method);
	return 0;
}

int chat_search_score(struct app *a, const char *typed, struct err *e)
{
	struct chat *c = a->chat;

	if (strlen(typed) >= sizeof c->search.score)
		return err_set(e, ERR_USAGE,
			"/score: a command of at most %zu bytes is needed; longer ones fit in a script",
			sizeof c->search.score - 1);
	snprintf(c->search.score, sizeof c->search.score, "%s", strcmp(typed, "off") ? typed : "");
	chat_note(a, "score", typed);
	return 0;
}

/* The engine's thread polls the command between steps; its standard error must not reach the
 * screen. */
static void take_judge(struct chat_search *s, struct search_options *o)
{
	memcpy(s->judged_by, s->score, sizeof s->judged_by);
	if (!s->judged_by[0])
		return;
	s->scorer = (struct score_command){ .command = s->judged_by, .quiet = true };
	o->score = score_command;
	o->arg = &s->scorer;
	o->scorer = s->judged_by;
}

int chat_search_begin(struct app *a, const struct conversation_prompt *p, struct err *e)
{
	struct chat *c = a->chat;
	struct call call = { .options.method = c->search.method, .search = &c->search };

	take_judge(&c->search, &call.options);
	call.request = chat_request(c, EV_REQUEST_KIND_chat, p, p->sample);
	c->search.trimmed_tokens = p->trimmed_tokens;
	c->search.trimmed_turns = p->trimmed_turns;
	c->search.looked_ns = now_ns();
	c->search.quietly = false;
	conversation_expect(c->live.conversation, 1);
	actor_call(c->live.session.actor, begin, &call);
	if (!call.err.code)
		return 0;
	conversation_expect(c->live.conversation, 0);
	return err_set(e, call.err.code, "%s", call.err.text);
}

static void say_end(struct app *a, const struct call *call, const struct chat_search *s)
{
	const struct search_view *v = &call->view;
	const char *method = s->method[0] ? s->method : "the search", *judge = s->judged_by;
	double saved = v->unshared > 0 ? 100 * (1 - (double)v->pages / (double)v->unshared) : 0;
	char score[32];

	snprintf(score, sizeof score, *judge ? "%.6g" : "%.3f", call->score);
	if (v->err.code)
		app_say(a, SAY_ERROR, "%s: %s%s", method, v->err.text,
			v->taken ? "; the best answer until then stands" : "");
	else if (!v->taken)
		app_say(a, SAY_INFO, "%s was stopped before it had an answer", method);
	else
		app_say(a, SAY_INFO,
			"%s%s%.30s%s: the best of %d answer%s, score %s; sharing saved %.0f %% of the pages · "
			"/view search",
			method, *judge ? " by " : "", judge, v->cancelled ? " was stopped" : "", v->n_answers,
			plural(v->n_answers), score, saved);
}

static void cancel(struct engine *engine, void *id)
{
	engine_search_cancel(engine, *(int64_t *)id);
}

/* The check is done; app is NULL if the result is no longer needed. */
static void looked(void *app, void *arg)
{
	const struct call *call = arg;
	struct app *a = app;
	struct chat *c;

	if (!a)
		return;
	c = a->chat;
	c->search.asked = false;
	if (!call->over || !c->search.running)
		return;
	c->search.running = 0;
	conversation_expect(c->live.conversation, 0);
	chat_feed(a);
	if (!c->search.quietly || call->view.err.code)
		say_end(a, call, &c->search);
	a->dirty = true;
}

bool chat_search_cancel(struct app *a, bool quietly)
{
	struct chat *c = a->chat;

	if (!c->search.running)
		return false;
	c->search.quietly = quietly;
	actor_post(c->live.session.actor, cancel, NULL, &c->search.running, sizeof c->search.running);
	c->search.looked_ns = 0; /* check it at once, which takes its results */
	return true;
}

bool chat_search_stop(struct app *a)
{
	struct chat *c = a->chat;
	struct call call = { .search = &c->search, .cancel = true };

	if (c->search.asked) {
		actor_call(c->live.session.actor, NULL, NULL);
		actor_answers(c->live.session.actor, a);
	}
	if (!c->search.running)
		return false;
	actor_call(c->live.session.actor, chat_search_look, &call);
	looked(a, &call);
	return true;
}

void chat_search_work(struct app *a)
{
	struct chat *c = a->chat;
	const struct tl_search *s =
		c->search.running ? timeline_search(&a->timeline, c->search.running) : NULL;
	struct call call = { .search = &c->search };
	bool over = (s && s->over) || now_ns() - c->search.looked_ns > LOOK_NS;

	if (!c->search.running || c->search.asked || !over)
		return;
	c->search.looked_ns = now_ns();
	c->search.asked =
		actor_post(c->live.session.actor, chat_search_look, looked, &call, sizeof call);
}
