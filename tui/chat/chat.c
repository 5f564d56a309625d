/* cutaway chat: a live session on the screens. The commands are in chat_acts.c. */
#include "tui/chat/chat.h"

#include "base/embed.h"
#include "tui/state/lens.h"
#include "tui/replay/scrubber.h"

enum { FEED_NS = 15000000, SCRIPT_NS = 15000000, ESCAPE = 27 };

/* --- lines: turns and commands, one after the other --- */

/* Until the model is open, commands wait in order with the turns, but for those of the screen. */
static bool waits_for_model(struct app *a, const char *line)
{
	const struct command *command =
		a->chat->live.ready && !a->chat->model ? NULL : commands_find(&a->host, line);

	if (!command || command->kind != COMMAND_ACT)
		return command;
	switch (command->act) {
	case ACT_HELP:
	case ACT_QUIT:
	case ACT_PROJECTOR:
	case ACT_THEME:
	case ACT_TREE:
	case ACT_VIEW:
	case ACT_ZOOM: return false;
	case ACT_SESSION:
	case ACT_SESSIONS: return a->chat->model; /* whose recording must not be read here */
	default: return true;
	}
}

static bool means_to_leave(const char *line)
{
	static const char *const words[] = { "exit", "quit", ":q", ":wq" };
	size_t i = 0;

	while (i < ARRAY_N(words) && strcmp(line, words[i]) != 0)
		i++;
	return i < ARRAY_N(words);
}

/* A turn waits until the model is open and the last answer is complete. */
static void run_line(struct app *a, const char *line)
{
	if (chat_lesson_line(a, line) || line[strspn(line, " \t\n")] == '\0')
		return;
	if (*line == '/' && !waits_for_model(a, line)) {
		app_command(a, line);
		return;
	}
	if (!a->chat->script && means_to_leave(line)) {
		app_say(a, SAY_INFO,
			"/quit or ^D leaves; to say \"%s\" to the model, put a blank before it", line);
		return;
	}
	a->state.scroll[VIEW_CHAT] = 0; /* what was sent is seen */
	chat_end_loop(a);
	waiting_push(a, &a->chat->waiting, line);
}

static bool stand_here(struct app *a)
{
	struct err e = { 0 };

	if (chat_stand_here(a, &e) == 0) {
		actor_resume(a->chat->live.session.actor);
		return true;
	}
	app_complain(a, &e);
	waiting_forget(&a->chat->waiting);
	return false;
}

static void ask_waiting(struct app *a)
{
	struct chat *c = a->chat;
	char *line;

	while (c->live.ready && !c->model && c->waiting.n) {
		/* a turn entered while an earlier step is shown, or after a rewind, continues from there */
		if ((a->past || c->standing) && !stand_here(a))
			return;
		if (chat_busy(a))
			return;
		line = waiting_take(&c->waiting);
		if (*line == '/')
			app_command(a, line);
		else
			chat_ask(a, line);
		free(line);
	}
}

/* The next line of the --commands file is read when no turn waits and no answer runs, or when the
 * line before it paused the answer. */
static bool wants_line(struct app *a)
{
	struct chat *c = a->chat;

	return c->script && c->live.ready && !c->model && !a->quit && !c->waiting.n &&
		   (!chat_busy(a) || (c->script_paused && actor_paused(c->live.session.actor)));
}

/* Runs a few lines at a time: a file may be endless, and keys and frames must be handled in
 * between. */
static void run_script(struct app *a)
{
	struct chat *c = a->chat;
	struct err e = { 0 };
	int64_t until = now_ns() + SCRIPT_NS;
	char *line;
	int got = 1;

	while (got > 0 && wants_line(a) && now_ns() < until) {
		/* the timeline, which commands ask, may not know yet that an answer has ended */
		a->dirty |= live_feed(&c->live, &a->timeline, FEED_NS);
		got = script_line(c->script, &line, &e);
		if (got > 0 && *line != '#')
			run_line(a, line);
		if (got > 0)
			free(line);
		ask_waiting(a);
		c->script_paused = actor_paused(c->live.session.actor);
	}
	c->script_goes_on = got > 0;
	if (got >= 0)
		return;
	script_close(c->script);
	c->script = NULL;
	app_complain(a, &e);
}

/* --- events --- */

static void greet(struct app *a)
{
	struct chat *c = a->chat;
	const struct engine_info *info = engine_info(c->live.session.engine);

	a->host.vocab = info->vocab;
	if (c->settings.system)
		chat_note(a, "system", c->settings.system);
	if (c->options->resumed && chat_continue(a, &a->fatal)) {
		a->quit = true;
		return;
	}
	if (c->live.session.record_err.code)
		app_say(a, SAY_ERROR, "not recorded: %s", c->live.session.record_err.text);
	else if (c->options->not_recorded)
		app_say(a, SAY_ERROR, "not recorded: %s", c->options->not_recorded);
	else if (*c->live.guest_says.warning)
		app_say(a, SAY_ERROR, "%s", c->live.guest_says.warning);
	else if (*c->live.guest_says.where)
		app_say(a, SAY_INFO, "serving %s", c->live.guest_says.where);
	else if (!info->chat_known)
		app_say(a, SAY_ERROR,
			"the chat template of this model is not known: plain text is used, and the "
			"answers may suffer");
	else if (info->chat->note)
		app_say(a, SAY_INFO, "chat template %s: %s", info->chat->name, info->chat->note);
	else if (tokenizer_note(engine_tokenizer(c->live.session.engine)))
		app_say(
			a, SAY_INFO, "the file's %s", tokenizer_note(engine_tokenizer(c->live.session.engine)));
	a->dirty = true;
}

static const char *what_turns_wait_for(const struct chat *c)
{
	if (!c->live.ready || c->model)
		return "waiting for the model";
	if (actor_paused(c->live.session.actor))
		return "waiting: paused, F5 goes on";
	return c->search.running    ? "waiting for the end of the search"
		   : c->compare.running ? "waiting for the end of the comparison"
		   : c->price.running   ? "waiting for the end of /price"
								: "waiting for the answer";
}

bool chat_busy(struct app *a)
{
	struct chat *c = a->chat;

	return c->search.running || c->compare.running || c->price.running ||
		   conversation_busy(c->live.conversation);
}

static void work(struct app *a)
{
	struct chat *c = a->chat;
	struct live *s = &c->live;
	bool was_ready = s->ready;

	c->waiting.why = what_turns_wait_for(c);
	c->waiting.paused = s->ready && !c->model && actor_paused(s->session.actor);
	if (!live_ready(s)) {
		a->dirty = true; /* updates the seconds of loading */
		if (s->open_err.code && !s->thread_started) {
			a->fatal = s->open_err;
			a->quit = true;
		}
		return;
	}
	if (!was_ready)
		greet(a);
	if (live_feed(s, &a->timeline, FEED_NS))
		a->dirty = true;
	if (s->stopped && !c->stop_reported) {
		c->stop_reported = true;
		app_say(a, SAY_ERROR, "the engine stopped: %s", s->stop_err.text);
	}
	live_look_at_recording(a, s->session.writer, &c->record_failed);
	chat_hold_loop(a);
	chat_model_work(a);
	actor_answers(s->session.actor, a);
	chat_search_work(a);
	chat_compare_work(a);
	chat_price_work(a);
	ask_waiting(a);
	run_script(a);
	chat_lesson_work(a);
	chat_look_ahead(a);
}

static int fds(struct app *a, struct pollfd *p)
{
	struct chat *c = a->chat;

	p[0] = (struct pollfd){ .fd = c->live.fd, .events = POLLIN };
	if (!c->live.ready)
		return 1;
	p[1] = (struct pollfd){ .fd = ring_fd(c->live.session.ring), .events = POLLIN };
	p[2] = (struct pollfd){ .fd = actor_fd(c->live.session.actor), .events = POLLIN };
	if (!wants_line(a))
		return 3;
	p[3] = (struct pollfd){ .fd = script_fd(c->script), .events = POLLIN };
	return 4;
}

static int timeout_ms(struct app *a)
{
	struct chat *c = a->chat;

	if (!c->live.ready || c->model)
		return 100;
	if (c->script_goes_on && wants_line(a))
		return 0;
	/* Finished answers wake this thread through the ring; the timeout is for waiting turns and the
	 * script. */
	return c->waiting.n || c->script || chat_lesson_busy(a) ? 50 : 1000;
}

/* --- keys --- */

/* Keys while an earlier step is shown: in the prompt Enter on an empty line continues from it, and
 * Esc or End leaves it; views have more. */
static bool past_key(struct app *a, int key)
{
	bool typed = *prompt_text();

	if (!typed && (key == '\r' || key == '\n'))
		app_command(a, "/continue");
	else if (key == ESCAPE || (!typed && key == KEY_END_))
		chat_past_return(a);
	else
		return false;
	return true;
}

static bool key(struct app *a, int key)
{
	if (a->focus >= 0)
		return chat_past_key(a, key);
	if (prompt_busy())
		return false;
	if (a->past)
		return past_key(a, key);
	if (key != ESCAPE || *prompt_text())
		return false;
	return waiting_take_back(&a->chat->waiting) || chat_search_cancel(a, false);
}

static void scrub(struct app *a, struct pen *p)
{
	if (a->chat->past)
		scrubber_draw(p, a->chat->past,
			a->focus >= 0    ? "F5 answers anew from here · End: the present"
			: *prompt_text() ? "F5 answers anew from here · Esc: the present"
							 : "F5 answers anew from here · Esc or End: the present");
}

static void stop(struct app *a)
{
	const bool stopped =
		chat_end_loop(a) || chat_model_stop(a) || (a->chat->live.ready && chat_stop(a, false) > 0);

	waiting_stop(a, &a->chat->waiting, stopped, a->chat->live.session.writer);
}

/* Where what is said next goes on, unless that is the only answer. */
static const char *empty_words(struct app *a)
{
	static struct view_text words;
	int64_t from = a->chat->live.ready && !a->chat->model ? chat_goes_on_from(a) : 0;

	if (a->past)
		return "an earlier step: F5 answers anew from here; what you say follows it";
	words = view_form("goes on from %s · /tree chooses", view_label(from).text);
	return from ? words.text : NULL;
}

/* --- all of it --- */

static const struct hint hints[] = { { "F1", "explain" }, { "F5", "pause" }, { "F10", "step" },
	{ "F9", "back" }, { "^O", "views" }, { "^P", "commands" }, { "^C", "stop" }, { NULL, NULL } };

static const struct hint past_hints[] = { { "F5", "answers anew" }, { "Esc", "the present" },
	{ "F9", "back" }, { "F10", "forward" }, { "F1", "explain" }, { "^O", "views" },
	{ "^P", "commands" }, { NULL, NULL } };

EMBED(chat_help, "tui/chat/chat.txt");

/* All events emitted so far are in the file when this returns. */
static const char *recording(struct app *a, struct err *e)
{
	struct chat *c = a->chat;

	if (!c->live.ready) {
		err_set(e, ERR_USAGE, "the model is not there yet");
		return NULL;
	}
	if (!c->live.session.writer) {
		err_set(e, ERR_USAGE, "this session is not recorded, and answers come from the recording");
		return NULL;
	}
	if (writer_flush(c->live.session.writer) < 0) {
		err_set(e, ERR_IO, "recording has stopped: %s", writer_path(c->live.session.writer));
		return NULL;
	}
	return writer_path(c->live.session.writer);
}

static int open_lens(struct app *a, struct lens **l, struct err *e)
{
	if (!a->chat->live.ready)
		return err_set(e, ERR_USAGE, "the model is not there yet");
	return lens_open(
		l, a->chat->live.session.actor, engine_tokenizer(a->chat->live.session.engine), e);
}

static bool reads(const struct app *a)
{
	return a->chat->lesson.l != NULL;
}

static const struct app_mode chat_mode = {
	.label = "you ›",
	.empty = empty_words,
	.hints = hints,
	.past_hints = past_hints,
	.help = chat_help,
	.fds = fds,
	.timeout_ms = timeout_ms,
	.work = work,
	.line = run_line,
	.key = key,
	.stop = stop,
	.moved = chat_observe,
	.action = chat_action,
	.scrub = scrub,
	.reads = reads,
	.status = chat_status,
	.name = chat_name,
	.recording = recording,
	.open_lens = open_lens,
};

static int copy_settings(struct chat *c, const struct answer_settings *from, struct err *e)
{
	c->usual = answer_defaults;
	c->usual.max_tokens = TUI_CHAT_TOKENS;
	c->settings = *from;
	c->settings.system = c->system = from->system ? strdup(from->system) : NULL;
	return setting_stops_copy(&c->settings.stop, &from->stop, e);
}

static void free_all(struct chat *c)
{
	chat_compare_free(&c->compare);
	chat_price_free(&c->price);
	script_close(c->script);
	chat_lesson_close(&c->lesson);
	free(c->copy_to);
	setting_stops_free(&c->settings.stop);
	free(c->system);
}

int tui_chat(const struct tui_options *o, struct tui_end *end, struct err *e)
{
	struct chat c = { .options = o, .end = end, .began_ns = now_ns(), .loops_run = o->loops_run };
	struct app a = { .chat = &c, .state.waiting = &c.waiting };
	int result = -1;

	c.live.fd = -1;
	a.host = (struct command_host){ .settings = &c.settings,
		.opened = &o->engine,
		.usual = &c.usual,
		.arg = &a,
		.engine_set = chat_engine_set,
		.engine_get = chat_engine_get,
		.refuses = chat_refuses,
		.note = chat_note,
		.say = app_tell,
		.act = chat_act };
	app_init(&a, &chat_mode);
	if (copy_settings(&c, &o->answer, e) < 0)
		return -1;
	if ((!o->commands || script_open(&c.script, o->commands, e) == 0) && app_open(&a, o, e) == 0 &&
		live_open(&c.live, o, a.breaks, e) == 0)
		result = app_run(&a, e);
	chat_past_leave(&a);
	app_end(&a, c.live.session.writer ? "saving the recording …" : "ending …");
	end->recorded = c.live.session.writer != NULL;
	if (live_close(&c.live, e) < 0)
		result = -1;
	if (chat_copy_recording(&c, e) < 0)
		result = -1;
	chat_model_end(&c);
	app_close(&a);          /* only now: keys and signals before this point cannot prevent saving */
	breaks_close(a.breaks); /* the engine fed it until it was closed */
	end->unsent = waiting_forget(&c.waiting);
	free_all(&c);
	return result;
}
