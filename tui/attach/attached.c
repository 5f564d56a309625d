/* See attached.h. A mode of the program (tui/app/app.h) like the chat and the replay: turns go to
 * the server, events come from its ring. Nothing here can hold, rewind or set an engine: it is not
 * ours. */
#include "tui/attach/attached.h"

#include "base/embed.h"
#include "trace/reader.h"
#include "trace/ring.h"
#include "tui/chat/live.h"

enum { FEED_NS = 15000000, KEY_ESC_BYTE = 27 };

struct attached {
	struct attach *server;
	struct answer_settings settings;
	char *system;                /* text of settings.system */
	void *event;                 /* [RING_EVENT_MAX] the event being folded */
	struct view_waiting waiting; /* turns that wait for the end of the answer */
	bool record_failed;
};

/* ---- events ---- */

static void ask_waiting(struct app *a)
{
	struct attached *m = a->attached;
	struct err e = { 0 };
	char *text = attach_busy(m->server) ? NULL : waiting_take(&m->waiting);

	if (!text)
		return;
	attach_ask(m->server, text, EV_REQUEST_KIND_chat, &m->settings, &e);
	app_complain(a, &e);
	free(text);
	app_follow_newest(a);
	a->dirty = true;
}

static void work(struct app *a)
{
	struct attached *m = a->attached;

	if (live_follow(attach_ring(m->server), attach_viewer(m->server), attach_writer(m->server),
			m->event, &a->timeline, FEED_NS))
		a->dirty = true;
	ask_waiting(a);
	live_look_at_recording(a, attach_writer(m->server), &m->record_failed);
}

static int fds(struct app *a, struct pollfd *p)
{
	p[0] = (struct pollfd){ .fd = ring_fd(attach_ring(a->attached->server)), .events = POLLIN };
	return 1;
}

static int timeout_ms(struct app *a)
{
	return a->attached->waiting.n ? 50 : 1000;
}

/* ---- what is typed ---- */

static void line(struct app *a, const char *text)
{
	a->dirty = true;
	if (*text == '/') {
		app_command(a, text);
	} else if (text[strspn(text, " \t\n")]) {
		waiting_push(a, &a->attached->waiting, text);
		ask_waiting(a);
	}
}

static void stop(struct app *a)
{
	struct attached *m = a->attached;
	const bool busy = attach_busy(m->server);

	attach_stop(m->server, NULL);
	waiting_stop(a, &m->waiting, busy, attach_writer(m->server));
}

static int begin_anew(struct app *a, struct err *e)
{
	const struct tl_request *last = timeline_chat(&a->timeline);

	if (attach_stop(a->attached->server, e) ||
		attach_new(a->attached->server, answer_system(&a->attached->settings, NULL), e))
		return -1;
	app_follow_newest(a);
	a->state.anew = last ? last->id : 0;
	app_say(a, SAY_INFO, "a new conversation begins");
	return 0;
}

static int set_system(struct app *a, const char *text, struct err *e)
{
	struct attached *m = a->attached;

	free(m->system);
	m->settings.system = m->system = !strcmp(text, "default") ? NULL : strdup(text);
	return attach_note(m->server, "system", text, e) ? -1 : begin_anew(a, e);
}

static int act(void *arg, enum command_act what, const char *text, double number, struct err *e)
{
	struct app *a = arg;
	struct attached *m = a->attached;
	const int done = app_act(a, what, text, e);

	(void)number;
	if (done <= 0)
		return done;
	switch (what) {
	case ACT_NEW: return begin_anew(a, e);
	case ACT_SYSTEM: return set_system(a, text, e);
	case ACT_RETRY: app_follow_newest(a); return attach_retry(m->server, &m->settings, e);
	case ACT_STOP_ANSWER: return attach_stop(m->server, e);
	case ACT_PAUSE:
	case ACT_STEP:
	case ACT_BACK:
	case ACT_GOTO:
	case ACT_CONTINUE:
		return err_set(e, ERR_USAGE,
			"%s decides when it computes, and is not held; cutaway replay steps through the "
			"recording",
			attach_says(m->server));
	default:
		return err_set(e, ERR_USAGE, "this needs an engine of one's own, and %s computes here",
			attach_says(m->server));
	}
}

static int refuses(void *arg, const struct setting *s, const char *value, struct err *e)
{
	(void)value;
	return attach_takes(((struct app *)arg)->attached->server, s, e);
}

static int get(void *arg, const char *name, char *buf, size_t cap)
{
	(void)arg, (void)name, (void)buf, (void)cap;
	return -1;
}

static int no_set(void *arg, const char *name, const char *value, struct err *e)
{
	(void)value;
	return err_set(e, ERR_USAGE, "%s: this server decides (%s)", name,
		attach_says(((struct app *)arg)->attached->server));
}

static void note(void *arg, const char *name, const char *value)
{
	attach_note(((struct app *)arg)->attached->server, name, value, NULL);
}

/* Esc in an empty prompt takes the newest waiting turn back. */
static bool key(struct app *a, int code)
{
	return code == KEY_ESC_BYTE && a->focus < 0 && !prompt_busy() && !*prompt_text() &&
		   waiting_take_back(&a->attached->waiting);
}

static void action(struct app *a, const struct view_action *w)
{
	(void)w;
	app_say(a, SAY_ERROR, "this needs an engine of one's own, and %s computes here",
		attach_says(a->attached->server));
}

/* ---- the status line ---- */

static void status(struct app *a, struct app_status *s)
{
	const struct timeline *t = &a->timeline;
	const struct tl_request *r = timeline_chat(t);
	struct tl_latencies l;

	if (!attach_writer(a->attached->server))
		app_field(s, INK_DIM, "not recorded");
	else if (a->attached->record_failed)
		app_field(s, INK_REJECTED, "%s rec failed", glyph(&a->canvas, GLYPH_CROSS));
	else
		app_field(s, INK_REJECTED, "%s rec", glyph(&a->canvas, GLYPH_RECORD));
	if (t->attached.error)
		app_field(s, INK_REJECTED, "%s no answer", glyph(&a->canvas, GLYPH_CROSS));
	if (!r)
		return;
	l = timeline_latencies(t, r);
	if (!isnan(l.ttft))
		app_field(s, INK_TEXT, "TTFT %.0f ms", l.ttft / 1e6);
	if (!isnan(l.itl_p50))
		app_field(s, INK_TEXT, "ITL p50 %.1f ms", l.itl_p50 / 1e6);
	if (l.tpot > 0)
		app_field(s, INK_TEXT, "%4.0f tok/s", 1e9 / l.tpot);
}

static struct view_text name(struct app *a)
{
	const struct tl_attached *s = &a->timeline.attached;
	const char *base = s->model ? strrchr(s->model, '/') : NULL;

	return view_form("%s %s %s",
		base && base[1] ? base + 1
		: s->model      ? s->model
						: "",
		glyph(&a->canvas, GLYPH_DOT), attach_says(a->attached->server));
}

static const char *recording(struct app *a, struct err *e)
{
	struct writer *w = attach_writer(a->attached->server);

	if (w && !writer_flush(w))
		return writer_path(w);
	err_set(e, ERR_USAGE, w ? "recording has stopped" : "this session is not recorded");
	return NULL;
}

static int open_lens(struct app *a, struct lens **l, struct err *e)
{
	(void)l;
	return err_set(e, ERR_USAGE, "a deep look needs the model, and %s computes it",
		attach_says(a->attached->server));
}

static const struct hint hints[] = { { "F1", "explain" }, { "^O", "views" }, { "^P", "commands" },
	{ "^C", "stop" }, { NULL, NULL } };

EMBED(attached_help, "tui/attach/attached.txt");

static const struct app_mode mode = {
	.label = "you ›",
	.hints = hints,
	.past_hints = hints,
	.help = attached_help,
	.fds = fds,
	.timeout_ms = timeout_ms,
	.work = work,
	.line = line,
	.key = key,
	.action = action,
	.stop = stop,
	.status = status,
	.name = name,
	.recording = recording,
	.open_lens = open_lens,
};

int tui_attach(
	struct attach *server, const struct tui_options *o, struct tui_end *end, struct err *e)
{
	struct attached m = {
		.server = server, .settings = o->answer, .waiting = { .why = "waiting for the answer" }
	};
	struct app a = { .attached = &m, .state.waiting = &m.waiting };
	int rc = -1;

	m.settings.stop = (struct setting_stops){ { NULL } };
	m.settings.system = m.system = o->answer.system ? strdup(o->answer.system) : NULL;
	a.host = (struct command_host){ .settings = &m.settings,
		.arg = &a,
		.engine_set = no_set,
		.engine_get = get,
		.refuses = refuses,
		.note = note,
		.say = app_tell,
		.act = act };
	app_init(&a, &mode);
	m.event = malloc(RING_EVENT_MAX);
	if (m.event && !setting_stops_copy(&m.settings.stop, &o->answer.stop, e) && !app_open(&a, o, e))
		rc = app_run(&a, e);
	app_end(&a, attach_writer(server) ? "saving the recording …" : "ending …");
	app_close(&a);
	breaks_close(a.breaks);
	*end = (struct tui_end){ .recorded = attach_writer(server) != NULL,
		.unsent = waiting_forget(&m.waiting) };
	setting_stops_free(&m.settings.stop);
	free(m.system);
	free(m.event);
	return m.event ? rc : err_no_memory(e, "the screens");
}
