/* The lesson in the chat. See chat.h. */
#include <signal.h>

#include "tui/chat/chat.h"

/* Of a line in a test. The slowest of the shipped ones take seconds, so a busy machine has room. */
enum { TEST_LINE_S = 600 };

/* ---- events ---- */

static void note(struct engine *engine, void *ev)
{
	engine_note(engine, ev);
}

static void emit(struct app *a, struct event *ev)
{
	actor_call(a->chat->live.session.actor, note, ev);
}

static void emit_lesson(struct app *a, enum ev_code_lesson_action action, const char *text)
{
	const struct chat_lesson *k = &a->chat->lesson;
	struct event ev;

	ev_init(&ev, EV_lesson);
	ev.u.lesson.action = action;
	ev.u.lesson.name = ev_text(k->name);
	ev.u.lesson.text = ev_text(text);
	ev.u.lesson.part = k->part;
	ev.u.lesson.reader = ev_text(a->chat->options->reader);
	emit(a, &ev);
}

struct answer {
	const char *predicted; /* NULL: nothing was predicted */
	double value;
	const char *found; /* NULL: nothing was measured yet */
	double measured;
	enum ev_code_answer_verdict verdict;
};

static void emit_answer(struct app *a, int32_t part, const struct answer *w)
{
	const struct chat_lesson *k = &a->chat->lesson;
	const struct lesson_part *p = &k->l->part[part];
	struct event ev;

	ev_init(&ev, EV_answer);
	ev.u.answer.lesson = ev_text(k->name);
	ev.u.answer.part = part;
	ev.u.answer.ask = p->kind == LESSON_PREDICT ? EV_ASK_predict : EV_ASK_check;
	ev.u.answer.question = ev_text(p->text);
	ev.u.answer.predicted = ev_text(w->predicted);
	ev.u.answer.value = w->value;
	ev.u.answer.found = ev_text(w->found);
	ev.u.answer.measured = w->measured;
	if (p->kind == LESSON_PREDICT && !p->n_choices)
		ev.u.answer.tolerance = p->tolerance;
	ev.u.answer.verdict = w->verdict;
	emit(a, &ev);
}

/* ---- asking the log ---- */

static void ask(struct app *a, int32_t part, const char *path)
{
	struct chat_lesson *k = &a->chat->lesson;
	const struct lesson_part *p = &k->l->part[part];
	const struct tl_answer *old = timeline_answer(&a->timeline, part);
	struct lesson_found found;
	struct err e = { 0 };
	struct answer w = { .predicted = old ? old->predicted : NULL, .value = NAN };
	char predicted[64];

	if (w.predicted &&
		lesson_read_answer(p, w.predicted, predicted, sizeof predicted, &w.value, &e))
		w.predicted = NULL;
	if (lesson_ask(path, p->sql, &k->left_ns, &found, &e)) {
		w.found = e.text;
		w.measured = NAN;
		w.verdict = EV_ANSWER_failed;
	} else {
		w.found = found.known ? found.shown : NULL;
		w.measured = found.value;
		w.verdict = lesson_judge(p, w.predicted, w.value, &found);
	}
	emit_answer(a, part, &w);
}

/* The questions before the reader's place that were not answered, and `also`. */
static void ask_all(struct app *a, int32_t also)
{
	struct chat_lesson *k = &a->chat->lesson;
	struct err e = { 0 };
	const char *path = a->mode->recording(a, &e);

	for (int32_t i = 0; path && i < k->l->n && i <= k->part; i++) {
		const struct tl_answer *old = timeline_answer(&a->timeline, i);

		if (i == also || (k->l->part[i].kind == LESSON_PREDICT && i < k->part && old &&
							 old->verdict == EV_ANSWER_open))
			ask(a, i, path);
	}
	app_complain(a, &e);
}

/* ---- going on ---- */

/* Shows the text up to the next stop; what is checked on the way is asked now. */
static void go_on(struct app *a, int32_t from)
{
	struct chat_lesson *k = &a->chat->lesson;
	const bool read = !a->chat->options->lesson_test;

	k->left_ns = LESSON_ASK_NS;
	for (k->part = lesson_stop(k->l, from);
		 k->part < k->l->n && k->l->part[k->part].kind == LESSON_CHECK;
		 k->part = lesson_stop(k->l, k->part + 1))
		ask_all(a, k->part);
	emit_lesson(a, EV_LESSON_go_on, NULL);
	if (read)
		lesson_progress_put(k->name, k->part, k->l->n);
	if (k->part >= k->l->n && read)
		chat_kept_put_back(&k->kept, a);
	a->dirty = true;
}

static int check_views(const struct lesson *l, const char *name, struct err *e)
{
	for (int32_t i = 0; i < l->n; i++)
		if (l->part[i].kind == LESSON_LOOK && view_by_id(l->part[i].view) < 0)
			return err_set(e, ERR_INPUT, "%s, line %d: no view %.40s; /view lists them", name,
				l->part[i].line, l->part[i].view);
	return 0;
}

/* The conversation from before the lesson goes on, as if the lesson were a branch of it. */
static void stand_before(struct app *a, int64_t before)
{
	struct err e = { 0 };

	if (!before || chat_stands_at(a) == before || !timeline_request(&a->timeline, before))
		return;
	if (chat_stand_at(a, &a->timeline, timeline_branch_whole(&a->timeline, before), &e) == 0)
		app_say(a, SAY_INFO, "the conversation from before the lesson goes on");
}

static void leave(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;

	if (k->l) {
		emit_lesson(a, EV_LESSON_end, NULL);
		stand_before(a, k->before);
	}
	chat_kept_put_back(&k->kept, a);
	chat_lesson_close(k);
}

static const struct engine_options *opened_with(const struct app *a)
{
	return &a->chat->options->engine;
}

/* Its queries are of its own model, and of its ranks. */
static int check_model(const struct app *a, const struct lesson *l, const char *name, struct err *e)
{
	if (lesson_fits(l, a->timeline.model_path, opened_with(a)))
		return 0;
	return l->model
			   ? err_set(e, ERR_USAGE, "this lesson is of the model %s: cutaway lesson %s opens it",
					 l->model, name)
			   : err_set(e, ERR_USAGE,
					 "this lesson begins with options of its own: cutaway lesson %s", name);
}

int chat_lesson(struct app *a, const char *name, struct err *e)
{
	struct chat_lesson *k = &a->chat->lesson;
	const char *base = strrchr(name, '/');
	struct lesson *l = NULL;
	char *text;
	size_t size;

	if (!*name) {
		app_palette(a, "lessons", PALETTE_LESSONS, "");
		return 0;
	}
	if (!strcmp(name, "off")) {
		leave(a);
		return 0;
	}
	if (!a->chat->live.session.writer)
		return err_set(e, ERR_USAGE, "a lesson asks the recording, and this session has none");
	if (lesson_load(name, &text, &size, e))
		return -1;
	if (lesson_parse(&l, name, text, size, e) || check_views(l, name, e) ||
		check_model(a, l, name, e)) {
		lesson_free(l);
		free(text);
		return -1;
	}
	leave(a);
	chat_kept_take(&k->kept, a);
	k->before = chat_stands_at(a);
	k->l = l;
	snprintf(k->name, sizeof k->name, "%s", base ? base + 1 : name);
	emit_lesson(a, EV_LESSON_begin, text);
	free(text);
	a->zoom = -1; /* a lesson that begins is seen */
	go_on(a, 0);
	return 0;
}

void chat_lesson_close(struct chat_lesson *k)
{
	lesson_free(k->l);
	chat_kept_free(&k->kept);
	*k = (struct chat_lesson){ 0 };
}

/* ---- lines ---- */

/* Enter at the reader's place. */
static void enter(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;
	const struct lesson_part *p = &k->l->part[k->part];

	if (p->kind == LESSON_DO) {
		k->next = p->text;
		k->reported_ns = a->message_ns;
		emit_lesson(a, EV_LESSON_go_on, NULL);
		return;
	}
	if (p->kind == LESSON_PREDICT)
		emit_answer(a, k->part, &(struct answer){ .value = NAN, .measured = NAN });
	go_on(a, k->part + 1);
}

static void predict(struct app *a, const char *line)
{
	struct chat_lesson *k = &a->chat->lesson;
	char predicted[64];
	struct answer w = { .predicted = predicted, .measured = NAN };
	struct err e = { 0 };

	if (lesson_read_answer(&k->l->part[k->part], line, predicted, sizeof predicted, &w.value, &e)) {
		app_complain(a, &e);
		return;
	}
	a->message_ns = 0; /* that a number was needed */
	emit_answer(a, k->part, &w);
	go_on(a, k->part + 1);
}

/* A long text is read before anything is done. false: its end is shown. */
static bool turn_over(struct app *a)
{
	int64_t *below = &a->state.cursor[VIEW_LESSON];
	int rows = a->layout.view[VIEW_LESSON].h - 3; /* head, count of the rest, a line seen already */

	if (*below <= 0 || rows < 1)
		return false;
	if (*below == VIEW_LESSON_NEWEST) /* not drawn yet, so nobody has read it */
		return true;
	*below = *below > rows ? *below - rows : 0;
	a->dirty = true;
	return true;
}

/* Enter reads on, too: a question is not left out in passing. */
static bool skips(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;

	if (k->l->part[k->part].kind != LESSON_PREDICT || k->skips == k->part + 1) {
		a->message_ns = 0;
		return true;
	}
	k->skips = k->part + 1;
	app_say(a, SAY_INFO, "a prediction is asked for: Enter once more leaves it out");
	return false;
}

static void begin_next(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;
	char name[64];
	struct err e = { 0 };

	if (lesson_next(k->name, a->timeline.model_path, opened_with(a), name, sizeof name))
		chat_lesson(a, name, &e);
	else if (lesson_next(k->name, NULL, NULL, name, sizeof name))
		app_say(a, SAY_INFO,
			"the next has a model or options of its own, in a shell: cutaway lesson %s", name);
	else
		app_say(a, SAY_INFO, "that was the last one: /lesson lists them");
	app_complain(a, &e);
}

bool chat_lesson_line(struct app *a, const char *line)
{
	const struct chat_lesson *k = &a->chat->lesson;
	bool empty = !line[strspn(line, " \t\n")];

	if (k->l && empty && turn_over(a))
		return true;
	if (k->l && empty && k->part >= k->l->n) {
		begin_next(a);
		return true;
	}
	if (!k->l || k->next || k->part >= k->l->n || *line == '/')
		return false;
	if (empty && skips(a))
		enter(a);
	else if (empty)
		return true;
	else if (k->l->part[k->part].kind == LESSON_PREDICT)
		predict(a, line);
	else
		return false;
	return true;
}

/* ---- typing ---- */

/* No request runs or waits, or somebody paused. Lines before a "/continue" are for the pause: they
 * come while an answer is held. */
static bool all_quiet(struct app *a)
{
	struct chat *c = a->chat;
	const struct timeline *t = &a->timeline;

	/* a command that waits for the model would run as the reader's */
	if (!c->live.ready || c->model)
		return false;
	if (actor_paused(c->live.session.actor) && strstr(c->lesson.next, "/continue"))
		return true;
	if (c->waiting.n || chat_busy(a))
		return false;
	if (a->past || actor_paused(c->live.session.actor))
		return true;
	for (int32_t i = 0; i < t->n_requests; i++)
		if (t->request[i].state != TL_FINISHED)
			return false;
	return true;
}

static char hung[300];

static void report_hung(int signal)
{
	ssize_t ignored = write(STDERR_FILENO, hung, strlen(hung));

	(void)signal, (void)ignored;
	_exit(1);
}

/* Without a reader nobody sees that a line never ends, whatever it is that hangs. */
static void limit_line(const struct chat_lesson *k, const char *line)
{
	const struct lesson_part *p = &k->l->part[k->part];
	int at = p->line + 1;

	alarm(0);
	for (const char *c = p->text; c < k->next; c++)
		at += *c == '\n';
	snprintf(hung, sizeof hung, "\ncutaway: %.60s, line %d: \"%.100s\" has not ended after %d s\n",
		k->name, at, line, TEST_LINE_S);
	signal(SIGALRM, report_hung);
	alarm(TEST_LINE_S);
}

static void type_line(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;
	size_t n = strcspn(k->next, "\n");
	char *line = strndup(k->next, n);

	if (line && a->chat->options->lesson_test)
		limit_line(k, line);
	k->next += n + (k->next[n] == '\n');
	a->host.lesson = true;
	if (line && *line)
		a->mode->line(a, line);
	a->host.lesson = false;
	free(line);
}

/* A command that was refused is a failure of the lesson: its test must see it. */
static void note_refusal(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;

	if (a->message_kind != SAY_ERROR || !a->message_ns || a->message_ns == k->reported_ns)
		return;
	k->reported_ns = a->message_ns;
	emit_answer(a, k->part,
		&(struct answer){
			.value = NAN, .found = a->message, .measured = NAN, .verdict = EV_ANSWER_failed });
}

/* Without a reader: all of it, as fast as it goes. */
static void read_on(struct app *a)
{
	struct chat_lesson *k = &a->chat->lesson;
	struct err e = { 0 };

	if (!k->l && chat_lesson(a, a->chat->options->lesson, &e))
		a->fatal = e;
	if (!k->l || k->part >= k->l->n)
		a->quit = true;
	else if (!k->next)
		enter(a);
}

void chat_lesson_work(struct app *a)
{
	struct chat *c = a->chat;
	struct chat_lesson *k = &c->lesson;
	struct err e = { 0 };

	if (c->options->lesson && !c->options->lesson_test && !c->lesson_begun)
		chat_lesson(a, c->options->lesson, &e);
	app_complain(a, &e);
	c->lesson_begun = true;
	if (k->l && k->shown != a->timeline.lesson.part) {
		k->shown = a->timeline.lesson.part;
		a->state.cursor[VIEW_LESSON] = VIEW_LESSON_NEWEST;
	}
	if (k->next)
		note_refusal(a);
	if (k->next && all_quiet(a)) {
		if (*k->next) {
			type_line(a);
			actor_call(c->live.session.actor, NULL, NULL); /* requests that it posts are told */
			return;
		}
		k->next = NULL;
		actor_call(c->live.session.actor, NULL, NULL); /* the step that ended it is told */
		k->left_ns = LESSON_ASK_NS;
		ask_all(a, -1);
		if (a->message_kind == SAY_INFO)
			a->message_ns = 0; /* what the last command said would cover the text */
		go_on(a, k->part + 1);
	}
	if (c->options->lesson_test)
		read_on(a);
}

bool chat_lesson_busy(const struct app *a)
{
	return a->chat->lesson.next || a->chat->options->lesson_test;
}
