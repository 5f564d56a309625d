/* The / commands: every entry of the table, wrong values, completion, hints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/draft/draft.h"
#include "engine/sched/policy.h"
#include "tui/app/commands.h"

/* A host that writes down what it was asked. */
static struct answer_settings settings;
static char said[640], noted[320], set[128], acted[320];

static int fake_set(void *arg, const char *name, const char *value, struct err *e)
{
	(void)arg;
	if (!strcmp(value, "bad"))
		return err_set(e, ERR_USAGE, "%s: no", name);
	snprintf(set, sizeof set, "%s=%s", name, value);
	return 0;
}
static int fake_get(void *arg, const char *name, char *buf, size_t cap)
{
	(void)arg;
	snprintf(buf, cap, "value-of-%s", name);
	return strcmp(name, "nothing") ? 0 : -1;
}
static void fake_note(void *arg, const char *name, const char *value)
{
	(void)arg;
	snprintf(noted, sizeof noted, "%s=%s", name, value);
}
static void fake_say(void *arg, const char *text)
{
	(void)arg;
	snprintf(said, sizeof said, "%s", text);
}
static int fake_act(void *arg, enum command_act act, const char *text, double number, struct err *e)
{
	(void)arg, (void)e;
	snprintf(acted, sizeof acted, "%d '%s' %g", act, text, number);
	return 0;
}

static const struct view a_view = { .name = "KV pages", .id = "pages" },
						 b_view = { .name = "chat", .id = "chat" },
						 c_view = { .name = "prefix cache", .id = "prefix" },
						 d_view = { .name = "speculation", .id = "spec" };
static const struct view *const fake_views[] = { &b_view, &a_view, &c_view, &d_view, NULL };
static struct command_host host = { .settings = &settings,
	.views = fake_views,
	.engine_set = fake_set,
	.engine_get = fake_get,
	.note = fake_note,
	.say = fake_say,
	.act = fake_act };

static int setup(void **state)
{
	(void)state;
	setting_stops_free(&settings.stop);
	settings = ANSWER_DEFAULTS;
	host.replay = host.lesson = false;
	*said = *noted = *set = *acted = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	setting_stops_free(&settings.stop);
	return 0;
}

static void works(const char *line)
{
	struct err e = { 0 };

	if (commands_run(&host, line, &e) < 0)
		fail_msg("%s: %s", line, e.text);
}

static void fails(const char *line, const char *says)
{
	struct err e = { 0 };

	if (commands_run(&host, line, &e) >= 0)
		fail_msg("%s is taken", line);
	assert_int_equal(e.code, ERR_USAGE);
	if (!strstr(e.text, says))
		fail_msg("%s: \"%s\" does not say \"%s\"", line, e.text, says);
}

static void settings_are_set_and_noted(void **state)
{
	(void)state;
	works("/temp 0.25");
	assert_true(settings.params.temperature == 0.25f);
	assert_string_equal(noted, "temp=0.25");
	works("/greedy");
	assert_true(settings.params.temperature == 0);
	assert_string_equal(noted, "temp=0");
	works("/top-k   40  ");
	assert_int_equal(settings.params.top_k, 40);
	works("/seed 18446744073709551615");
	assert_true(settings.params.seed == UINT64_MAX);
	works("/max-tokens 64");
	assert_int_equal(settings.max_tokens, 64);
	works("/overflow drop");
	assert_string_equal(settings.overflow, "drop");
	works("/stop a\\nb");
	works("/stop of");
	assert_string_equal(settings.stop.text[0], "a\nb");
	assert_string_equal(settings.stop.text[1], "of"); /* the beginning of off */
	assert_null(settings.stop.text[2]);
	works("/stop off");
	assert_null(settings.stop.text[0]);
	works("/spec ngram:4");
	assert_string_equal(set, "spec=ngram:4");
	works("/set temp 0.5");
	assert_true(settings.params.temperature == 0.5f);
	works("/set page-size = 32");
	assert_string_equal(set, "page-size=32");
	works("/set slots 4"); /* the engine says that it is fixed */
	assert_string_equal(set, "slots=4");
	works("/freq 0.5"); /* a beginning of frequency-penalty */
	assert_string_equal(noted, "frequency-penalty=0.5");
}

static void wrong_values_are_told(void **state)
{
	(void)state;
	fails("/temp x", "a number from 0 to 100");
	fails("/temp -1", "from 0 to 100");
	fails("/temp nan", "a number");
	fails("/temp 1e999", "a number");
	fails("/top-k 1.5", "a whole number");
	fails("/top-p 2", "from 0 to 1");
	works("/seed -3");
	fails("/seed -9223372036854775809", "2^64-1");
	fails("/seed 99999999999999999999", "2^64-1");
	fails("/overflow maybe", "/overflow maybe: one of stop|drop");
	fails("/spec bad", "/spec: no");
	/* the engine is not asked */
	fails("/budget 9999", "/budget 9999: a whole number of rows from 0 to 4096");
	fails("/prefix-cache yes", "on|off");
	fails("/slots 4", "slots is set at the start: cutaway chat --slots N");
	fails("/pages 4", "pages is set by /set pages N");
	fails("/set nothing", "no setting nothing");
	fails("/set nothing 3", "there is no setting nothing: /set alone");
	fails("/set temp 101", "/temp 101: a number from 0 to 100");
	fails("/set prefi 3", "could be prefill");
	fails("/search be 4", "/search be could be best beam");
	fails("/evict l", "lru lfu");
	fails("/set cuda-mode bad", "launches");
	fails("/greedy 3", "/temp 0 3: a number");
	fails("/new 3", "no argument");
	fails("/checkout b", "/goto b: a step is a number; /tree goes to a branch");
	fails("/switch b", "/tree takes no argument: the branches of the session; Enter goes to one");
	fails("/fork 1000", "from 2 to 64");
	fails("/save", "/save: a file must be named");
	fails("/view nowhere", "there are chat pages prefix spec");
	fails("/view p", "/view p could be pages prefix");
	fails("/view pagess", "none is called so");
	fails("/view 5", "none is called so");
	fails("/theme pink", "one of auto|dark|light|mono");
	fails("/theme", "one of auto|dark|light|mono");
	fails("/frob", "there is no command /frob: /help lists them");
	fails("/brake", "did you mean /break? /help lists them");
	fails("/vew", "did you mean /view?"); /* /new is as near, and begins otherwise */
	fails("/reverse-contnue", "did you mean /reverse-continue?");
	fails("/verify", "cutaway verify --help");
	fails("/", "/help");
	fails("hello", "/help");
	fails("/pre", "/prefill-chunk /prefix-cache");
	assert_string_equal(acted, "");
}

static void too_many_stops_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < SETTING_STOPS_MAX; i++)
		works("/stop x");
	fails("/stop y", "off forgets them");
}

static void without_argument_the_value_is_said(void **state)
{
	(void)state;
	works("/temp");
	assert_non_null(strstr(said, "temp is 0.7"));
	works("/spec");
	assert_non_null(strstr(said, "value-of-spec"));
	works("/stop");
	assert_non_null(strstr(said, "stop is off"));
	assert_string_equal(noted, "");
}

/* One rule for all names: whole, or a beginning that no other has. */
static void a_beginning_is_enough(void **state)
{
	static const char *const views_of[][2] = { { "pages", "pages" }, { "pa", "pages" },
		{ "kv", "pages" }, { "c", "chat" }, { "2", "pages" }, { "prefix ca", "prefix" },
		{ "speculation", "spec" } };
	char expected[64];

	(void)state;
	for (size_t i = 0; i < sizeof views_of / sizeof *views_of; i++) {
		char line[64];

		snprintf(line, sizeof line, "/view %s", views_of[i][0]);
		works(line);
		snprintf(expected, sizeof expected, "%d '%s' 0", ACT_VIEW, views_of[i][1]);
		assert_string_equal(acted, expected);
	}
	works("/theme li");
	snprintf(expected, sizeof expected, "%d 'light' 0", ACT_THEME);
	assert_string_equal(acted, expected);
	works("/spec look:3,3,2");
	assert_string_equal(set, "spec=lookahead:3,3,2");
	works("/spec dra:a.gguf");
	assert_string_equal(set, "spec=draft:a.gguf");
	works("/shadow ngram:3+jacobi"); /* the engine knows more than the words */
	assert_string_equal(set, "shadow=ngram:3+jacobi");
	works("/prefill-chunk 3"); /* a number is no beginning */
	assert_string_equal(set, "prefill-chunk=3");
	works("/set spe eag");
	assert_string_equal(set, "spec=eagle");
	works("/score of"); /* a command is none */
	assert_string_equal(set, "score=of");
	works("/score fil");
	assert_string_equal(set, "score=fil");
	works("/set --temp=0.3");
	assert_true(settings.params.temperature == 0.3f);
	works("/overflow d");
	assert_string_equal(settings.overflow, "drop");
}

/* A view is gone to by its name alone; what is a command stays one, and so does what has an
 * argument. */
static void views_are_commands(void **state)
{
	static const char *const line[][2] = { { "/pages", "pages" }, { "/page", "pages" },
		{ "/prefix", "prefix" }, { "/chat ", "chat" } };
	char expected[64];

	(void)state;
	for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
		works(line[i][0]);
		snprintf(expected, sizeof expected, "%d '%s' 0", ACT_VIEW, line[i][1]);
		assert_string_equal(acted, expected);
	}
	works("/page 32");
	assert_string_equal(set, "page-size=32");
	*acted = '\0';
	works("/spec");
	assert_non_null(strstr(said, "value-of-spec"));
	assert_string_equal(acted, "");
	host.replay = true; /* where it is no command */
	works("/spec");
	snprintf(expected, sizeof expected, "%d 'spec' 0", ACT_VIEW);
	assert_string_equal(acted, expected);
	host.replay = false;
}

static void acts_reach_the_host(void **state)
{
	char expected[64];

	(void)state;
	works("/fork 4");
	snprintf(expected, sizeof expected, "%d '4' 4", ACT_FORK);
	assert_string_equal(acted, expected);
	works("/fork");
	snprintf(expected, sizeof expected, "%d '' 2", ACT_FORK);
	assert_string_equal(acted, expected);
	works("/fork @57");
	snprintf(expected, sizeof expected, "%d '@57' 2", ACT_FORK);
	assert_string_equal(acted, expected);
	works("/try ' Paris'");
	snprintf(expected, sizeof expected, "%d '' Paris'' 0", ACT_TRY);
	assert_string_equal(acted, expected);
	works("/back");
	snprintf(expected, sizeof expected, "%d '' 1", ACT_BACK);
	assert_string_equal(acted, expected);
	works("/view pages");
	snprintf(expected, sizeof expected, "%d 'pages' 0", ACT_VIEW);
	assert_string_equal(acted, expected);
	works("/qu"); /* a unique beginning is enough */
	snprintf(expected, sizeof expected, "%d '' 0", ACT_QUIT);
	assert_string_equal(acted, expected);
}

/* Names of gdb and git call what is ours, with what they mean in front of the argument. */
static void others_names_are_known(void **state)
{
	char expected[64];

	(void)state;
	works("/b entropy > 3");
	snprintf(expected, sizeof expected, "%d 'entropy > 3' 0", ACT_BREAK);
	assert_string_equal(acted, expected);
	works("/delete  2 ");
	snprintf(expected, sizeof expected, "%d 'off 2' 0", ACT_BREAK);
	assert_string_equal(acted, expected);
	works("/delete");
	snprintf(expected, sizeof expected, "%d 'off' 0", ACT_BREAK);
	assert_string_equal(acted, expected);
	works("/p entropy");
	snprintf(expected, sizeof expected, "%d 'entropy' 0", ACT_PRINT);
	assert_string_equal(acted, expected);
	works("/reverse-step 5");
	snprintf(expected, sizeof expected, "%d '5' 5", ACT_BACK);
	assert_string_equal(acted, expected);
	works("/reverse-continue");
	snprintf(expected, sizeof expected, "%d 'break' 0", ACT_RFIND);
	assert_string_equal(acted, expected);
	works("/log");
	snprintf(expected, sizeof expected, "%d '' 0", ACT_TREE);
	assert_string_equal(acted, expected);
	for (const struct command_alias *a = command_aliases; a->name; a++) {
		char line[64], name[64];
		bool found = false;

		snprintf(line, sizeof line, "/%s", a->name);
		for (const struct command *c = commands; c->s; c++) {
			assert_string_not_equal(c->s->name, a->name);
			snprintf(name, sizeof name, "%s", c->s->name);
			found |= !strcmp(name, a->command);
		}
		assert_true(found);
		assert_string_equal(commands_find(&host, line)->s->name, a->command);
	}
}

static void a_replay_has_its_own(void **state)
{
	char expected[64];

	(void)state;
	fails("/speed 3", "no command");
	host.replay = true;
	host.settings = NULL;
	works("/goto 3");
	snprintf(expected, sizeof expected, "%d '3' 3", ACT_GOTO);
	assert_string_equal(acted, expected);
	fails("/temp 1", "in a replay");
	fails("/checkpoint", "in a replay"); /* as /fork */
	fails("/score wc", "/score needs an engine");
	host.settings = &settings;
}

static void expect_matches(const char *line, const char *expected)
{
	const char *word = strrchr(line, ' ');
	int start = word ? (int)(word + 1 - line) : 0;
	bool files;
	char **list = commands_complete(&host, line, start, (int)strlen(line), &files);
	char got[1024] = "";

	for (int i = 0; list && list[i]; i++) {
		strcat(strcat(got, i ? " " : ""), list[i]);
		free(list[i]);
	}
	free(list);
	if (files)
		strcat(got, "FILES");
	assert_string_equal(got, expected);
}

/* What the tables of drafters and policies offer. */
static void completion_knows_drafters_and_policies(void **state)
{
	char offered[1024] = "off";

	(void)state;
	for (int i = 0; draft_table[i]; i++) {
		const char *const own[] = { draft_table[i]->name, NULL };

		for (const char *const *o = draft_table[i]->offer ? draft_table[i]->offer : own; *o; o++)
			strcat(strcat(offered, " "), *o);
	}
	expect_matches("/spec ", offered);
	*offered = 0;
	for (int i = 0; sched_policy_name(i); i++)
		strcat(strcat(offered, i ? " " : ""), sched_policy_name(i));
	expect_matches("/policy ", offered);
}

static void completion_knows_the_table(void **state)
{
	(void)state;
	expect_matches("/to", "/top-k /top-p /tokens");
	expect_matches("/reverse-c", "/reverse-continue");
	expect_matches("/set prefix", "prefix-cache");
	expect_matches("/print entr", "entropy");
	expect_matches("/export pic", "FILES");
	expect_matches("/export my pic.svg pre", "prefix");
	expect_matches("/export x.png scr", "screen");
	expect_matches("/slots ", "");
	expect_matches("/prefix-cache o", "on off");
	expect_matches("/logit-bias o", "off");
	expect_matches("/logit-bias off ", ""); /* it takes one value */
	expect_matches("/set overflow ", "stop drop sinks");
	expect_matches("/set overflow drop ", "");
	expect_matches("/set nonsense o", "");
	expect_matches("/view p", "pages prefix");
	expect_matches("/view speculat", "spec");
	expect_matches("/save x", "FILES");
	expect_matches("/score python3 ju", "FILES");
	expect_matches("hello /to", "");
	expect_matches("/nonsense x", "");
}

/* As many as OpenAI's interface takes: all of them are noted, and what is said stays a line. */
static void many_biases_are_one_value(void **state)
{
	char line[SAMPLE_BIAS_TEXT] = "/logit-bias ";
	size_t n = strlen(line);

	(void)state;
	for (int i = 0; i < SAMPLE_BIAS_MAX; i++)
		n += (size_t)sprintf(line + n, "%s%d:%g", i ? "," : "", 1000 + i, i % 2 ? -100 : 2.5);
	works(line);
	assert_int_equal(settings.params.logit_bias.n, SAMPLE_BIAS_MAX);
	assert_non_null(strstr(said, "logit-bias is now 300 tokens   (added"));
	strcat(line, ",5:1");
	fails(line, "at most 300 tokens");
	assert_int_equal(settings.params.logit_bias.n, SAMPLE_BIAS_MAX);
	works("/logit-bias off");
	assert_string_equal(noted, "logit-bias=off");
	works("/logit-bias 999999:5"); /* no model is known */
	host.vocab = 100;
	fails("/logit-bias 99:1,100:1", "token 100 is not in the vocabulary, 0 to 99");
	assert_int_equal(settings.params.logit_bias.entry[0].id, 999999);
	works("/logit-bias 99:1");
	host.vocab = 0;
	works("/logit-bias off");
}

static void hints_tell_what_is_typed(void **state)
{
	char hint[512];

	(void)state;
	commands_hint(&host, "/temp ", hint, sizeof hint);
	assert_non_null(strstr(hint, "/temp T"));
	assert_non_null(strstr(hint, "now 0.7"));
	commands_hint(&host, "/to", hint, sizeof hint);
	assert_string_equal(hint, "/top-k  /top-p  /tokens");
	commands_hint(&host, "/b", hint, sizeof hint); /* an alias that is the beginning of others */
	assert_non_null(strstr(hint, "/back"));
	commands_hint(&host, "/b x", hint, sizeof hint);
	assert_non_null(strstr(hint, "/break EXPR"));
	commands_hint(&host, "/", hint, 40); /* many names in little room */
	assert_true(strlen(hint) < 40);
	commands_hint(&host, "hello", hint, sizeof hint);
	assert_string_equal(hint, "");
}

/* Names are unique, documented, and every command runs or complains without an argument; every
 * setting that can change is one, completes what it takes, and refuses what it does not. */
static void the_table_is_sound(void **state)
{
	(void)state;
	for (const struct command *c = commands; c->s; c++) {
		char line[64];
		struct err e = { 0 };

		assert_true(*c->s->doc && c->where && strlen(c->s->name) <= 20);
		for (const struct command *d = c + 1; d->s; d++) /* /model, and --model */
			assert_true(strcmp(c->s->name, d->s->name) || c->s->when < SETTING_IDLE);
		host.replay = !(c->where & COMMAND_LIVE);
		if (!commands_usable(&host, c)) {
			assert_true(c->s->when < SETTING_IDLE);
			continue;
		}
		snprintf(line, sizeof line, "/%s", c->s->name);
		assert_ptr_equal(commands_find(&host, line), c);
		if (commands_run(&host, line, &e) < 0)
			assert_true(
				c->s->type == SETTING_FILE || c->act == ACT_VIEW || c->s->type == SETTING_CHOICE);
	}
}

static void settings_refuse_and_complete(void **state)
{
	(void)state;
	for (const struct command *c = commands; c->s; c++) {
		char line[64], says[64], value[32];

		if (!commands_usable(&host, c) || c->s->type < SETTING_SWITCH ||
			c->s->type > SETTING_CHOICE)
			continue;
		snprintf(value, sizeof value, "%.15g", c->s->high + 1);
		if (c->s->high <= c->s->low) /* any number of 64 bits */
			snprintf(value, sizeof value, "x");
		snprintf(line, sizeof line, "/%s %s", c->s->name, value);
		snprintf(says, sizeof says, "/%s %s: ", c->s->name, value);
		fails(line, says);
		if (!c->s->words)
			continue;
		snprintf(line, sizeof line, "/%s %s", c->s->name, setting_word(c->s, 0));
		works(line);
	}
}

/* What a stranger's lesson types: only what the table lets it, whatever name leads there. */
static void a_lesson_types_what_it_may(void **state)
{
	static const char *const good[] = { "/temp 0.5", "/spec ngram:4", "/spec draft:2,2", "/twin on",
		"/shadow all", "/set spec eagle:3,6,0", "/pin \"a text\" 10m", "/system Be brief.",
		"/load 8", "/fork 2", "/why token", "/weights 3/32", "/greedy", "/search best:2" };
	static const char *const bad[] = { "/score touch x; echo 1", "/sco x", "/set score touch x",
		"/config score touch x", "/save x", "/export x.svg", "/quit", "/exit", "/lesson off",
		"/pin /etc/passwd 5m", "/model /tmp/x.gguf", "/spec draft:x.gguf", "/spec medusa:/x,2",
		"/spec draft:file", "/twin x", "/set twin /x", "/shadow ngram:4+draft:x" };

	(void)state;
	host.lesson = true;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		works(good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		*set = *acted = '\0';
		fails(bad[i], "a lesson may not");
		assert_string_equal(set, "");
		assert_string_equal(acted, "");
	}
}

static void touch(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fclose(f);
}

/* A model of the folders of models by its name, and by no path; a file of that name is no model. */
static void a_lesson_may_name_a_model(void **state)
{
	char folder[] = "/tmp/cutaway-commands-XXXXXX", before[4096];

	(void)state;
	assert_non_null(getcwd(before, sizeof before));
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder) || mkdir("models", 0700), 0);
	touch("models/qsmall.gguf");
	host.lesson = true;
	works("/twin qsmall.gguf");
	assert_string_equal(set, "twin=qsmall.gguf");
	works("/spec draft:qsmall,2");
	works("/shadow ngram:4+draft:qsmall,2");
	fails("/twin models/qsmall.gguf", "a lesson may not");
	fails("/spec draft:models/qsmall.gguf", "a lesson may not");
	fails("/spec draft:qsmall,2x", "a lesson may not");
	fails("/twin qother", "a lesson may not");
	touch("qsmall.gguf");
	fails("/twin qsmall.gguf", "a lesson may not");
	assert_int_equal(unlink("qsmall.gguf") || unlink("models/qsmall.gguf") || rmdir("models"), 0);
	assert_int_equal(chdir(before) || rmdir(folder), 0);
}

/* A setting whose argument says FILE must say so in its row, too: that is what the guard asks. */
static void files_are_marked(void **state)
{
	int n = 0;

	(void)state;
	for (const struct command *c = commands; c->s; c++)
		if (c->s->arg && (strstr(c->s->arg, "FILE") || strstr(c->s->arg, "COMMAND"))) {
			if ((c->where & COMMAND_LESSON) && !setting_names_file(c->s, "some/file"))
				fail_msg("a lesson could name a file by /%s", c->s->name);
			n++;
		}
	assert_true(n > 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(settings_are_set_and_noted),
		TEST(wrong_values_are_told),
		TEST(too_many_stops_are_refused),
		TEST(without_argument_the_value_is_said),
		TEST(a_beginning_is_enough),
		TEST(views_are_commands),
		TEST(acts_reach_the_host),
		TEST(others_names_are_known),
		TEST(a_replay_has_its_own),
		TEST(completion_knows_drafters_and_policies),
		TEST(completion_knows_the_table),
		TEST(hints_tell_what_is_typed),
		TEST(the_table_is_sound),
		TEST(many_biases_are_one_value),
		TEST(settings_refuse_and_complete),
		TEST(a_lesson_types_what_it_may),
		TEST(a_lesson_may_name_a_model),
		TEST(files_are_marked),
	};

	return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
