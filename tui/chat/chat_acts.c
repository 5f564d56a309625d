/* What the / commands do to a live session. */
#include <errno.h>
#include <sys/stat.h>

#include "trace/recording.h"
#include "tui/chat/chat.h"

enum { FORKS_MAX = 64, CANCEL_MAX = 1024 };

/* --- requests --- */

/* Several requests submitted between the same two steps. */
struct batch {
	struct engine_request *request;
	int n, n_accepted;
	int64_t first;
	struct conversation_prompt *prompt; /* its trim is noted with the first request */
	struct err err;
};

static void submit(struct engine *engine, void *arg)
{
	struct batch *b = arg;

	for (int i = 0; i < b->n; i++) {
		int64_t id = engine_submit(engine, &b->request[i], &b->err);

		if (id < 0)
			return;
		if (!b->n_accepted++)
			b->first = id;
	}
	if (b->prompt && b->prompt->trimmed_turns)
		engine_note_trim(engine, b->first, b->prompt->trimmed_tokens, b->prompt->trimmed_turns);
}

struct engine_request chat_request(struct chat *c, enum ev_code_request_kind kind,
	const struct conversation_prompt *p, int64_t sample)
{
	struct engine_request q = engine_answer_request(&c->settings);

	q.kind = kind;
	q.ids = p->ids;
	q.n_ids = p->n_ids;
	q.sample = sample;
	q.text = p->text;
	return q;
}

static void follow_newest(struct app *a)
{
	app_follow_newest(a);
	a->state.scroll[VIEW_CHAT] = 0;
	a->chat->standing = false;
}

static void say_trimmed(struct app *a, const struct conversation_prompt *p)
{
	if (p->trimmed_turns)
		app_say(a, SAY_INFO, "the context was full: %s", chat_trim_words(a, p).text);
}

/* n answers to one prompt. parent: of forks, the answer that they stand beside; or 0. */
static int submit_answers(struct app *a, struct conversation_prompt *p,
	enum ev_code_request_kind kind, int n, int64_t parent, struct err *e)
{
	struct chat *c = a->chat;
	struct engine_request request[FORKS_MAX];
	struct batch b = { .request = request, .n = n, .prompt = p };

	for (int i = 0; i < n; i++) {
		request[i] = chat_request(c, kind, p, p->sample + i);
		request[i].parent = parent;
	}
	conversation_expect(c->live.conversation, n);
	actor_call(c->live.session.actor, submit, &b);
	conversation_expect(c->live.conversation, 0);
	follow_newest(a);
	say_trimmed(a, p);
	if (b.n_accepted > 1)
		app_say(a, SAY_INFO,
			"%d answers: %s to %s · what you say next goes on from %s · /tree chooses",
			b.n_accepted, view_label(b.first).text, view_label(b.first + b.n_accepted - 1).text,
			view_label(b.first + b.n_accepted - 1).text);
	return b.err.code ? err_set(e, b.err.code, "%s", b.err.text) : 0;
}

/* One answer, or the best of a search. */
static int answer(struct app *a, struct conversation_prompt *p, struct err *e)
{
	if (!a->chat->search.method[0])
		return submit_answers(a, p, EV_REQUEST_KIND_chat, 1, 0, e);
	if (chat_search_begin(a, p, e) < 0)
		return -1;
	follow_newest(a);
	say_trimmed(a, p);
	return 0;
}

void chat_ask(struct app *a, const char *typed)
{
	struct chat *c = a->chat;
	char *text = chat_with_files(a, typed);
	const int32_t room = answer_room(&c->settings, engine_info(c->live.session.engine)->ctx);
	struct conversation_prompt p;
	struct err e = { 0 };

	if (!text)
		return;
	conversation_choose(
		c->live.conversation, a->state.request ? a->state.request : a->state.branch);
	conversation_think(c->live.conversation, c->settings.thinking);
	if (!conversation_ask(
			c->live.conversation, text, strlen(text), room, answer_drops(&c->settings), &p, &e))
		answer(a, &p, &e);
	app_complain(a, &e);
	free(text);
}

static int repeat(struct app *a, int n_forks, struct err *e)
{
	struct conversation_prompt p;
	int64_t newest;

	chat_past_leave(a);
	chat_cancel(a);
	/* its own: requests of the server's clients are in the timeline, too */
	newest = conversation_newest(a->chat->live.conversation);
	if (conversation_repeat(a->chat->live.conversation, &p, e) < 0)
		return -1;
	return n_forks ? submit_answers(a, &p, EV_REQUEST_KIND_fork, n_forks, newest, e)
				   : answer(a, &p, e);
}

/* ---- stopping ---- */

static void cancel_one(struct engine *engine, void *id)
{
	engine_cancel(engine, *(int64_t *)id);
}

static bool is_among(int64_t id, const int64_t *ids, int n)
{
	while (n > 0)
		if (ids[--n] == id)
			return true;
	return false;
}

int chat_stop(struct app *a, bool all)
{
	int64_t id[CANCEL_MAX];
	int n = conversation_running(a->chat->live.conversation, id, CANCEL_MAX);
	const bool search = chat_search_cancel(a, true), compare = a->chat->compare.running,
			   price = a->chat->price.running;

	a->chat->compare.stopping |= compare;
	a->chat->price.stopping |= price;
	n = n < CANCEL_MAX ? n : CANCEL_MAX;
	for (int32_t i = 0; (all || (!n && !search)) && i < a->timeline.n_requests && n < CANCEL_MAX;
		 i++)
		if (a->timeline.request[i].state != TL_FINISHED &&
			!is_among(a->timeline.request[i].id, id, n))
			id[n++] = a->timeline.request[i].id;
	for (int i = 0; i < n; i++)
		actor_post(a->chat->live.session.actor, cancel_one, NULL, &id[i], sizeof id[i]);
	return n + (search || ((compare || price) && !n));
}

void chat_cancel(struct app *a)
{
	chat_end_loop(a);
	if (!chat_search_stop(a) || conversation_busy(a->chat->live.conversation))
		chat_stop(a, false);
	actor_call(a->chat->live.session.actor, NULL, NULL);
}

/* --- settings of the engine --- */

struct setting_job {
	char name[32], value[512];
	struct err err;
};

static void set_it(struct engine *engine, void *job)
{
	struct setting_job *j = job;

	engine_set(engine, j->name, j->value, &j->err);
}

static void say_setting(void *app, void *job)
{
	const struct setting_job *j = job;
	struct app *a = app;
	struct err e = { 0 };

	if (!a)
		return;
	/* folds the event with the new value */
	chat_feed(a);
	if (j->err.code)
		commands_refused(j->name, &j->err, &e);
	else
		commands_say_set(&a->host, j->name);
	app_complain(a, &e);
}

static void say_refusal(void *app, void *job)
{
	const struct setting_job *j = job;

	if (app)
		app_complain(app, &j->err);
}

void chat_engine_put_back(struct app *a, const char *name, const char *value)
{
	struct setting_job job = { 0 };
	struct err ignored = { 0 };

	if (!strcmp(name, "search")) {
		chat_search_set(a, value, &ignored);
		return;
	}
	snprintf(job.name, sizeof job.name, "%s", name);
	snprintf(job.value, sizeof job.value, "%s", value);
	actor_post(a->chat->live.session.actor, set_it, say_refusal, &job, sizeof job);
}

/* --- what is observed --- */

static void observe(struct app *a, const char *name, int32_t value, int32_t *reported)
{
	char text[16];

	if (*reported == value + 1)
		return;
	*reported = value + 1;
	snprintf(text, sizeof text, "%d", value);
	chat_engine_put_back(a, name, text);
}

/* Attention of one head is an event of its own, emitted only while the head is shown. */
void chat_observe(struct app *a)
{
	if (!a->chat->live.ready)
		return;
	observe(a, "observe-layer", a->state.head < 0 ? -1 : a->state.layer, &a->chat->reported_layer);
	observe(a, "observe-head", a->state.layer < 0 ? -1 : a->state.head, &a->chat->reported_head);
}

/* --- saving --- */

/* Checked now, so that the error does not come at the end of the session. */
static bool folder_takes_files(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	bool able = folder && !access(folder, W_OK | X_OK);

	free(folder);
	return able;
}

static int save(struct app *a, const char *path, struct err *e)
{
	struct chat *c = a->chat;
	size_t n = strlen(path);
	struct stat s;

	if (n < 4 || strcmp(path + n - 3, ".db") != 0) {
		if (conversation_save(c->live.conversation, path, e) < 0)
			return -1;
		app_say(a, SAY_INFO, "the conversation was written to %s as text", path);
		return 0;
	}
	if (!c->live.session.writer)
		return err_set(
			e, ERR_USAGE, "nothing is recorded in this session: /save FILE.txt writes the text");
	if (stat(path, &s) == 0)
		return err_set(e, ERR_USAGE, "%s exists already: choose another name", path);
	if (!folder_takes_files(path))
		return err_set(e, ERR_IO, "%s: nothing can be written there: %s", path, strerror(errno));
	app_say(a, SAY_INFO, "the recording will be copied to %s%s%s when the session ends", path,
		c->copy_to ? ", no longer to " : "", c->copy_to ? c->copy_to : "");
	free(c->copy_to);
	c->copy_to = strdup(path);
	return 0;
}

int chat_copy_recording(struct chat *c, struct err *e)
{
	return c->copy_to ? recording_copy(c->options->record, c->copy_to, e) : 0;
}

/* --- the command host --- */

/* The chat's own settings change at once; the engine's between two steps, perhaps after a long
 * one. */
int chat_engine_set(void *arg, const char *name, const char *value, struct err *e)
{
	struct app *a = arg;
	struct setting_job job = { 0 };
	bool search = !strcmp(name, "search");

	if (!a->chat->live.ready)
		return err_set(e, ERR_USAGE, "the model is not there yet");
	if (chat_own_is(name))
		return chat_own_set(a, name, value, e);
	if (search || !strcmp(name, "score"))
		return (search ? chat_search_set(a, value, &job.err)
					   : chat_search_score(a, value, &job.err)) < 0
				   ? commands_refused(name, &job.err, e)
				   : 0;
	if (strlen(value) >= sizeof job.value)
		return err_set(
			e, ERR_USAGE, "/%s: a value has at most %zu bytes", name, sizeof job.value - 1);
	snprintf(job.name, sizeof job.name, "%s", name);
	snprintf(job.value, sizeof job.value, "%s", value);
	if (!actor_post(a->chat->live.session.actor, set_it, say_setting, &job, sizeof job))
		return err_no_memory(e, "a setting");
	return 1;
}

int chat_engine_get(void *arg, const char *name, char *buf, size_t cap)
{
	struct app *a = arg;
	const struct chat_search *s = &a->chat->search;
	const char *value = timeline_setting(&a->timeline, name);

	if (chat_own_is(name)) {
		chat_own_get(a->chat, name, buf, cap);
		return 0;
	}
	if (!strcmp(name, "search"))
		value = s->method[0] ? s->method : "off";
	else if (!strcmp(name, "score"))
		value = s->score[0] ? s->score : "off";
	if (!value)
		return -1;
	snprintf(buf, cap, "%s", value);
	return 0;
}

/* "name\0value" */
static void note(struct engine *engine, void *text)
{
	engine_note_setting(engine, text, (const char *)text + strlen(text) + 1);
}

void chat_note(void *arg, const char *name, const char *value)
{
	struct app *a = arg;
	char *text;
	int n;

	if (!a->chat->live.ready)
		return;
	n = asprintf(&text, "%s%c%s", name, 0, value);
	if (n < 0)
		return;
	actor_post(a->chat->live.session.actor, note, NULL, text, (size_t)n + 1);
	free(text);
}

int chat_begin_anew(struct app *a, struct err *e)
{
	const char *system = answer_system(
		&a->chat->settings, engine_info(a->chat->live.session.engine)->default_system);

	chat_past_leave(a);
	chat_cancel(a);
	if (conversation_new(a->chat->live.conversation, system, e) < 0)
		return -1;
	follow_newest(a);
	a->state.anew = timeline_chat(&a->timeline) ? timeline_chat(&a->timeline)->id : 0;
	app_say(a, SAY_INFO, "a new conversation begins");
	return 0;
}

static int set_system(struct app *a, const char *text, struct err *e)
{
	free(a->chat->system);
	a->chat->settings.system = a->chat->system = !strcmp(text, "default") ? NULL : strdup(text);
	chat_note(a, "system", text);
	return chat_begin_anew(a, e);
}

static int stop_all(struct app *a)
{
	const int n = chat_stop(a, true);

	chat_end_loop(a); /* what it held goes on */
	app_say(a, SAY_INFO, n == 1 ? "1 request was stopped" : "%d requests were stopped", n);
	return 0;
}

static int act(struct app *a, enum command_act act, const char *text, double number, struct err *e)
{
	struct actor *actor = a->chat->live.session.actor;

	switch (act) {
	case ACT_SAVE: return save(a, text, e);
	case ACT_COPY: return chat_copy(a, text, e);
	case ACT_EDIT: return chat_edit(a, text, e);
	case ACT_FILE: return chat_file(a, text, e);
	case ACT_COMPARE: return chat_compare(a, text, e);
	case ACT_PRICE: return chat_price(a, e);
	case ACT_PIN: return chat_pin(a, text, e);
	case ACT_UNPIN: return chat_unpin(a, (int64_t)number, e);
	case ACT_MODEL: return chat_model(a, text, e);
	case ACT_NEW: return chat_begin_anew(a, e);
	case ACT_RETRY: return repeat(a, 0, e);
	case ACT_FORK:
		/* a position, or the cursor on a token: a fork from there */
		if (*text == '@' || (!*text && a->state.token >= 0))
			return chat_fork_at(a, text, e);
		return repeat(a, (int)number, e);
	case ACT_REWIND: return chat_rewind(a, text, e);
	case ACT_TRY: return chat_try(a, text, e);
	case ACT_UNDO: return chat_undo(a, e);
	case ACT_BACK: return chat_past_by(a, -(int64_t)number, e);
	case ACT_GOTO: return chat_past_go(a, (int64_t)number, e);
	case ACT_LESSON: return chat_lesson(a, text, e);
	case ACT_LOAD: return chat_load(a, text, e);
	case ACT_SYSTEM: return set_system(a, text, e);
	case ACT_STOP_ANSWER: return stop_all(a);
	case ACT_PAUSE:
		return a->past || actor_paused(actor) ? chat_go_on(a, e) : (actor_pause(actor), 0);
	case ACT_CONTINUE: return chat_go_on(a, e);
	case ACT_STEP: return chat_step(a, (int)number, e);
	default: return err_set(e, ERR_USAGE, "this command has no meaning in a chat");
	}
}

int chat_act(void *arg, enum command_act what, const char *text, double number, struct err *e)
{
	struct app *a = arg;
	struct chat *c = a->chat;
	int done = app_act(a, what, text, e);
	bool paused = c->live.ready && actor_paused(c->live.session.actor);

	if (done <= 0) {
		chat_observe(a);
		return done;
	}
	if (!c->live.ready)
		return err_set(e, ERR_USAGE, "the model is not there yet");
	done = act(a, what, text, number, e);
	if (done < 0 && !paused) /* an error changes nothing */
		actor_unpause(c->live.session.actor);
	return done;
}
