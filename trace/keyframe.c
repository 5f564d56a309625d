/* See keyframe.h: the fold that makes them. It knows of the events what the timeline makes of them (fold/timeline_*.c),
 * in a few integers; tests/test_player.c holds the two together. */
#include "trace/keyframe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/keyframe_pack.h"

struct keyframer {
	struct keyframe now;
	struct key_marks marks;
	struct key_buf tokens, state;
	int64_t token_seq, token_step; /* of the entry before */
	bool taken;					   /* tokens and state were handed out */
	bool dead;					   /* no memory */
	int64_t memory[4]; /* pages of each group; a log that does not tell groups has one */
	int64_t n_memory;
};

struct keyframer *keyframer_open(void)
{
	return calloc(1, sizeof(struct keyframer));
}

void keyframer_close(struct keyframer *k)
{
	if (!k)
		return;
	keyframe_free(&k->now);
	free(k->tokens.data);
	free(k->state.data);
	free(k);
}

static void *grow(struct keyframer *k, void *array, int64_t n, int64_t *cap, size_t size)
{
	int64_t more = *cap ? 2 * *cap : 64;
	void *grown;

	if (n < *cap)
		return array;
	grown = reallocarray(array, (size_t)more, size);
	if (!grown) {
		k->dead = true;
		return NULL;
	}
	*cap = more;
	return grown;
}

/* Numbers of a foreign file may be any: sums of them wrap. */
static int64_t sum(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t difference(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static struct key_request *find(struct keyframer *k, int64_t id)
{
	return (struct key_request *)keyframe_request(&k->now, id);
}

static void pages_reset(struct keyframer *k, int64_t n)
{
	struct keyframe *f = &k->now;

	if (k->n_memory)
		n = 0;
	for (int64_t g = 0; g < k->n_memory; g++)
		n += k->memory[g];

	free(f->page);
	f->page = NULL;
	f->counts.pages = n > 0 && n <= KEY_PAGES_MAX ? n : 0;
	for (int64_t i = 0; i < f->n_requests; i++)
		f->request[i].n_pages = 0;
	f->page = calloc((size_t)f->counts.pages + 1, sizeof *f->page);
	k->dead |= !f->page;
}

static void add_memory(struct keyframer *k, const struct ev_memory *e)
{
	if (e->memory < 0 || e->memory > k->n_memory || e->memory >= 4 || e->pages < 1 || e->pages > KEY_PAGES_MAX)
		return;
	k->memory[e->memory] = e->pages;
	k->n_memory += e->memory == k->n_memory;
	pages_reset(k, 0);
}

/* The page size changes only in an idle engine, which then makes its pool anew. */
static void add_setting(struct keyframer *k, const struct ev_setting *e)
{
	char name[32] = "", value[24] = "";
	int64_t n;

	if (e->name.data && e->name.size < sizeof name)
		memcpy(name, e->name.data, e->name.size);
	if (e->value.data && e->value.size < sizeof value)
		memcpy(value, e->value.data, e->value.size);
	n = strtol(value, NULL, 10);
	if (n < 1 || n > KEY_PAGES_MAX)
		return;
	if (!strcmp(name, "pages") && n != k->now.counts.pages)
		pages_reset(k, n);
	if (!strcmp(name, "page-size") && n != k->now.counts.page_size) {
		k->now.counts.page_size = n;
		pages_reset(k, k->now.counts.pages);
	}
}

static bool of_conversation(int64_t kind)
{
	return kind == EV_REQUEST_KIND_chat || kind == EV_REQUEST_KIND_fork || kind == EV_REQUEST_KIND_run;
}

static void add_request(struct keyframer *k, const struct ev_request *e, int64_t seq)
{
	struct keyframe *f = &k->now;
	struct key_request *more;

	if (e->request < 1 || (f->n_requests && e->request <= f->request[f->n_requests - 1].id))
		return;
	more = grow(k, f->request, f->n_requests, &f->cap_requests, sizeof *more);
	if (!more)
		return;
	f->request = more;
	f->request[f->n_requests++] = (struct key_request){ .id = e->request,
														.kind = e->kind,
														.request_seq = seq,
														.admitted_ns = EV_NULL_I,
														.first_token_ns = EV_NULL_I,
														.slot = -1,
														.prompt = (int64_t)(e->prompt.size / 4) };
	k->marks.turns += of_conversation(e->kind);
}

static void add_lookup(struct keyframer *k, const struct ev_lookup *e, int64_t seq)
{
	struct key_request *r = find(k, e->request);

	if (!r)
		return;
	if (!r->lookup_seq) {
		k->now.counts.n_prompt_tokens = sum(k->now.counts.n_prompt_tokens, e->asked);
		k->now.counts.n_hit_tokens = sum(k->now.counts.n_hit_tokens, e->hit);
	}
	r->lookup_seq = seq;
	r->computed = e->hit;
}

static void add_admit(struct keyframer *k, const struct ev_admit *e, int64_t t_ns)
{
	struct key_request *r = find(k, e->request);

	if (!r)
		return;
	r->state = KEY_RUNNING;
	r->slot = e->slot < 0 ? -1 : e->slot;
	if (r->admitted_ns == EV_NULL_I)
		r->admitted_ns = t_ns;
}

static void add_preempt(struct keyframer *k, const struct ev_preempt *e)
{
	struct key_request *r = find(k, e->request);

	if (!r || r->state != KEY_RUNNING)
		return;
	r->state = KEY_PREEMPTED;
	r->slot = -1;
	r->computed = 0;
	r->n_preempted++;
}

static void add_token(struct keyframer *k, const struct event *ev)
{
	const struct ev_token *e = &ev->u.token;
	struct key_request *r = find(k, e->request);
	struct key_buf *b = &k->tokens;
	int32_t *more;

	if (!r || r->state == KEY_FINISHED)
		return;
	more = grow(k, r->pos, r->n_tokens, &r->cap_pos, sizeof *more);
	if (!more)
		return;
	r->pos = more;
	r->pos[r->n_tokens++] = (int32_t)e->pos;
	r->computed = e->pos;
	if (!r->first_seq)
		r->first_seq = ev->seq;
	if (e->source != EV_SOURCE_taken) { /* it was made, and counted, in a branch of a search */
		if (r->first_token_ns == EV_NULL_I)
			r->first_token_ns = ev->t_ns;
		k->now.counts.n_tokens++;
	}
	key_put(b, sum(r->id, r->id));
	key_put(b, difference(ev->seq, k->token_seq));
	key_put(b, difference(e->step, k->token_step));
	key_put(b, e->pos);
	key_put(b, e->id);
	key_put(b, sum(e->source, 8 * (e->is_end == 1)));
	key_put_float(b, e->p >= 0 && e->p <= 1 ? (float)e->p : NAN);
	k->token_seq = ev->seq;
	k->token_step = e->step;
}

static void add_rewind(struct keyframer *k, const struct ev_rewind *e, int64_t seq)
{
	struct key_request *r = find(k, e->request);

	if (!r || r->state == KEY_FINISHED || e->kept < r->prompt || e->kept > e->had)
		return;
	while (r->n_tokens && r->pos[r->n_tokens - 1] >= e->kept)
		r->n_tokens--;
	if (r->computed > e->kept)
		r->computed = e->kept;
	r->n_rewinds++;
	key_put(&k->tokens, sum(sum(r->id, r->id), 1));
	key_put(&k->tokens, difference(seq, k->token_seq));
	key_put(&k->tokens, e->kept);
	k->token_seq = seq;
}

static void add_draft(struct keyframer *k, const struct ev_draft *e)
{
	struct key_counts *c = &k->now.counts;
	struct key_request *r = find(k, e->request);
	bool accepted = e->verdict == EV_VERDICT_accepted;

	if (!r)
		return;
	c->n_drafted++;
	r->n_drafted++;
	if (e->verdict == EV_VERDICT_unread)
		return;
	c->n_accepted += accepted;
	c->n_rejected += !accepted;
	r->n_accepted += accepted;
	k->marks.rejected += !accepted;
}

static void table_set(struct keyframer *k, struct key_request *r, int64_t block, int64_t page)
{
	if (block == r->n_pages) {
		int32_t *more = grow(k, r->pages, r->n_pages, &r->cap_pages, sizeof *more);

		if (!more)
			return;
		r->pages = more;
		r->n_pages++;
	}
	if (block >= 0 && block < r->n_pages)
		r->pages[block] = (int32_t)page;
}

static void table_clear(struct key_request *r, int64_t block, int64_t page)
{
	if (block < 0 || block >= r->n_pages || r->pages[block] != page)
		return;
	r->pages[block] = -1;
	while (r->n_pages && r->pages[r->n_pages - 1] < 0)
		r->n_pages--;
}

static void add_page(struct keyframer *k, const struct ev_page *e)
{
	struct key_request *r = find(k, e->request);
	struct key_page *p;

	if (e->page < 0 || e->page >= k->now.counts.pages)
		return;
	p = &k->now.page[e->page];
	if (e->action == EV_PAGE_alloc || e->action == EV_PAGE_copy) {
		p->owner = e->request;
		p->block = e->block < 0 ? -1 : e->block;
	}
	if (e->memory > 0) /* views show the block table of the first group */
		r = NULL;
	if (r && (e->action == EV_PAGE_alloc || e->action == EV_PAGE_copy || e->action == EV_PAGE_share))
		table_set(k, r, e->block, e->page);
	if (r && (e->action == EV_PAGE_release || e->action == EV_PAGE_unseen))
		table_clear(r, e->block, e->page);
	if (e->action == EV_PAGE_free)
		p->owner = 0;
	if (e->action == EV_PAGE_evict) {
		k->now.counts.n_evicted++;
		k->marks.evicted++;
	}
	p->refs = e->refs > 0 ? e->refs : 0;
	p->cached = e->cached == 1;
	p->n_story++;
}

static void add_batch(struct keyframer *k, const struct ev_batch *e)
{
	struct key_request *r = find(k, e->request);

	if (!r)
		return;
	r->computed = sum(e->pos, e->rows);
	for (int64_t i = 0; i < r->n_pages; i++)
		if (r->pages[i] >= 0 && r->pages[i] < k->now.counts.pages)
			k->now.page[r->pages[i]].last_used_step = e->step;
}

/* What is kept: see keyframe.h. */
static void let_go(struct keyframe *f)
{
	int64_t n[2] = { 0 }, tokens[2] = { 0 }, at = f->n_requests, end = at;

	while (at-- > 0) {
		struct key_request r = f->request[at];
		int sort = of_conversation(r.kind);

		if (r.state != KEY_FINISHED || (n[sort] < KEY_REQUESTS && tokens[sort] < KEY_TOKENS)) {
			n[sort]++;
			tokens[sort] += r.n_tokens;
			f->request[--end] = r;
		} else {
			free(r.pages);
			free(r.pos);
		}
	}
	f->n_requests -= end;
	if (end)
		memmove(f->request, f->request + end, (size_t)f->n_requests * sizeof *f->request);
}

static bool add_step(struct keyframer *k, const struct event *ev, struct key_row *row)
{
	const struct ev_step *e = &ev->u.step;

	k->now.counts.step = e->step;
	if (e->step < 1 || e->step % KEY_STEPS)
		return false;
	let_go(&k->now);
	key_pack_state(&k->state, &k->now);
	k->dead |= k->tokens.failed || k->state.failed;
	*row = (struct key_row){ .seq = ev->seq,
							 .step = e->step,
							 .marks = k->marks,
							 .tokens = { k->tokens.data ? k->tokens.data : (void *)"", k->tokens.size },
							 .state = { k->state.data, k->state.size } };
	k->taken = true;
	return !k->dead;
}

static void begin_next(struct keyframer *k)
{
	k->tokens.size = k->state.size = 0;
	k->marks = (struct key_marks){ 0 };
	k->token_seq = k->now.counts.seq;
	k->token_step = k->now.counts.step;
	k->taken = false;
}

static void add_to_request(struct keyframer *k, const struct event *ev)
{
	int64_t id = ev->kind == EV_fork	 ? ev->u.fork.request
				 : ev->kind == EV_finish ? ev->u.finish.request
										 : ev->u.trim.request;
	struct key_request *r = find(k, id);

	if (!r)
		return;
	if (ev->kind == EV_fork)
		r->fork_seq = ev->seq;
	else if (ev->kind == EV_trim)
		r->trim_seq = ev->seq;
	else {
		r->finish_seq = ev->seq;
		r->state = KEY_FINISHED;
		r->slot = -1;
	}
}

bool keyframer_add(struct keyframer *k, const struct event *ev, struct key_row *row)
{
	if (k->dead)
		return false;
	if (k->taken)
		begin_next(k);
	k->now.counts.n_lost += ev->seq - k->now.counts.seq - 1;
	k->now.counts.seq = ev->seq;
	k->now.counts.t_ns = ev->t_ns > k->now.counts.t_ns ? ev->t_ns : k->now.counts.t_ns;
	switch (ev->kind) {
	case EV_session:
		k->now.counts.page_size = ev->u.session.page_size;
		pages_reset(k, ev->u.session.pages);
		break;
	case EV_memory: add_memory(k, &ev->u.memory); break;
	case EV_setting: add_setting(k, &ev->u.setting); break;
	case EV_request: add_request(k, &ev->u.request, ev->seq); break;
	case EV_admit: add_admit(k, &ev->u.admit, ev->t_ns); break;
	case EV_lookup: add_lookup(k, &ev->u.lookup, ev->seq); break;
	case EV_page: add_page(k, &ev->u.page); break;
	case EV_preempt: add_preempt(k, &ev->u.preempt); break;
	case EV_rewind: add_rewind(k, &ev->u.rewind, ev->seq); break;
	case EV_fork:
	case EV_trim:
	case EV_finish: add_to_request(k, ev); break;
	case EV_batch: add_batch(k, &ev->u.batch); break;
	case EV_token: add_token(k, ev); break;
	case EV_draft: add_draft(k, &ev->u.draft); break;
	case EV_step: return add_step(k, ev, row);
	default: break;
	}
	return false;
}
