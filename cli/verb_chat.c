/* cutaway chat and cutaway replay: the terminal program. Thread: main's. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/paths.h"
#include "base/recordings.h"
#include "base/text.h"
#include "cli/chat_open.h"
#include "cli/open.h"
#include "cli/out.h"
#include "sessions/history/resumed.h"

static struct chat_opts {
	const char *commands, *go_on, *loops;
} opts = { .loops = "hold" };

static const struct setting chat_own[] = {
	OWN(FILE, chat_opts, commands, "commands", "Screen",
		"begin with these lines, as if typed: / commands and turns", .arg = "FILE"),
	OWN(FILE, chat_opts, go_on, "continue", "Chat",
		"go on with the conversation of a recording (without FILE: the newest that has one): its "
		"tokens, its settings but those given, the same model",
		.arg = "[FILE]", .bare = true),
	OWN(CHOICE, chat_opts, loops, "loops", "Chat",
		"an answer that begins to repeat itself is held for you to decide, or goes on",
		SETTING_WORDS("hold", "run")),
	{ 0 },
};

struct tui_options chat_screen(const struct cli *c)
{
	return (struct tui_options){ .term = { .ascii = c->ascii, .theme = c->theme },
		.projector = c->projector };
}

/* last: none continues it. */
static void report_recording(const char *record, bool last, bool goes_on)
{
	char *clean = text_clean(record, strlen(record), false, NULL), *word = text_shell(record);

	if (clean && word && !access(record, F_OK)) { /* may be deleted */
		out_last("recorded in %s\n", clean);
		if (last)
			out_last("see it again:  cutaway replay %s\n", word);
		if (last && goes_on)
			out_last("go on with it: cutaway chat --continue %s\n", word);
	}
	free(clean);
	free(word);
}

void chat_report_end(const char *record, const struct tui_end *end, bool goes_on)
{
	if (end->unsent)
		out_last("%d turn%s not sent; the up key has %s\n", end->unsent,
			end->unsent == 1 ? " was" : "s were", end->unsent == 1 ? "it" : "them");
	if (!end->recorded)
		return;
	report_recording(record, !end->n_more, goes_on);
	for (int i = 0; i < end->n_more; i++)
		report_recording(end->more[i], i + 1 == end->n_more, goes_on);
}

/* The newest recording that has a conversation. */
static int newest_conversation(struct resumed **p, struct err *e)
{
	struct recordings r;
	char path[PATH_MAX];

	if (recordings_open(&r, e))
		return -1;
	for (int32_t i = 0; !*p && i < r.n; i++) {
		snprintf(path, sizeof path, "%s%s", r.folder, r.file[i].name);
		resumed_open(p, path, NULL);
	}
	if (!*p)
		err_set(e, ERR_IO, "%s has no recording with a conversation yet: name one", r.folder);
	recordings_close(&r);
	return *p ? 0 : -1;
}

static bool is_given(void *arg, const char *name)
{
	return cli_given(arg, name);
}

/* Sets the options of a chat that goes on with a recorded conversation, and its model. */
static int go_on(struct cli *c, struct resumed **p, char **model, struct err *e)
{
	char *path = NULL;
	int rc;

	if (*opts.go_on ? recordings_find(opts.go_on, &path, e) || resumed_open(p, path, e)
					: newest_conversation(p, e)) {
		free(path);
		return -1;
	}
	rc = model_find_recorded(c, (*p)->h, c->engine.model, model, e) ||
				 resumed_settings(*p, &c->engine, &c->answer, is_given, c, e)
			 ? -1
			 : 0;
	free(path);
	return rc;
}

/* Whether a chat can go on with what was said there. */
static bool has_conversation(const char *path)
{
	struct resumed *p = NULL;
	bool has = !resumed_open(&p, path, NULL);

	resumed_close(p);
	return has;
}

/* Runs what the user chose to follow, in place of this process. back: the recording of the chat
 * that a replay was asked for in, to which its end leads; or NULL. */
static int go_to(const struct cli *c, const struct tui_then *then, const char *back, struct err *e)
{
	const bool chat = !then->replay;
	char *option = NULL;
	const char *argv[9] = { "cutaway", chat ? "chat" : "replay", "--theme", c->theme };
	int n = 4;
	sigset_t none;

	if (c->ascii)
		argv[n++] = "--ascii";
	if (chat && c->no_record)
		argv[n++] = "--no-record";
	if (asprintf(&option, chat ? "--continue=%s" : "--back=%s",
			chat   ? then->path
			: back ? back
				   : "") < 0)
		return err_no_memory(e, "a command");
	if (chat || back)
		argv[n++] = option;
	if (!chat) {
		argv[n++] = "--";
		argv[n] = then->path;
	}
	sigemptyset(&none); /* the screens' are blocked */
	sigprocmask(SIG_SETMASK, &none, NULL);
	fflush(NULL);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	free(option);
	return err_set(e, ERR_IO, "%s: %s", then->path, strerror(errno));
}

/* The last thing of a verb. Frees the paths. */
static int end_with(const struct cli *c, struct tui_then *then, char *back, struct err *e)
{
	if (then->path && !e->code)
		go_to(c, then, back && has_conversation(back) ? back : NULL, e);
	free(then->path);
	free(back);
	return e->code ? -1 : 0;
}

static void take_options(struct tui_options *o, const struct cli *c, const struct chat_extra *extra)
{
	o->engine = c->engine;
	o->engine.measure = true;
	o->answer = c->answer;
	if (!extra->guest && !cli_given(c, "max-tokens") && !opts.go_on)
		o->answer.max_tokens = TUI_CHAT_TOKENS;
	o->commands = opts.commands;
	o->loops_run = !strcmp(opts.loops, "run");
	o->lesson = extra->lesson;
	o->lesson_test = extra->lesson_test;
	o->reader = extra->reader;
	o->guest = extra->guest;
}

/* Where the chat ended, or NULL; forgets what followed `record`. */
static char *last_recording(struct tui_end *end, const char *record)
{
	char *last = end->recorded ? strdup(end->n_more ? end->more[end->n_more - 1] : record) : NULL;

	while (end->n_more)
		free(end->more[--end->n_more]);
	free(end->more);
	return last;
}

int chat_open(const struct cli *given, const struct chat_extra *extra, struct err *e)
{
	const char *asked = extra->record ? extra->record : given->record;
	struct cli own = *given, *c = &own;
	struct tui_options o = chat_screen(c);
	struct err why = { 0 };
	char *model = NULL, *history = NULL, *record = NULL, *back = NULL;
	struct resumed *earlier = NULL;
	struct tui_end end = { 0 };
	struct tui_then then = { .path = NULL };

	own.answer.stop = (struct setting_stops){ { NULL } };
	if (setting_stops_copy(&own.answer.stop, &given->answer.stop, e) ||
		(opts.go_on ? go_on(c, &earlier, &model, e) : model_find(c, &model, e)))
		goto out;
	if (!c->no_record && !asked && paths_new_recording(NULL, &record, &why))
		o.not_recorded = why.text;
	if (paths_state("history", &history, NULL))
		history = NULL; /* the prompt works without a history */
	take_options(&o, c, extra);
	o.then = extra->guest ? NULL : &then;
	o.engine.model = model;
	o.resumed = earlier;
	o.record_named = asked;
	o.record = c->no_record ? NULL : asked ? asked : record;
	o.history = history;
	tui_chat(&o, &end, e);
	chat_report_end(o.record, &end, true);
	back = last_recording(&end, o.record);
	if (record && !end.recorded) /* reserved, and without a recording */
		paths_drop_recording(record);
out:
	resumed_close(earlier);
	setting_stops_free(&own.answer.stop);
	free(record);
	free(history);
	free(model);
	return end_with(given, &then, back, e);
}

static int chat_verb(const struct cli *c, struct err *e)
{
	return chat_open(c, &(struct chat_extra){ 0 }, e);
}

static struct replay_opts {
	bool follow;
	const char *back;
} replay_opts;

static const struct setting replay_own[] = {
	OWN(FLAG, replay_opts, follow, "follow", "Screen",
		"stay at the end of a recording that is being written (without FILE: the newest)"),
	OWN(FILE, replay_opts, back, "back", "Screen",
		"when it is left, go on with the chat of this recording", .arg = "RECORDING"),
	{ 0 },
};

enum { LOOK_MS = 100, SETTLE_MS = 3000 };
static const struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };

/* Replay --follow may start before the recording does. */
static void await_file(const char *path)
{
	struct stat st;
	char *clean = text_clean(path, strlen(path), false, NULL);
	bool waited = false;

	while (stat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode) && !st.st_size) {
		if (!waited)
			fprintf(stderr,
				"cutaway: %s: nothing is recorded there yet; waiting for it (Ctrl-C ends)\n",
				clean ? clean : "?");
		waited = true;
		nanosleep(&look, NULL);
	}
	free(clean);
}

/* A file that has just appeared takes a moment until it is a recording. */
static int follow_file(const char *path, const struct tui_options *o, struct err *e)
{
	int64_t until;
	int rc;

	await_file(path);
	until = now_ns() + SETTLE_MS * INT64_C(1000000);
	while ((rc = tui_replay(path, o, e)) && now_ns() < until) {
		*e = (struct err){ 0 };
		nanosleep(&look, NULL);
	}
	return rc;
}

static int replay_verb(const struct cli *c, struct err *e)
{
	struct tui_options o = chat_screen(c);
	struct tui_then then = { .path = NULL };
	char *newest = NULL, *model = NULL;

	o.then = &then;
	o.follow = replay_opts.follow;
	o.engine.model = c->engine.model;
	if (!c->engine.model && !model_find(c, &model, NULL))
		o.model_else = model;
	o.newest = !c->n_operands;
	if (!c->n_operands && recordings_find(NULL, &newest, e))
		; /* which is told */
	else if (replay_opts.follow && !newest)
		follow_file(c->operand[0], &o, e);
	else
		tui_replay(newest ? newest : c->operand[0], &o, e);
	free(model);
	free(newest);
	if (!then.path && replay_opts.back && !e->code && has_conversation(replay_opts.back))
		then.path = strdup(replay_opts.back);
	return end_with(c, &then, NULL, e);
}

const struct verb verb_chat = {
	VERB(chat, "",
		"Model|Kernels|Exactness|Sampling|Answer|Chat|Scheduler|Speculation|Watching|"
		"Recording|Screen"),
};

const struct verb verb_replay = {
	VERB_BARE(replay, "[FILE]", "model|Screen"),
	OPERANDS(0, 1, "RECORDING"),
	.own = replay_own,
	.opts = &replay_opts,
};
