/* The search view: a beam, samples and a tree of sentences, told by hand, and what is said of each:
 * who runs, who was given up, which one won and why, what sharing saves. */
#include <math.h>

#include "tests/support/random_event.h"
#include "tests/support/view_check.h"
#include "tests/support/view_script.h"
#include "tui/views/search_tree.h"
#include "tui/views/view_util.h"
#include "tests/support/timeline_dump.h"

enum { PROMPT = 5, ABSENT = -1 };

static struct script k;

static void begins_judged(const char *method, const char *judge)
{
	struct event ev;

	script_begin(&k, 8, 1e9);
	ev_init(&ev, EV_search);
	ev.u.search.step = 1;
	ev.u.search.search = 1;
	ev.u.search.action = EV_SEARCH_begin;
	ev.u.search.tokens = PROMPT;
	ev.u.search.method = text(method);
	if (judge)
		ev.u.search.judge = text(judge);
	tell(&k, &ev);
}

static void begins(const char *method)
{
	begins_judged(method, NULL);
}

/* A branch's request with the prompt and these words behind it. */
static void branch(int64_t id, const char *own)
{
	unsigned char ids[4 * 64] = { 0 };
	int n = PROMPT;
	struct event ev;

	for (; *own; own++, n++)
		ids[4 * n] = (unsigned char)*own;
	ev_init(&ev, EV_request);
	ev.u.request.request = id;
	ev.u.request.kind = EV_REQUEST_KIND_search;
	ev.u.request.text = text("Which colour?");
	ev.u.request.prompt = (struct ev_span){ ids, (size_t)(4 * n) };
	tell(&k, &ev);
}

static void says(int64_t id, int64_t at_step, int pos, int word, double p)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.step = at_step;
	ev.u.token.request = id;
	ev.u.token.pos = PROMPT + pos;
	ev.u.token.id = word;
	ev.u.token.p = p;
	ev.u.token.source = EV_SOURCE_chosen;
	tell(&k, &ev);
}

static void node(enum ev_code_search_action action, int64_t at_step, int64_t id, int number,
	int parent, int tokens, int visits, double logp, double score)
{
	struct event ev;

	ev_init(&ev, EV_search);
	ev.u.search = (struct ev_search){ .step = at_step,
		.search = 1,
		.action = action,
		.request = id,
		.node = number,
		.parent = parent < 0 ? EV_NULL_I : parent,
		.tokens = tokens,
		.visits = visits < 0 ? EV_NULL_I : visits,
		.logp = logp,
		.score = score };
	tell(&k, &ev);
}

static void ends(int64_t id, enum ev_code_finish reason)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = id;
	ev.u.finish.reason = reason;
	tell(&k, &ev);
}

static void shares(int64_t at_step, int members, int pages, int unshared)
{
	struct event ev;

	ev_init(&ev, EV_sharing);
	ev.u.sharing = (struct ev_sharing){
		.step = at_step, .search = 1, .members = members, .pages = pages, .unshared = unshared
	};
	tell(&k, &ev);
}

static void won(int64_t at_step, int64_t id, int tokens, double logp, double score)
{
	node(EV_SEARCH_won, at_step, id, 0, -1, tokens, -1, logp, score);
}

static void shows(const char *expected, bool yes)
{
	for (int w = 80; w <= 200; w += 40)
		assert_shows(&view_search, &k.t, &k.s, w, 24, expected, yes);
}

/* Two beams: "sky blue" and, forked from it, "sky red is ?"; "sky" alone went on, and was given
 * up. */
static void two_beams(void)
{
	begins("beam:2,0.5");
	branch(1, "");
	node(EV_SEARCH_node, 1, 1, 0, -1, 0, -1, 0, NAN);
	says(1, 2, 0, SKY, 0.5);
	branch(2, "\5");
	says(2, 3, 1, RED, 0.25);
	node(EV_SEARCH_node, 3, 2, 1, 0, 2, -1, log(0.5) + log(0.25), NAN);
	says(1, 3, 1, BLUE, 0.5);
	shares(3, 2, 3, 4);
	says(2, 4, 2, IS, 0.9);
	node(EV_SEARCH_drop, 4, 1, 0, -1, 2, -1, log(0.25), NAN);
	ends(1, EV_FINISH_dropped);
}

static void a_beam_runs(void **state)
{
	const struct tl_search *s;

	(void)state;
	two_beams();
	s = timeline_search(&k.t, 0);
	assert_int_equal(s->n_members, 1);
	assert_int_equal(search_sort(s), SEARCH_OF_BEAMS);
	assert_true(search_alpha(s) == 0.5);
	assert_int_equal(search_leader(s)->node, 1);
	assert_float_equal(search_score(s, search_leader(s)), log(0.5 * 0.25 * 0.9) / sqrt(3), 1e-9);
	shows("1 run", true);
	shows("1 pruned", true);
	shows("b red is", true);
	shows("sky blue", true);
	shows("Which colour?", true);
	shows("pages 3 of 4", true);
	shows("saved 25 %", true);
	shows("-1.261", true); /* log(0.1125) / sqrt(3) */
	shows("log-probability -2.18 / 3 tokens ^ 0.5", true);
	shows("sky red is", true); /* the whole of it, below */
	/* other views follow the branch that runs */
	assert_int_equal(view_computing(&k.t, &k.s)->id, 2);
	timeline_free(&k.t);
}

/* It is worth the best answer that came of it, and its tokens are that answer's; it runs
 * nevertheless. */
static void a_beam_that_answered_runs_on(void **state)
{
	(void)state;
	two_beams();
	assert_shows(&view_search, &k.t, &k.s, 120, 30, "answered, runs on", false);
	node(EV_SEARCH_answer, 5, 2, 1, -1, 4, -1, -2.4, -1.2);
	says(2, 5, 3, SEA, 0.9);
	says(2, 6, 4, SEA, 0.9);
	shows("1 run", true);
	assert_shows(&view_search, &k.t, &k.s, 120, 30, "answered, runs on", true);
	timeline_free(&k.t);
}

static void a_beam_wins(void **state)
{
	const struct tl_search *s;

	(void)state;
	two_beams();
	node(EV_SEARCH_answer, 5, 2, 1, -1, 4, -1, -2.4, -1.2);
	node(EV_SEARCH_drop, 5, 2, 1, -1, 3, -1, -2.2, NAN);
	ends(2, EV_FINISH_dropped);
	won(5, 2, 4, -2.4, -1.2);
	s = timeline_search(&k.t, 0);
	assert_true(s->over && s->winner == 2 && !s->n_members);
	assert_ptr_equal(view_computing(&k.t, &k.s), view_request(&k.t, &k.s));
	shows("1 answer", true);
	shows("won: log-probability -2.40 / 4 tokens ^ 0.5 = -1.200, length-normalised", true);
	assert_shows(&view_search, &k.t, &k.s, 120, 30, "pruned, step 4", true);
	assert_shows(&view_search, &k.t, &k.s, 120, 30, "won", true);
	shows("▶", false);
	timeline_free(&k.t);
}

static void samples_have_means(void **state)
{
	(void)state;
	begins("best:2");
	for (int64_t id = 1; id <= 2; id++) {
		branch(id, "");
		node(EV_SEARCH_node, 1, id, (int)id - 1, -1, 0, -1, 0, NAN);
	}
	shows("it has no token yet", true);
	says(1, 2, 0, BLUE, 0.5);
	says(2, 2, 0, RED, 0.25);
	node(EV_SEARCH_answer, 2, 1, 0, -1, 1, -1, log(0.5), log(0.5));
	ends(1, EV_FINISH_end);
	shows("1 run", true);
	shows("6–10 %", false); /* nothing was counted yet */
	shows("on average a token had p 0.500", true);
	node(EV_SEARCH_stopped, 3, ABSENT, 0, -1, 0, -1, NAN, NAN);
	shows("stopped", true);
	timeline_free(&k.t);
}

/* Two samples and a command that takes its time: what it said is told as its word, and nothing is
 * said before. */
static void a_command_judges(void **state)
{
	(void)state;
	begins_judged("best:2", "wc -c");
	for (int64_t id = 1; id <= 2; id++) {
		branch(id, "");
		node(EV_SEARCH_node, 1, id, (int)id - 1, -1, 0, -1, 0, NAN);
	}
	says(1, 2, 0, BLUE, 0.5);
	says(2, 2, 0, RED, 0.25);
	shows("scored by wc -c", true);
	shows("log-probability -0.69 over 1 tokens by now; 'wc -c' scores it when it has ended", true);
	shows("nan", false);
	ends(1, EV_FINISH_end);
	shows("1 run", true);
	shows("1 wait for it", true);
	shows("it has ended: 'wc -c' scores one answer after the other", true);
	assert_shows(&view_search, &k.t, &k.s, 120, 30, "waits for a score", true);
	assert_shows(&view_chat, &k.t, &k.s, 100, 20,
		"best:2: 1 run, 1 wait for a score, 0 answers by now", true);
	node(EV_SEARCH_answer, 3, 1, 0, -1, 1, -1, log(0.5), 4);
	shows("wait for it", false);
	shows("'wc -c' gave it 4; log-probability -0.69 over 1 tokens", true);
	ends(2, EV_FINISH_end);
	node(EV_SEARCH_stopped, 3, ABSENT, 0, -1, 0, -1, NAN, NAN);
	shows("wait", false);
	won(3, 1, 1, log(0.5), 4);
	shows("won: 'wc -c' gave it 4", true);
	timeline_free(&k.t);
}

/* Who has no score stands below who has one, and of equals the winner is the first. */
static void scores_are_in_order(void **state)
{
	static const double scores[] = { NAN, 3, NAN, 7, 5, 7, NAN };
	static const int64_t order[] = { 6, 4, 5, 2, 1, 3, 7 };
	struct search_rows g;

	(void)state;
	begins_judged("best:7", "wc -c");
	for (int64_t id = 1; id <= 7; id++) {
		branch(id, "");
		node(EV_SEARCH_node, 1, id, (int)id - 1, -1, 0, -1, 0, NAN);
		says(id, 2, 0, BLUE, 0.5);
		if (!isnan(scores[id - 1]))
			node(EV_SEARCH_answer, 2, id, (int)id - 1, -1, 1, -1, log(0.5), scores[id - 1]);
		ends(id, EV_FINISH_end);
	}
	node(EV_SEARCH_stopped, 3, ABSENT, 0, -1, 0, -1, NAN, NAN);
	won(3, 6, 1, log(0.5), 7);
	assert_true(search_rows_make(&g, timeline_search(&k.t, 0), true));
	assert_int_equal(g.n, 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(g.row[i].k->request, order[i]);
	search_rows_free(&g);
	timeline_free(&k.t);
}

/* Four simulations: two through "sky", one through "sea", one still runs below "sky". */
static void a_tree_has_uct(void **state)
{
	struct search_uct u;
	const struct tl_search *s;

	(void)state;
	begins("mcts:4");
	for (int64_t id = 1; id <= 3; id++) {
		double value = id == 1   ? 0.2
					   : id == 2 ? 0.6
								 : 0.4,
			   sum = id == 1   ? 0.2
					 : id == 2 ? 0.8
							   : 1.2;
		int parent = id == 3 ? 1 : 0;

		branch(id, id == 3 ? "\5" : "");
		node(EV_SEARCH_visit, id, id, parent, parent ? 0 : -1, parent,
			(int)id - 1 - (parent ? 1 : 0), 0, NAN);
		says(id, id, parent, id == 1 ? SKY : id == 2 ? SEA : BLUE, 0.5);
		node(EV_SEARCH_answer, id, id, parent, -1, 1, -1, log(value), log(value));
		node(EV_SEARCH_node, id, id, (int)id, parent, parent + 1, 1, log(value), value);
		if (parent)
			node(EV_SEARCH_visit, id, id, 1, 0, 1, 2, log(value), 0.3);
		node(EV_SEARCH_visit, id, id, 0, -1, 0, (int)id, 0, sum / (double)id);
		ends(id, EV_FINISH_end);
	}
	branch(4, "\5");
	node(EV_SEARCH_visit, 4, 4, 1, 0, 1, 2, 0, 0.3);
	says(4, 4, 1, DEEP, 0.5);
	s = timeline_search(&k.t, 0);
	assert_int_equal(s->n_nodes, 4);
	assert_float_equal(s->least, 0.2, 1e-12);
	assert_float_equal(s->most, 0.6, 1e-12);
	assert_true(search_uct(s, timeline_search_node(s, 1), &u));
	assert_int_equal(u.tries, 3); /* two visits, and one under way */
	assert_int_equal(u.above, 4);
	assert_float_equal(u.mean, (0.3 - 0.2) / 0.4 * 2 / 3, 1e-9);
	assert_float_equal(u.bonus, 0.7 * sqrt(log(5.0) / 3), 1e-6);
	assert_false(search_uct(s, timeline_search_node(s, 0), &u));
	shows("visits", true);
	shows("(any answer)", true);
	shows("deep", true); /* what the simulation says by now */
	shows("3 answers", true);
	for (int w = 56; w < 130; w++) /* what is not shown is said beside the heads */
		assert_shows(&view_search, &k.t, &k.s, w, 7, "visits    value", true);
	won(5, 2, 1, log(0.6), log(0.6));
	shows("the best answer, 0.600 = exp(score -0.511), begins so", true);
	timeline_free(&k.t);
}

/* The root was gone on from by the first simulation, too: what that brought is what won. It may be
 * but an end. */
static void the_first_simulation_may_win(void **state)
{
	(void)state;
	begins("mcts:1");
	branch(1, "");
	node(EV_SEARCH_visit, 1, 1, 0, -1, 0, 0, 0, NAN);
	shows("no simulation has ended yet", true);
	says(1, 1, 0, SYS, 0.5);
	node(EV_SEARCH_answer, 1, 1, 0, -1, 1, -1, log(0.5), log(0.5));
	node(EV_SEARCH_node, 1, 1, 1, 0, 1, 1, log(0.5), 0.5);
	node(EV_SEARCH_visit, 1, 1, 0, -1, 0, 1, 0, 0.5);
	ends(1, EV_FINISH_end);
	won(1, 1, 1, log(0.5), log(0.5));
	assert_int_equal(search_leader(timeline_search(&k.t, 0))->node, 1);
	shows("(ends)", true);
	timeline_free(&k.t);
}

/* What is said of the token of an answer stands above its numbers, however many lines it takes. */
static void a_taken_token_says_why_it_has_no_race(void **state)
{
	struct event ev;

	(void)state;
	begins("best:1");
	request(&k, 9, "Which colour?", 0, SKY, PROMPT);
	ev_init(&ev, EV_token);
	ev.u.token = (struct ev_token){ .step = 2,
		.request = 9,
		.pos = PROMPT,
		.id = BLUE,
		.p = 0.5,
		.entropy = 1,
		.source = EV_SOURCE_taken };
	tell(&k, &ev);
	assert_shows(&view_next, &k.t, &k.s, 59, 20, "\nthe recording\n", true);
	assert_shows(&view_next, &k.t, &k.s, 59, 20, "\nwhere   ", true);
	assert_shows(&view_next, &k.t, &k.s, 59, 20, "taken from a search", true);
	timeline_free(&k.t);
}

static void keys_walk(void **state)
{
	(void)state;
	two_beams();
	k.s.focused = true;
	free(text_of(&view_search, &k.t, &k.s, 80, 24, false));
	assert_true(view_search.key(KEY_UP_, &k.t, &k.s));
	shows("pruned in step 4 at log-probability -1.39", true);
	assert_true(view_search.key(KEY_DOWN_, &k.t, &k.s));
	shows("pruned in step 4 at log-probability -1.39", false);
	assert_true(view_search.key('a', &k.t, &k.s));
	assert_true(view_search.key('[', &k.t, &k.s)); /* there is no older one */
	shows("b red is", true);
	assert_false(view_search.key('x', &k.t, &k.s));
	timeline_free(&k.t);
	script_begin(&k, 8, 1e9);
	assert_false(view_search.key(KEY_UP_, &k.t, &k.s));
	assert_shows(&view_search, &k.t, &k.s, 80, 24, "/search beam 4", true);
	timeline_free(&k.t);
}

/* What hangs below a branch that was given up counts, too. */
static void all_that_is_hidden_is_counted(void **state)
{
	(void)state;
	begins("beam:2,0.5");
	for (int64_t id = 1; id <= 3; id++) {
		branch(id, "");
		node(EV_SEARCH_node, id, id, (int)id - 1, id == 2 ? 0 : -1, 1, -1, -1, NAN);
		if (id < 3)
			node(EV_SEARCH_drop, id, id, (int)id - 1, id == 2 ? 0 : -1, 1, -1, -1, NAN);
	}
	assert_shows(&view_search, &k.t, &k.s, 120, 6, "a shows 2 more that were pruned", true);
	assert_true(view_search.key('a', &k.t, &k.s));
	assert_shows(&view_search, &k.t, &k.s, 120, 6, "a shows", false);
	timeline_free(&k.t);
}

/* A search with more branches given up than are kept lets go of the oldest of them alone. */
static void memory_is_bounded(void **state)
{
	const struct tl_search *s;

	(void)state;
	begins("beam:1");
	branch(1, "");
	node(EV_SEARCH_node, 1, 1, 0, -1, 0, -1, 0, NAN);
	for (int i = 1; i < TL_NODES + 100; i++) {
		branch(i + 1, "\5");
		node(EV_SEARCH_node, i, i + 1, i, 0, 1, -1, -1, NAN);
		node(EV_SEARCH_drop, i, i + 1, i, -1, 1, -1, -1, NAN);
		ends(i + 1, EV_FINISH_dropped);
	}
	s = timeline_search(&k.t, 0);
	assert_true(s->n_nodes <= TL_NODES && s->n_nodes > TL_NODES / 2);
	assert_non_null(timeline_search_node(s, 0));
	assert_null(timeline_search_node(s, 1));
	assert_non_null(timeline_search_node(s, TL_NODES + 99));
	assert_int_equal(s->n_dropped, TL_NODES + 99);
	shows("pruned", true);
	timeline_free(&k.t);
}

/* Whatever a file says of searches: numbers in and out of range, parents that are no parents, ends
 * without beginnings. */
static void any_stream_is_drawn(void **state)
{
	static const enum ev_kind kinds[] = { EV_search, EV_search, EV_search, EV_sharing, EV_request,
		EV_token, EV_finish };
	static const char *const methods[] = { "beam:3,0.5", "mcts:9", "best:4", "", "beam:,,", "x" };
	static const int keys[] = { KEY_UP_, KEY_DOWN_, KEY_PAGE_DOWN, KEY_PAGE_UP, KEY_END_, 'a', '[',
		']' };
	static const double reals[] = { -1.5, 0, 0.25, 1, -INFINITY, NAN, 1e300 };
	unsigned char ids[4 * 12];
	uint64_t random = 7;
	struct event ev;

	(void)state;
	begins("beam:2");
	k.s.focused = true;
	for (int i = 0; i < 30000; i++) {
		uint64_t r = random_u64(&random), q = random_u64(&random);
		enum ev_kind kind = kinds[r % 7];
		int64_t *v = (int64_t *)(void *)&ev.u;

		ev_init(&ev, kind);
		for (int f = 0; f < ev_info[kind].n_fields && ev_info[kind].fields[f].type == EV_TYPE_I;
			 f++)
			if ((q >> f & 7) != 0)
				v[f] = (int64_t)(random_u64(&random) % 9) - (f > 3);
		if (kind == EV_search) {
			ev.u.search.search = 1 + (int64_t)(i / 3000) + (int64_t)(r >> 8 & 1);
			ev.u.search.logp = reals[r >> 10 & 7 ? (r >> 10 & 7) - 1 : 0];
			ev.u.search.score = reals[r >> 13 & 7 ? (r >> 13 & 7) - 1 : 0];
			ev.u.search.method = text(methods[(r >> 20) % 6]);
			if (r >> 24 & 1)
				ev.u.search.judge = text(methods[(r >> 25) % 6]);
		} else if (kind == EV_request) {
			for (size_t b = 0; b < sizeof ids; b++)
				ids[b] = b % 4 ? 0 : (unsigned char)(q >> b % 32) % N_WORDS;
			ev.u.request.request = i + 1;
			ev.u.request.kind = q & 3 ? EV_REQUEST_KIND_search : EV_REQUEST_KIND_chat;
			ev.u.request.prompt = (struct ev_span){ ids, 4 * (r >> 30 & 7) };
		}
		if (kind != EV_request && kind != EV_sharing && (q & 3))
			*(kind == EV_search    ? &ev.u.search.request
				: kind == EV_token ? &ev.u.token.request
								   : &ev.u.finish.request) = i - (int64_t)(q >> 40 & 3);
		ev.seq = ++k.seq;
		ev.t_ns = k.seq * 1000;
		timeline_fold(&k.t, &ev);
		if (i % 16 == 0)
			view_search.key(keys[q >> 50 & 7], &k.t, &k.s);
		if (i % 64 == 0) {
			free(text_of(&view_search, &k.t, &k.s, 56 + (int)(q % 150), 6 + (int)(r % 50), r & 1));
			free(text_of(&view_chat, &k.t, &k.s, 60, 20, false));
			free(timeline_dump(&k.t));
		}
	}
	assert_true(k.t.n_searches > 1 && k.t.n_odd > 100);
	timeline_free(&k.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_beam_runs),
		cmocka_unit_test(a_beam_that_answered_runs_on),
		cmocka_unit_test(a_beam_wins),
		cmocka_unit_test(samples_have_means),
		cmocka_unit_test(a_command_judges),
		cmocka_unit_test(the_first_simulation_may_win),
		cmocka_unit_test(scores_are_in_order),
		cmocka_unit_test(a_taken_token_says_why_it_has_no_race),
		cmocka_unit_test(a_tree_has_uct),
		cmocka_unit_test(keys_walk),
		cmocka_unit_test(all_that_is_hidden_is_counted),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(any_stream_is_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
