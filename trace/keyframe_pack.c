/* See keyframe.h: the packed form, out and in. */
#include "trace/keyframe_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/find.h"

enum { FORMAT = 2, LONGEST = 10 };
enum { OLD_COUNTS = 64 }; /* of format 1, after the counters: acceptance by position, unread */

static bool room(struct key_buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 4096;
	unsigned char *grown;

	while (cap < b->size + n)
		cap *= 2;
	if (!b->failed && cap != b->cap) {
		grown = realloc(b->data, cap);
		b->failed = !grown;
		b->data = grown ? grown : b->data;
		b->cap = grown ? cap : b->cap;
	}
	return !b->failed;
}

void key_put(struct key_buf *b, int64_t v)
{
	uint64_t u = (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);

	if (!room(b, LONGEST))
		return;
	for (; u > 127; u >>= 7)
		b->data[b->size++] = (unsigned char)(u | 128);
	b->data[b->size++] = (unsigned char)u;
}

void key_put_float(struct key_buf *b, float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	for (int i = 0; i < 4 && room(b, 1); i++)
		b->data[b->size++] = (unsigned char)(bits >> 8 * i);
}

bool key_get(const unsigned char **at, const unsigned char *end, int64_t *v)
{
	uint64_t u = 0;

	for (int shift = 0; shift < 64 && *at < end; shift += 7) {
		unsigned char c = *(*at)++;

		u |= (uint64_t)(c & 127) << shift;
		if (c < 128) {
			*v = (int64_t)(u >> 1 ^ (0 - (u & 1)));
			return true;
		}
	}
	return false;
}

bool key_get_float(const unsigned char **at, const unsigned char *end, float *f)
{
	uint32_t bits = 0;

	if (end - *at < 4)
		return false;
	for (int i = 0; i < 4; i++)
		bits |= (uint32_t)*(*at)++ << 8 * i;
	memcpy(f, &bits, 4);
	return true;
}

/* What of a request is an integer, in the order of the packed form. */
enum { N_MEMBERS = 19 };
static int64_t *request_member(struct key_request *r, int i)
{
	int64_t *const member[N_MEMBERS] = {
		&r->id,			 &r->kind,		&r->request_seq, &r->fork_seq,		&r->trim_seq,
		&r->lookup_seq,	 &r->finish_seq, &r->first_seq,	 &r->admitted_ns,	&r->first_token_ns,
		&r->state,		 &r->slot,		&r->computed,	 &r->prompt,		&r->n_tokens,
		&r->n_drafted,	 &r->n_accepted, &r->n_preempted, &r->n_rewinds,
	};

	return member[i];
}

static void pack_request(struct key_buf *b, const struct key_request *r)
{
	struct key_request copy = *r;

	for (int i = 0; i < N_MEMBERS; i++)
		key_put(b, *request_member(&copy, i));
	key_put(b, r->n_pages);
	for (int64_t i = 0; i < r->n_pages; i++)
		key_put(b, r->pages[i] - (i ? r->pages[i - 1] : 0));
}

/* Pages that nothing happened to are left out. */
static void pack_pages(struct key_buf *b, const struct keyframe *key)
{
	int64_t last = -1;

	for (int64_t i = 0; i < key->counts.pages; i++) {
		const struct key_page *p = &key->page[i];

		if (!p->n_story)
			continue;
		key_put(b, i - last);
		last = i;
		key_put(b, (int64_t)(2 * (uint64_t)p->refs + (uint64_t)p->cached));
		key_put(b, p->owner);
		key_put(b, p->block);
		key_put(b, (int64_t)((uint64_t)key->counts.step - (uint64_t)p->last_used_step));
		key_put(b, p->n_story);
	}
	key_put(b, 0);
}

/* The format, the counters as struct key_counts has them, the number of requests and each (its members, block
 * table), and of each page with a story: its number since the one before, 2 * refs + cached, owner, block, steps
 * since its last use, events; behind the last, 0. */
void key_pack_state(struct key_buf *b, const struct keyframe *key)
{
	const int64_t *count = (const int64_t *)(const void *)&key->counts;

	key_put(b, FORMAT);
	for (size_t i = 0; i < sizeof key->counts / sizeof *count; i++)
		key_put(b, count[i]);
	key_put(b, key->n_requests);
	for (int64_t i = 0; i < key->n_requests; i++)
		pack_request(b, &key->request[i]);
	pack_pages(b, key);
}

static bool unpack_request(struct key_request *r, const unsigned char **at, const unsigned char *end)
{
	int64_t step;

	for (int i = 0; i < N_MEMBERS; i++)
		if (!key_get(at, end, request_member(r, i)))
			return false;
	/* An entry has a byte at least: more than there are bytes is a lie. */
	if (!key_get(at, end, &r->n_pages) || r->n_pages < 0 || r->n_pages > end - *at)
		return false;
	r->pages = malloc((size_t)r->n_pages * sizeof *r->pages + 1);
	for (int64_t i = 0, page = 0; r->pages && i < r->n_pages; i++) {
		if (!key_get(at, end, &step) || step < -KEY_PAGES_MAX || step > KEY_PAGES_MAX)
			return false;
		page += step;
		if (page < -1 || page >= KEY_PAGES_MAX)
			return false;
		r->pages[i] = (int32_t)page;
	}
	return r->pages != NULL;
}

static bool unpack_pages(struct keyframe *key, const unsigned char **at, const unsigned char *end)
{
	int64_t i = -1, step, refs;

	while (key_get(at, end, &step) && step) {
		struct key_page *p;

		if (step < 1 || step > key->counts.pages - 1 - i)
			return false;
		p = &key->page[i += step];
		if (!key_get(at, end, &refs) || !key_get(at, end, &p->owner) || !key_get(at, end, &p->block) ||
			!key_get(at, end, &p->last_used_step) || !key_get(at, end, &p->n_story) || refs < 0 ||
			p->last_used_step < 0 || p->last_used_step > key->counts.step)
			return false;
		p->refs = refs / 2;
		p->cached = refs % 2;
		p->last_used_step = key->counts.step - p->last_used_step;
	}
	return *at == end && key->counts.pages >= 0;
}

static bool unpack(struct keyframe *key, const unsigned char *at, const unsigned char *end)
{
	int64_t *count = (int64_t *)(void *)&key->counts, format, n;

	if (!key_get(&at, end, &format) || format < 1 || format > FORMAT)
		return false;
	for (size_t i = 0; i < sizeof key->counts / sizeof *count; i++)
		if (!key_get(&at, end, &count[i]) || count[i] < 0)
			return false;
	for (int i = 0; format == 1 && i < OLD_COUNTS; i++)
		if (!key_get(&at, end, &n))
			return false;
	if (!key_get(&at, end, &n) || n < 0 || n > KEY_REQUESTS_MAX || n > end - at ||
		key->counts.pages > KEY_PAGES_MAX)
		return false;
	key->request = calloc((size_t)n + 1, sizeof *key->request);
	key->page = calloc((size_t)key->counts.pages + 1, sizeof *key->page);
	if (!key->request || !key->page)
		return false;
	for (; key->n_requests < n; key->n_requests++) {
		struct key_request *r = &key->request[key->n_requests];

		if (!unpack_request(r, &at, end) || r->id < 1 || (key->n_requests && r->id <= r[-1].id)) {
			free(r->pages);
			return false;
		}
	}
	return unpack_pages(key, &at, end);
}

int keyframe_unpack(struct keyframe *key, struct ev_span state)
{
	const unsigned char *at = state.data;

	*key = (struct keyframe){ 0 };
	if (at && unpack(key, at, at + state.size))
		return 0;
	keyframe_free(key);
	return -1;
}

void keyframe_free(struct keyframe *key)
{
	for (int64_t i = 0; i < key->n_requests; i++) {
		free(key->request[i].pages);
		free(key->request[i].pos);
	}
	free(key->request);
	free(key->page);
	*key = (struct keyframe){ 0 };
}

const struct key_request *keyframe_request(const struct keyframe *key, int64_t id)
{
	return find_number(id, key->request, key->n_requests, sizeof *key->request);
}

struct key_tokens key_tokens_of(const struct key_row *row, int64_t seq_before, int64_t step_before)
{
	const unsigned char *at = row->tokens.data;

	return (struct key_tokens){ at, at ? at + row->tokens.size : at, seq_before, step_before };
}

int key_tokens_next(struct key_tokens *c, struct key_token *out)
{
	int64_t head, seq, step, flags;

	if (c->at == c->end)
		return 0;
	*out = (struct key_token){ 0 };
	if (!key_get(&c->at, c->end, &head) || !key_get(&c->at, c->end, &seq) || head < 2 || seq < 1 ||
		seq > INT64_MAX - c->seq)
		return -1;
	out->request = head / 2;
	out->is_rewind = head % 2;
	out->seq = c->seq += seq;
	if (out->is_rewind)
		return key_get(&c->at, c->end, &out->pos) ? 1 : -1;
	if (!key_get(&c->at, c->end, &step) || !key_get(&c->at, c->end, &out->pos) ||
		!key_get(&c->at, c->end, &out->id) || !key_get(&c->at, c->end, &flags) ||
		!key_get_float(&c->at, c->end, &out->p) || step < 0 || step > INT64_MAX - c->step || flags < 0)
		return -1;
	out->step = c->step += step;
	out->source = flags % 8;
	out->is_end = flags / 8 == 1;
	return 1;
}
