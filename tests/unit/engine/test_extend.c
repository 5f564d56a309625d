/* The examples of docs/extend.md, from tests/extend/, in tables of this program: they work, and no
 * other file knows them. The tables of the product are files of their own, which are not linked
 * where a program has these names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/arch/arch.h"
#include "engine/draft/draft.h"
#include "engine/search/search_impl.h"
#include "engine/core/step_hooks.h"
#include "sessions/certify/certify_private.h"
#include "tests/extend/drafter_repeat.c"
#include "tests/extend/hook_widest.c"
#include "tests/extend/layer_self_gated.c"
#include "tests/extend/search_shortest.c"
#include "tests/extend/verb_count.c"
#include "tests/extend/view_turns.c"
#include "tests/extend/visible_chunk.c"
#include "tui/app/layout.h"
#include "tests/support/tiny.h"
#include "tests/support/canvas_text.h"
#include "tests/support/invariants.h"

extern const struct draft_ops draft_ngram;
extern const struct search_ops search_best;
extern const struct step_hooks observe_hooks, shadow_hooks, search_hooks;

const struct draft_ops *const draft_table[] = { &draft_ngram, &draft_repeat, NULL };
const struct search_ops *const search_table[] = { &search_best, &search_shortest, NULL };
const struct step_hooks *const step_hooks_table[] = { &observe_hooks, &shadow_hooks, &search_hooks,
	&widest_hooks, NULL };

/* Llama, or with feed-forwards of the example's kind. */
static bool self_gated;

static void llama_layer(struct arch_file *f, struct model *m, int32_t i)
{
	if (self_gated)
		((struct self_gated *)arch_add_block(f, &m->layer[i].ffn, &layer_self_gated))->width =
			m->config.ffn;
}

static const struct arch arch_llama_or = { .name = "llama", .layer = llama_layer };
const struct arch *const arch_table[] = { &arch_llama_or, NULL };

const struct visible_policy *const visible_policies[] = { &visible_full, &visible_chunk, NULL };

const struct view *const views[] = { &view_turns, NULL };
const struct verb *const verbs[] = { &verb_count, NULL };

enum { PROMPT = 20, TOKENS = 60, KEPT = 400 };
static char *model;

struct told {
	int32_t id[KEPT];
	int64_t hash[KEPT];
	int n_tokens, n_drafts, n_kept;
	int64_t widest, noted, shadow_steps; /* rows of the widest step; what the hook says */
	int n_noted;
};

static void on_event(void *arg, const struct event *ev)
{
	struct told *t = arg;

	if (ev->kind == EV_token && t->n_tokens < KEPT) {
		t->id[t->n_tokens] = (int32_t)ev->u.token.id;
		t->hash[t->n_tokens++] = ev->u.token.hash;
	} else if (ev->kind == EV_draft) {
		assert_memory_equal(ev->u.draft.drafter.data, "repeat", 6);
		t->n_drafts++;
		t->n_kept += ev->u.draft.verdict == EV_VERDICT_accepted;
	} else if (ev->kind == EV_step && ev->u.step.rows > t->widest) {
		t->widest = ev->u.step.rows;
	} else if (ev->kind == EV_shadow && ev->u.shadow.drafter.size == 6 &&
			   !memcmp(ev->u.shadow.drafter.data, "repeat", 6)) {
		t->shadow_steps = ev->u.shadow.steps;
	} else if (ev->kind == EV_setting && ev->u.setting.name.size == 11 &&
			   !memcmp(ev->u.setting.name.data, "widest-step", 11)) {
		t->noted = strtol(ev->u.setting.value.data, NULL, 10);
		t->n_noted++;
	}
}

static struct engine *open_engine_as(struct engine_options o, struct told *t)
{
	struct engine *e;
	struct err err = { 0 };

	o.model = model;
	o.threads = 1;
	o.ctx = 256;
	o.slots = 4;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	memset(t, 0, sizeof *t);
	engine_add_sink(e, on_event, t);
	engine_begin(e, NULL);
	return e;
}

static struct engine *open_engine(const char *spec, const char *shadow, struct told *t)
{
	static double ns[1 + DRAFT_NODES + 1]; /* what steps cost, counted: no time is measured here */
	struct engine_options o = ENGINE_DEFAULTS;

	for (int i = 1; i <= 1 + DRAFT_NODES; i++)
		ns[i] = 1e6;
	o.spec = spec;
	o.shadow = shadow;
	o.counted_cost = ns;
	return open_engine_as(o, t);
}

static struct engine_request request_of(int32_t ids[PROMPT])
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = PROMPT,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };

	for (int i = 0; i < PROMPT; i++)
		ids[i] = 3 + i * 37 % 400;
	q.params.temperature = 0;
	return q;
}

/* Runs one request to its end, and closes the engine. */
static void answer_in(struct engine *e)
{
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids);
	struct err err = { 0 };

	assert_int_equal(engine_submit(e, &q, &err), 1);
	while (engine_step(e, &err) > 0)
		engine_check(e);
	assert_int_equal(err.code, 0);
	engine_close(e);
}

static void answer(const char *spec, const char *shadow, struct told *t)
{
	answer_in(open_engine(spec, shadow, t));
}

/* Does completion offer this value of a setting? */
static bool is_offered(int setting, const char *word)
{
	for (int i = 0; setting_word(&engine_settings[setting], i); i++)
		if (!strcmp(setting_word(&engine_settings[setting], i), word))
			return true;
	return false;
}

/* The text is that of plain decoding, in fewer steps where it guessed right; shadow and certify
 * know it by the table. */
static void test_drafter(void **state)
{
	static struct told plain, drafted, shadowed;
	static struct axes axes;
	const struct certify_options nothing = { 0 };
	bool tried = false;

	(void)state;
	assert_true(is_offered(ENGINE_AT_spec, "repeat"));
	answer("off", "off", &plain);
	answer("repeat:3", "off", &drafted);
	answer("off", "all", &shadowed);
	assert_int_equal(plain.n_tokens, TOKENS);
	assert_int_equal(drafted.n_tokens, TOKENS);
	assert_memory_equal(plain.id, drafted.id, sizeof plain.id);
	assert_memory_equal(plain.hash, drafted.hash, sizeof plain.hash);
	assert_true(drafted.n_drafts > TOKENS / 2);
	assert_true(shadowed.shadow_steps > TOKENS / 4);
	axes_fill(&axes, &nothing);
	for (int i = 0; i < axes.axis[AXIS_DRAFTER].n; i++)
		tried |= !strcmp(axes.axis[AXIS_DRAFTER].value[i], "repeat");
	assert_true(tried);
}

static void test_search(void **state)
{
	const struct search_options o = { .method = "shortest:4" };
	struct search_view v = { 0 };
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids);
	struct told t;
	struct engine *e = open_engine("off", "off", &t);
	struct err err = { 0 };
	int64_t search;

	(void)state;
	q.ignore_end = false;
	q.params.temperature = 1.5f;
	search = engine_search(e, &o, &q, &err);
	assert_int_equal(search, 1);
	for (int i = 0; i < 4 * TOKENS && engine_search_look(e, search, &v) && !v.done; i++)
		assert_int_equal(engine_step(e, &err), 1);
	assert_true(v.done);
	assert_int_equal(v.n_answers, 4);
	for (int i = 1; i < 4; i++)
		assert_true(v.answer[i].n >= v.answer[0].n);
	engine_close(e);
}

static void test_hook(void **state)
{
	struct told t;

	(void)state;
	answer("repeat:3", "off", &t);
	assert_true(t.widest >= PROMPT);
	assert_int_equal(t.noted, t.widest);
	assert_true(t.n_noted >= 1);
}

/* Another model than with the gate, and the same bits on the reference. */
static void test_layer(void **state)
{
	static struct told gated, plain, ref;
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	answer_in(open_engine_as(o, &gated));
	self_gated = true;
	answer_in(open_engine_as(o, &plain));
	o.backend = "ref";
	answer_in(open_engine_as(o, &ref));
	self_gated = false;
	assert_int_equal(plain.n_tokens, TOKENS);
	assert_memory_not_equal(plain.hash, gated.hash, sizeof plain.hash);
	assert_memory_equal(plain.hash, ref.hash, sizeof plain.hash);
}

/* A policy's logits are a function of the tokens: page size, chunks and kernels change no bit; and
 * rows see less. */
static void test_visibility(void **state)
{
	static struct told full, seen, again;
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct visible v;

	(void)state;
	assert_int_equal(visible_parse(&v, "chun:16", &err), -1);
	assert_non_null(strstr(err.text, "full or chunk:N"));
	assert_true(is_offered(ENGINE_AT_visible, "chunk:512"));
	answer_in(open_engine_as(o, &full));
	o.visible = "chunk:16";
	answer_in(open_engine_as(o, &seen));
	o.page_size = 32;
	o.prefill_chunk = 7;
	o.backend = "ref";
	answer_in(open_engine_as(o, &again));
	assert_int_equal(seen.n_tokens, TOKENS);
	assert_memory_equal(seen.hash, again.hash, sizeof seen.hash);
	assert_memory_not_equal(seen.hash, full.hash, sizeof seen.hash);
}

/* ---- a verb ---- */

/* What the program prints for these words; the error's text where it refuses. malloc'd. */
static char *said_to(int n, char **words)
{
	char *text = NULL;
	size_t size = 0;
	FILE *old = stdout, *out = open_memstream(&text, &size);
	struct err e = { 0 };
	struct cli c;

	stdout = out;
	if (cli_parse(&c, n, words, &e))
		fputs(e.text, out);
	else if (c.help)
		help_print(c.verb);
	else if (c.completion)
		help_completion();
	else if (c.verb->run(&c, &e))
		fputs(e.text, out);
	cli_free(&c);
	stdout = old;
	fclose(out);
	return text;
}
#define SAID(...)                                                                                  \
	said_to(sizeof(char *[]){ "cutaway", __VA_ARGS__ } / sizeof(char *),                           \
		(char *[]){ "cutaway", __VA_ARGS__, NULL })

static void says(char *text, const char *expected)
{
	if (!strstr(text, expected))
		fail_msg("\"%s\" does not say \"%s\"", text, expected);
	free(text);
}

static void test_verb(void **state)
{
	char path[] = "/tmp/cutaway-extend-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "one\nthree\n", 10), 10);
	close(fd);
	says(SAID("count", path, "--json"), "{\"count\":10}");
	says(SAID("--lines", "count", path), "2\n");
	says(SAID("count", path, "--least", "4"), "1\n");
	says(SAID("count", path, "--least=1001"),
		"--least 1001: a whole number of bytes from 0 to 1000 is needed");
	says(SAID("count", path, "--temp=1"), "count does not take --temp");
	says(SAID("cuont"), "did you mean count?");
	says(SAID("count", "--help"), "--least N");
	says(SAID("--completion", "bash"), "count) options=' --json --help --version --lines --least'");
	unlink(path);
}

static void test_view(void **state)
{
	struct timeline t;
	struct view_state s = { .token = -1 };
	struct canvas c = { 0 };
	struct event ev;
	struct pen p;
	char *text;

	(void)state;
	timeline_init(&t);
	for (int i = 1; i <= 3; i++) {
		ev_init(&ev, EV_request);
		ev.seq = i;
		ev.u.request.request = i;
		ev.u.request.kind = i == 2 ? EV_REQUEST_KIND_load : EV_REQUEST_KIND_chat;
		timeline_fold(&t, &ev);
	}
	assert_int_equal(canvas_resize(&c, 40, 3, NULL), 0);
	canvas_clear(&c);
	p = pen_of(&c, (struct rect){ 0, 0, 40, 3 });
	views[0]->draw(&p, &t, &s);
	text = canvas_to_text(&c);
	assert_non_null(strstr(text, "2 so far, 3 kept"));
	free(text);
	canvas_free(&c);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drafter),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_hook),
		cmocka_unit_test(test_layer),
		cmocka_unit_test(test_visibility),
		cmocka_unit_test(test_verb),
		cmocka_unit_test(test_view),
	};
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	int failed;

	model = tiny_temp(&tiny, &err);
	if (!model)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(model);
	free(model);
	return failed;
}
