/* See history.h: opening, closing and queries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "sessions/history/history_impl.h"

sqlite3_stmt *history_prepare(struct history *h, const char *sql, struct err *e)
{
	sqlite3_stmt *s = NULL;

	if (!sqlite3_prepare_v2(h->db, sql, -1, &s, NULL))
		return s;
	foreign_fail(h->db, h->path, e);
	return NULL;
}

int history_by_id(const void *a, const void *b)
{
	const struct history_piece *p = a, *q = b;

	return (p->id > q->id) - (p->id < q->id);
}

/* Answers of diffusion models, and where they would end. */
static void mark_denoised(struct history *h, struct err *e)
{
	sqlite3_stmt *s =
		history_prepare(h, "SELECT request, max(pos + tokens) FROM denoise GROUP BY request", e);

	while (s && sqlite3_step(s) == SQLITE_ROW) {
		struct history_request *r = history_request_find(h, sqlite3_column_int64(s, 0));
		const int64_t end = sqlite3_column_int64(s, 1);

		if (!r || end <= r->n_prompt || end - r->n_prompt > EV_DENOISED_MOST)
			continue;
		r->denoised = true;
		r->longest = end > r->longest ? (int32_t)end : r->longest;
	}
	sqlite3_finalize(s);
}

int history_open(struct history **out, const char *path, struct err *e)
{
	struct history *h = calloc(1, sizeof *h);
	struct err own = { 0 };
	struct foreign f;

	*out = NULL;
	e = e ? e : &own;
	if (!h || !(h->path = strdup(path))) {
		free(h);
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	}
	if (foreign_open(&f, path, e)) {
		history_close(h);
		return -1;
	}
	h->db = f.db;
	/* one snapshot of a file that is being written */
	sqlite3_exec(h->db, "BEGIN", NULL, NULL, NULL);
	if (!history_load(h, &f, e))
		mark_denoised(h, e);
	sqlite3_exec(h->db, "COMMIT", NULL, NULL, NULL);
	if (e->code) {
		history_close(h);
		return -1;
	}
	*out = h;
	return 0;
}

void history_close(struct history *h)
{
	if (!h)
		return;
	sqlite3_close(h->db);
	for (int32_t i = 0; i < h->n_requests; i++) {
		struct history_request *r = &h->request[i];

		free(r->prompt);
		free(r->row);
		free(r->take);
		free(r->text);
		free(r->user);
		free(r->spec);
		free(r->stop);
		free(r->why);
	}
	for (int32_t i = 0; i < h->n_pieces; i++)
		free(h->piece[i].bytes);
	free(h->piece);
	free(h->request);
	free(h->model_path);
	free(h->model_name);
	free(h->model_sha256);
	free(h->backend);
	free(h->isa);
	free(h->version);
	free(h->path);
	free(h);
}

/* ---- asking ---- */

int32_t history_ids(const struct history_request *r, int32_t take, int32_t *ids)
{
	int32_t n = r->n_prompt;

	memcpy(ids, r->prompt, (size_t)n * sizeof *ids);
	if (r->kind == EV_REQUEST_KIND_score)
		return n;
	for (int32_t t = 0; t <= take; t++) {
		const struct history_take *k = &r->take[t];

		for (int32_t i = 0; i < k->n; i++)
			ids[k->at + i] = r->row[k->first + i].id;
		n = k->at + k->n;
	}
	return n;
}

const struct history_piece *history_piece(const struct history *h, int32_t id)
{
	const struct history_piece key = { .id = id };

	return h->n_pieces ? bsearch(&key, h->piece, (size_t)h->n_pieces, sizeof key, history_by_id)
					   : NULL;
}

int history_candidates(
	struct history *h, const struct history_row *row, struct ev_candidate *out, int cap)
{
	sqlite3_stmt *s = history_prepare(h, "SELECT candidates FROM token WHERE seq = ?1", NULL);
	int n = 0;

	if (s && !sqlite3_bind_int64(s, 1, row->seq) && sqlite3_step(s) == SQLITE_ROW) {
		const void *p = sqlite3_column_blob(s, 0);

		n = p ? sqlite3_column_bytes(s, 0) / (int)sizeof *out : 0;
		n = n < cap ? n : cap;
		if (n)
			memcpy(out, p, (size_t)n * sizeof *out);
	}
	sqlite3_finalize(s);
	return n;
}

void history_setting(
	struct history *h, const struct history_request *r, const char *name, char *buf, int cap)
{
	sqlite3_stmt *s = history_prepare(h,
		"SELECT value FROM setting WHERE name = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1", NULL);

	buf[0] = 0;
	if (s && !sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC) &&
		!sqlite3_bind_int64(s, 2, r->seq) && sqlite3_step(s) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(s, 0);

		snprintf(buf, (size_t)cap, "%s", text ? text : "");
	}
	sqlite3_finalize(s);
}

struct asked {
	struct history *h;
	const struct history_request *r;
	char value[LOSSY_VALUE];
};

static const char *history_setting_at(void *of, const char *name)
{
	struct asked *a = of;

	if (a->r)
		history_setting(a->h, a->r, name, a->value, sizeof a->value);
	return a->value;
}

struct lossy_settings history_lossy(struct history *h, const struct history_request *r)
{
	struct asked a = { .h = h, .r = r };

	if (!r && h->n_requests)
		a.r = &h->request[h->n_requests - 1];
	return lossy_ask(history_setting_at, &a);
}
