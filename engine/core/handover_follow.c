/* A prefill rank computes a prompt, and sends back what each layer stores. See handover_impl.h. */
#include "base/array.h"
#include "engine/core/handover_impl.h"

/* A job on its rank. */
struct prefill {
	struct engine *e;
	struct transport *t;
	struct job_wire job;
	int32_t pos, end; /* of the chunk */
	uint8_t *room;    /* of a message */
	size_t cap;
};

/* ---- a chunk ---- */

static int send_stored(struct prefill *p, const struct stored *s, const struct k_kv *kv,
	const int32_t *pages, struct err *err)
{
	struct piece piece = { .kind = PIECE_STORED, .s = *s };
	const size_t bytes = stored_copy(kv, pages, s, NULL, true);

	while (&p->e->memory.store[piece.group].kv != kv)
		piece.group++;
	if (!ARRAY_ROOM(p->room, p->cap, bytes))
		return err_no_memory(err, "the keys and values of a chunk");
	piece.bytes = stored_copy(kv, pages, s, p->room, true);
	return bytes ? piece_send(p->t, &piece, p->room, err) : 0;
}

/* Nobody reads what follows the last layer's keys and values. */
static int run(void *arg, struct forward *f, struct err *err)
{
	struct prefill *p = arg;
	int32_t at = 0;

	for (int32_t i = 0; i < f->program.n_ops; i++) {
		const struct k_kv *kv;
		const int32_t *pages;
		struct k_program some = program_slice(&f->program, at, i + 1);
		struct stored s;

		if (!stored_by(&f->program.op[i], p->pos, p->end, &s, &kv, &pages))
			continue;
		if (k_run(p->e->kernels, &some, err) || send_stored(p, &s, kv, pages, err))
			return -1;
		at = i + 1;
	}
	return 0;
}

static void split(void *arg, struct forward *f)
{
	(void)arg;
	(void)f;
}

static int32_t chunk_rows(const struct prefill *p)
{
	const struct memory *m = &p->e->memory;
	const int32_t most[] = { p->job.first + p->job.n - p->pos, p->e->forward.max_rows,
		p->job.chunk ? p->job.chunk : INT32_MAX, m->most_rows,
		visible_most_rows(&m->visible, p->pos) };
	int32_t n = most[0];

	for (size_t i = 1; i < sizeof most / sizeof *most; i++)
		n = most[i] < n ? most[i] : n;
	return n;
}

static int run_chunk(struct prefill *p, struct err *err)
{
	const struct forward_remote sends = { .arg = p, .split = split, .run = run };
	struct forward *f = &p->e->forward;
	int failed;

	f->n_rows = p->end - p->pos;
	f->n_out = f->n_observed = f->n_also = 0;
	f->n_items = 1;
	f->item_row[0] = 0;
	for (int32_t g = 0; g < p->e->memory.spec.n; g++)
		f->pages[g][0] = p->job.page[g];
	for (int32_t i = 0; i < f->n_rows; i++) {
		f->ids[i] = p->job.ids[p->pos - p->job.first + i];
		f->rows[i] = (struct k_row){ .pos = p->pos + i, .observe = -1 };
	}
	f->remote = &sends;
	failed = forward_run(f, false, err);
	f->remote = NULL;
	return failed;
}

/* Says that the chunk is done; *goes: the job goes on. */
static int tell_chunk(struct prefill *p, bool *goes, struct err *err)
{
	struct piece chunk = { .kind = PIECE_CHUNK,
		.nan_row = atomic_load(p->e->forward.nan_row),
		.s = { .first = p->pos, .end = p->end } };
	uint32_t answer = 0;

	if (piece_send(p->t, &chunk, NULL, err) ||
		transport_control(
			p->t, NULL, 0, &(struct message){ 0, &answer, sizeof answer }, 1, true, err))
		return -1;
	*goes = answer;
	return 0;
}

/* ---- a job ---- */

static bool fits(const struct prefill *p)
{
	const struct memory *m = &p->e->memory;
	const struct job_wire *j = &p->job;

	if (p->e->forward.max_rows < 1 || j->first < 0 || j->n < 1 || j->n_blocks < 1 ||
		(int64_t)j->first + j->n > (int64_t)j->n_blocks * m->page_size)
		return false;
	for (int32_t i = 0; i < j->n; i++)
		if (j->ids[i] < 0 || j->ids[i] >= p->e->info.vocab)
			return false;
	for (int32_t g = 0; g < m->spec.n; g++)
		for (int32_t b = 0; b < j->n_blocks; b++)
			if (j->page[g][b] >= m->pages[g].n_pages)
				return false;
	return true;
}

/* Pages that the prefix cache gave; *goes: all of them came. */
static int take_pages(struct prefill *p, bool *goes, struct err *err)
{
	for (int32_t i = 0; *goes && i < p->job.n_give; i++) {
		const struct pages *pool;
		struct piece piece;

		if (piece_receive(p->t, &piece, &p->room, &p->cap, err))
			return -1;
		*goes = piece.kind == PIECE_PAGE;
		if (!*goes)
			return 0;
		if (piece.group < 0 || piece.group >= p->e->memory.spec.n)
			return err_set(err, ERR_DEVICE, "a page of no pool of this rank");
		pool = &p->e->memory.pages[piece.group];
		if (piece.page < 0 || piece.page >= pool->n_pages || piece.bytes != pool->page_bytes ||
			!piece_is_whole(&piece, p->room))
			return err_set(err, ERR_DEVICE, "a page came otherwise than it was sent");
		memcpy(pool->base + (size_t)piece.page * pool->page_bytes, p->room, pool->page_bytes);
	}
	return 0;
}

static int compute(struct prefill *p, struct err *err)
{
	bool goes = true;

	if (take_pages(p, &goes, err))
		return -1;
	for (p->pos = p->job.first; goes && p->pos < p->job.first + p->job.n; p->pos = p->end) {
		p->end = p->pos + chunk_rows(p);
		if (run_chunk(p, err) || tell_chunk(p, &goes, err))
			return -1;
	}
	return 0;
}

int handover_follow(struct engine *e, struct engine_ranks *r, struct err *err)
{
	struct prefill p = { .e = e, .t = r->k.transport };
	struct err ignored = { 0 };
	int failed;

	job_wire(&r->wire, &p.job, e->memory.spec.n);
	failed = r->wire.failed || !fits(&p)
				 ? err_set(err, ERR_DEVICE, "rank 0 sent a prompt that this rank has no room for")
				 : compute(&p, err);
	if (failed)
		piece_send(p.t, &(struct piece){ .kind = PIECE_STOP, .bytes = strlen(err->text) + 1 },
			err->text, &ignored);
	free(p.room);
	return failed;
}
