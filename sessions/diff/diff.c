/* See diff.h: opening and matching. */
#include <xxhash.h>

#include "base/text.h"
#include "sessions/diff/diff_impl.h"

const char *const diff_cause_names[DIFF_N_CAUSES] = { "equal", "alone", "prompt", "forced",
	"logits", "setting", "draw", "chosen", "length" };

bool diff_same_token(const struct diff *d, const struct diff_pair *p, int32_t i, int32_t k)
{
	int32_t a = p->side[0].ids[p->from[0] + i], b = p->side[1].ids[p->from[1] + k];

	if (d->same_vocab)
		return a == b;
	return ev_text_same(ev_texts_get(&d->h[0]->texts, a), ev_texts_get(&d->h[1]->texts, b));
}

/* ---- sides ---- */

/* Fills in the tokens at the end of the request, and the row that drew each. */
static int fill_side(struct diff_side *s, const struct history_request *r, struct err *e)
{
	s->request = r;
	s->n_prompt = r->n_prompt;
	s->ids = malloc(((size_t)r->longest + 1) * sizeof *s->ids);
	s->row = malloc(((size_t)r->longest + 1) * sizeof *s->row);
	if (!s->ids || !s->row)
		return err_no_memory(e, "the tokens of request %lld", (long long)r->number);
	s->n = history_ids(r, r->n_takes - 1, s->ids);
	memset(s->row, 0xff, ((size_t)r->longest + 1) * sizeof *s->row);
	for (int32_t t = 0; t < r->n_takes; t++)
		for (int32_t i = 0; i < r->take[t].n; i++)
			s->row[r->take[t].at + i] = r->take[t].first + i;
	if (r->kind == EV_REQUEST_KIND_score)
		s->n_prompt = s->n > 1 ? 1 : s->n;
	if (r->kind == EV_REQUEST_KIND_embed && r->n_rows)
		s->n_prompt = s->n - 1;
	return 0;
}

/* ---- matching ---- */

/* A branch of a search. The search's answer is a request of its own; branches are numbered in order
 * of creation. */
static bool is_branch(const struct history_request *r)
{
	return r->kind == EV_REQUEST_KIND_search;
}

static bool is_given(const struct history_request *r)
{
	return r->kind == EV_REQUEST_KIND_score || r->kind == EV_REQUEST_KIND_embed;
}

/* Requests of the other side that are alike by a criterion have the same key; 0: none is. */
static uint64_t key_of(const struct diff *d, const struct history_request *r, int level)
{
	const uint64_t kind = 1 + (uint64_t)r->kind, given = is_given(r) ? kind : 0;
	const size_t size = (size_t)r->n_prompt * sizeof *r->prompt;

	if (is_branch(r) || (level < 2 && !d->same_vocab))
		return 0;
	switch (level) {
	case 0: return XXH64(r->prompt, size, (uint64_t)r->sample << 8 | kind);
	case 1: return XXH64(r->prompt, size, given);
	case 2: return r->text[0] ? XXH64(r->text, strlen(r->text), kind) : 0;
	default: return r->kind != EV_REQUEST_KIND_load ? kind : 0;
	}
}

struct entry {
	uint64_t key;
	int32_t request, used; /* used: so many from this one on, the first of its key, are matched */
};

static int by_key(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;

	return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
							: (a->request > b->request) - (a->request < b->request);
}

/* The first of a key that is left, or -1. */
static int32_t take(struct entry *list, int32_t n, uint64_t key)
{
	int32_t from = 0, to = n;

	while (from < to) {
		const int32_t mid = from + (to - from) / 2;

		if (list[mid].key < key)
			from = mid + 1;
		else
			to = mid;
	}
	if (from == n || list[from].key != key)
		return -1;
	to = from + list[from].used;
	if (to == n || list[to].key != key)
		return -1;
	list[from].used++;
	return list[to].request;
}

/* Matches in passes, the surest criterion first: of_a [n_a], of_b [n_b] are requests of the other
 * side, or -1. */
static int match(const struct diff *d, int32_t *of_a, int32_t *of_b, struct err *e)
{
	const struct history *a = d->h[0], *b = d->h[1];
	struct entry *list = malloc(((size_t)b->n_requests + 1) * sizeof *list);

	if (!list)
		return err_no_memory(e, "the requests of two recordings");
	memset(of_a, 0xff, (size_t)a->n_requests * sizeof *of_a);
	memset(of_b, 0xff, (size_t)b->n_requests * sizeof *of_b);
	for (int level = 0; level < 4; level++) {
		int32_t n = 0;

		for (int32_t k = 0; k < b->n_requests; k++)
			if (of_b[k] < 0)
				list[n++] = (struct entry){ key_of(d, &b->request[k], level), k, 0 };
		qsort(list, (size_t)n, sizeof *list, by_key);
		for (int32_t i = 0; i < a->n_requests; i++) {
			const uint64_t key = of_a[i] < 0 ? key_of(d, &a->request[i], level) : 0;
			const int32_t k = key ? take(list, n, key) : -1;

			if (k >= 0) {
				of_a[i] = k;
				of_b[k] = i;
			}
		}
	}
	free(list);
	return 0;
}

static int add_pair(
	struct diff *d, const struct history_request *a, const struct history_request *b, struct err *e)
{
	struct diff_pair *p = &d->pair[d->n_pairs++];

	if ((a && fill_side(&p->side[0], a, e)) || (b && fill_side(&p->side[1], b, e)))
		return -1;
	if (!a || !b) {
		p->cause = DIFF_ALONE;
		return 0;
	}
	if (!d->same_vocab)
		for (int s = 0; s < 2; s++)
			p->from[s] = p->side[s].n_prompt;
	if (diff_compare(d, p, e))
		return -1;
	d->n_equal += p->cause == DIFF_EQUAL;
	return 0;
}

/* In A's order; requests that only B has follow. */
static int make_pairs(struct diff *d, struct err *e)
{
	const struct history *a = d->h[0], *b = d->h[1];
	int32_t *of_a = malloc(((size_t)a->n_requests + (size_t)b->n_requests + 1) * sizeof *of_a);
	int32_t *of_b = of_a ? of_a + a->n_requests : NULL;
	int rc;

	d->pair = calloc((size_t)a->n_requests + (size_t)b->n_requests + 1, sizeof *d->pair);
	rc = of_a && d->pair ? match(d, of_a, of_b, e)
						 : err_no_memory(e, "the requests of two recordings");
	for (int32_t i = 0; !rc && i < a->n_requests; i++)
		if (!is_branch(&a->request[i]))
			rc = add_pair(d, &a->request[i], of_a[i] < 0 ? NULL : &b->request[of_a[i]], e);
	for (int32_t k = 0; !rc && k < b->n_requests; k++)
		if (of_b[k] < 0 && !is_branch(&b->request[k]))
			rc = add_pair(d, NULL, &b->request[k], e);
	free(of_a);
	return rc;
}

/* ---- the sessions ---- */

static void compare_sessions(struct diff *d)
{
	const struct history *a = d->h[0], *b = d->h[1];
	const struct lossy_settings x = history_lossy(d->h[0], NULL), y = history_lossy(d->h[1], NULL);

	if (!d->same_model)
		text_append(d->session, sizeof d->session, "", "model: %.60s (%.12s) and %.60s (%.12s)\n",
			a->model_name, a->model_sha256, b->model_name, b->model_sha256);
	if (a->arith != b->arith)
		text_append(d->session, sizeof d->session, "", "arithmetic: %lld and %lld\n",
			(long long)a->arith, (long long)b->arith);
	for (int i = 0; i < x.n && a->n_requests && b->n_requests; i++)
		if (strcmp(x.value[i], y.value[i]) != 0)
			text_append(d->session, sizeof d->session, "",
				"%s: %s and %s (lossy: it changes the logits)\n", x.row[i]->name, x.value[i],
				y.value[i]);
	if (strcmp(a->backend, b->backend) || strcmp(a->isa, b->isa) || a->threads != b->threads)
		text_append(d->session, sizeof d->session, "",
			"computed by: %.15s %.15s, %lld threads and %.15s %.15s, %lld threads (which changes "
			"no bit)\n",
			a->backend, a->isa, (long long)a->threads, b->backend, b->isa, (long long)b->threads);
}

int diff_open(struct diff **out, const char *a, const char *b, struct err *e)
{
	struct diff *d = calloc(1, sizeof *d);

	*out = NULL;
	if (!d)
		return err_set(e, ERR_MEMORY, "out of memory");
	if (!history_open(&d->h[0], a, e) && !history_open(&d->h[1], b, e)) {
		d->same_model =
			d->h[0]->model_sha256[0] && !strcmp(d->h[0]->model_sha256, d->h[1]->model_sha256);
		d->same_vocab =
			d->h[0]->vocab == d->h[1]->vocab && ev_texts_agree(&d->h[0]->texts, &d->h[1]->texts);
		compare_sessions(d);
		if (!make_pairs(d, e)) {
			*out = d;
			return 0;
		}
	}
	diff_close(d);
	return -1;
}

void diff_close(struct diff *d)
{
	if (!d)
		return;
	for (int32_t i = 0; i < d->n_pairs; i++) {
		for (int s = 0; s < 2; s++) {
			free(d->pair[i].side[s].ids);
			free(d->pair[i].side[s].row);
		}
		free(d->pair[i].hunk);
	}
	free(d->pair);
	history_close(d->h[0]);
	history_close(d->h[1]);
	free(d);
}
