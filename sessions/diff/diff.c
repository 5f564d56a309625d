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
		return err_set(
			e, ERR_MEMORY, "no memory for the tokens of request %lld", (long long)r->number);
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

struct key {
	uint64_t prompt;
	int32_t match; /* request of the other side, or -1 */
};

static uint64_t hash_prompt(const struct history_request *r)
{
	return XXH64(r->prompt, (size_t)r->n_prompt * sizeof *r->prompt, 0);
}

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

static bool may_match(const struct diff *d, int level, const struct key *a, const struct key *b,
	const struct history_request *p, const struct history_request *q)
{
	bool prompts = d->same_vocab && a->prompt == b->prompt && p->n_prompt == q->n_prompt;
	bool given = is_given(p) || is_given(q);

	if ((given && p->kind != q->kind) || is_branch(p) || is_branch(q))
		return false;
	switch (level) {
	case 0: return prompts && p->sample == q->sample && p->kind == q->kind;
	case 1: return prompts;
	case 2: return p->kind == q->kind && p->text[0] && !strcmp(p->text, q->text);
	default: return p->kind == q->kind && p->kind != EV_REQUEST_KIND_load;
	}
}

/* Matches in passes, the surest criterion first. */
static void match(const struct diff *d, struct key *a, struct key *b)
{
	for (int level = 0; level < 4; level++) {
		int32_t from = 0;

		for (int32_t i = 0; i < d->h[0]->n_requests; i++) {
			while (from < d->h[1]->n_requests && b[from].match >= 0)
				from++;
			for (int32_t k = from; a[i].match < 0 && k < d->h[1]->n_requests; k++)
				if (b[k].match < 0 &&
					may_match(d, level, &a[i], &b[k], &d->h[0]->request[i], &d->h[1]->request[k])) {
					a[i].match = k;
					b[k].match = i;
				}
		}
	}
}

static struct key *make_keys(const struct history *h)
{
	struct key *k = malloc(((size_t)h->n_requests + 1) * sizeof *k);

	for (int32_t i = 0; k && i < h->n_requests; i++)
		k[i] = (struct key){ hash_prompt(&h->request[i]), -1 };
	return k;
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
static int make_pairs(struct diff *d, const struct key *a, const struct key *b, struct err *e)
{
	d->pair =
		calloc((size_t)d->h[0]->n_requests + (size_t)d->h[1]->n_requests + 1, sizeof *d->pair);
	if (!d->pair)
		return err_set(e, ERR_MEMORY, "no memory for the requests of two recordings");
	for (int32_t i = 0; i < d->h[0]->n_requests; i++)
		if (!is_branch(&d->h[0]->request[i]) &&
			add_pair(
				d, &d->h[0]->request[i], a[i].match < 0 ? NULL : &d->h[1]->request[a[i].match], e))
			return -1;
	for (int32_t k = 0; k < d->h[1]->n_requests; k++)
		if (b[k].match < 0 && !is_branch(&d->h[1]->request[k]) &&
			add_pair(d, NULL, &d->h[1]->request[k], e))
			return -1;
	return 0;
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
	struct key *keys[2] = { NULL, NULL };
	int rc = -1;

	*out = NULL;
	if (!d)
		return err_set(e, ERR_MEMORY, "out of memory");
	if (history_open(&d->h[0], a, e) || history_open(&d->h[1], b, e))
		goto out;
	d->same_model =
		d->h[0]->model_sha256[0] && !strcmp(d->h[0]->model_sha256, d->h[1]->model_sha256);
	d->same_vocab =
		d->h[0]->vocab == d->h[1]->vocab && ev_texts_agree(&d->h[0]->texts, &d->h[1]->texts);
	compare_sessions(d);
	keys[0] = make_keys(d->h[0]);
	keys[1] = make_keys(d->h[1]);
	if (!keys[0] || !keys[1]) {
		err_set(e, ERR_MEMORY, "no memory for the requests of two recordings");
		goto out;
	}
	match(d, keys[0], keys[1]);
	rc = make_pairs(d, keys[0], keys[1], e);
out:
	free(keys[0]);
	free(keys[1]);
	if (rc)
		diff_close(d);
	else
		*out = d;
	return rc;
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
