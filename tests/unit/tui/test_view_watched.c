/* The views experts, state and memory: events whose numbers are known, against what must stand
 * there, and whole pictures against files. UPDATE_GOLDEN=1 writes those anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { LAYERS = 5, EXPERTS = 64, USED = 4, RANKS = 16, PAST = 64 };

static void send(struct timeline *t, struct event *ev)
{
	ev->seq = t->last_seq + 1;
	ev->t_ns = t->last_t_ns;
	timeline_fold(t, ev);
}

/* Layer 0 is dense. Expert 0 of each other layer is used by every row, the last eight by none. */
static void tell_experts(struct timeline *t)
{
	static uint8_t chosen[LAYERS * EXPERTS];
	static uint16_t load[LAYERS * EXPERTS], load_ema[LAYERS * EXPERTS];
	float bits[LAYERS] = { NAN, 0, 1.5f, 5.98f, 3 };
	struct event ev;

	for (int i = EXPERTS; i < LAYERS * EXPERTS; i++) {
		const int k = i % EXPERTS;

		chosen[i] = (uint8_t)(k < USED ? 100 >> k : 0);
		load[i] = (uint16_t)(k ? k < EXPERTS - 8 ? 65535 * 3 / 55 : 0 : 65535);
		load_ema[i] = (uint16_t)(k < USED ? 65535 : 0);
	}
	ev_init(&ev, EV_experts);
	ev.u.experts = (struct ev_experts){ .step = t->last_step,
		.request = 1,
		.pos = 41,
		.rows = 42,
		.experts = EXPERTS,
		.used = USED,
		.read = 4000000,
		.whole = 64000000,
		.chosen = { chosen, sizeof chosen },
		.load = { load, sizeof load },
		.load_ema = { load_ema, sizeof load_ema },
		.entropy = { bits, sizeof bits } };
	t->session.weight_bytes = 10000000;
	send(t, &ev);
}

/* Layer 2 is attention, layer 4 a convolution alone. */
static void tell_state(struct timeline *t)
{
	static float half[LAYERS][RANKS], norm[LAYERS], history[PAST][2];
	uint32_t heads[LAYERS] = { 24, 24, 0, 24, 0 }, taps[LAYERS] = { 4, 4, 0, 0, 3 };
	struct event ev;

	for (int l = 0; l < LAYERS; l++) {
		norm[l] = heads[l] || taps[l] ? (float)(10 * (l + 1)) : NAN;
		for (int i = 0; i < RANKS; i++)
			half[l][i] = heads[l] ? ldexpf(0.5f, i) : NAN;
	}
	half[3][RANKS - 1] = INFINITY;
	for (int i = 0; i < PAST; i++) {
		history[i][0] = (float)(20 + i);
		history[i][1] = (float)(1 << i % 8);
	}
	ev_init(&ev, EV_state);
	ev.u.state = (struct ev_state){ .step = t->last_step,
		.request = 1,
		.pos = 41,
		.heads = { heads, sizeof heads },
		.taps = { taps, sizeof taps },
		.half_life = { half, sizeof half },
		.norm = { norm, sizeof norm },
		.history = { history, sizeof history } };
	send(t, &ev);
}

/* A hybrid: of the session's pages half keep keys and values, a window and states the others. */
static void tell_memory(struct timeline *t)
{
	const int64_t pages = t->n_pages / 4, kind[] = { EV_MEMORY_KIND_paged, EV_MEMORY_KIND_window,
		EV_MEMORY_KIND_recurrent };

	for (int g = 0; g < 3; g++) {
		struct event ev;

		ev_init(&ev, EV_memory);
		ev.u.memory = (struct ev_memory){ .memory = g,
			.kind = kind[g],
			.layers = 10,
			.window = g == 1 ? 32 : EV_NULL_I,
			.pages = g ? pages : 2 * pages,
			.page_size = 16,
			.page_bytes = 16 * 1000 * (g + 1),
			.latent = g == 0 };
		send(t, &ev);
	}
	t->session.dim = 1000;
	t->session.n_layers = 30;
	t->session.ctx = 8192;
	for (int32_t i = 0; i < t->n_requests; i++) {
		t->request[i].state = i ? TL_FINISHED : TL_RUNNING;
		t->request[i].computed = 64;
	}
	for (int i = 0; i < 4; i++) /* 64 positions; two pages of the window; one state */
		t->page[i].refs = 1;
	t->page[2 * pages].refs = t->page[2 * pages + 1].refs = t->page[3 * pages].refs = 1;
	t->page[4].cached = true;
}

static struct timeline told(void)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	tell_experts(&t);
	tell_state(&t);
	tell_memory(&t);
	return t;
}

static char *drawn(const struct view *v, const struct timeline *t, int w, int h)
{
	struct view_state s = fresh;

	s.request = 1;
	return text_of(v, t, &s, w, h, false);
}

static void shows(const struct view *v, const struct timeline *t, const char *const words[])
{
	char *text = drawn(v, t, 80, 24);

	for (; *words; words++)
		if (!strstr(text, *words))
			fail_msg("\"%s\" is not in\n%s", *words, text);
	free(text);
}

static void what_is_known(void **state)
{
	struct timeline t = told();

	(void)state;
	shows(&view_experts, &t,
		(const char *const[]){ "request a, position 41", "4.00 MB of 64.0 MB", "the rest 10.0 MB",
			"as large reads 70.0 MB: 7.0 \xc3\x97 as much", "4 of 64", "42 rows",
			"0  dense: no experts", "5.98", "16.0 \xc3\x97", "       8", NULL });
	shows(&view_state, &t,
		(const char *const[]){
			"0.5      128    16384", "all", "2  no state", "4  the last 3 positions", "83", NULL });
	shows(&view_memory, &t,
		(const char *const[]){ "latents", "1.00 KB    8.19 MB    64.0 KB", "window of 32",
			"2.00 KB    64.0 KB    64.0 KB    64.0 KB", "states", "48.0 KB    48.0 KB",
			"30 layers \xc3\x97 width 1000", "3.00 KB for 120 KB: 1/40",
			"176 KB for 7.68 MB: 1/43.6", "16.0 KB more in the prefix cache", NULL });
	timeline_free(&t);
}

/* A dense model with attention alone; then one that has both and was not watched. */
static void what_is_not_there(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	(void)state;
	t.n_products = 1;
	t.product[0].stage = EV_STAGE_gate_up;
	t.n_memory = 1;
	t.memory[0].kind = EV_MEMORY_KIND_paged;
	shows(
		&view_experts, &t, (const char *const[]){ "no experts: the feed-forward is dense", NULL });
	shows(&view_state, &t, (const char *const[]){ "no state: every layer reads keys", NULL });
	t.product[0].stage = EV_STAGE_route;
	t.memory[0].kind = EV_MEMORY_KIND_recurrent;
	shows(&view_experts, &t, (const char *const[]){ "/watch-layers on", NULL });
	shows(&view_state, &t, (const char *const[]){ "/watch-layers on", NULL });
	t.n_memory = 0;
	shows(&view_memory, &t, (const char *const[]){ "nothing to show", NULL });
	timeline_free(&t);
}

static void pictures(void **state)
{
	const struct view *const shown[] = { &view_experts, &view_state, &view_memory };
	const int size[][2] = { { 80, 24 }, { 120, 40 }, { 200, 50 } };
	struct timeline t = told();
	int differ = 0;
	char name[64];

	(void)state;
	for (int i = 0; i < 9; i++) {
		const int *at = size[i % 3];

		snprintf(name, sizeof name, "%s-%dx%d", shown[i / 3]->id, at[0], at[1]);
		differ += golden_differs(name, drawn(shown[i / 3], &t, at[0], at[1]));
	}
	timeline_free(&t);
	assert_int_equal(differ, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_known),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(pictures),
	};

	return cmocka_run_group_tests_name("view_watched", tests, NULL, NULL);
}
