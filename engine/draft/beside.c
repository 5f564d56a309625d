/* Drafting beside verification: the drafter `draft` with a thread and kernels of its own. While the
 * model verifies a draft, it assumes that the first path of it will be kept whole, and that what
 * the model draws then is its own next guess; and it drafts the block that would follow. If the
 * text comes so, that block is the next draft; if not, it is thrown away and the drafter guesses in
 * turn, as `draft` does. After PEARL (Liu et al. 2024, arXiv:2408.11850) and AMUSD (McDanel 2024,
 * arXiv:2410.17375).
 *
 * Invariants: (1) The tokens alone decide whether a block is used, never who was faster: the engine
 * waits for it. Since a guess is a function of the tokens too, the drafts are those of `draft` with
 * the same numbers. (2) The thread works from verifying() until settle() in the same step, and
 * sleeps between steps; inner, blocks and jobs are the thread's then and the engine's otherwise,
 * but for what `lock` guards. (3) Where drafts are verified by modified rejection nothing is
 * drafted ahead: the distributions that the guesses were drawn from would be overwritten. */
#include <pthread.h>

#include "base/clock.h"
#include "base/signals.h"
#include "engine/draft/net.h"

extern const struct draft_ops draft_model;

struct ahead {
	struct ev_ahead told;
	struct draft_job job; /* of the guesses after the tokens assumed */
	struct draft draft;
	int32_t *ids; /* [ctx] the text as assumed */
	bool ended;   /* its request, while the model verified */
};

enum phase { IDLE, DRAWING, DRAFTING }; /* what the model draws; the block */

struct drafter {
	struct drafter *inner;
	struct k_ctx *kernels;
	struct ahead *block;   /* [slots] */
	struct draft_job *job; /* [slots] */
	int32_t *ids;          /* of all blocks */
	int32_t width;
	int32_t n;  /* blocks of the newest step with any */
	bool fresh; /* they are not told yet */
	int64_t wait_ns;
	pthread_t thread;
	bool started, quit;
	pthread_mutex_t lock; /* of phase, quit, err, and the tokens assumed */
	pthread_cond_t changed;
	enum phase phase;
	struct err err;
	atomic_bool stop;
};

/* ---- the thread ---- */

static void enter(struct drafter *d, enum phase phase)
{
	d->phase = phase;
	pthread_cond_broadcast(&d->changed);
}

/* The drafter's own guess of what the model draws after the path: the last token assumed. */
static void guess_drawn(struct drafter *d)
{
	for (int32_t i = 0; i < d->n; i++) {
		d->job[i] = d->block[i].job;
		d->job[i].nodes = d->job[i].depth = 1;
	}
	draft_model.propose(d->inner, d->job, d->n, &d->err);
}

/* Returns how many blocks can be drafted. */
static int32_t assume_drawn(struct drafter *d)
{
	int32_t n = 0;

	for (int32_t i = 0; i < d->n; i++) {
		struct ahead *b = &d->block[i];

		if (!b->draft.n) {
			b->told.came = EV_AHEAD_unsure;
			continue;
		}
		b->ids[b->job.n++] = b->draft.id[0];
		b->job.depth--;
		b->told.assumed++;
		b->draft.n = 0;
		d->job[n++] = b->job;
	}
	return n;
}

static void draft_blocks(struct drafter *d)
{
	const int64_t start = now_ns();
	int32_t n;

	guess_drawn(d);
	pthread_mutex_lock(&d->lock);
	n = assume_drawn(d);
	enter(d, DRAFTING);
	pthread_mutex_unlock(&d->lock);
	if (n && !d->err.code && !atomic_load(&d->stop))
		draft_model.propose(d->inner, d->job, n, &d->err);
	for (int32_t i = 0; i < d->n; i++) {
		d->block[i].told.start_ns = start;
		d->block[i].told.ns = now_ns() - start;
		d->block[i].told.nodes = d->block[i].draft.n;
	}
}

static void *beside_main(void *arg)
{
	struct drafter *d = arg;

	pthread_mutex_lock(&d->lock);
	while (!d->quit) {
		if (d->phase == IDLE) {
			pthread_cond_wait(&d->changed, &d->lock);
			continue;
		}
		pthread_mutex_unlock(&d->lock);
		draft_blocks(d);
		pthread_mutex_lock(&d->lock);
		enter(d, IDLE);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* ---- the engine's ---- */

/* Until the thread has ended this phase, and those before. */
static void wait_for(struct drafter *d, enum phase phase)
{
	const int64_t start = now_ns();

	pthread_mutex_lock(&d->lock);
	while (d->phase != IDLE && d->phase <= phase)
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
	d->wait_ns += now_ns() - start;
}

/* Takes the first path of the draft as kept. */
static void assume(struct drafter *d, const struct draft_job *job)
{
	struct ahead *b = &d->block[d->n];
	const struct draft *t = job->out;
	int32_t n = 0;

	memcpy(b->ids, job->ids, (size_t)job->n * sizeof *b->ids);
	for (; n < t->n && t->parent[n] == n - 1; n++)
		b->ids[job->n + n] = t->id[n];
	b->ended = false;
	b->job = *job;
	b->job.ids = b->ids;
	b->job.n += n;
	b->job.depth -= n;
	b->job.out = &b->draft;
	b->told = (struct ev_ahead){
		.request = job->request, .pos = job->n, .assumed = n, .came = EV_AHEAD_gone
	};
	d->n += b->job.depth > 1; /* what the model draws, and a guess */
}

static void beside_verifying(struct drafter *d, const struct draft_job *job, int32_t n)
{
	d->n = 0;
	for (int32_t i = 0; i < n; i++)
		if (!job[i].rejection)
			assume(d, &job[i]);
	d->fresh = d->n > 0;
	d->wait_ns = 0;
	if (!d->n)
		return;
	atomic_store(&d->stop, false);
	pthread_mutex_lock(&d->lock);
	enter(d, DRAWING);
	pthread_mutex_unlock(&d->lock);
}

/* Whether the text is as the block assumed. */
static bool judge(struct ahead *b, const struct draft_seen *seen, int32_t n)
{
	struct ev_ahead *a = &b->told;

	for (int32_t i = 0; i < n; i++) {
		if (seen[i].request != a->request || b->ended)
			continue;
		for (a->held = 0; a->held < a->assumed && a->pos + a->held < seen[i].n; a->held++)
			if (b->ids[a->pos + a->held] != seen[i].ids[a->pos + a->held])
				break;
		if (a->came != EV_AHEAD_unsure)
			a->came = a->held == a->assumed ? EV_AHEAD_kept : EV_AHEAD_missed;
	}
	return a->came == EV_AHEAD_kept;
}

/* Ends the thread's work of this step: at once, if none of its blocks will be used. */
static void settle(struct drafter *d, const struct draft_seen *seen, int32_t n)
{
	bool any = false;

	wait_for(d, DRAWING);
	for (int32_t i = 0; i < d->n; i++)
		any |= judge(&d->block[i], seen, n);
	if (!any)
		atomic_store(&d->stop, true);
	wait_for(d, DRAFTING);
	for (int32_t i = 0; i < d->n; i++)
		d->block[i].told.wait_ns = d->wait_ns;
}

static int beside_learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	if (d->fresh)
		settle(d, seen, n);
	return d->err.code ? err_set(e, d->err.code, "%s", d->err.text) : 0;
}

static const struct ev_ahead *beside_told(struct drafter *d, int32_t i)
{
	if (d->fresh && !i)
		wait_for(d, DRAFTING); /* where learn() was not called, since all requests have ended */
	if (d->fresh && i < d->n)
		return &d->block[i].told;
	d->fresh = false;
	return NULL;
}

static void beside_forget(struct drafter *d, int64_t request)
{
	bool any = false;

	for (int32_t i = 0; d->fresh && i < d->n; i++) {
		d->block[i].ended |= d->block[i].told.request == request;
		any |= !d->block[i].ended;
	}
	if (!any)
		atomic_store(&d->stop, true);
	wait_for(d, DRAFTING);
	draft_model.forget(d->inner, request);
}

/* The block that was drafted ahead for this text; NULL: none was. */
static const struct ahead *block_for(const struct drafter *d, const struct draft_job *job)
{
	for (int32_t i = 0; i < d->n; i++) {
		const struct ahead *b = &d->block[i];

		if (b->told.came == EV_AHEAD_kept && b->told.request == job->request &&
			b->job.n == job->n && !memcmp(b->ids, job->ids, (size_t)job->n * sizeof *b->ids))
			return b;
	}
	return NULL;
}

static int beside_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	int32_t left = 0;

	atomic_store(&d->stop, false);
	for (int32_t i = 0; i < n; i++) {
		const struct ahead *b = block_for(d, &job[i]);

		if (b)
			*job[i].out = b->draft;
		else
			d->job[left++] = job[i];
	}
	return left ? draft_model.propose(d->inner, d->job, left, e) : 0;
}

/* ---- opening ---- */

static void beside_close(struct drafter *d)
{
	pthread_mutex_lock(&d->lock);
	d->quit = true;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	if (d->started)
		pthread_join(d->thread, NULL);
	draft_close(&draft_model, d->inner);
	k_close(d->kernels);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	free(d->block);
	free(d->job);
	free(d->ids);
}

static int take_blocks(struct drafter *d, const struct draft_env *env, struct err *e)
{
	d->block = calloc((size_t)env->slots, sizeof *d->block);
	d->job = calloc((size_t)env->slots, sizeof *d->job);
	d->ids = calloc((size_t)env->slots, (size_t)env->ctx * sizeof *d->ids);
	if (!d->block || !d->job || !d->ids)
		return err_no_memory(e, "the blocks of %d slots", env->slots);
	for (int32_t i = 0; i < env->slots; i++)
		d->block[i].ids = d->ids + (size_t)i * (size_t)env->ctx;
	return 0;
}

/* What a step costs is not known to it: that table is the engine's. */
static int open_inner(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	struct k_ctx *target = env->model->kernels;
	const bool host = k_is_host(target);
	struct draft_env own = *env;

	if (k_open(&d->kernels, host ? k_backend_name(target) : "cpu", host ? k_isa_name(target) : NULL,
			1, e))
		return -1;
	own.kernels = d->kernels;
	own.cost = NULL;
	own.stop = &d->stop;
	return draft_begin(&d->inner, &draft_model, &own, args, e);
}

static int start(struct drafter *d, struct err *e)
{
	sigset_t before;

	signals_block(&before);
	d->started = !pthread_create(&d->thread, NULL, beside_main, d);
	signals_restore(&before);
	return d->started ? 0 : err_set(e, ERR_MEMORY, "cannot start a drafter's thread");
}

static int beside_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	if (take_blocks(d, env, e) || open_inner(d, env, args, e))
		return -1;
	d->width = draft_width(&draft_model, d->inner);
	return start(d, e);
}

const struct draft_ops draft_beside = {
	DRAFTER(beside, "beside", "[FILE,]k[,nodes[,least]]",
		"draft, on a thread of its own while the model verifies"),
	.variants =
		(const struct draft_variant[]){ { "beside", "beside:$f$n,$n,0", false, 0.4 }, { 0 } },
	.alone = "guesses with a model beside a model, and there is no model here",
	.computes = true,
	.learn = beside_learn,
	.forget = beside_forget,
	.verifying = beside_verifying,
	.told = beside_told,
	.shadowed = "",
};
