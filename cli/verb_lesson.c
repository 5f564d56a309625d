/* cutaway lesson: lists lessons, reads one in the chat, makes a new one, prints a teacher's sheet,
 * reports on a class, and tests that they still tell the truth. Thread: main's. */
#include <errno.h>
#include <pty.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/recordings.h"
#include "base/text.h"
#include "cli/chat_open.h"
#include "cli/out.h"
#include "sessions/lesson/lesson.h"
#include "trace/recording.h"

static struct lesson_opts {
	bool test;
	const char *reader, *html;
} opts;

static const struct setting lesson_own[] = {
	OWN(FLAG, lesson_opts, test, "test", "Lesson",
		"reads lessons without a terminal, all or the one named, and says what no longer holds"),
	OWN(TEXT, lesson_opts, reader, "reader", "Lesson",
		"name that the report of the class shows; without it: that of the recording's file",
		.arg = "NAME"),
	OWN(FILE, lesson_opts, html, "html", "Output",
		"report: write a page to FILE, too: how the predictions lie, and the readers",
		.arg = "FILE"),
	{ 0 },
};

/* ---- its model ---- */

/* The chat with a lesson, on the lesson's own model and ranks if it has some. */
static int begin(const struct cli *c, const struct chat_extra *extra, struct err *e)
{
	struct cli with = *c;
	struct lesson *l = lesson_open(extra->lesson, e);
	int rc = -1;

	if (l) {
		if (l->model)
			with.engine.model = l->model;
		rc = lesson_options(l, &with.engine, e);
		rc = rc ? rc : chat_open(&with, extra, e);
	}
	lesson_free(l);
	return rc;
}

/* ---- list ---- */

static int list(void)
{
	lesson_list(stdout);
	printf("\nminutes: 200 words and a question take one each; runs come on top\n"
		   "cutaway lesson NAME begins one; cutaway lesson new NAME makes your own\n");
	return 0;
}

/* ---- test ---- */

/* In a child, on a terminal of its own. -1: it could not be started. */
static pid_t start(const struct cli *c, const char *name, const char *record, int *fd)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	pid_t pid = forkpty(fd, NULL, NULL, &size);
	struct err e = { 0 };

	if (pid)
		return pid;
	setenv("TERM", "xterm-256color", 1);
	if (begin(c, &(struct chat_extra){ .lesson = name, .lesson_test = true, .record = record }, &e))
		fprintf(stderr, "cutaway: %s\n", e.text);
	fflush(stderr);
	_exit(e.code ? 1 : 0);
}

/* Reads what it draws until it ends; the end of that may be an error. */
static int finish(pid_t pid, int fd, char *tail, size_t cap)
{
	size_t n = 0;
	char buf[4096];
	ssize_t got;
	int status = 0;

	while ((got = read(fd, buf, sizeof buf)) > 0 || (got < 0 && errno == EINTR))
		for (ssize_t i = 0; i < got; i++) {
			if (n + 1 == cap)
				memmove(tail, tail + 1, --n);
			tail[n++] = buf[i];
		}
	tail[n] = '\0';
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The error is the last line that it wrote. */
static void fail(const char *name, const char *tail, int status, struct err *e)
{
	static const char mark[] = "cutaway: ";
	const char *last = NULL;
	char *clean;

	for (const char *at = tail; (at = strstr(at, mark)); at += sizeof mark - 1)
		last = at + sizeof mark - 1;
	clean = last ? text_clean(last, strcspn(last, "\r\n"), false, NULL) : NULL;
	if (clean)
		err_set(e, ERR_INPUT, "%s", clean);
	else
		err_set(e, ERR_INPUT, "%s: ended with status %d", name, status);
	free(clean);
}

/* What is made of a run's recording. Returns how much of it is wrong; -1 with the error. */
struct use {
	int (*of)(const struct use *u, const char *record, const char *name, struct err *e);
	void (*complain)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
	struct listing *rows; /* of a sheet, or NULL */
};

static int use_one(const struct use *u, const struct cli *c, const char *name, struct err *e)
{
	char record[] = "/tmp/cutaway-lesson-XXXXXX", tail[400] = "";
	int fd = mkstemp(record), status, rc = -1;
	pid_t pid;

	if (fd < 0)
		return err_set(e, ERR_IO, "%s: %s", record, strerror(errno));
	close(fd);
	pid = start(c, name, record, &fd);
	if (pid < 0)
		err_set(e, ERR_IO, "no terminal for the test: %s", strerror(errno));
	else if ((status = finish(pid, fd, tail, sizeof tail)))
		fail(name, tail, status, e);
	else
		rc = u->of(u, record, name, e);
	recording_delete(record);
	return rc;
}

/* Runs one lesson, or all if `only` is NULL. Returns how much was wrong; of a name that is no
 * lesson's with the error. */
static int use_all(const struct use *u, const struct cli *c, const char *only, struct err *e)
{
	const char *name;
	char *text = NULL;
	size_t size;
	int failed = 0;

	if (only && lesson_load(only, &text, &size, e))
		return 1;
	free(text);
	for (int i = 0; (name = only ? i ? NULL : only : lesson_name(i)); i++) {
		struct err why = { 0 };
		char *copy = strdup(name); /* the list is read again meanwhile */
		int n = copy ? use_one(u, c, copy, &why) : -1;

		if (n < 0)
			u->complain("%s", why.text);
		failed += n < 0 ? 1 : n;
		free(copy);
	}
	return failed;
}

static void not_ok(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("not ok - ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
}

static int verdicts(const struct use *u, const char *record, const char *name, struct err *e)
{
	(void)u;
	return lesson_verdicts(record, name, stdout, e);
}

static int test(const struct cli *c, struct err *e)
{
	const struct use u = { .of = verdicts, .complain = not_ok };
	int failed = use_all(&u, c, c->n_operands ? c->operand[0] : NULL, e);

	return failed ? err_set(e, ERR_DIFFERS, "%d of what the lessons say does not hold here", failed)
				  : 0;
}

/* ---- sheets ---- */

static int sheet(const struct use *u, const char *record, const char *name, struct err *e)
{
	return lesson_sheet(name, record, u->rows, stdout, e);
}

static int sheets(const struct cli *c, const char *only, struct err *e)
{
	struct listing rows;
	struct use u = { .of = sheet, .complain = out_complain };
	struct json j = { 0 };
	int failed;

	if (c->json)
		json_array(&j, NULL);
	if (listing_open(&rows, lesson_sheet_columns, NULL, c->json ? &j : NULL, c->csv, e))
		return -1;
	u.rows = c->json || c->csv ? &rows : NULL;
	failed = use_all(&u, c, only, e);
	if (listing_end(&rows, 0, e))
		return -1;
	return failed ? err_set(
						e, ERR_DIFFERS, "%d lesson%s could not be run here", failed, plural(failed))
				  : 0;
}

/* ---- the verb ---- */

static int make(const char *name, struct err *e)
{
	char *path;

	if (lesson_new(name, &path, e))
		return -1;
	out_last("%s is a beginning to change; then:  cutaway lesson %s\n", path, name);
	free(path);
	return 0;
}

static int report(const struct cli *c, struct err *e)
{
	const struct lesson_report_to to = {
		.json = c->json, .csv = c->csv, .html = opts.html, .out = stdout
	};
	char *path[CLI_MAX_OPERANDS] = { NULL };
	int n = 0, rc = 0;

	if (c->n_operands < 2)
		return err_set(e, ERR_USAGE, "lesson report: recordings are needed");
	for (; !rc && n < c->n_operands - 1; n++)
		rc = recordings_find(c->operand[n + 1], &path[n], e);
	if (!rc)
		rc = lesson_report(path, n, &to, e);
	while (n > 0)
		free(path[--n]);
	return rc;
}

static int lesson_verb(const struct cli *c, struct err *e)
{
	const char *word = c->n_operands ? c->operand[0] : NULL;
	const bool reports = word && !strcmp(word, "report");

	if (opts.html && !reports)
		return err_set(e, ERR_USAGE, "--html is for lesson report");
	if ((c->json || c->csv) && !reports && (!word || strcmp(word, "sheet") != 0))
		return err_set(e, ERR_USAGE, "--json and --csv are for lesson report and lesson sheet");
	if (opts.test)
		return test(c, e);
	if (!word)
		return list();
	if (!strcmp(word, "new"))
		return c->n_operands == 2 ? make(c->operand[1], e)
								  : err_set(e, ERR_USAGE, "lesson new: a name is needed");
	if (!strcmp(word, "sheet"))
		return c->n_operands < 3
				   ? sheets(c, c->n_operands == 2 ? c->operand[1] : NULL, e)
				   : err_set(e, ERR_USAGE, "lesson sheet: one lesson, or none for all of them");
	if (reports)
		return report(c, e);
	if (c->n_operands > 1)
		return err_set(e, ERR_USAGE, "lesson %s: one lesson at a time", word);
	return begin(c, &(struct chat_extra){ .lesson = word, .reader = opts.reader }, e);
}

const struct verb verb_lesson = {
	VERB(lesson, "[NAME | new NAME | sheet [NAME] | report FILE…]",
		"Model|Kernels|Exactness|Sampling|Answer|Chat|Scheduler|Speculation|Watching|"
		"Recording|Screen|json|csv"),
	OPERANDS(0, CLI_MAX_OPERANDS,
		"new report sheet $(cutaway lesson 2>/dev/null | awk \"/^ *[0-9]/ { print \\$2 "
		"}\")"),
};
