/* Fuzz target of what stands between a recording and the screen: bytes as events of a session and
 * as keyframes, which may lie, written to a file and gone through by the player; the timeline is
 * asked all that a view may ask. What must hold: no crash, the bounds that views rely on, and that
 * a keyframe of our own is read back as it was.
 *
 * FUZZ_OPTIONS: -max_len=2048 -malloc_limit_mb=256 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/fuzz/fuzz.h"
#include "trace/schema.h"
#include "tui/app/player.h"
#include "tests/support/timeline_dump.h"

enum { SPAN_MAX = 96, LAYERS = 2, PAGE = 16, PAGES = 24, VOCAB = 64 };

/* The bytes, read as choices. */
struct input {
	const uint8_t *at, *end;
};

static char path[64];
static uint8_t *empty; /* a recording with nothing in it */
static long empty_size;

struct maker {
	struct input in;
	sqlite3 *db;
	sqlite3_stmt *insert[EV_N_KINDS], *insert_key;
	struct keyframer *keyframer;
	int64_t seq, step;
	bool honest;         /* keyframes are the keyframer's */
	bool old;            /* there are none */
	uint8_t lie, lie_at; /* … but for a byte */
	uint8_t span[32][SPAN_MAX];
};

static uint8_t take(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static void forget_file(void)
{
	unlink(path);
	free(empty);
}

/* An empty recording is made once, and then copied. */
static void make_empty(void)
{
	sqlite3 *db;
	FILE *f;

	snprintf(path, sizeof path, "%s/cutaway-fuzz-player-%d.db",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
	unlink(path);
	atexit(forget_file);
	FUZZ_CHECK(!sqlite3_open(path, &db) &&
			   !sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL,
				   NULL, NULL) &&
			   !schema_create(db));
	sqlite3_close(db);
	f = fopen(path, "rb");
	FUZZ_CHECK(f && !fseek(f, 0, SEEK_END) && (empty_size = ftell(f)) > 0);
	rewind(f);
	empty = malloc((size_t)empty_size);
	FUZZ_CHECK(empty && fread(empty, 1, (size_t)empty_size, f) == (size_t)empty_size);
	fclose(f);
}

static void begin(struct maker *m)
{
	FILE *f;

	if (!empty)
		make_empty();
	f = fopen(path, "wb");
	FUZZ_CHECK(f && fwrite(empty, 1, (size_t)empty_size, f) == (size_t)empty_size && !fclose(f));
	FUZZ_CHECK(!sqlite3_open(path, &m->db) &&
			   !sqlite3_exec(m->db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; BEGIN",
				   NULL, NULL, NULL));
	m->keyframer = keyframer_open();
	FUZZ_CHECK(m->keyframer);
}

static void prepare(struct maker *m, sqlite3_stmt **s, char *sql)
{
	if (!*s)
		FUZZ_CHECK(!sqlite3_prepare_v2(m->db, sql, -1, s, NULL));
	sqlite3_free(sql);
}

static void add_keyframe(struct maker *m, int64_t step, struct ev_span tokens, struct ev_span state)
{
	prepare(m, &m->insert_key, schema_keyframe_insert_sql());
	for (int i = 3; i <= 5; i++)
		sqlite3_bind_int64(m->insert_key, i, take(&m->in));
	sqlite3_bind_int64(m->insert_key, 1, m->seq);
	sqlite3_bind_int64(m->insert_key, 2, step);
	sqlite3_bind_blob64(m->insert_key, 6, tokens.data, tokens.size, SQLITE_STATIC);
	sqlite3_bind_blob64(m->insert_key, 7, state.data, state.size, SQLITE_STATIC);
	sqlite3_step(m->insert_key); /* two at one place: the second is none */
	sqlite3_reset(m->insert_key);
}

/* What the keyframer made of the events must be what it reads. */
static void keep_keyframe(struct maker *m, const struct key_row *row)
{
	uint8_t *state = malloc(row->state.size);

	FUZZ_CHECK(state && row->state.size && keyframe_is_known(row->state));
	memcpy(state, row->state.data, row->state.size);
	state[m->lie_at % row->state.size] ^= m->lie;
	if (m->honest)
		add_keyframe(m, row->step, row->tokens, (struct ev_span){ state, row->state.size });
	free(state);
}

static void bind(sqlite3_stmt *s, int at, enum ev_type type, const void *member)
{
	const struct ev_span *span = member;

	if (type == EV_TYPE_R)
		sqlite3_bind_double(s, at, *(const double *)member);
	else if (type == EV_TYPE_T)
		sqlite3_bind_text64(s, at, span->data, span->size, SQLITE_STATIC, SQLITE_UTF8);
	else if (type == EV_TYPE_B)
		sqlite3_bind_blob64(s, at, span->data, span->size, SQLITE_STATIC);
	else if (*(const int64_t *)member != EV_NULL_I)
		sqlite3_bind_int64(s, at, *(const int64_t *)member);
	else
		sqlite3_bind_null(s, at);
}

static void emit(struct maker *m, struct event *ev)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;
	struct key_row row;

	ev->seq = ++m->seq;
	ev->t_ns = m->seq * 1000;
	prepare(m, &m->insert[ev->kind], schema_insert_sql(ev->kind));
	sqlite3_bind_int64(m->insert[ev->kind], 1, ev->seq);
	sqlite3_bind_int64(m->insert[ev->kind], 2, ev->t_ns);
	for (int i = 0; i < info->n_fields; i++) {
		bind(m->insert[ev->kind], i + 3, info->fields[i].type, member);
		member += ev_field_size(info->fields[i].type);
	}
	FUZZ_CHECK(sqlite3_step(m->insert[ev->kind]) == SQLITE_DONE);
	sqlite3_reset(m->insert[ev->kind]);
	if (keyframer_add(m->keyframer, ev, &row))
		keep_keyframe(m, &row);
}

static int64_t any_integer(struct maker *m)
{
	static const int64_t extreme[] = { INT64_MAX, INT64_MAX - 1, -INT64_MAX, INT32_MAX,
		(int64_t)INT32_MAX + 1, 1 << 18, (1 << 18) + 1, -1, 0, UINT32_MAX, (int64_t)1 << 50,
		((int64_t)1 << 50) + 1 };
	uint8_t kind = take(&m->in);

	switch (kind % 8) {
	case 0: return EV_NULL_I;
	case 1: return -(int64_t)take(&m->in);
	case 2: return extreme[take(&m->in) % (sizeof extreme / sizeof *extreme)];
	case 3: return m->step;
	case 4: return 1 + take(&m->in) % 3; /* a request that there is */
	default: return take(&m->in);
	}
}

static double any_real(struct maker *m)
{
	static const double some[] = { 0, .5, 1, -1, 1e308, -1e308, INFINITY, -INFINITY, NAN, 1e-300,
		2.5, 1e15 };

	return some[take(&m->in) % (sizeof some / sizeof *some)];
}

static struct ev_span any_span(struct maker *m, int field)
{
	size_t size = take(&m->in) % SPAN_MAX;

	for (size_t i = 0; i < size; i++)
		m->span[field][i] = take(&m->in);
	return (struct ev_span){ size || take(&m->in) % 2 ? m->span[field] : NULL, size };
}

static void any_event(struct maker *m, enum ev_kind kind)
{
	struct event ev;
	char *member = (char *)&ev.u;

	ev_init(&ev, kind);
	for (int i = 0; i < ev_info[kind].n_fields; i++) {
		enum ev_type type = ev_info[kind].fields[i].type;

		if (type == EV_TYPE_I)
			*(int64_t *)(void *)member = any_integer(m);
		else if (type == EV_TYPE_R)
			*(double *)(void *)member = any_real(m);
		else
			*(struct ev_span *)(void *)member = any_span(m, i);
		member += ev_field_size(type);
	}
	emit(m, &ev);
}

static void good_session(struct maker *m)
{
	struct event ev;
	int32_t ids[40] = { 1, 2, 3 };

	ev_init(&ev, EV_session);
	ev.u.session.vocab = VOCAB;
	ev.u.session.n_layers = LAYERS;
	ev.u.session.pages = PAGES;
	ev.u.session.page_size = PAGE;
	ev.u.session.slots = 4;
	emit(m, &ev);
	for (int i = 1; i <= 3; i++) {
		ev_init(&ev, EV_request);
		ev.u.request.request = i;
		ev.u.request.kind = i - 1;
		ev.u.request.prompt = (struct ev_span){ ids, sizeof ids };
		emit(m, &ev);
	}
}

/* Some steps in a row, each with a token. */
static void good_steps(struct maker *m, int n)
{
	for (int i = 0; i < n; i++) {
		struct event ev;

		m->step++;
		ev_init(&ev, EV_token);
		ev.u.token.step = m->step;
		ev.u.token.request = 1 + m->step % 3;
		ev.u.token.pos = 40 + m->step / 3;
		ev.u.token.id = m->step % VOCAB;
		ev.u.token.p = .5;
		emit(m, &ev);
		ev_init(&ev, EV_step);
		ev.u.step.step = m->step;
		ev.u.step.rows = ev.u.step.tokens = 1;
		emit(m, &ev);
	}
}

static void make(struct maker *m)
{
	uint8_t flags = take(&m->in);

	m->honest = flags & 1;
	m->old = flags & 16;
	m->lie = flags & 2 ? take(&m->in) : 0;
	m->lie_at = take(&m->in);
	if (flags & 4)
		good_session(m);
	while (m->in.at < m->in.end && m->step < 1024) {
		uint8_t op = take(&m->in);

		if (op < 200) {
			any_event(m, (enum ev_kind)(op % EV_N_KINDS));
		} else if (op < 240) {
			good_steps(m, 1 + take(&m->in));
		} else {
			struct ev_span tokens = any_span(m, 0), state = any_span(m, 1);

			add_keyframe(m, m->step, tokens, state);
		}
	}
	good_steps(m, flags & 8 ? 300 : 1);
}

static void finish(struct maker *m)
{
	for (int i = 0; i < EV_N_KINDS; i++)
		sqlite3_finalize(m->insert[i]);
	sqlite3_finalize(m->insert_key);
	/* An older file has none, and the player makes them. */
	FUZZ_CHECK(
		!sqlite3_exec(m->db, m->old ? "DROP TABLE keyframe; COMMIT" : "COMMIT", NULL, NULL, NULL));
	sqlite3_close(m->db);
	keyframer_close(m->keyframer);
}

static void look_at_request(const struct timeline *t, const struct tl_request *r, uint8_t look)
{
	struct tl_branch branch = { r->id, -1, INT32_MAX };
	int32_t n = timeline_branch_length(t, branch);

	for (int32_t k = 0; k < r->n_tokens; k += 1 + r->n_tokens / 8) {
		const struct tl_token *whole = timeline_whole(t, &r->token[k]);

		FUZZ_CHECK(whole && whole->n_candidates <= TL_CANDIDATES && whole->source < EV_N_source);
		FUZZ_CHECK(isnan(whole->p) || (whole->p >= 0 && whole->p <= 1));
	}
	FUZZ_CHECK(n >= 0);
	timeline_branch_id(t, branch, look);
	timeline_branch_id(t, branch, n - 1);
	timeline_branch_token(t, branch, n - 1 - look);
	timeline_branch_common(t, branch, r->origin);
	timeline_within_answer(t, r);
	timeline_turn_before(t, r->id);
	timeline_rate(t, r->id);
}

/* All that a view may ask; the dump reads every member. */
static void look_at(const struct timeline *t, uint8_t look)
{
	free(timeline_dump(t));
	for (int32_t i = 0; i < t->n_requests; i++)
		look_at_request(t, &t->request[i], look);
	for (int32_t i = 0; i < t->n_abandoned; i++) {
		struct tl_branch branch = { t->abandoned[i].request, i, INT32_MAX };

		timeline_branch_id(t, branch, timeline_branch_length(t, branch) - 1);
	}
	for (int32_t i = 0; i < t->n_pages; i += 1 + t->n_pages / 8)
		FUZZ_CHECK(timeline_page(t, i)->refs >= 0);
	timeline_chat(t);
	const struct tl_sample all = timeline_sample(t, TL_PREFILL | TL_DECODE | TL_MIXED);
	timeline_bandwidth(&all);
	timeline_rate(t, 0);
}

static void go_through(const uint8_t *data, size_t size)
{
	const int64_t where[] = { 0, 1, 127, 128, 129, 383, 384, 385, 400, INT64_MAX - 1 };
	struct timeline t;
	struct player *p;
	struct err e = { 0 };
	int n;

	if (player_open(&p, path, &e))
		return;
	timeline_init(&t);
	while (player_read(p, 1000000, &e) == 1)
		;
	for (int i = 0; i < 6; i++) {
		uint8_t look = size ? data[(size - 1 - (size_t)i % size) % size] : 0;

		if (player_go(p, &t, i < 4 ? where[look % 10] : player_at(p) + (i == 4 ? 1 : -1), &e))
			break;
		look_at(&t, look);
		player_next_ns(p, &e);
		player_next_mark(p, i & 1);
	}
	player_marks(p, &n);
	player_close(p);
	timeline_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct maker m;

	m = (struct maker){ .in = { data, data + size } };
	begin(&m);
	make(&m);
	finish(&m);
	go_through(data, size);
	return 0;
}
