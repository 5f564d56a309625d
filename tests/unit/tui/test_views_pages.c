/* The view "KV pages": its map and the stories of pages, of sessions written by hand. */
#include <math.h>

#include "tests/support/view_script.h"

/* a has pages 0, 1, 2; b reads 0 and has 3; page 4 is only cached, page 5 was evicted. */
static void pages_script(struct script *k, int pages)
{
	script_begin(k, pages, NAN);
	request(k, 1, "first", 40, SKY, 48);
	for (int i = 0; i < 3; i++)
		page(k, i, EV_PAGE_alloc, 1, i, 1, false);
	page(k, 0, EV_PAGE_cache, 1, 0, 1, true);
	request(k, 2, "second", 20, SEA, 32);
	page(k, 0, EV_PAGE_share, 2, 0, 2, true);
	page(k, 3, EV_PAGE_alloc, 2, 1, 1, false);
	for (int i = 4; i < 6; i++) {
		page(k, i, EV_PAGE_alloc, 1, i - 1, 1, false);
		page(k, i, EV_PAGE_cache, 1, i - 1, 1, true);
	}
	page(k, 5, EV_PAGE_release, 1, 4, 0, true);
	page(k, 4, EV_PAGE_release, 1, 3, 0, true);
	page(k, 5, EV_PAGE_evict, EV_NULL_I, -1, 0, false);
	page(k, 5, EV_PAGE_free, EV_NULL_I, -1, 0, false);
	batch(k, 1, 1, EV_WORK_prefill, 0, 48);
	step(k, 1, 1000, 48, 0);
}

static void pages_show_who_what_and_how_many(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	assert_string_equal(drawn(&k, &view_pages, 44, 3),
		"KV pages ───── 4 of 14 · 1 shared · 1 cached\n"
		"a²a a b a ◆ · · · · · · · ·\n\n");
	timeline_free(&k.t);
}

static void pages_in_ascii_are_letters_and_digits(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	has(drawn_as(&k, &view_pages, 44, 3, true), "\na2a a b a % . . . .");
	timeline_free(&k.t);
}

static void pages_that_do_not_fit_are_counted(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 300);
	/* free pages beside those in use keep their place, so that the map does not move */
	has(drawn(&k, &view_pages, 40, 3), "\na²a a b a ◆ · · ·");
	has(drawn(&k, &view_pages, 40, 3), "· · ·  +265 free");
	k.s.page = 15; /* the cursor is kept in sight */
	has(drawn(&k, &view_pages, 40, 3), "\na²a a b a ◆ · · ·");
	k.s.page = 299;
	has(drawn(&k, &view_pages, 40, 3), "· · ·\n                       +5 more, 275 free");
	timeline_free(&k.t);
}

/* Where the rows are there, block tables stand below the map without a zoom. */
static void tables_where_there_is_room(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 300);
	has(drawn(&k, &view_pages, 60, 16), "b 2 pages, 0 tokens         0   3\n"
										"a 3 pages, 48 tokens        0   1   2\n");
	has_not(drawn(&k, &view_pages, 60, 8), "block tables");
	timeline_free(&k.t);
}

static void tables_say_what_they_leave_out(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 300, NAN);
	for (int id = 1; id < 9; id++) {
		request(&k, id, "words", 40, SKY, 16);
		for (int i = 0; i < 30; i++)
			page(&k, 30 * id + i, EV_PAGE_alloc, id, i, 1, false);
	}
	has(drawn(&k, &view_pages, 60, 40), "block tables: pages in the order of the text · +1 more");
	has(drawn(&k, &view_pages, 60, 40), "  60  61  62  63  64 +25 more\n");
	timeline_free(&k.t);
}

static void pages_that_are_held_are_shown_first(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	script_begin(&k, 500, NAN);
	/* all over the pool, and by more requests than there are letters */
	for (int i = 1; i <= 60; i++) {
		request(&k, i, "", 3, SKY, 4);
		page(&k, 8 * i, EV_PAGE_alloc, i, 0, 1, false);
	}
	screen = drawn(&k, &view_pages, 40, 7); /* three columns each: 13 in a row */
	has(screen, "a  b  c");
	has(screen, "aa ab ac");
	has(screen, "bh");
	has(screen, "+440 free");
	screen = drawn(&k, &view_pages, 40, 4);
	has(screen, " more, 440 free");
	for (int i = 1; i <= 60; i++) /* all but three are only cached */
		if (i % 20) {
			page(&k, 8 * i, EV_PAGE_cache, i, 0, 1, true);
			page(&k, 8 * i, EV_PAGE_release, i, 0, 0, true);
		}
	screen = drawn(&k, &view_pages, 40, 4);
	has(screen, "\nt  an bh ");
	has(screen, "+57 cached, 440 free");
	timeline_free(&k.t);
}

static void pages_keys_move_the_cursor(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 30);
	drawn(&k, &view_pages, 20, 8); /* 10 a row */
	assert_true(view_pages.key(KEY_RIGHT_, &k.t, &k.s));
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_RIGHT_, &k.t, &k.s);
	assert_int_equal(k.s.page, 1);
	view_pages.key(KEY_DOWN_, &k.t, &k.s);
	assert_int_equal(k.s.page, 11);
	view_pages.key(KEY_LEFT_, &k.t, &k.s);
	assert_int_equal(k.s.page, 10);
	view_pages.key(KEY_UP_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_UP_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_END_, &k.t, &k.s);
	assert_int_equal(k.s.page, 29);
	view_pages.key(KEY_HOME_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	assert_true(view_pages.key(KEY_ESC, &k.t, &k.s));
	assert_int_equal(k.s.page, -1);
	assert_false(view_pages.key(KEY_ESC, &k.t, &k.s));
	assert_false(view_pages.key('x', &k.t, &k.s));
	timeline_free(&k.t);
}

static void pages_show_their_history(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	pages_script(&k, 30);
	k.s.page = 0;
	k.s.zoomed = true;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "page 0 · tokens 0-15 · read by b a · cached");
	has(screen, "a takes it for its block 0");
	has(screen, "a filled it: kept by the prefix cache");
	has(screen, "b reads it: same beginning, 2 readers");
	has(screen, "system\\n be be");
	has(screen, "fragmentation 64.0 KB · reserved 5.00 MB");
	k.s.page = 5;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "page 5 · free");
	k.s.page = -1;
	has(drawn(&k, &view_pages, 110, 24),
		"internal fragmentation (unused room in last pages) 64.0 KB · contiguous reservation (256 "
		"tokens each) 5.00 MB");
	k.s.page = 5;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "◆ evicted, unused for 7 steps");
	timeline_free(&k.t);
}

static void pages_show_the_page_of_the_chosen_token(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 30);
	k.s.request = 2;
	token(&k, 1, 2, 32, BLUE, EV_SOURCE_plain);
	page(&k, 9, EV_PAGE_alloc, 2, 2, 1, false);
	has_not(drawn(&k, &view_pages, 60, 8), "page 9");
	k.s.token = 0;
	has(drawn(&k, &view_pages, 60, 8), "page 9 · tokens 32-47 · read by b");
	timeline_free(&k.t);
}

static void an_old_eviction_flashes_no_more(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	has(drawn(&k, &view_pages, 44, 3), "a ◆ ·");
	for (int i = 2; i < 12; i++) {
		batch(&k, i, 1, EV_WORK_decode, 46 + i, 1);
		step(&k, i, 1000, 0, 1);
	}
	has_not(drawn(&k, &view_pages, 44, 3), "◆");
	timeline_free(&k.t);
}

static void group(
	struct script *k, int number, enum ev_code_memory_kind kind, int64_t window, int pages)
{
	struct event ev;

	ev_init(&ev, EV_memory);
	ev.u.memory = (struct ev_memory){ .memory = number,
		.kind = kind,
		.layers = 3,
		.window = window,
		.pages = pages,
		.page_size = 16,
		.page_bytes = 1024 };
	tell(k, &ev);
}

static void page_of(struct script *k, int number, int page, int64_t id, int block)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page = (struct ev_page){ .page = page,
		.action = EV_PAGE_alloc,
		.request = id,
		.block = block,
		.refs = 1,
		.other = EV_NULL_I,
		.memory = number };
	tell(k, &ev);
}

static void groups_have_a_map_each(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 12, NAN);
	group(&k, 0, EV_MEMORY_KIND_window, 64, 4);
	group(&k, 1, EV_MEMORY_KIND_paged, EV_NULL_I, 6);
	group(&k, 2, EV_MEMORY_KIND_recurrent, EV_NULL_I, 2);
	request(&k, 1, "first", 40, SKY, 48);
	page_of(&k, 0, 1, 1, 0);
	page_of(&k, 1, 4, 1, 0);
	page_of(&k, 1, 5, 1, 1);
	page_of(&k, 2, 11, 1, 0);
	step(&k, 1, 1000, 48, 0);
	has(drawn(&k, &view_pages, 60, 12),
		"paged: 3 layers, 2 of 6 pages, 1.02 KB each\na a · · · ·\n");
	has(drawn(&k, &view_pages, 60, 12),
		"window of 64: 3 layers, 1 of 4 pages, 1.02 KB each\n· a · ·\n");
	has(drawn(&k, &view_pages, 60, 12), "recurrent: 3 layers, 1 of 2 states, 1.02 KB each\n· a\n");
	has(drawn(&k, &view_pages, 60, 12), "4 of 12 in 3 groups ");
	assert_int_equal(k.t.request[0].n_pages, 2); /* the block table is that of the paged group */
	assert_int_equal(k.t.request[0].pages[1], 5);
	timeline_free(&k.t);
}

static void a_recurrent_model_has_states(void **state)
{
	struct script k;
	struct event ev;

	(void)state;
	script_begin(&k, 4, NAN);
	group(&k, 0, EV_MEMORY_KIND_recurrent, EV_NULL_I, 4);
	request(&k, 1, "first", 40, SKY, 48);
	page_of(&k, 0, 1, 1, 0);
	ev_init(&ev, EV_step);
	ev.u.step = (struct ev_step){ .step = 1, .ns = 1000, .running = 1 };
	tell(&k, &ev);
	has_not(drawn(&k, &view_pages, 60, 14), "fragmentation"); /* a state has no unused room */
	assert_string_equal(drawn(&k, &view_pages, 60, 4),
		"states ───────────── 1 of 4 · 0 shared · one every 16 tokens\n"
		"recurrent: 3 layers, 1 of 4 states, 1.02 KB each\n"
		"· a · ·\n\n");
	/* goes on from a snapshot: no page of an earlier block */
	request(&k, 2, "second", 40, SKY, 48);
	page_of(&k, 0, 2, 2, 1);
	page_of(&k, 0, 3, 2, 2);
	has(drawn(&k, &view_pages, 60, 4), "· a b b\n");
	k.s.zoomed = true;
	has(drawn(&k, &view_pages, 60, 14), "b 2 pages, 0 tokens       2 3\n");
	timeline_free(&k.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_show_who_what_and_how_many),
		cmocka_unit_test(pages_in_ascii_are_letters_and_digits),
		cmocka_unit_test(pages_that_do_not_fit_are_counted),
		cmocka_unit_test(tables_where_there_is_room),
		cmocka_unit_test(tables_say_what_they_leave_out),
		cmocka_unit_test(pages_that_are_held_are_shown_first),
		cmocka_unit_test(pages_keys_move_the_cursor),
		cmocka_unit_test(pages_show_their_history),
		cmocka_unit_test(pages_show_the_page_of_the_chosen_token),
		cmocka_unit_test(an_old_eviction_flashes_no_more),
		cmocka_unit_test(groups_have_a_map_each),
		cmocka_unit_test(a_recurrent_model_has_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
