/* See lens.h.
 *
 * Invariants: (1) at most one thread runs, and `job` is its own from lens_begin to the join; (2)
 * what the UI shows (`look`, `shown`) is used by the UI's thread alone; (3) while a look runs, the
 * next request waits in `next`, where a newer one replaces it. */
#include "tui/state/lens.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/sha256.h"
#include "engine/core/actor.h"

enum stage { STAGE_CHECK, STAGE_OPEN, STAGE_COMPUTE };

struct job {
	int32_t *ids, n, token;
	int64_t request, hash;
	struct lossy_settings lossy;
	char *adapter; /* of the request; "off": none */
	struct probe *probe;
	struct err err;
};

struct lens {
	struct actor *actor; /* NULL: in a replay */
	const struct tokenizer *tokenizer;
	char *model, *else_model, *sha256; /* in a replay; model NULL: the log names none */
	struct engine *engine; /* in a replay; used by the thread, and after a join by the UI */
	bool checked;
	int fd;
	pthread_t thread;
	bool runs;
	atomic_bool abandon, finished;
	atomic_int stage, done, all;
	struct job job, next, shown;
	struct lens_look look;
};

static void job_free(struct job *j)
{
	free(j->ids);
	free(j->adapter);
	probe_close(j->probe);
	*j = (struct job){ 0 };
}

/* --- on the thread of its own, and the engine's --- */

static void wake(struct lens *l)
{
	uint64_t one = 1;

	if (write(l->fd, &one, sizeof one) < 0)
		return; /* the fd is readable already */
}

static bool progress(void *arg, int32_t done, int32_t all)
{
	struct lens *l = arg;

	atomic_store(&l->done, done);
	atomic_store(&l->all, all);
	wake(l);
	return !atomic_load(&l->abandon) && !(l->actor && actor_waiting(l->actor));
}

static void compute(struct engine *engine, void *arg)
{
	struct lens *l = arg;
	struct job *j = &l->job;

	j->err = (struct err){ 0 };
	if (!l->actor && lossy_apply(&j->lossy, engine, &j->err))
		return;
	if (!atomic_load(&l->abandon))
		probe_open(&j->probe, engine, j->adapter, j->ids, j->n, j->token, progress, l, &j->err);
}

static void stage(struct lens *l, enum stage s)
{
	atomic_store(&l->stage, s);
	wake(l);
}

/* 1: the file has the log's SHA-256; 0: it has not, or cannot be read; -1: interrupted. Without a
 * hash any file matches. */
static int is_recorded(struct lens *l, const char *path, char sha256[SHA256_HEX])
{
	struct err why = { 0 };

	sha256[0] = '\0';
	if (!path || access(path, R_OK))
		return 0;
	if (!l->sha256)
		return 1;
	if (file_sha256_of(path, NULL, &l->abandon, sha256, &why) < 0)
		return atomic_load(&l->abandon) ? -1 : 0;
	return !strcmp(sha256, l->sha256);
}

/* Requires the file with the log's SHA-256: an equal name proves nothing. */
static int check_file(struct lens *l, struct err *e)
{
	char sha256[SHA256_HEX], other[SHA256_HEX];
	int is;

	if (l->checked)
		return 0;
	stage(l, STAGE_CHECK);
	is = is_recorded(l, l->model, sha256);
	if (!is && l->sha256 && is_recorded(l, l->else_model, other) == 1) {
		char *swap = l->model;

		l->model = l->else_model;
		l->else_model = swap;
		is = 1;
	}
	if (is < 0 || atomic_load(&l->abandon))
		return err_set(e, ERR_INTERRUPTED, "stopped");
	l->checked = is > 0;
	if (is)
		return 0;
	if (sha256[0])
		return err_set(e, ERR_INPUT,
			"%s is not the model that was recorded: its SHA-256 begins %.12s, not %.12s; name "
			"the right file with cutaway replay --model FILE",
			l->model, sha256, l->sha256);
	return err_set(e, ERR_IO,
		"a look needs the model of this recording, and there is none to be read at %s; name it "
		"with cutaway replay --model FILE%s%.12s%s",
		l->model ? l->model : "(not named in the log)", l->sha256 ? " (SHA-256 " : "",
		l->sha256 ? l->sha256 : "", l->sha256 ? "\xe2\x80\xa6)" : "");
}

static int open_model(struct lens *l, struct err *e)
{
	struct engine_options o = ENGINE_DEFAULTS;

	if (l->engine)
		return 0;
	if (check_file(l, e) < 0)
		return -1;
	stage(l, STAGE_OPEN);
	o.model = l->model;
	o.slots = 1;
	o.abandon = &l->abandon;
	return engine_open(&l->engine, &o, e);
}

static void *lens_thread(void *arg)
{
	struct lens *l = arg;

	if (l->actor) {
		stage(l, STAGE_COMPUTE);
		while (actor_call(l->actor, compute, l) && l->job.err.code == ERR_INTERRUPTED &&
			   !atomic_load(&l->abandon))
			;
	} else if (open_model(l, &l->job.err) == 0) {
		stage(l, STAGE_COMPUTE);
		compute(l->engine, l);
	}
	atomic_store(&l->finished, true);
	wake(l);
	return NULL;
}

/* --- the UI's --- */

static int lens_new(struct lens **out, struct err *e)
{
	struct lens *l = calloc(1, sizeof *l);

	*out = NULL;
	if (!l)
		return err_no_memory(e, "a look");
	l->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->fd < 0) {
		free(l);
		return err_set(e, ERR_IO, "eventfd: %s", strerror(errno));
	}
	*out = l;
	return 0;
}

int lens_open(
	struct lens **out, struct actor *actor, const struct tokenizer *tokenizer, struct err *e)
{
	if (lens_new(out, e) < 0)
		return -1;
	(*out)->actor = actor;
	(*out)->tokenizer = tokenizer;
	return 0;
}

static bool copy_text(char **out, const char *text)
{
	*out = text ? strdup(text) : NULL;
	return *out || !text;
}

int lens_open_file(
	struct lens **out, const char *model, const char *else_model, const char *sha256, struct err *e)
{
	struct lens *l;

	if (lens_new(&l, e) < 0)
		return -1;
	if (!copy_text(&l->model, model) || !copy_text(&l->else_model, else_model) ||
		!copy_text(&l->sha256, sha256)) {
		lens_close(l);
		return err_no_memory(e, "a look");
	}
	*out = l;
	return 0;
}

void lens_close(struct lens *l)
{
	if (!l)
		return;
	atomic_store(&l->abandon, true);
	if (l->runs)
		pthread_join(l->thread, NULL);
	job_free(&l->job);
	job_free(&l->next);
	job_free(&l->shown);
	if (l->engine)
		engine_close(l->engine);
	close(l->fd);
	free(l->model);
	free(l->else_model);
	free(l->sha256);
	free(l);
}

int lens_fd(const struct lens *l)
{
	return l->fd;
}

const struct lens_look *lens_look(const struct lens *l)
{
	return &l->look;
}

static void show_job(struct lens *l, const struct job *j, enum lens_state state)
{
	l->look.state = state;
	l->look.request = j->request;
	l->look.n = j->n;
	l->look.token = j->token;
	l->look.hash = j->hash;
	l->look.probe = j->probe;
	l->look.ids = j->ids;
}

static int begin(struct lens *l, struct err *e)
{
	l->job = l->next;
	l->next = (struct job){ 0 };
	atomic_store(&l->abandon, false);
	atomic_store(&l->finished, false);
	atomic_store(&l->done, 0);
	atomic_store(&l->all, 0);
	show_job(l, &l->job, LENS_WORKS);
	l->look.ids = NULL;
	l->look.words[0] = '\0';
	if (pthread_create(&l->thread, NULL, lens_thread, l)) {
		l->look.state = LENS_NOTHING;
		job_free(&l->job);
		return err_set(e, ERR_IO, "the system refused a thread for a look");
	}
	l->runs = true;
	return 0;
}

int lens_query(struct lens *l, const struct lens_query *ask, struct err *e)
{
	struct job j = { .n = ask->n,
		.token = ask->token,
		.request = ask->request,
		.hash = ask->hash,
		.lossy = ask->lossy };

	j.ids = malloc((size_t)ask->n * sizeof *j.ids);
	j.adapter = strdup(ask->adapter && *ask->adapter ? ask->adapter : "off");
	if (!j.ids || !j.adapter) {
		job_free(&j);
		return err_no_memory(e, "a look at %d tokens", ask->n);
	}
	memcpy(j.ids, ask->ids, (size_t)ask->n * sizeof *j.ids);
	job_free(&l->next);
	l->next = j;
	if (l->runs) {
		atomic_store(&l->abandon, true);
		return 0;
	}
	return begin(l, e);
}

static void finish(struct lens *l)
{
	struct err e = { 0 };

	pthread_join(l->thread, NULL);
	l->runs = false;
	job_free(&l->shown);
	l->shown = l->job;
	l->job = (struct job){ 0 };
	show_job(l, &l->shown, l->shown.probe ? LENS_DONE : LENS_FAILED);
	if (l->engine)
		l->tokenizer = engine_tokenizer(l->engine);
	l->look.tokenizer = l->tokenizer;
	snprintf(l->look.words, sizeof l->look.words, "%s", l->shown.err.text);
	if (l->next.ids && begin(l, &e) < 0)
		snprintf(l->look.words, sizeof l->look.words, "%s", e.text);
}

bool lens_feed(struct lens *l)
{
	static const char *const words[] = {
		"checking that the file of the model is the one that was recorded", "opening the model",
		"computing the tokens up to there again"
	};
	uint64_t count;

	if (read(l->fd, &count, sizeof count) < 0 || !l->runs)
		return false;
	if (atomic_load(&l->finished)) {
		finish(l);
		return true;
	}
	snprintf(l->look.words, sizeof l->look.words, "%s", words[atomic_load(&l->stage)]);
	l->look.done = atomic_load(&l->done);
	l->look.all = atomic_load(&l->all);
	return true;
}

struct gguf_text lens_bytes(const struct lens_look *look, int32_t id)
{
	if (!look->tokenizer || id < 0 || id >= tokenizer_n_vocab(look->tokenizer))
		return (struct gguf_text){ 0 };
	return tokenizer_bytes(look->tokenizer, id);
}
