/* The ranks view: what ranks are known to have and to have done, against what must stand there, in
 * every size; and what hostile numbers draw. */
#include "tests/support/view_check.h"
#include "tests/support/view_script.h"

enum { STEPS = 20, EXCHANGES = 9 };

static void tell_rank(struct script *k, int64_t rank, int64_t stage, int64_t part, int64_t heads)
{
	struct event ev;

	ev_init(&ev, EV_rank);
	ev.u.rank = (struct ev_rank){ .rank = rank,
		.stage = stage,
		.part = part,
		.first_layer = 15 * stage,
		.layers = 15,
		.first_kv_head = heads ? part * heads : EV_NULL_I,
		.kv_heads = heads ? heads : 3,
		.weight_bytes = 46588416,
		.page_bytes = 122880,
		.threads = 2,
		.isa = text(rank ? "avx512" : "avx2"),
		.transport = text("threads"),
		.host = text("vm"),
		.process = 7989 + rank };
	tell(k, &ev);
}

/* Its lane: 500 us of computing and 100 of exchanging, EXCHANGES times, and some more. */
static void tell_traffic(struct script *k, int64_t step, int64_t rank, int64_t start)
{
	uint32_t lane[2 * EXCHANGES + 1];
	struct event ev;

	for (int i = 0; i <= 2 * EXCHANGES; i++)
		lane[i] = i % 2 ? (uint32_t)(100000 * (1 + rank * (i % 4))) : 500000;
	ev_init(&ev, EV_traffic);
	ev.u.traffic = (struct ev_traffic){ .step = step,
		.rank = rank,
		.compute_ns = 3000000,
		.exchange_ns = 1000000 * (1 + rank),
		.exchanges = EXCHANGES,
		.sent = 100000 * (1 + rank) * (step == 16 ? 9 : 1), /* 16 is watched */
		.received = rank ? 100000 : 200000,
		.control = 600,
		.start_ns = start };
	if (step == 16)
		ev.u.traffic.lane = (struct ev_span){ lane, sizeof lane };
	tell(k, &ev);
}

static void tell_step(struct script *k, int64_t number)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = number;
	ev.u.step.rows = 1;
	tell(k, &ev);
}

static void two_ranks(struct script *k)
{
	script_begin(k, 8, 30e9);
	setting(k, "exchange", "f32");
	tell_rank(k, 0, 0, 0, 2);
	tell_rank(k, 1, 0, 1, 2);
	for (int64_t s = 1; s <= STEPS; s++) {
		tell_traffic(k, s, 0, 0);
		tell_traffic(k, s, 1, 900000);
		tell_step(k, s);
	}
}

static int golden(struct script *k, const char *name, int w, int h, bool ascii)
{
	return golden_differs(name, text_of(&view_ranks, &k->t, &k->s, w, h, ascii));
}

static void as_drawn(void **state)
{
	struct script k;

	(void)state;
	two_ranks(&k);
	assert_int_equal(
		golden(&k, "ranks-80x24", 80, 24, false) + golden(&k, "ranks-80x24-ascii", 80, 24, true) +
			golden(&k, "ranks-120x40", 120, 40, false) +
			golden(&k, "ranks-200x50", 200, 50, false) + golden(&k, "ranks-44x12", 44, 12, false),
		0);
	timeline_free(&k.t);
}

/* Sums are of all ranks and of steps that nobody watched. */
static void numbers_are_those_of_the_events(void **state)
{
	struct script k;

	(void)state;
	two_ranks(&k);
	has(drawn(&k, &view_ranks, 120, 30), "300 KB sent a token   9 exchanges a step   33 % of");
	has(drawn(&k, &view_ranks, 120, 30), "8.40 MB sent in 20 steps");
	has(drawn(&k, &view_ranks, 120, 30), "tensor 2 × pipeline 1 · threads · f32");
	has(drawn(&k, &view_ranks, 120, 30), "   1       60 %        40 %          9        200 KB");
	has(drawn(&k, &view_ranks, 120, 30), "0–14     2–3");
	has_not(drawn(&k, &view_ranks, 120, 30), "slowed");
	timeline_free(&k.t);
}

/* The pages view says what each rank keeps of the page that is chosen. */
static void a_page_lies_on_all_ranks(void **state)
{
	struct script k;

	(void)state;
	two_ranks(&k);
	k.s.zoomed = true;
	k.s.page = 0;
	has_not(drawn(&k, &view_pages, 160, 30), "rank");
	request(&k, 1, "hello", 20, SKY, 20);
	page(&k, 0, EV_PAGE_alloc, 1, 0, 1, false);
	has(drawn(&k, &view_pages, 160, 30), "rank 0: heads 0–1, rank 1: heads 2–3");
	timeline_free(&k.t);
}

/* In a pipeline the later stage begins later; its lane begins there, too. */
static void a_bubble_is_blank(void **state)
{
	const char *screen, *lane;
	struct script k;

	(void)state;
	script_begin(&k, 8, 30e9);
	tell_rank(&k, 0, 0, 0, 0);
	tell_rank(&k, 1, 1, 0, 0);
	tell_traffic(&k, 16, 0, 0);
	tell_traffic(&k, 16, 1, 5400000); /* as long as the lane of rank 0, but for 500 us */
	tell_step(&k, 16);
	screen = drawn(&k, &view_ranks, 80, 13);
	has(screen, "tensor 1 × pipeline 2");
	has(screen, "step 16, ");
	lane = strstr(screen, "\n  1 ");
	assert_non_null(lane);
	has(screen, "\n  1                     "); /* blank where rank 0 computes */
	screen = drawn(&k, &view_ranks, 80, 24);
	has(screen, "   1  15–29    all");
	timeline_free(&k.t);
}

static void a_clock_of_its_own_is_said(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, 30e9);
	tell_rank(&k, 0, 0, 0, 0);
	tell_rank(&k, 1, 0, 1, 0);
	tell_traffic(&k, 16, 0, 0);
	tell_traffic(&k, 16, 1, EV_NULL_I);
	tell_step(&k, 16);
	has(drawn(&k, &view_ranks, 80, 24), "\n 1? ");
	has_not(drawn(&k, &view_ranks, 80, 24), "0?");
	timeline_free(&k.t);
}

static void many_ranks_scroll(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, 30e9);
	for (int64_t i = 0; i < TL_MOST_RANKS; i++)
		tell_rank(&k, i, i / 8, i % 8, 1);
	for (int64_t i = 0; i < TL_MOST_RANKS; i++)
		tell_traffic(&k, 16, i, i * 1000);
	tell_step(&k, 16);
	has(drawn(&k, &view_ranks, 100, 30), "tensor 8 × pipeline 8");
	has(drawn(&k, &view_ranks, 100, 30), "\n   0 ");
	k.s.cursor[VIEW_RANKS] = 1000;
	has(drawn(&k, &view_ranks, 100, 30), "\n  63 ");
	has_not(drawn(&k, &view_ranks, 100, 30), "\n   0 ");
	timeline_free(&k.t);
}

static void tell_handover(struct script *k, struct ev_handover e)
{
	struct event ev;

	ev_init(&ev, EV_handover);
	ev.u.handover = e;
	tell(k, &ev);
}

static void prompts_of_other_ranks(struct script *k)
{
	script_begin(k, 8, 30e9);
	setting(k, "prefill-ranks", "2");
	has(drawn(k, &view_ranks, 80, 24), "no prompt yet of 64 tokens or more");
	tell_handover(k, (struct ev_handover){ 3, 1, 0, 511, 511, 0, 4000, 11773440, 1000, 3001000,
						 40001000, 802001000, 1, text("") });
	tell_handover(k, (struct ev_handover){ 4, 2, 64, 900, 900, 4, 400000, 20736000, 2000, 2000,
						 90002000, 1500002000, 1, text("") });
	tell_handover(k, (struct ev_handover){ 5, 1, 0, 900, 300, 0, 8000, 6912000, 5000, EV_NULL_I,
						 EV_NULL_I, 900005000, 1, text("called back") });
	tell_handover(k, (struct ev_handover){ 6, 1, 0, 900, 899, 0, 8000, 6912000, 5000, 5001, 5002,
						 6000, 0, text("") });
}

/* Prompts that were computed elsewhere, the newest on top. */
static void prompts_elsewhere_are_listed(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	prompts_of_other_ranks(&k);
	screen = drawn(&k, &view_ranks, 120, 24);
	has(screen, "prompts on ranks of their own · 2");
	has(screen, "      3     1         511   4.00 KB   11.8 MB   3.00 ms     40.0 ms     802 ms\n");
	has(screen, "and 4 cached pages it lacked");
	has(screen, "300 of 900");
	has(screen, "called back");
	has(screen, "other bytes came than were sent");
	assert_true(strstr(screen, "\n      6 ") < strstr(screen, "\n      3 "));
	assert_int_equal(golden(&k, "ranks-prompts-80x24", 80, 24, false) +
						 golden(&k, "ranks-prompts-120x40", 120, 40, false),
		0);
	for (int i = 0; i < 100; i++)
		tell_handover(&k,
			(struct ev_handover){ 7 + i, 1, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX,
				TL_INT_MAX, TL_INT_MAX, 9, TL_INT_MAX, TL_INT_MAX, 8, 1, text("\xe2\x80\xae") });
	assert_int_equal(k.t.n_handovers, TL_HANDOVERS);
	has(drawn(&k, &view_ranks, 120, 24), "\n    106 ");
	for (int w = 1; w < 130; w += 3)
		for (int h = 1; h < 30; h += 2)
			drawn(&k, &view_ranks, w, h);
	timeline_free(&k.t);
}

/* All sizes, with numbers at their bounds; a pen never leaves its rectangle (canvas.h), so that it
 * returns at all is what is asked. */
static void hostile_numbers_are_drawn(void **state)
{
	static uint32_t lane[TL_LANE];
	struct script k;
	struct event ev;

	(void)state;
	memset(lane, 0xff, sizeof lane);
	script_begin(&k, 8, 30e9);
	ev_init(&ev, EV_rank);
	ev.u.rank = (struct ev_rank){ 0, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX,
		TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, text("x\x1b[31my"), text("a\nb"),
		text("\xe2\x80\xae"), TL_INT_MAX };
	tell(&k, &ev);
	tell_rank(&k, 1, 0, 0, 0);
	ev_init(&ev, EV_traffic);
	ev.u.traffic = (struct ev_traffic){ 1, 0, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, TL_INT_MAX,
		TL_INT_MAX, TL_INT_MAX, TL_INT_MAX, -TL_INT_MAX, { lane, sizeof lane } };
	tell(&k, &ev);
	ev.u.traffic.rank = 1;
	ev.u.traffic.start_ns = TL_INT_MAX;
	tell(&k, &ev);
	tell_step(&k, 1);
	for (int w = 1; w < 200; w += 13)
		for (int h = 1; h < 40; h += 3)
			drawn_as(&k, &view_ranks, w, h, w % 2);
	ev.u.traffic.step = 2;
	memset(lane, 0, sizeof lane); /* no time at all */
	ev.u.traffic.start_ns = 0;
	tell(&k, &ev);
	tell_step(&k, 2);
	drawn(&k, &view_ranks, 80, 24);
	timeline_free(&k.t);
}

static void one_rank_says_how_to_have_two(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, 30e9);
	has(drawn(&k, &view_ranks, 80, 24), "--tensor-parallel 2");
	tell_rank(&k, 0, 0, 0, 0);
	has(drawn(&k, &view_ranks, 80, 24), "no step yet");
	timeline_free(&k.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_drawn),
		cmocka_unit_test(numbers_are_those_of_the_events),
		cmocka_unit_test(a_page_lies_on_all_ranks),
		cmocka_unit_test(a_bubble_is_blank),
		cmocka_unit_test(a_clock_of_its_own_is_said),
		cmocka_unit_test(many_ranks_scroll),
		cmocka_unit_test(prompts_elsewhere_are_listed),
		cmocka_unit_test(hostile_numbers_are_drawn),
		cmocka_unit_test(one_rank_says_how_to_have_two),
	};

	return cmocka_run_group_tests_name("view_ranks", tests, NULL, NULL);
}
