/* See resumed.h. */
#include "base/ids.h"
#include "sessions/history/resumed.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "base/find.h"
#include "fold/timeline.h"

/* ---- one answer ---- */

static bool is_turn(const struct history_request *r)
{
	return (r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork) && r->n_prompt &&
		   r->finish != EV_FINISH_refused;
}

static bool begins_with(const struct history_request *r, const struct history_request *p)
{
	return p->n_prompt <= r->n_prompt &&
		   !memcmp(p->prompt, r->prompt, (size_t)p->n_prompt * sizeof *p->prompt);
}

/* The request within whose answer this one was forked, or NULL. */
static const struct history_request *forked_from(
	const struct history *h, const struct history_request *r)
{
	const struct history_request *p =
		r->kind == EV_REQUEST_KIND_fork
			? find_number(r->parent, h->request, h->n_requests, sizeof *h->request)
			: NULL;

	return p && p->number < r->number && p->n_prompt && p->n_prompt < r->n_prompt &&
				   !strcmp(p->text, r->text) && begins_with(r, p)
			   ? p
			   : NULL;
}

/* Position at which the answers to its turn begin. */
static int32_t opening(const struct history *h, const struct history_request *r)
{
	for (const struct history_request *p; (p = forked_from(h, r));)
		r = p;
	return r->n_prompt;
}

/* The row of a token, of the request or of those it was forked from; NULL: the file has none. */
static const struct history_row *row_of(
	const struct history *h, const struct history_request *r, int32_t pos, int32_t id)
{
	for (; r; r = forked_from(h, r)) {
		const int32_t at = pos - r->n_prompt;

		if (at >= 0 && at < r->n_rows && r->row[at].pos == pos && r->row[at].id == id)
			return &r->row[at];
		for (int32_t i = r->n_rows; at >= 0 && i-- > 0;)
			if (r->row[i].pos == pos && r->row[i].id == id)
				return &r->row[i];
	}
	return NULL;
}

static struct ev_token token_of(const struct history_row *row, int32_t id)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.id = id;
	ev.u.token.source = EV_SOURCE_recorded;
	if (row && ev_is_given(row->source))
		ev.u.token.source = row->source;
	else if (row) {
		ev.u.token.p = row->p;
		ev.u.token.p_draw = row->p_draw;
		ev.u.token.entropy = row->entropy;
		ev.u.token.hash = row->hash;
		ev.u.token.survivors = row->survivors;
	}
	return ev.u.token;
}

static int32_t max_tokens_of(const struct resumed *p, const struct resumed_turn *t)
{
	const int64_t most = INT64_C(1) << 20, tokens = t->r->max_tokens;

	return tokens <= 0 || tokens > most || t->r->n_prompt + tokens >= p->h->ctx
			   ? 0
			   : (int32_t)tokens + t->r->n_prompt - t->n_prompt;
}

/* A text that is no list of strings has none. */
static bool read_stops(struct setting_stops *stops, const char *json)
{
	cJSON *list = cJSON_Parse(json);
	const cJSON *one;
	bool read = true;
	int n = 0;

	cJSON_ArrayForEach(one, list)
	{
		if (cJSON_IsString(one) && *one->valuestring && n < SETTING_STOPS_MAX)
			read = (stops->text[n++] = strdup(one->valuestring)) && read;
	}
	cJSON_Delete(list);
	return read;
}

static void turn_free(struct resumed_turn *t)
{
	setting_stops_free(&t->stop);
	free(t->token);
	free(t->ids);
}

/* Adds the turn that r answered, with its tokens up to n. Takes ids. */
static int add_turn(
	struct resumed *p, const struct history_request *r, int32_t *ids, int32_t n, struct err *e)
{
	struct resumed_turn t = { .r = r, .ids = ids, .n_prompt = opening(p->h, r), .n = n };

	t.max_tokens = max_tokens_of(p, &t);
	t.reason = n == r->n && r->finish >= 0 ? (enum ev_code_finish)r->finish : EV_FINISH_cancelled;
	t.token = malloc((size_t)(n - t.n_prompt) * sizeof *t.token + 1);
	if (!t.token || !read_stops(&t.stop, r->stop) ||
		!ARRAY_ROOM(p->turn, p->cap_turns, p->n_turns + 1)) {
		turn_free(&t);
		return err_no_memory(e, "the conversation of %s", p->path);
	}
	for (int32_t i = t.n_prompt; i < n; i++)
		t.token[i - t.n_prompt] = token_of(row_of(p->h, r, i, ids[i]), ids[i]);
	p->turn[p->n_turns++] = t;
	return 0;
}

/* Its tokens as they stood at the end; NULL: no memory. */
static int32_t *ids_of(const struct history_request *r)
{
	int32_t *ids = malloc((size_t)r->longest * sizeof *ids);

	if (ids)
		history_ids(r, r->n_takes - 1, ids);
	return ids;
}

/* ---- the conversation ---- */

/* What the chat ended with: the newest, of forks of one turn the last. */
static const struct history_request *newest(const struct history *h)
{
	for (int32_t i = h->n_requests; i-- > 0;)
		if (is_turn(&h->request[i]))
			return &h->request[i];
	return NULL;
}

/* How much of the answer of q this turn's prompt has, as a position in q; 0: it is of another
 * conversation. *reach: how far both are one. */
static int32_t said(const struct resumed *p, const struct resumed_turn *t,
	const struct history_request *q, const int32_t *ids, int32_t *reach)
{
	const int32_t at = opening(p->h, q);

	*reach = ids_common(ids, q->n, t->ids, t->n_prompt);
	if (*reach > at)
		return *reach;
	return q->n > at && timeline_goes_on(q->prompt, at, t->ids, t->n_prompt, *reach) ? q->n : 0;
}

/* The turn before: of all that this prompt goes on from, the one that it has most of. */
static int add_before(struct resumed *p, bool *added, struct err *e)
{
	const struct resumed_turn t = p->turn[p->n_turns - 1];
	const struct history_request *best = NULL;
	int32_t *best_ids = NULL, best_n = 0, best_reach = 0, reach;

	for (const struct history_request *q = p->h->request; q < t.r; q++) {
		const bool may = is_turn(q) && q->n_prompt < t.n_prompt;
		int32_t *ids = may ? ids_of(q) : NULL, n = ids ? said(p, &t, q, ids, &reach) : 0;

		if (n && reach >= best_reach) {
			free(best_ids);
			best = q;
			best_n = n;
			best_reach = reach;
			best_ids = ids;
		} else {
			free(ids);
		}
	}
	*added = best != NULL;
	return best ? add_turn(p, best, best_ids, best_n, e) : 0;
}

static void reverse(struct resumed *p)
{
	for (int32_t i = 0, k = p->n_turns - 1; i < k; i++, k--) {
		struct resumed_turn t = p->turn[i];

		p->turn[i] = p->turn[k];
		p->turn[k] = t;
	}
}

static int read_turns(struct resumed *p, struct err *e)
{
	const struct history_request *r = newest(p->h);
	bool more = true;
	int32_t *ids;

	if (!r)
		return err_set(e, ERR_INPUT, "%s: there is no conversation in it to continue", p->path);
	if (r->broken[0])
		return err_set(e, ERR_INPUT, "%s: its newest turn is not whole: %s", p->path, r->broken);
	ids = ids_of(r);
	if (!ids)
		return err_no_memory(e, "the conversation of %s", p->path);
	if (add_turn(p, r, ids, r->n, e))
		return -1;
	while (more)
		if (add_before(p, &more, e))
			return -1;
	reverse(p);
	return 0;
}

int resumed_open(struct resumed **out, const char *path, struct err *e)
{
	struct resumed *p = calloc(1, sizeof *p);

	*out = NULL;
	if (p && !(p->path = realpath(path, NULL)))
		p->path = strdup(path); /* opening it says why */
	if (!p || !p->path) {
		free(p);
		return err_no_memory(e, "the conversation of %s", path);
	}
	if (history_open(&p->h, path, e) || read_turns(p, e)) {
		resumed_close(p);
		return -1;
	}
	*out = p;
	return 0;
}

void resumed_close(struct resumed *p)
{
	if (!p)
		return;
	for (int32_t i = 0; i < p->n_turns; i++)
		turn_free(&p->turn[i]);
	free(p->turn);
	history_close(p->h);
	free(p->path);
	free(p);
}
