/* cutaway replay: a recording on the screens of the chat, with a scrubber. No engine, no model.
 *
 * The views only see a timeline, live or replayed. Steps follow at their recorded times, divided by
 * the speed; a pause of the recorded user is shortened to a second. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/embed.h"
#include "trace/recording.h"
#include "tui/app/app.h"
#include "tui/state/lens.h"
#include "tui/replay/scrubber.h"

enum { READ_NS = 8000000, FOLLOW_NS = 100000000, PAGE_STEPS = 10 };

#define LONGEST_WAIT_NS 1000000000LL

struct replay {
	struct player *player;
	const char *path;
	const struct tui_options *options;
	bool playing, read_all, damaged;
	bool follow;       /* the file may be growing, and is checked repeatedly */
	bool at_end;       /* of a growing file: new steps are shown at once */
	bool end_reported; /* the end of the session was reported */
	bool zoomed;       /* what a recording without an engine is of was shown */
	int fd;            /* of the file, to see whether anybody writes it; -1: not asked */
	int64_t looked_ns;
	double speed;
	int64_t due_ns; /* when the next step comes */
};

static void damaged(struct app *a, const struct err *e)
{
	if (!a->replay->damaged)
		app_say(a, SAY_ERROR, "%s", e->text);
	a->replay->damaged = a->replay->read_all = true;
}

static void schedule(struct app *a, int64_t from_ns)
{
	struct replay *r = a->replay;
	struct err e = { 0 };
	int64_t ns = player_next_ns(r->player, &e);
	double wait;

	if (e.code)
		damaged(a, &e);
	if (ns < 0) {
		r->playing = false;
		return;
	}
	wait = (double)ns / r->speed;
	r->due_ns = from_ns + (wait > (double)LONGEST_WAIT_NS ? LONGEST_WAIT_NS : (int64_t)wait);
}

/* A training, or a file that is changed, has one view. */
static void zoom_study(struct app *a)
{
	const struct timeline *t = &a->timeline;

	if (a->replay->zoomed || t->backend || t->attached.on || (!t->n_trained && !t->n_changed))
		return;
	a->replay->zoomed = a->dirty = true;
	a->zoom = t->n_trained ? VIEW_TRAINING : VIEW_LAYERS;
}

static void go(struct app *a, int64_t step)
{
	struct replay *r = a->replay;
	struct err e = { 0 };

	if (player_go(r->player, &a->timeline, step, &e) < 0)
		damaged(a, &e);
	breaks_follow(a->breaks, r->path, player_at(r->player));
	a->state.token = -1;
	a->state.branch = 0;
	a->dirty = true;
	if (r->playing)
		schedule(a, now_ns());
}

static void play(struct app *a, bool on)
{
	a->replay->playing = on;
	if (on && player_at(a->replay->player) >= player_n_steps(a->replay->player))
		go(a, 0);
	if (on)
		schedule(a, now_ns());
	a->dirty = true;
}

/* A recording that is being written by another process: reads what it has committed, ten times a
 * second. No read transaction stays open in between, so neither blocks the other. */
static void follow(struct app *a)
{
	struct replay *r = a->replay;
	struct err e = { 0 };
	int grew, written;

	if (!r->follow || r->damaged || now_ns() - r->looked_ns < FOLLOW_NS)
		return;
	r->looked_ns = now_ns();
	written = recording_written(r->fd); /* asked first: what is read then is all there will be */
	grew = player_refresh(r->player, &e);
	if (grew < 0)
		damaged(a, &e);
	a->dirty |= grew != 0;
	if (grew > 0 && r->at_end)
		go(a, INT64_MAX - 1);
	if (player_closed(r->player) && !r->end_reported) {
		r->end_reported = true;
		app_say(a, SAY_INFO, "the session has ended: this is now a recording like any other");
	} else if (!written && !player_closed(r->player)) {
		r->follow = r->at_end = false;
		app_say(a, SAY_INFO, "no program writes this file any more: its session was cut off");
	}
}

static void work(struct app *a)
{
	struct replay *r = a->replay;
	struct err e = { 0 };
	int64_t now = now_ns(), until = now + READ_NS;

	while (r->playing && now >= r->due_ns && now < until) {
		if (player_go(r->player, &a->timeline, player_at(r->player) + 1, &e) < 0)
			damaged(a, &e);
		breaks_follow(a->breaks, r->path, player_at(r->player));
		a->dirty = true;
		if (!r->playing)
			break;              /* a breakpoint */
		schedule(a, r->due_ns); /* not from now on, so that a late frame is caught up */
		now = now_ns();
	}
	if (r->playing && now > r->due_ns + LONGEST_WAIT_NS)
		r->due_ns = now; /* this machine is slower than the recording: do not catch up */
	if (!r->read_all) {
		int more = player_read(r->player, READ_NS, &e);

		if (more < 0)
			damaged(a, &e);
		if (more == 0) {
			r->read_all = true;
			a->dirty = true; /* the number of steps is certain now */
		}
	}
	follow(a);
	zoom_study(a);
}

static int timeout_ms(struct app *a)
{
	struct replay *r = a->replay;
	int64_t left = r->due_ns - now_ns();

	int wait = !r->playing ? -1 : left > 0 ? (int)(left / 1000000) + 1 : 0;

	if (!r->read_all)
		return 0;
	if (r->follow && !r->end_reported && (wait < 0 || wait > FOLLOW_NS / 1000000))
		wait = FOLLOW_NS / 1000000;
	return wait;
}

static int fds(struct app *a, struct pollfd *p)
{
	(void)a, (void)p;
	return 0;
}

/* --- keys --- */

static void go_to_mark(struct app *a, bool forward)
{
	int64_t step = player_next_mark(a->replay->player, forward);

	if (step < 0) {
		app_say(a, SAY_INFO, forward ? "no mark after this step" : "no mark before this step");
		return;
	}
	a->replay->playing = a->replay->at_end = false;
	go(a, step);
}

static void change_speed(struct app *a, double speed)
{
	a->replay->speed = speed < 0.01 ? 0.01 : speed > 1000 ? 1000 : speed;
	if (a->replay->playing)
		schedule(a, now_ns());
	a->dirty = true;
}

/* Keys that move in time, while no view has the focus and the prompt is empty. */
static bool time_key(struct app *a, int key)
{
	struct replay *r = a->replay;

	switch (key) {
	case KEY_PAGE_UP: go(a, player_at(r->player) - PAGE_STEPS); break;
	case KEY_PAGE_DOWN: go(a, player_at(r->player) + PAGE_STEPS); return true;
	case KEY_HOME_: go(a, 0); break;
	case 'G':
	case KEY_END_:
		r->playing = false;
		r->at_end = r->follow;
		go(a, INT64_MAX - 1);
		return true;
	default: return false;
	}
	r->at_end = false;
	return true;
}

static bool letter_key(struct app *a, int key)
{
	static const struct app_bind binds[] = { { 'b', "/break " }, { 'f', "/find " },
		{ 'q', "/quit" }, { 0 } };

	switch (key) {
	case 'n':
	case 'N': go_to_mark(a, key == 'n'); return true;
	case '+':
	case '=': change_speed(a, a->replay->speed * 2); return true;
	case '-': change_speed(a, a->replay->speed / 2); return true;
	default: return app_bound(a, binds, key);
	}
}

static bool key(struct app *a, int key)
{
	if (a->focus < 0 && !a->prompt_hidden) {
		if (key == 27) /* Esc leaves the prompt */
			prompt_set("");
		a->prompt_hidden = key == 27;
		return key == 27;
	}
	if (a->focus < 0 && view_of_digit(key, a->focus) >= 0) {
		app_focus(a, view_of_digit(key, a->focus));
		return true;
	}
	if (a->focus < 0)
		return time_key(a, key) || letter_key(a, key) || app_letter(a, key) || key < 256;
	return letter_key(a, key);
}

static void line(struct app *a, const char *text)
{
	a->prompt_hidden = true;
	if (*text == '/')
		app_command(a, text);
	else if (*text)
		app_say(a, SAY_ERROR, "a replay takes commands only: /goto 131, /speed 2, /help");
}

static void stop(struct app *a)
{
	a->replay->playing = false;
	app_say(a, SAY_INFO, "^C again quits");
}

/* --- status and scrubber --- */

static void status(struct app *a, struct app_status *s)
{
	struct replay *r = a->replay;
	double wall = (double)a->timeline.session.unix_ns + (double)a->timeline.last_t_ns;
	time_t seconds = (time_t)(wall / 1e9);
	char clock[16];
	struct tm tm;

	if (r->at_end && !player_closed(r->player))
		app_field(s, INK_ACCEPTED, "%s following", glyph(&a->canvas, GLYPH_RECORD));
	else
		app_field(s, r->playing || r->at_end ? INK_ACCEPTED : INK_BRIGHT, "%s %g%s",
			glyph(&a->canvas, r->playing ? GLYPH_PLAY : GLYPH_PAUSE), r->speed,
			glyph(&a->canvas, GLYPH_TIMES));
	app_field(s, INK_TEXT, "step %lld of %lld", (long long)player_at(r->player),
		(long long)player_n_steps(r->player));
	if (a->timeline.begun && a->timeline.session.unix_ns > 0 && localtime_r(&seconds, &tm) &&
		strftime(clock, sizeof clock, "%H:%M:%S", &tm))
		app_field(s, INK_TEXT, "%s", clock);
	app_field(s, INK_BRIGHT, "replay");
	app_context(&a->timeline, timeline_chat(&a->timeline), 0, s);
}

static struct view_text name(struct app *a)
{
	const struct timeline *t = &a->timeline;
	const char *dot = glyph(&a->canvas, GLYPH_DOT);

	if (t->attached.on)
		return view_form("%s %s %s %s", t->attached.model ? t->attached.model : "", dot,
			t->attached.server, t->attached.version ? t->attached.version : "");
	if (t->begun && !t->backend) /* no engine: see sessions/study/study.h */
		return view_form("%s", t->model_name);
	return t->begun ? view_form("%s%s %s %s %s", timeline_exact(t) ? "" : "NOT EXACT ",
						  t->model_name, dot, t->backend, t->isa)
					: view_form("%s", a->replay->path);
}

static void scrub(struct app *a, struct pen *p)
{
	struct replay *r = a->replay;

	scrubber_draw(p, r->player,
		r->damaged                 ? "damaged: a part is missing"
		: player_closed(r->player) ? ""
		: r->follow                ? "being written; End follows it"
								   : "the session did not end in order");
}

/* --- all of it --- */

static const struct hint hints[] = {
	{ "space", "play" },
	{ "→ ←", "step" },
	{ "n N", "marks" },
	{ "w", "why" },
	{ "F1", "explain" },
	{ "q", "quit" },
	{ "^P", "commands" },
	{ "g", "goto" },
	{ "b", "break" },
	{ "f", "find" },
	{ "t", "branches" },
	{ "l", "deep look" },
	{ "1-9", "views" },
	{ "+ -", "speed" },
	{ NULL, NULL },
};

EMBED(replay_help, "tui/replay/replay.txt");

static int act(void *arg, enum command_act what, const char *text, double number, struct err *e)
{
	struct app *a = arg;
	struct replay *r = a->replay;
	int done = app_act(a, what, text, e);

	if (done <= 0)
		return done;
	r->at_end &= what == ACT_SPEED;
	switch (what) {
	case ACT_PAUSE: play(a, !r->playing); return 0;
	case ACT_CONTINUE: play(a, true); return 0;
	case ACT_SPEED: change_speed(a, number); return 0;
	case ACT_STEP: number += (double)player_at(r->player); break;
	case ACT_BACK: number = (double)player_at(r->player) - number; break;
	case ACT_GOTO: break;
	default: return err_set(e, ERR_USAGE, "this command needs an engine, a replay has none");
	}
	r->playing = false;
	go(a, (int64_t)number);
	if (player_at(r->player) != (int64_t)number && !r->damaged)
		app_say(a, SAY_INFO, "there are steps 0 to %lld", (long long)player_n_steps(r->player));
	return 0;
}

static const char *recording(struct app *a, struct err *e)
{
	(void)e;
	return a->replay->path;
}

static void stop_playing(void *arg)
{
	((struct replay *)arg)->playing = false;
}

static void breaks_changed(struct app *a)
{
	breaks_follow(a->breaks, a->replay->path, player_at(a->replay->player));
}

static int open_lens(struct app *a, struct lens **l, struct err *e)
{
	const struct timeline *t = &a->timeline;

	const struct tui_options *o = a->replay->options;

	return lens_open_file(l, o->engine.model ? o->engine.model : t->model_path,
		o->engine.model ? NULL : o->model_else, t->model_sha256, e);
}

/* To the step where a branch ended. */
static void action(struct app *a, const struct view_action *w)
{
	const struct timeline *t = &a->timeline;
	const struct tl_token *last =
		timeline_branch_token(t, w->branch, timeline_branch_length(t, w->branch) - 1);

	if (w->what != ACTION_BRANCH) {
		app_say(a, SAY_ERROR, "another token needs an engine, a replay has none");
	} else if (last) {
		a->replay->playing = false;
		go(a, last->step);
		a->state.branch = w->branch.request;
	}
}

static const struct app_mode replay_mode = {
	.label = "›",
	.hints = hints,
	.help = replay_help,
	.scrubber = true,
	.fds = fds,
	.timeout_ms = timeout_ms,
	.work = work,
	.line = line,
	.key = key,
	.stop = stop,
	.status = status,
	.name = name,
	.scrub = scrub,
	.recording = recording,
	.breaks_changed = breaks_changed,
	.open_lens = open_lens,
	.action = action,
};

int tui_replay(const char *path, const struct tui_options *o, struct err *e)
{
	struct replay r = { .path = path,
		.options = o,
		.speed = 1,
		.playing = !o->follow,
		.follow = o->follow,
		.fd = -1,
		.at_end = o->follow };
	struct app a = {
		.replay = &r, .prompt_hidden = true, .host = { .replay = true, .arg = &a, .act = act }
	};
	int result = -1;

	app_init(&a, &replay_mode);
	/* Before the screen is taken over: the error of an unreadable file goes to the plain
	 * terminal. */
	if (player_open(&r.player, path, e) < 0)
		return -1;
	if (o->follow)
		r.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (app_open(&a, o, e) == 0) {
		breaks_on_stop(a.breaks, stop_playing, &r);
		go(&a, o->follow ? INT64_MAX - 1 : 0);
		schedule(&a, now_ns());
		if (o->newest)
			app_say(&a, SAY_INFO, "the newest recording: %s", path);
		result = app_run(&a, e);
	}
	app_close(&a);
	breaks_close(a.breaks);
	player_close(r.player);
	if (r.fd >= 0)
		close(r.fd);
	return result;
}
