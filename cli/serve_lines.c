/* See serve_lines.h.
 *
 * The sessions that follow are opened beside those that serve, so that a file that cannot be opened
 * changes nothing. Then what comes waits until the requests that run have ended, since two engines
 * at once would share the processor's cores, and the former sessions are closed. */
#include "cli/serve_lines.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/paths.h"
#include "base/recordings.h"
#include "base/systemd.h"
#include "cli/interrupt.h"
#include "cli/open.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "trace/recording.h"

enum { TICK_MS = 50, PATH_MOST = 4096 };

static const int64_t SECOND = 1000000000;

static atomic_bool stopped;  /* the last engine cannot go on */
static atomic_bool renewing; /* SIGHUP came */

const char serve_open_words[] =
	"whoever reaches this machine may use the server: it listens beyond 127.0.0.1 and asks for no "
	"key (CUTAWAY_API_KEY)";

struct lines {
	const struct cli *cli;
	const struct serve_lines *o;
	struct serve *s;
	struct session session[2][SERVE_REPLICAS];
	int at; /* which of the two serve */
	struct replica_of {
		struct lines *lines;
		int32_t number;
	} replica[SERVE_REPLICAS];
	int64_t n_opened;
	int64_t begun_ns;
	int64_t tries; /* to begin another recording, from 1 */
	char **kept;   /* [n_kept] with --record-keep: recordings of replica 0, the oldest first */
	int32_t n_kept;
	struct err why; /* the last engine cannot go on */
};

static void on_hangup(int sig)
{
	(void)sig;
	atomic_store(&renewing, true);
}

void serve_note(void *arg, const char *line)
{
	struct tm tm;
	char at[24];
	const time_t now = time(NULL);

	(void)arg;
	strftime(at, sizeof at, "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(stderr, "%s %s\n", at, line);
}

static bool goes_on(void)
{
	return !atomic_load(&interrupted) && !atomic_load(&stopped);
}

static void on_stop(void *arg, const struct err *err)
{
	const struct replica_of *r = arg;

	if (serve_failed(r->lines->s, r->number, err))
		return;
	r->lines->why = *err;
	atomic_store(&stopped, true);
}

/* ---- recordings ---- */

/* FILE.db with a mark and a number: FILE.1.db of replica 1, FILE-2.db after SIGHUP. malloc'd. */
static int record_of(char **of, const char *path, char mark, int64_t number, struct err *e)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)number);
	return recordings_beside(of, path, mark, text, e);
}

/* Of replica 0 of the sessions that are opened now; *path stays NULL where nothing is recorded. */
static int next_record(const struct lines *l, char **path, struct err *e)
{
	const struct cli *c = l->cli;
	char *folder;
	int rc;

	if (!c->record)
		return 0;
	if (!l->n_opened)
		return paths_print(path, e, "%s", c->record);
	if (!c->new_record)
		return record_of(path, c->record, '-', l->n_opened + 1, e);
	rc = paths_print(
		&folder, e, "%.*s", (int)(strrchr(c->new_record, '/') + 1 - c->new_record), c->new_record);
	rc = rc || paths_new_recording(folder, path, e) ? -1 : 0;
	free(folder);
	return rc;
}

/* That of a replica. A file that is there stops all, before anything is written. */
static int name_records(const struct lines *l, char *record[SERVE_REPLICAS], struct err *e)
{
	struct stat st;

	if (next_record(l, &record[0], e))
		return -1;
	for (int32_t i = 1; record[0] && i < l->o->replicas; i++) {
		if (record_of(&record[i], record[0], '.', i, e))
			return -1;
		if (!stat(record[i], &st) && st.st_size)
			return err_set(e, ERR_IO,
				"replica %d cannot record to %s: it exists, and no file is overwritten; choose "
				"another name with --record",
				i, record[i]);
	}
	return 0;
}

/* The newest set is kept in mind, and the oldest removed if there is one too many. A file that
 * somebody else has removed is no reason to complain. */
static void keep_records(struct lines *l, const char *newest)
{
	char *oldest, *of = NULL;

	if (!l->o->record_keep)
		return;
	l->kept[l->n_kept++] = strdup(newest);
	if (l->n_kept <= l->o->record_keep)
		return;
	oldest = l->kept[0];
	memmove(l->kept, l->kept + 1, (size_t)--l->n_kept * sizeof *l->kept);
	for (int32_t i = 0; oldest && i < l->o->replicas; i++) {
		if (!i)
			recording_delete(oldest);
		else if (!record_of(&of, oldest, '.', i, NULL))
			recording_delete(of);
		free(of);
	}
	free(oldest);
}

/* Whether one has so many times the size or the age from which another begins. */
static bool is_due(const struct lines *l, int64_t times)
{
	const struct serve_lines *o = l->o;
	struct writer_status status;
	int64_t bytes = 0;

	if (!serve_used(l->s))
		return false;
	for (int32_t i = 0; o->record_bytes && i < o->replicas; i++) {
		writer_status(l->session[l->at][i].writer, &status);
		bytes = status.bytes > bytes ? status.bytes : bytes;
	}
	return (o->record_bytes && bytes >= times * o->record_bytes) ||
		   (o->record_ns && now_ns() - l->begun_ns >= times * o->record_ns);
}

/* ---- sessions ---- */

/* Its hash is asked for here, since it takes seconds the first time. */
static int open_all(struct lines *l, struct session *session, char *const *record, struct err *e)
{
	const struct cli *c = l->cli;
	const int32_t n = l->o->replicas, cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN),
				  parts = n * c->engine.tensor_parallel * c->engine.pipeline_parallel;
	struct session_options o = { .engine = c->engine, .sink = serve_sink };
	char *model = NULL;
	int rc = model_find(c, &model, e);

	o.engine.model = model;
	o.engine.replicas = n;
	o.engine.abandon = &interrupted;
	if (!o.engine.threads && n > 1)
		o.engine.threads = cores > parts ? cores / parts : 1;
	for (int32_t i = 0; !rc && i < n; i++) {
		o.arg = serve_replica(l->s, i);
		o.record = record[i];
		rc = session_open(&session[i], &o, e);
	}
	if (!rc && !*session->sha256)
		rc = engine_hash_model(session->engine, &interrupted, session->sha256, e);
	free(model);
	return rc;
}

/* Recordings of others' requests are made only where they are asked for. */
static int open_sessions(struct lines *l, struct session *session, struct err *e)
{
	char *record[SERVE_REPLICAS] = { NULL };
	int rc = name_records(l, record, e) || open_all(l, session, record, e) ? -1 : 0;

	l->n_opened += !rc;
	for (int32_t i = 0; i < l->o->replicas; i++) {
		if (rc && l->cli->new_record && record[i])
			paths_drop_recording(record[i]);
		free(record[i]);
	}
	return rc;
}

static int begin_sessions(struct lines *l, struct session *session, struct err *e)
{
	l->begun_ns = now_ns();
	l->tries = 1;
	for (int32_t i = 0; i < l->o->replicas; i++)
		if (session_begin(&session[i], on_stop, &l->replica[i], e))
			return -1;
	return 0;
}

/* Those that never served leave no recordings. */
static void drop_sessions(struct lines *l, struct session *session)
{
	for (int32_t i = l->o->replicas - 1; i >= 0; i--) {
		char path[PATH_MOST] = "";

		if (session[i].writer)
			snprintf(path, sizeof path, "%s", writer_path(session[i].writer));
		session_close(&session[i], NULL);
		if (*path)
			recording_delete(path);
	}
}

/* ---- one after the other ---- */

/* False: the server is to end, or requests run after --drain. cancel: they do not, and have a
 * second to take what they have. */
static bool hold(const struct lines *l, bool cancel)
{
	int64_t until = now_ns() + l->o->drain * SECOND;

	while (goes_on() && !serve_hold(l->s, TICK_MS))
		if (now_ns() >= until) {
			if (!cancel)
				return false;
			serve_cancel(l->s);
			until = now_ns() + SECOND;
		}
	return goes_on();
}

static int follow(struct lines *l, struct session *next, struct err *e)
{
	if (open_sessions(l, next, e))
		return -1;
	if (!hold(l, true))
		return err_set(e, ERR_INTERRUPTED, "the server ends");
	return begin_sessions(l, next, e) || serve_renew(l->s, next, e) ? -1 : 0;
}

static void close_sessions(const struct lines *l, struct session *session)
{
	struct err e = { 0 };
	char line[640];

	for (int32_t i = l->o->replicas - 1; i >= 0; i--)
		if (session_close(&session[i], &e)) {
			snprintf(line, sizeof line, "the recording is not whole: %s", e.text);
			serve_note(NULL, line);
		}
}

static void renew(struct lines *l)
{
	struct session *next = l->session[!l->at];
	struct err e = { 0 };
	char line[640];
	int rc = follow(l, next, &e);

	serve_release(l->s);
	if (rc) {
		drop_sessions(l, next);
		l->tries++;
		snprintf(line, sizeof line, "the model that was open goes on: %s", e.text);
	} else {
		l->at = !l->at;
		close_sessions(l, l->session[!l->at]);
		snprintf(line, sizeof line, "%.200s was opened anew%s%.300s",
			engine_info(next->engine)->name, next->writer ? ", and is recorded in " : "",
			next->writer ? writer_path(next->writer) : "");
		if (next->writer)
			keep_records(l, writer_path(next->writer));
	}
	serve_note(NULL, line);
}

static void reload(struct lines *l)
{
	systemd_notify_reload();
	serve_note(NULL, "the model is opened anew");
	renew(l);
	systemd_notify("READY=1");
}

/* A recording is whole only with all that its engine did from the start, so another begins with
 * another engine: while no request is open, or else, from twice the size on, when those that run
 * have ended; they are not cancelled for it, so that it may take another try. */
static void rotate(struct lines *l)
{
	if (!is_due(l, l->tries) || (!serve_idle(l->s) && !is_due(l, l->tries + 1)))
		return;
	if (hold(l, false)) {
		renew(l);
		return;
	}
	serve_release(l->s);
	l->tries++;
}

static void wait_for_end(struct lines *l)
{
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000 };

	while (goes_on()) {
		if (atomic_exchange(&renewing, false))
			reload(l);
		else
			rotate(l);
		nanosleep(&tick, NULL);
	}
}

static int run(struct lines *l, struct err *e)
{
	struct session *first = l->session[l->at];
	char url[80];

	if (open_sessions(l, first, e) || begin_sessions(l, first, e) || serve_start(l->s, first, e))
		return -1;
	serve_url(l->s, url, sizeof url);
	printf("serving %s\n", url);
	prompt_note_template(l->cli, first->engine);
	if (serve_is_open(l->s))
		fprintf(stderr, "cutaway: warning: %s\n", serve_open_words);
	if (first->writer)
		keep_records(l, writer_path(first->writer));
	if (out_flush(e))
		return -1;
	systemd_notify("READY=1");
	wait_for_end(l);
	systemd_notify("STOPPING=1");
	atomic_store(&interrupted, false); /* another one ends the waiting */
	serve_drain(l->s, l->o->drain, &interrupted);
	return atomic_load(&stopped) ? err_set(e, l->why.code, "%s", l->why.text) : 0;
}

/* A terminal that goes away ends the server. */
static void take_signals(void)
{
	interrupt_catch(SIGINT, 0);
	interrupt_catch(SIGTERM, 0);
	if (!isatty(STDIN_FILENO))
		sigaction(SIGHUP, &(struct sigaction){ .sa_handler = on_hangup }, NULL);
}

int serve_lines(const struct cli *c, struct serve *s, const struct serve_lines *o, struct err *e)
{
	struct lines l = { .cli = c, .o = o, .s = s };

	for (int32_t i = 0; i < o->replicas; i++)
		l.replica[i] = (struct replica_of){ &l, i };
	take_signals();
	l.kept = calloc((size_t)o->record_keep + 1, sizeof *l.kept);
	if (l.kept)
		run(&l, e);
	else
		err_no_memory(e, "the names of %d recordings", o->record_keep);
	for (int32_t i = o->replicas - 1; i >= 0; i--)
		cli_close(&l.session[l.at][i], c, e);
	while (l.n_kept)
		free(l.kept[--l.n_kept]);
	free(l.kept);
	return e->code ? -1 : 0;
}
