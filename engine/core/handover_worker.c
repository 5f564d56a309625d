/* The thread that gives a prefill rank its jobs, and puts what comes back into pages. See
 * handover_impl.h. */
#include "base/array.h"
#include "base/clock.h"
#include "engine/core/handover_impl.h"

void handover_free_job(struct handover_job *j)
{
	free(j->setting);
	free(j->room);
	free(j->give);
	free(j);
}

/* ---- a prompt ---- */

static int send_job(struct prefill_rank *p, struct handover_job *j, struct err *err)
{
	job_wire(engine_ranks_begin(&p->r), &j->has, j->n_groups);
	return engine_ranks_tell(&p->r, (struct head){ .kind = MESSAGE_PROMPT }, err);
}

/* False: the request was called back. */
static bool copy_page(struct prefill_rank *p, const struct handover_job *j, int32_t i)
{
	const struct job_page *page = &j->give[i];
	bool goes;

	pthread_mutex_lock(&p->h->lock);
	goes = !j->dropped;
	if (goes)
		memcpy(p->room, p->h->e->memory.pages[page->group].base + (size_t)page->page * page->bytes,
			page->bytes);
	pthread_mutex_unlock(&p->h->lock);
	return goes;
}

static int send_pages(struct prefill_rank *p, struct handover_job *j, bool *goes, struct err *err)
{
	struct transport *t = p->r.k.transport;

	for (int32_t i = 0; *goes && i < j->has.n_give; i++) {
		struct piece piece = { PIECE_PAGE, .group = j->give[i].group, .page = j->give[i].page };

		if (!ARRAY_ROOM(p->room, p->cap, j->give[i].bytes))
			return err_no_memory(err, "a page to send");
		*goes = copy_page(p, j, i);
		piece.kind = *goes ? PIECE_PAGE : PIECE_STOP;
		piece.bytes = *goes ? j->give[i].bytes : 0;
		if (piece_send(t, &piece, p->room, err))
			return -1;
	}
	return 0;
}

/* Keys and values of the job, into the pages of its request. */
static int store(
	struct prefill_rank *p, struct handover_job *j, const struct piece *piece, struct err *err)
{
	const struct memory *m = &p->h->e->memory;
	const struct stored *s = &piece->s;
	const bool is_group = piece->group >= 0 && piece->group < m->spec.n;
	int failed = 0;

	pthread_mutex_lock(&p->h->lock);
	if (!j->first_ns)
		j->first_ns = now_ns();
	j->differs = !piece_is_whole(piece, p->room);
	if (!j->dropped) {
		const struct k_kv *kv = &m->store[is_group ? piece->group : 0].kv;
		const int32_t *pages = j->has.page[is_group ? piece->group : 0];

		if (j->differs || !is_group || s->layer < 0 || s->layer >= kv->n_layers ||
			s->first < j->has.first || s->end > j->has.first + j->has.n ||
			stored_copy(kv, pages, s, NULL, false) != piece->bytes)
			failed = err_set(err, ERR_DEVICE,
				"keys and values came otherwise than rank %d sent them", p->number);
		else
			stored_copy(kv, pages, s, p->room, false);
	}
	pthread_mutex_unlock(&p->h->lock);
	return failed;
}

static int end_chunk(struct prefill_rank *p, struct handover_job *j, const struct piece *piece,
	bool *goes, struct err *err)
{
	uint32_t answer;

	pthread_mutex_lock(&p->h->lock);
	j->done = piece->s.end - j->has.first;
	j->nan_row = piece->nan_row;
	answer = !j->dropped && !p->quits && !j->nan_row;
	*goes = answer && j->done < j->has.n;
	pthread_cond_signal(&p->h->moved);
	pthread_mutex_unlock(&p->h->lock);
	return transport_control(
		p->r.k.transport, &(struct message){ 1, &answer, sizeof answer }, 1, NULL, 0, false, err);
}

static bool quits(struct prefill_rank *p)
{
	bool quit;

	pthread_mutex_lock(&p->h->lock);
	quit = p->quits;
	pthread_mutex_unlock(&p->h->lock);
	return quit;
}

static int run_job(struct prefill_rank *p, struct handover_job *j, struct err *err)
{
	struct piece piece;
	bool goes = true;

	if (send_job(p, j, err) || send_pages(p, j, &goes, err))
		return -1;
	while (goes) {
		if (quits(p))
			return err_set(err, ERR_INTERRUPTED, "the engine closes");
		if (piece_receive(p->r.k.transport, &piece, &p->room, &p->cap, err))
			return -1;
		if (piece.kind == PIECE_STOP)
			return err_set(err, ERR_DEVICE, "rank %d: %.200s", p->number, (char *)p->room);
		if (piece.kind == PIECE_STORED ? store(p, j, &piece, err)
									   : end_chunk(p, j, &piece, &goes, err))
			return -1;
	}
	return 0;
}

/* ---- a setting ---- */

static int run_setting(struct prefill_rank *p, struct handover_job *j, struct err *err)
{
	wire_bytes(engine_ranks_begin(&p->r), j->setting, j->setting_bytes);
	if (engine_ranks_tell(&p->r, (struct head){ .kind = MESSAGE_SET }, err) ||
		engine_ranks_replies(&p->r, false, err))
		return -1;
	return memcmp(p->r.reply[1].n_pages, j->n_pages, sizeof j->n_pages)
			   ? err_set(err, ERR_DEVICE, "rank %d has room for other pages after %s", p->number,
					 j->setting)
			   : 0;
}

/* ---- the thread ---- */

static struct handover_job *next_job(struct prefill_rank *p)
{
	struct handover_job *j = NULL;

	pthread_mutex_lock(&p->h->lock);
	for (;;) {
		TAILQ_FOREACH(j, &p->jobs, link)
			if (j->state == JOB_WAITS)
				break;
		if (j || p->quits)
			break;
		pthread_cond_wait(&p->h->wake, &p->h->lock);
	}
	if (p->quits)
		j = NULL;
	if (j) {
		j->state = JOB_RUNS;
		j->start_ns = now_ns();
	}
	pthread_mutex_unlock(&p->h->lock);
	return j;
}

static void fail_job(struct handover_job *j, const struct err *err)
{
	j->state = JOB_FAILED;
	j->end_ns = now_ns();
	snprintf(j->why, sizeof j->why, "%.250s", err->text);
}

/* The rank is lost: so are the jobs that wait for it. */
static void end_job(struct prefill_rank *p, struct handover_job *j, uint64_t sent,
	uint64_t received, const struct err *err)
{
	const struct transport_count *now = &p->r.k.transport->count;
	struct handover_job *i;

	pthread_mutex_lock(&p->h->lock);
	j->there += (int64_t)(now->sent - sent);
	j->back = (int64_t)(now->received - received);
	j->state = JOB_DONE;
	j->end_ns = now_ns();
	if (err->code) {
		p->lost = true;
		TAILQ_FOREACH(i, &p->jobs, link)
			if (i == j || i->state == JOB_WAITS)
				fail_job(i, err);
	}
	if (j->dropped)
		handover_free_job(j);
	pthread_cond_signal(&p->h->moved);
	pthread_mutex_unlock(&p->h->lock);
}

void *handover_work(void *arg)
{
	struct prefill_rank *p = arg;
	struct transport *t = p->r.k.transport;
	struct err err = { 0 };
	struct handover_job *j;

	while (!err.code && (j = next_job(p))) {
		const struct transport_count before = t->count;

		if (j->setting)
			run_setting(p, j, &err);
		else
			run_job(p, j, &err);
		end_job(p, j, before.sent, before.received, &err);
	}
	engine_ranks_begin(&p->r);
	if (!err.code)
		engine_ranks_tell(&p->r, (struct head){ .kind = MESSAGE_QUIT }, &err);
	t->ops->close(t);
	p->r.k.transport = NULL;
	return NULL;
}
