/* A recording of a million steps: made, opened and drawn, any step gone to. Not part of `make
 * test`.
 *
 *     build/tests/bench_scale [steps] [file to keep]
 *
 * The session is made up, its form is real: turns of a conversation of 100 to 600 tokens over
 * prompts of 200 to 900, everything recorded (attention every 8th token, as of a small model, 30
 * layers, pages of 16), pages taken, cached, released and evicted, now and then a rejected draft. A
 * file that is there already is opened, not made. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/random_event.h"
#include "trace/recording.h"
#include "tui/app/player.h"
#include "tui/views/view.h"

enum {
	LAYERS = 30,
	PAGE = 16,
	PAGES = 512,
	VOCAB = 49152,
	KNOWN = 4000,
	VISITS = 2000,
	W = 120,
	H = 40
};

struct maker {
	struct recording *recording;
	uint64_t random;
	int64_t seq, t_ns, step, request, next_page, refs[PAGES];
	int64_t block[PAGES], n_blocks;
};

static void check(int rc, const struct err *e)
{
	if (rc < 0) {
		fprintf(stderr, "bench_scale: %s\n", e->text);
		exit(1);
	}
}

static uint32_t any(struct maker *m, uint32_t n)
{
	return (uint32_t)(random_u64(&m->random) >> 33) % n;
}

static void emit(struct maker *m, struct event *ev)
{
	struct err e = { 0 };

	ev->seq = ++m->seq;
	ev->t_ns = m->t_ns;
	check(recording_add(m->recording, ev, &e), &e);
}

static void make_session(struct maker *m)
{
	struct event ev;
	char text[16];

	ev_init(&ev, EV_session);
	ev.u.session.vocab = VOCAB;
	ev.u.session.n_layers = LAYERS;
	ev.u.session.pages = PAGES;
	ev.u.session.page_size = PAGE;
	ev.u.session.slots = 4;
	ev.u.session.model_name = (struct ev_span){ "made up", 7 };
	emit(m, &ev);
	for (int i = 0; i < KNOWN; i++) {
		ev_init(&ev, EV_vocab);
		snprintf(text, sizeof text, " w%d", i);
		ev.u.vocab.id = i;
		ev.u.vocab.bytes = (struct ev_span){ text, strlen(text) };
		ev.u.vocab.special = 0;
		emit(m, &ev);
	}
}

static void page_event(
	struct maker *m, int64_t page, enum ev_code_page_action action, int64_t block, int64_t refs)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page = (struct ev_page){ page, action, action == EV_PAGE_evict ? EV_NULL_I : m->request,
		block, refs, action == EV_PAGE_cache || action == EV_PAGE_release, EV_NULL_I, 0 };
	emit(m, &ev);
}

static void take_page(struct maker *m)
{
	int64_t page = m->next_page++;

	if (page >= PAGES)
		page_event(m, page % PAGES, EV_PAGE_evict, -1, 0);
	page %= PAGES;
	page_event(m, page, EV_PAGE_alloc, m->n_blocks, 1);
	m->block[m->n_blocks++] = page;
}

static void make_token(struct maker *m, int64_t pos)
{
	struct ev_candidate candidate[8];
	struct ev_stage stage[EV_N_STAGES];
	struct event ev;

	for (int i = 0; i < 8; i++)
		candidate[i] = (struct ev_candidate){ any(m, KNOWN), 20.f - (float)i, .1f, 3.f, 0 };
	for (int i = 0; i < EV_N_STAGES; i++)
		stage[i] = (struct ev_stage){ 8, 1.f, .5f };
	ev_init(&ev, EV_token);
	ev.u.token = (struct ev_token){ .step = m->step,
		.request = m->request,
		.pos = pos,
		.id = candidate[0].id,
		.p = (double)any(m, 1000) / 1000,
		.p_draw = .4,
		.entropy = 2.1,
		.hash = (int64_t)random_u64(&m->random),
		.survivors = 8,
		.candidates = { candidate, sizeof candidate },
		.stages = { stage, sizeof stage },
		.is_end = 0 };
	emit(m, &ev);
}

static void make_attention(struct maker *m, int64_t pos)
{
	static unsigned char share[LAYERS * 256], near_zero[2 * LAYERS];
	struct event ev;

	for (int64_t i = 0; i < LAYERS * m->n_blocks; i++)
		share[i] = (unsigned char)any(m, 60);
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ m->step, m->request, pos, m->n_blocks,
		{ share, (size_t)(LAYERS * m->n_blocks) }, 1e-3, { near_zero, sizeof near_zero },
		{ NULL, 0 } };
	emit(m, &ev);
}

static void make_step(struct maker *m, int64_t pos, int64_t rows)
{
	struct ev_stage_time told[EV_N_stage];
	struct event ev;

	m->step++;
	m->t_ns += 3000000;
	while (m->n_blocks * PAGE < pos + rows)
		take_page(m);
	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){ m->step, m->request, 0,
		rows > 1 ? EV_WORK_prefill : EV_WORK_decode, pos, rows };
	emit(m, &ev);
	if (!any(m, 50)) {
		ev_init(&ev, EV_draft);
		ev.u.draft = (struct ev_draft){ .step = m->step,
			.request = m->request,
			.pos = pos + rows,
			.nth = 1,
			.id = 5,
			.rule = 0,
			.verdict = EV_VERDICT_rejected,
			.q = .5,
			.p = .1 };
		emit(m, &ev);
	}
	make_token(m, pos + rows);
	if (m->step % 8 == 0)
		make_attention(m, pos);
	for (size_t i = 0; i < EV_N_stage; i++)
		told[i] = (struct ev_stage_time){ i, 200000 + any(m, 999), 1234567, 23456789 };
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ m->step, { told, sizeof told } };
	emit(m, &ev);
	ev_init(&ev, EV_step);
	ev.u.step = (struct ev_step){ .step = m->step,
		.ns = 3000000,
		.kernel_ns = 2900000,
		.rows = rows,
		.prefill_rows = rows > 1 ? rows : 0,
		.decode_rows = rows == 1,
		.tokens = 1,
		.running = 1,
		.pages_used = m->n_blocks,
		.bytes = 90000000,
		.ops = 230000000 };
	emit(m, &ev);
}

static void make_turn(struct maker *m, int64_t last_step)
{
	int32_t ids[1024];
	int64_t n = 200 + any(m, 700), answer = 100 + any(m, 500);
	struct event ev;

	m->request++;
	m->n_blocks = 0;
	for (int64_t i = 0; i < n; i++)
		ids[i] = (int32_t)any(m, KNOWN);
	ev_init(&ev, EV_request);
	ev.u.request.request = m->request;
	ev.u.request.kind = EV_REQUEST_KIND_chat;
	ev.u.request.prompt = (struct ev_span){ ids, (size_t)n * 4 };
	ev.u.request.text = (struct ev_span){ "a question", 10 };
	emit(m, &ev);
	ev_init(&ev, EV_lookup);
	ev.u.lookup = (struct ev_lookup){ m->request, n, 0, 0, EV_PREFIX_empty, EV_NULL_I, EV_NULL_I,
		EV_NULL_I, EV_NULL_I, EV_NULL_I, 0 };
	emit(m, &ev);
	ev_init(&ev, EV_admit);
	ev.u.admit = (struct ev_admit){ m->request, 0, 1000, 0, 0 };
	emit(m, &ev);
	make_step(m, 0, n);
	for (int64_t i = 0; i < answer && m->step < last_step; i++)
		make_step(m, n + i, 1);
	for (int64_t b = m->n_blocks; b-- > 0;)
		page_event(m, m->block[b], EV_PAGE_release, b, 0);
	ev_init(&ev, EV_finish);
	ev.u.finish = (struct ev_finish){ .request = m->request,
		.step = m->step,
		.reason = EV_FINISH_end,
		.generated = answer,
		.first_token_ns = 3000000,
		.total_ns = answer * 3000000,
		.hit = 0 };
	emit(m, &ev);
}

static void make(const char *path, int64_t steps)
{
	struct maker m = { 0 };
	struct err e = { 0 };
	struct event ev;
	int64_t begun = now_ns();

	check(recording_create(&m.recording, path, &e), &e);
	make_session(&m);
	while (m.step < steps) {
		make_turn(&m, steps);
		check(recording_commit(m.recording, &e), &e);
	}
	ev_init(&ev, EV_closed);
	ev.u.closed.steps = m.step;
	emit(&m, &ev);
	check(recording_commit(m.recording, &e), &e);
	printf("made               %8.1f s, %.0f bytes a step\n", (double)(now_ns() - begun) / 1e9,
		(double)recording_size(m.recording).bytes / (double)m.step);
	begun = now_ns();
	recording_close(m.recording, false);
	printf("closed, indexes    %8.1f s\n", (double)(now_ns() - begun) / 1e9);
}

/* All views at once, as a screen would. */
static void draw(struct canvas *c, const struct timeline *t)
{
	struct view_state state = { .token = -1 };

	for (int i = 0; views[i]; i++) {
		struct pen p = pen_of(c, (struct rect){ 0, 0, W, H });

		views[i]->draw(&p, t, &state);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ms_since(int64_t ns)
{
	return (double)(now_ns() - ns) / 1e6;
}

static void visit(const char *path)
{
	static double go[VISITS], drawn[VISITS];
	struct timeline t;
	struct canvas c = { 0 };
	struct player *p;
	struct err e = { 0 };
	uint64_t random = 1;
	int64_t begun = now_ns();

	timeline_init(&t);
	check(canvas_resize(&c, W, H, &e), &e);
	check(player_open(&p, path, &e), &e);
	check(player_go(p, &t, 0, &e), &e);
	draw(&c, &t);
	printf("open and draw      %8.2f ms (%" PRId64 " steps)\n", ms_since(begun), player_n_steps(p));
	begun = now_ns();
	if (player_read(p, 0, &e)) {
		while (player_read(p, INT64_C(1000000000), &e) > 0)
			;
		printf("its keyframes      %8.2f s, made while it is shown\n", ms_since(begun) / 1e3);
	}
	check(e.code ? -1 : 0, &e);
	for (int i = 0; i < VISITS; i++) {
		int64_t step = 1 + (int64_t)(random_u64(&random) % (uint64_t)player_n_steps(p));

		begun = now_ns();
		check(player_go(p, &t, step, &e), &e);
		go[i] = ms_since(begun);
		draw(&c, &t);
		drawn[i] = ms_since(begun);
	}
	printf("first step         %8.2f ms, with the texts of all tokens\n", go[0]);
	qsort(go, VISITS, sizeof *go, by_size);
	qsort(drawn, VISITS, sizeof *drawn, by_size);
	printf("go to any step     %8.2f ms median, %.2f p99, %.2f longest\n", go[VISITS / 2],
		go[VISITS * 99 / 100], go[VISITS - 1]);
	printf("and draw all views %8.2f ms median, %.2f p99\n", drawn[VISITS / 2],
		drawn[VISITS * 99 / 100]);
	player_close(p);
	timeline_free(&t);
	canvas_free(&c);
}

int main(int argc, char **argv)
{
	int64_t steps = argc > 1 ? atoll(argv[1]) : 1000000;
	char path[] = "/tmp/bench-scale-XXXXXX";
	const char *kept = argc > 2 ? argv[2] : NULL;

	if (steps < 1 || (!kept && mkstemp(path) < 0))
		return 2;
	if (!kept || access(kept, R_OK))
		make(kept ? kept : path, steps);
	visit(kept ? kept : path);
	if (!kept)
		unlink(path);
	return 0;
}
