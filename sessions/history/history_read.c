/* Reads the rows of a recording into its requests: see history.h. Each table that is needed is read
 * by its own statement; rows are merged by seq. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/array.h"
#include "base/find.h"
#include "sessions/history/history_impl.h"

enum { MAX_TOKENS = 1 << 24 }; /* of a request */

struct loading {
	struct history *h;
	struct err *e;
	sqlite3_stmt *step_of;
	int64_t step, step_seq;                 /* events up to step_seq belong to this step */
	int64_t verified_request, verified_pos; /* the newest draft that modified rejection verified */
};

/* ---- words for asking ---- */

static char *text_of(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return strdup(text ? text : "");
}

static int64_t int_of(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? EV_NULL_I
														 : sqlite3_column_int64(s, column);
}

static double real_of(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? (double)NAN
														 : sqlite3_column_double(s, column);
}

static int no_memory(struct loading *l)
{
	return err_set(l->e, ERR_MEMORY, "%s: out of memory", l->h->path);
}

/* ---- rows ---- */

struct history_request *history_request_find(struct history *h, int64_t number)
{
	return find_number(number, h->request, h->n_requests, sizeof *h->request);
}

static bool in_vocab(const struct history *h, int64_t id)
{
	return id >= 0 && id < h->vocab;
}

static void broke(struct history_request *r, const char *what, int64_t pos)
{
	if (!r->broken[0])
		snprintf(r->broken, sizeof r->broken, "%s (position %lld)", what, (long long)pos);
}

static int begin_take(struct loading *l, struct history_request *r, int32_t at)
{
	if (!ARRAY_ROOM(r->take, r->cap_takes, r->n_takes + 1))
		return no_memory(l);
	r->take[r->n_takes++] = (struct history_take){ .first = r->n_rows, .at = at };
	return 0;
}

static bool copy_prompt(
	const struct history *h, struct history_request *r, sqlite3_stmt *s, int column)
{
	const unsigned char *p = sqlite3_column_blob(s, column);
	int size = sqlite3_column_bytes(s, column);

	r->n_prompt = p ? size / 4 : 0;
	r->prompt = malloc((size_t)r->n_prompt * sizeof *r->prompt + 1);
	if (!r->prompt)
		return false;
	for (int32_t i = 0; i < r->n_prompt; i++, p += 4) {
		r->prompt[i] = (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
								 (uint32_t)p[3] << 24);
		if (!in_vocab(h, r->prompt[i]))
			broke(r, "its prompt holds an id that the vocabulary has not", i);
	}
	if (size % 4 || !r->n_prompt)
		broke(r, "its prompt is not a list of token ids", 0);
	return true;
}

static const char request_sql[] =
	"SELECT seq, request, kind, parent, sample, text, prompt, max_tokens, stop, spec, n_prompt,"
	" user, priority, deadline"
#define SAMPLE(type, field, ...) ", " #field
#include "engine/settings/settings.def"
	" FROM request ORDER BY seq";

static int32_t clamp32(int64_t v, int32_t max)
{
	return v < 0 ? 0 : v > max ? max : (int32_t)v;
}

static int32_t int_in_range(sqlite3_stmt *s, int column, const struct setting *row)
{
	const int64_t v = sqlite3_column_int64(s, column);

	return (int32_t)(v < row->low ? row->low : v > row->high ? row->high : v);
}

#define READ_INT(s, column, row) int_in_range(s, column, row)
#define READ_FLOAT(s, column, row) (float)sqlite3_column_double(s, column)
#define READ_U64(s, column, row) (uint64_t) sqlite3_column_int64(s, column)
#define READ_BIAS(s, column, row) sample_bias_of(blob_of(s, column))

static struct ev_span blob_of(sqlite3_stmt *s, int column)
{
	const void *data = sqlite3_column_blob(s, column);

	return (struct ev_span){ data, data ? (size_t)sqlite3_column_bytes(s, column) : 0 };
}

/* Reads the columns of request_sql() from this one on, in their order. */
static void read_params(struct sample_params *p, sqlite3_stmt *s, int column)
{
#define SAMPLE(type, field, ...)                                                                   \
	p->field = READ_##type(s, column + ANSWER_AT_##field, &answer_settings[ANSWER_AT_##field]);
#include "engine/settings/settings.def"
}

static int on_request(struct loading *l, sqlite3_stmt *s)
{
	struct history *h = l->h;
	struct history_request *r;
	int64_t number = sqlite3_column_int64(s, 1), parent = int_of(s, 3);

	if (h->n_requests && number <= h->request[h->n_requests - 1].number)
		return err_set(l->e, ERR_INPUT,
			"%s: a damaged recording: request %lld comes after request %lld", h->path,
			(long long)number, (long long)h->request[h->n_requests - 1].number);
	if (!ARRAY_ROOM(h->request, h->cap_requests, h->n_requests + 1))
		return no_memory(l);
	r = &h->request[h->n_requests++];
	*r = (struct history_request){ .number = number,
		.seq = sqlite3_column_int64(s, 0),
		.finish = -1,
		.kind = (enum ev_code_request_kind)clamp32(sqlite3_column_int64(s, 2), EV_N_request_kind),
		.parent = parent > 0 ? parent : 0,
		.sample = sqlite3_column_int64(s, 4),
		.max_tokens = sqlite3_column_int64(s, 7),
		.forced_pos = -1,
		.priority = int_in_range(s, 12, &answer_settings[ANSWER_AT_priority]),
		.deadline = int_in_range(s, 13, &answer_settings[ANSWER_AT_deadline]) };
	read_params(&r->params, s, 14);
	r->text = text_of(s, 5);
	r->user = text_of(s, 11);
	r->stop = text_of(s, 8);
	r->spec = text_of(s, 9);
	r->why = strdup("");
	if (!copy_prompt(h, r, s, 6) || !r->text || !r->user || !r->stop || !r->spec || !r->why)
		return no_memory(l);
	if (sqlite3_column_int64(s, 10) != r->n_prompt)
		broke(r, "its prompt is not of the length it says", r->n_prompt);
	r->n = r->longest = r->n_prompt;
	return begin_take(l, r, r->n_prompt);
}

/* Appends the row to the request. False: it is not contiguous. */
static int add_row(struct loading *l, struct history_request *r, const struct history_row *row)
{
	if (r->broken[0])
		return 0;
	if (row->pos != r->n || r->n >= MAX_TOKENS) {
		broke(r, row->pos > r->n ? "tokens are missing" : "a token comes twice", r->n);
		return 0;
	}
	if (!in_vocab(l->h, row->id)) {
		broke(r, "a token's id is not in the vocabulary", row->pos);
		return 0;
	}
	if (!ARRAY_ROOM(r->row, r->cap_rows, r->n_rows + 1))
		return no_memory(l);
	r->row[r->n_rows++] = *row;
	r->take[r->n_takes - 1].n++;
	r->n++;
	if (r->n > r->longest)
		r->longest = r->n;
	return 0;
}

static const char token_sql[] =
	"SELECT seq, step, request, pos, id, hash, p, p_draw, entropy, survivors, source, is_end FROM token"
	" ORDER BY seq";

static int on_token(struct loading *l, sqlite3_stmt *s)
{
	struct history_request *r = history_request_find(l->h, sqlite3_column_int64(s, 2));
	int64_t pos = sqlite3_column_int64(s, 3), id = sqlite3_column_int64(s, 4);
	struct history_row row = { .seq = sqlite3_column_int64(s, 0),
		.step = sqlite3_column_int64(s, 1),
		.hash = int_of(s, 5),
		.p = real_of(s, 6),
		.p_draw = real_of(s, 7),
		.entropy = real_of(s, 8),
		.survivors = int_of(s, 9),
		.source = (uint8_t)clamp32(sqlite3_column_int64(s, 10), EV_N_source),
		.is_end = sqlite3_column_int64(s, 11) == 1 };

	if (!r) /* a row without a request cannot be recomputed */
		return 0;
	if (r->kind == EV_REQUEST_KIND_score) {
		broke(r, "tokens were drawn for a given text", pos);
		return 0;
	}
	row.pos = pos < 0 || pos > MAX_TOKENS ? -1 : (int32_t)pos;
	row.id = in_vocab(l->h, id) ? (int32_t)id : -1;
	row.by_rejection = r->number == l->verified_request && pos == l->verified_pos;
	return add_row(l, r, &row);
}

/* A draft's verdict comes right before the token that results from it. */
static const char draft_sql[] =
	"SELECT seq, request, pos FROM draft WHERE rule = 1 AND verdict <> 2 ORDER BY seq";

static int on_draft(struct loading *l, sqlite3_stmt *s)
{
	l->verified_request = sqlite3_column_int64(s, 1);
	l->verified_pos = sqlite3_column_int64(s, 2);
	return 0;
}

/* Score events have no step number: it is that of the next step row. */
static int64_t step_of(struct loading *l, int64_t seq)
{
	if (seq <= l->step_seq)
		return l->step;
	sqlite3_bind_int64(l->step_of, 1, seq);
	l->step = l->step_seq = INT64_MAX; /* the last step was cut off */
	if (sqlite3_step(l->step_of) == SQLITE_ROW) {
		l->step_seq = sqlite3_column_int64(l->step_of, 0);
		l->step = sqlite3_column_int64(l->step_of, 1);
	}
	sqlite3_reset(l->step_of);
	return l->step;
}

static const char score_sql[] = "SELECT seq, request, pos, id, logp, hash FROM score ORDER BY seq";

static int on_score(struct loading *l, sqlite3_stmt *s)
{
	struct history_request *r = history_request_find(l->h, sqlite3_column_int64(s, 1));
	int64_t pos = sqlite3_column_int64(s, 2), seq = sqlite3_column_int64(s, 0);

	if (!r || r->broken[0])
		return 0;
	if (r->kind != EV_REQUEST_KIND_score || pos != r->n_rows + 1 || pos >= r->n_prompt) {
		broke(r, "scored tokens are missing", r->n_rows + 1);
		return 0;
	}
	if (sqlite3_column_int64(s, 3) != r->prompt[pos]) {
		broke(r, "a scored token is not that of the text", pos);
		return 0;
	}
	if (!ARRAY_ROOM(r->row, r->cap_rows, r->n_rows + 1))
		return no_memory(l);
	r->row[r->n_rows++] = (struct history_row){ .seq = seq,
		.step = step_of(l, seq),
		.hash = int_of(s, 5),
		.p = real_of(s, 4),
		.p_draw = (double)NAN,
		.entropy = (double)NAN,
		.survivors = EV_NULL_I,
		.id = r->prompt[pos],
		.pos = (int32_t)pos };
	r->take[0].n = r->n_rows;
	r->take[0].at = 1;
	return 0;
}

static const char rewind_sql[] = "SELECT seq, request, had, kept FROM rewind ORDER BY seq";

static int on_rewind(struct loading *l, sqlite3_stmt *s)
{
	struct history_request *r = history_request_find(l->h, sqlite3_column_int64(s, 1));
	int64_t had = sqlite3_column_int64(s, 2), kept = sqlite3_column_int64(s, 3);

	if (!r || r->broken[0])
		return 0;
	if (had != r->n || kept < r->n_prompt || kept > r->n) {
		broke(r, "it goes back from where it is not", r->n);
		return 0;
	}
	r->n = (int32_t)kept;
	return begin_take(l, r, r->n);
}

static const char fork_sql[] = "SELECT seq, request, pos, forced FROM fork ORDER BY seq";

static int on_fork(struct loading *l, sqlite3_stmt *s)
{
	struct history_request *r = history_request_find(l->h, sqlite3_column_int64(s, 1));

	if (r && int_of(s, 3) != EV_NULL_I)
		r->forced_pos = sqlite3_column_int64(s, 2);
	return 0;
}

static const char finish_sql[] =
	"SELECT seq, request, reason, generated, why FROM finish ORDER BY seq";

static int on_finish(struct loading *l, sqlite3_stmt *s)
{
	struct history_request *r = history_request_find(l->h, sqlite3_column_int64(s, 1));

	if (!r)
		return 0;
	r->finish = clamp32(sqlite3_column_int64(s, 2), EV_N_finish);
	free(r->why);
	r->why = text_of(s, 4);
	if (!r->why)
		return no_memory(l);
	if (r->kind != EV_REQUEST_KIND_score && r->kind != EV_REQUEST_KIND_verify &&
		sqlite3_column_int64(s, 3) != r->n - r->n_prompt)
		broke(r, "tokens are missing", r->n);
	if (r->kind == EV_REQUEST_KIND_score && r->finish == EV_FINISH_end &&
		r->n_rows != r->n_prompt - 1)
		broke(r, "scored tokens are missing", r->n_rows + 1);
	return 0;
}

static int on_vocab(struct loading *l, sqlite3_stmt *s)
{
	struct history *h = l->h;
	int64_t id = sqlite3_column_int64(s, 1);
	int size = sqlite3_column_bytes(s, 2);
	const void *bytes = sqlite3_column_blob(s, 2);
	char *copy;

	if (!in_vocab(h, id) || h->n_pieces >= h->vocab)
		return 0;
	h->piece = h->piece ? h->piece : calloc((size_t)h->vocab, sizeof *h->piece);
	copy = malloc((size_t)size + 1);
	if (!h->piece || !copy) {
		free(copy);
		return no_memory(l);
	}
	if (size)
		memcpy(copy, bytes, (size_t)size);
	copy[size] = 0;
	h->piece[h->n_pieces++] = (struct history_piece){
		.id = (int32_t)id, .size = size, .bytes = copy, .special = sqlite3_column_int64(s, 3) == 1
	};
	return 0;
}

/* ---- all of it ---- */

static const struct source {
	const char *sql;
	int (*on_row)(struct loading *l, sqlite3_stmt *s);
} sources[] = {
	{ request_sql, on_request },
	{ token_sql, on_token },
	{ draft_sql, on_draft },
	{ score_sql, on_score },
	{ rewind_sql, on_rewind },
	{ fork_sql, on_fork },
	{ finish_sql, on_finish },
};
enum { N_SOURCES = sizeof sources / sizeof *sources };

/* The next row of a statement; INT64_MAX at its end. */
static int64_t advance(struct loading *l, sqlite3_stmt *s)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_ROW)
		return sqlite3_column_int64(s, 0);
	if (rc != SQLITE_DONE)
		foreign_fail(l->h->db, l->h->path, l->e);
	return INT64_MAX;
}

static int merge(struct loading *l)
{
	sqlite3_stmt *s[N_SOURCES] = { NULL };
	int64_t seq[N_SOURCES];
	int rc = 0;

	for (int i = 0; i < N_SOURCES; i++) {
		seq[i] = INT64_MAX;
		s[i] = history_prepare(l->h, sources[i].sql, l->e);
		if (s[i])
			seq[i] = advance(l, s[i]);
	}
	while (!rc && !l->e->code) {
		int next = 0;

		for (int i = 1; i < N_SOURCES; i++)
			next = seq[i] < seq[next] ? i : next;
		if (seq[next] == INT64_MAX)
			break;
		rc = sources[next].on_row(l, s[next]);
		seq[next] = advance(l, s[next]);
	}
	for (int i = 0; i < N_SOURCES; i++)
		sqlite3_finalize(s[i]);
	return l->e->code ? -1 : rc;
}

static int load_session(struct loading *l)
{
	struct history *h = l->h;
	sqlite3_stmt *s = history_prepare(h,
		"SELECT model_path, model_name, model_sha256, backend, isa, version, arith, vocab,"
		" threads, ctx, page_size, unix_ns, n_layers, n_kv_heads, head_dim FROM session"
		" ORDER BY seq LIMIT 1",
		l->e);
	char **const text[] = { &h->model_path, &h->model_name, &h->model_sha256, &h->backend, &h->isa,
		&h->version };
	int64_t *const number[] = { &h->arith, &h->vocab, &h->threads, &h->ctx, &h->page_size,
		&h->unix_ns, &h->n_layers, &h->n_kv_heads, &h->head_dim };
	bool found = s && advance(l, s) != INT64_MAX;

	for (int i = 0; found && i < 6; i++)
		if (!(*text[i] = text_of(s, i)))
			no_memory(l);
	for (int i = 0; found && i < 9; i++)
		*number[i] = sqlite3_column_int64(s, 6 + i);
	sqlite3_finalize(s);
	if (!l->e->code && !found)
		return err_set(l->e, ERR_INPUT, "%s: nothing was recorded: it has no session row", h->path);
	if (!l->e->code && (h->vocab < 1 || h->vocab > 1 << 22))
		return err_set(l->e, ERR_INPUT, "%s: a damaged recording: a vocabulary of %lld", h->path,
			(long long)h->vocab);
	return l->e->code ? -1 : 0;
}

static int load_rest(struct loading *l)
{
	struct history *h = l->h;
	sqlite3_stmt *s = history_prepare(
		h, "SELECT count(*), total(ns), (SELECT count(*) FROM closed) FROM step", l->e);

	if (s && advance(l, s) != INT64_MAX) {
		h->n_steps = sqlite3_column_int64(s, 0);
		h->steps_ns = (int64_t)fmin(fmax(sqlite3_column_double(s, 1), 0), 9e18);
		h->closed = sqlite3_column_int64(s, 2) > 0;
	}
	sqlite3_finalize(s);
	s = l->e->code
			? NULL
			: history_prepare(h, "SELECT seq, id, bytes, special FROM vocab ORDER BY seq", l->e);
	while (s && advance(l, s) != INT64_MAX && !on_vocab(l, s))
		;
	sqlite3_finalize(s);
	if (h->piece)
		qsort(h->piece, (size_t)h->n_pieces, sizeof *h->piece, history_by_id);
	return l->e->code ? -1 : 0;
}

int history_load(struct history *h, const struct foreign *f, struct err *e)
{
	struct loading loading = { .h = h, .e = e }, *l = &loading;

	if (foreign_ours(f, h->path, e) || load_session(l) || load_rest(l))
		return -1;
	l->step_of = history_prepare(
		l->h, "SELECT seq, step FROM step WHERE seq > ?1 ORDER BY seq LIMIT 1", l->e);
	if (!l->step_of)
		return -1;
	merge(l);
	sqlite3_finalize(l->step_of);
	return l->e->code ? -1 : 0;
}
