/* Opens and closes prefill ranks. See handover_impl.h. */
#include "engine/core/handover_impl.h"
#include "base/wait.h"

int engine_handover_check(struct engine_options *o, struct err *err)
{
	const int32_t n = o->prefill_ranks;
	char what[32];

	if (!n || o->given)
		return 0;
	if (o->tensor_parallel * o->pipeline_parallel * o->sequence_parallel > 1)
		return err_set(err, ERR_USAGE,
			"prefill-ranks %d: each has the whole model; not with tensor-parallel, "
			"pipeline-parallel or sequence-parallel",
			n);
	snprintf(what, sizeof what, "prefill-ranks %d", n);
	if (engine_ranks_share_cpus(o, n + 1, what, err))
		return -1;
	if (o->ranks > 1 && o->ranks != n + 1)
		return err_set(err, ERR_USAGE,
			"%d processes for %d prefill ranks and this one: as many are needed", o->ranks, n);
	return 0;
}

static int check_model(const struct engine *e, struct err *err)
{
	if (e->form)
		return err_set(err, ERR_USAGE,
			"prefill-ranks %d: this model's requests are no prompts (it has an encoder, or "
			"denoises)",
			e->set.prefill_ranks);
	if (memory_has_states(&e->specs))
		return err_set(err, ERR_USAGE,
			"prefill-ranks %d: this model's layers keep states, which are not handed over",
			e->set.prefill_ranks);
	return 0;
}

static int open_rank(struct handover *h, struct prefill_rank *p, struct err *err)
{
	struct engine *e = h->e;
	struct engine_options o = e->set;

	TAILQ_INIT(&p->jobs);
	p->h = h;
	p->number = (int32_t)(p - h->rank) + 1;
	o.pages = e->memory.pages[e->memory.primary].n_pages;
	if (o.ranks > 1 ? transport_mpi_pair(&p->r.k.transport, o.ranks, p->number, err)
					: engine_ranks_start_threads(&p->r, 2, err))
		return -1;
	h->n++;
	if (o.link && *o.link && link_parse(&p->r.k.transport->link, o.link, err))
		return -1;
	return engine_ranks_tell_options(&p->r, &o, err);
}

static int open_handover(struct engine *e, void **state, struct err *err)
{
	const int32_t n = e->given ? 0 : e->set.prefill_ranks;
	struct handover *h;

	*state = NULL;
	if (!n)
		return 0;
	if (check_model(e, err))
		return -1;
	e->handover = h = calloc(1, sizeof *h);
	if (h)
		h->rank = calloc((size_t)n, sizeof *h->rank);
	if (!h || !h->rank)
		return err_no_memory(err, "%d prefill ranks", n);
	h->e = e;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->wake, NULL);
	wait_open(&h->moved);
	for (int32_t i = 0; i < n; i++)
		if (open_rank(h, &h->rank[i], err))
			return -1;
	return 0;
}

static int begin_work(struct engine *e, struct prefill_rank *p, struct err *err)
{
	const struct reply *r = &p->r.reply[1];

	if (engine_ranks_replies(&p->r, false, err))
		return -1;
	if (r->model != e->model->weights.identity)
		return err_set(err, ERR_INPUT, "prefill rank %d has another file of that name: %s",
			p->number, e->model_path);
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		if (r->n_pages[g] != e->memory.pages[g].n_pages)
			return err_set(err, ERR_DEVICE,
				"prefill rank %d has room for %d pages, rank 0 for %d; say how many with --pages",
				p->number, r->n_pages[g], e->memory.pages[g].n_pages);
	if (pthread_create(&p->worker, NULL, handover_work, p))
		return err_set(err, ERR_MEMORY, "no thread for prefill rank %d", p->number);
	p->works = true;
	return 0;
}

int engine_handover_ready(struct engine *e, struct err *err)
{
	struct handover *h = e->handover;

	for (int32_t i = 0; h && i < h->n; i++)
		if (begin_work(e, &h->rank[i], err))
			return -1;
	if (!h)
		return 0;
	e->sched.hand_over = handover_take;
	e->sched.recall = handover_recall;
	e->sched.hand_arg = h;
	return 0;
}

/* ---- closing ---- */

static void close_rank(struct prefill_rank *p)
{
	struct handover_job *j;

	if (p->works)
		pthread_join(p->worker, NULL);
	else if (p->r.k.transport)
		p->r.k.transport->ops->close(p->r.k.transport);
	for (int32_t i = 1; i <= p->r.n_threads; i++)
		pthread_join(p->r.thread[i], NULL);
	while ((j = TAILQ_FIRST(&p->jobs))) {
		TAILQ_REMOVE(&p->jobs, j, link);
		handover_free_job(j);
	}
	free(p->r.wire.data);
	free(p->r.k.copy);
	free(p->room);
}

static void close_handover(struct engine *e, void *state)
{
	struct handover *h = e->handover;

	(void)state;
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (int32_t i = 0; i < h->n; i++)
		h->rank[i].quits = true;
	pthread_cond_broadcast(&h->wake);
	pthread_mutex_unlock(&h->lock);
	for (int32_t i = 0; i < h->n; i++)
		close_rank(&h->rank[i]);
	engine_handover_forget(e);
	e->sched.hand_over = NULL;
	e->sched.recall = NULL;
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->wake);
	pthread_cond_destroy(&h->moved);
	free(h->rank);
	free(h);
	e->handover = NULL;
}

const struct step_hooks handover_hooks = { .name = "handover",
	.open = open_handover,
	.close = close_handover,
	.begin = handover_begin,
	.stuck = handover_wait };
