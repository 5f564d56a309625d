/* See history.h: opening, closing and queries. */
#include <sqlite3.h>

#include "base/find.h"
#include "sessions/history/history_impl.h"
#include "trace/reader.h"

/* What requests and tokens are made of. */
static const uint64_t needed = EV_BIT(session) | EV_BIT(adapter) | EV_BIT(attached) |
							   EV_BIT(setting) | EV_BIT(vocab) | EV_BIT(request) | EV_BIT(token) |
							   EV_BIT(draft) | EV_BIT(score) | EV_BIT(embedding) | EV_BIT(rewind) |
							   EV_BIT(fork) | EV_BIT(denoise) | EV_BIT(finish) | EV_BIT(closed);

/* By SQL: they are many, and have many columns. */
static void count_steps(struct history *h)
{
	static const char sql[] = "SELECT count(*), total(ns) FROM step";
	sqlite3_stmt *s = NULL;

	if (!sqlite3_prepare_v2(reader_db(h->reader), sql, -1, &s, NULL) &&
		sqlite3_step(s) == SQLITE_ROW) {
		h->n_steps = sqlite3_column_int64(s, 0);
		h->steps_ns = (int64_t)fmin(fmax(sqlite3_column_double(s, 1), 0), 9e18);
	}
	sqlite3_finalize(s);
}

static int read_all(struct history *h, history_also *also, void *arg, struct err *e)
{
	struct event ev;
	int rc;

	while ((rc = reader_next(h->reader, &ev, e)) > 0) {
		if (history_event(h, &ev, e))
			return -1;
		if (also)
			also(arg, h, &ev);
	}
	count_steps(h);
	return rc ? rc : history_end(h, e);
}

static int read_file(
	struct history **out, const char *path, bool ours, history_also *also, void *arg, struct err *e)
{
	struct history *h = calloc(1, sizeof *h);
	struct err own = { 0 };

	*out = NULL;
	e = e ? e : &own;
	if (!h || !(h->path = strdup(path))) {
		free(h);
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	}
	if (reader_open(&h->reader, path, e) || (ours && reader_ours(h->reader, e))) {
		history_close(h);
		return -1;
	}
	if (!also)
		reader_only(h->reader, needed);
	if (read_all(h, also, arg, e)) {
		history_close(h);
		return -1;
	}
	*out = h;
	return 0;
}

int history_open(struct history **h, const char *path, struct err *e)
{
	return read_file(h, path, true, NULL, NULL, e);
}

int history_read(struct history **h, const char *path, history_also *also, void *arg, struct err *e)
{
	return read_file(h, path, false, also, arg, e);
}

static void request_free(struct history_request *r)
{
	free(r->prompt);
	free(r->row);
	free(r->take);
	free(r->text);
	free(r->user);
	free(r->spec);
	free(r->stop);
	free(r->grammar);
	free(r->adapter);
	free(r->why);
}

void history_close(struct history *h)
{
	if (!h)
		return;
	reader_close(h->reader);
	for (int32_t i = 0; i < h->n_requests; i++)
		request_free(&h->request[i]);
	for (int32_t i = 0; i < h->n_settings; i++) {
		free(h->setting[i].name);
		free(h->setting[i].value);
	}
	free(h->setting);
	for (int32_t i = 0; i < h->n_adapters; i++) {
		free(h->adapter[i].name);
		free(h->adapter[i].sha256);
	}
	free(h->adapter);
	ev_texts_free(&h->texts);
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

/* ---- queries ---- */

struct history_request *history_request(const struct history *h, int64_t number)
{
	return find_number(number, h->request, h->n_requests, sizeof *h->request);
}

int32_t history_ids(const struct history_request *r, int32_t take, int32_t *ids)
{
	const struct history_take *k = &r->take[take];

	memcpy(ids, r->prompt, (size_t)r->n_prompt * sizeof *ids);
	if (r->kind == EV_REQUEST_KIND_score)
		return r->n_prompt;
	for (int32_t i = 0; i < k->first + k->n; i++)
		ids[r->row[i].pos] = r->row[i].id;
	return k->at + k->n;
}

int32_t history_ids_before(const struct history_request *r, int64_t seq, int32_t *ids)
{
	int32_t n = r->n_prompt;

	memcpy(ids, r->prompt, (size_t)n * sizeof *ids);
	for (int32_t i = 0; i < r->n_rows && r->row[i].seq < seq; i++)
		if (r->kind != EV_REQUEST_KIND_score)
			ids[(n = r->row[i].pos + 1) - 1] = r->row[i].id;
	return n;
}

int history_candidates(
	struct history *h, const struct history_row *row, struct ev_candidate *out, int cap)
{
	struct event ev;

	if (reader_one(h->reader, EV_token, row->seq, &ev, &(struct err){ 0 }) != 1)
		return 0;
	return (int)ev_items(ev.u.token.candidates, out, sizeof *out, (size_t)cap);
}

const struct history_setting *history_setting(
	const struct history *h, const char *name, int64_t seq)
{
	for (int32_t i = h->n_settings; i-- > 0;)
		if (h->setting[i].seq < seq && !strcmp(h->setting[i].name, name))
			return &h->setting[i];
	return NULL;
}

struct asked {
	const struct history *h;
	int64_t seq;
};

static const char *lossy_at(void *of, const char *name)
{
	const struct asked *a = of;
	const struct history_setting *s = history_setting(a->h, name, a->seq);

	return s ? s->value : "";
}

struct lossy_settings history_lossy(const struct history *h, const struct history_request *r)
{
	struct asked a = { .h = h };

	if (!r && h->n_requests)
		r = &h->request[h->n_requests - 1];
	a.seq = r ? r->seq : 0;
	return lossy_query(lossy_at, &a);
}
