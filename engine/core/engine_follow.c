/* A rank other than 0. See engine_follow.h. */
#include "base/signals.h"
#include "engine/core/engine_follow.h"
#include "engine/core/handover_impl.h"

/* Where a value of these settings lies in the message is where it stays: texts are not copied. */
static int read_options(struct engine_ranks *r, struct engine_options *o, struct err *err)
{
	const char *at = (const char *)r->wire.data, *end = at + r->wire.n;

	*o = (struct engine_options)ENGINE_DEFAULTS;
	while (at < end && !err->code) {
		const struct setting *s = setting_find(engine_settings, at);
		const char *value = at + strlen(at) + 1;

		if (value >= end || !s)
			return err_set(err, ERR_DEVICE, "rank 0 is of another version of this program");
		setting_put(s, o, value, err);
		at = value + strlen(value) + 1;
	}
	return err->code ? -1 : 0;
}

static int follow_step(struct engine *e, struct engine_ranks *from, struct err *err)
{
	struct engine_ranks *r = e->ranks;

	ranks_wire_step(&from->wire, &e->forward, e->memory.spec.n);
	if (from->wire.failed)
		return err_set(err, ERR_DEVICE, "rank 0 sent a step that this rank has no room for");
	return forward_run(&e->forward, false, err) || ranks_gather_observed(&r->k, &e->forward, err)
			   ? -1
			   : 0;
}

static int follow_set(struct engine *e, struct engine_ranks *from, struct err *err)
{
	const char *name = (const char *)from->wire.data, *value = name + strlen(name) + 1;

	return engine_set(e, name, value, err);
}

/* What this rank has, NULL: nothing, and what went wrong. */
static int answer(struct engine *e, struct engine_ranks *r, bool lane, struct err *err)
{
	struct reply reply = { 0 };

	if (e)
		reply = engine_ranks_reply(e);
	reply.code = err->code;
	snprintf(reply.text, sizeof reply.text, "%.255s", err->text);
	return engine_ranks_answer(r, &reply, lane, err);
}

static int follow_and_answer(
	struct engine *e, struct engine_ranks *r, enum message_kind kind, struct err *err)
{
	const bool step = kind == MESSAGE_STEP;
	int failed;

	for (int32_t i = 0; i < r->k.n_copies; i++)
		pages_copy(&e->memory.pages[r->k.copy[i].group], r->k.copy[i].to, r->k.copy[i].from);
	failed = step ? follow_step(e, r, err) : follow_set(e, r, err);

	return answer(e, r, step && e->forward.n_observed > 0, err) || failed ? -1 : 0;
}

static int follow_on(struct engine *e, struct engine_ranks *r, struct err *err)
{
	struct head head;

	while (!engine_ranks_hear(r, &head, err) && head.kind != MESSAGE_QUIT)
		if (head.kind == MESSAGE_PROMPT
				? handover_follow(e, r, err)
				: follow_and_answer(e, r, (enum message_kind)head.kind, err))
			return -1;
	return err->code ? -1 : 0;
}

int engine_follow(struct transport *t, struct err *err)
{
	struct engine_ranks r = { .k.transport = t };
	struct engine_options o;
	struct engine *e = NULL;
	struct head head;
	char *options = NULL;

	if (engine_ranks_hear(&r, &head, err))
		goto done;
	options = (char *)r.wire.data; /* texts of options point into it */
	if (!read_options(&r, &o, err)) {
		if (!o.prefill_ranks)
			o.follows = t;
		o.prefill_ranks = 0; /* it is one, and computes by itself */
		o.replicas = (int32_t)head.replicas;
		o.goes_on = head.goes_on;
		engine_open(&e, &o, err);
	}
	r.wire = (struct wire){ 0 };
	if (!answer(e, &r, false, err) && e)
		follow_on(e, &r, err);
done:
	engine_close(e);
	free(options);
	free(r.wire.data);
	free(r.k.copy);
	t->ops->close(t);
	return err->code ? -1 : 0;
}

/* ---- threads of this process ---- */

static void *follow_thread(void *arg)
{
	struct err ignored = { 0 }; /* rank 0 hears of it */

	engine_follow(arg, &ignored);
	return NULL;
}

int engine_ranks_start_threads(struct engine_ranks *r, int32_t n, struct err *err)
{
	struct transport *t[TRANSPORT_RANKS];
	sigset_t before;
	int failed = 0;

	if (transport_threads(t, n, err))
		return -1;
	r->k.transport = t[0];
	signals_block(&before);
	for (int32_t i = 1; i < n; i++) {
		failed = failed || pthread_create(&r->thread[i], NULL, follow_thread, t[i]);
		if (failed)
			t[i]->ops->close(t[i]);
		else
			r->n_threads = i;
	}
	signals_restore(&before);
	return failed ? err_set(err, ERR_MEMORY, "no thread for %d ranks", n) : 0;
}

/* ---- processes of MPI: a thread for each engine that rank 0 has open, since a chat opens a model
 * before it closes the one before ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int n_engines;

static void *follow_process(void *transport)
{
	follow_thread(transport);
	pthread_mutex_lock(&lock);
	n_engines--;
	pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int begin_engine(struct transport *t, struct err *err)
{
	pthread_t thread;
	int rc;

	pthread_mutex_lock(&lock);
	rc = pthread_create(&thread, NULL, follow_process, t);
	n_engines += !rc;
	pthread_mutex_unlock(&lock);
	if (!rc) {
		pthread_detach(thread);
		return 0;
	}
	t->ops->close(t);
	return err_set(err, ERR_MEMORY, "no thread for an engine: %s", strerror(rc));
}

int engine_follow_all(struct err *err)
{
	struct transport *t;

	while (!transport_mpi_next(&t, err) && t)
		if (begin_engine(t, err))
			break;
	pthread_mutex_lock(&lock);
	while (n_engines && !err->code)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	return err->code ? -1 : 0;
}
