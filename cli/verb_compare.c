/* cutaway compare: two configurations side by side. Thread: main's. */
#include <unistd.h>

#include "base/recordings.h"
#include "cli/chat_open.h"
#include "cli/interrupt.h"
#include "cli/open.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "sessions/compare/compare_run.h"
#include "tui/app/app.h"
#include "tui/inspect/inspect.h"

enum { REPEAT = 6, TOKENS = 64, EVERY = 3 };

static struct compare_opts {
	int32_t repeat;
} opts = { .repeat = REPEAT };

static const struct setting compare_own[] = {
	OWN(INT, compare_opts, repeat, "repeat", "Output",
		"answers to each prompt under each side, after one that is not counted", .arg = "N",
		.low = 1, .high = 1000),
	{ 0 },
};

/* ---- the two sides ---- */

struct side {
	struct cli cli;
	char *words, *record;
	struct session session;
	struct compare_sink sink;
	int32_t **ids; /* [n_prompts] */
};

struct job {
	struct side side[2];
	struct compare compare;
	pthread_mutex_t lock; /* of compare, while a screen shows it */
	struct compare_prompt *prompt;
	char **text; /* [n_prompts] */
	int n_prompts;
	struct compare_plan plan;
};

static bool on_screen(const struct cli *c)
{
	return !c->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static int read_side(struct job *j, const struct cli *c, int i, struct err *e)
{
	struct side *s = &j->side[i];
	struct err own = { 0 };
	struct option o;

	s->cli = *c;
	if (!cli_given(c, "max-tokens"))
		s->cli.answer.max_tokens = TOKENS;
	s->cli.engine.abandon = &interrupted;
	if (setting_stops_copy(&s->cli.answer.stop, &c->answer.stop, e))
		return -1;
	if (cli_settings(&s->cli, c->operand[i], &s->words, &own))
		return err_set(e, own.code, "%c: %s", 'A' + i, own.text);
	for (int k = 0; option_at(&s->cli, k, &o); k++)
		if (cli_given(&s->cli, o.s->name) && !option_taken(&o, c->verb))
			return err_set(
				e, ERR_USAGE, "%c: --%s changes nothing in a comparison", 'A' + i, o.s->name);
	if (c->record && recordings_beside(&s->record, c->record, '-', i ? "b" : "a", e))
		return -1;
	s->cli.record = s->record;
	return 0;
}

static int open_side(struct job *j, int i, struct err *e)
{
	struct side *s = &j->side[i];
	struct err own = { 0 };

	s->sink = (struct compare_sink){ .c = &j->compare, .side = i, .lock = &j->lock };
	if (cli_open(&s->session, &s->cli, compare_sink, &s->sink, &own))
		return err_set(e, own.code, "%c: %s", 'A' + i, own.text);
	return 0;
}

/* ---- prompts ---- */

/* Without operands of the shipped prompts every third: a few of each kind. */
static int take_prompts(struct job *j, const struct cli *c, struct err *e)
{
	const bool shipped = c->n_operands <= 2;

	j->n_prompts = shipped ? (load_n_prompts() + EVERY - 1) / EVERY : c->n_operands - 2;
	j->prompt = calloc((size_t)j->n_prompts, sizeof *j->prompt);
	j->text = calloc((size_t)j->n_prompts, sizeof *j->text);
	for (int i = 0; j->prompt && j->text && i < j->n_prompts; i++) {
		const char **label = &j->prompt[i].text;

		*label = shipped ? NULL : c->operand[2 + i];
		j->text[i] = shipped ? load_prompt(EVERY * i, label) : strdup(*label);
		if (!j->text[i])
			return err_no_memory(e, "prompts");
	}
	return j->prompt && j->text ? 0 : err_no_memory(e, "prompts");
}

static int encode_prompts(struct job *j, int i, struct err *e)
{
	struct side *s = &j->side[i];

	s->ids = calloc((size_t)j->n_prompts, sizeof *s->ids);
	if (!s->ids)
		return err_no_memory(e, "prompts");
	prompt_note_template(&s->cli, s->session.engine);
	for (int k = 0; k < j->n_prompts; k++) {
		if (prompt_ids(&s->cli, s->session.engine, j->text[k], strlen(j->text[k]), &s->ids[k],
				&j->prompt[k].n_ids[i], e))
			return -1;
		j->prompt[k].ids[i] = s->ids[k];
	}
	return 0;
}

/* ---- running ---- */

/* Where nobody can see a line change, one for each pair. */
static void on_turn(void *arg, int prompt, int run, int side)
{
	const struct job *j = arg;
	char what[40] = "to warm up";

	if (run >= 0)
		snprintf(what, sizeof what, "run %d of %d", run + 1, opts.repeat);
	out_progress("compare: prompt %d of %d, %s, %c …", prompt + 1, j->n_prompts, what, 'A' + side);
	if (!isatty(STDERR_FILENO) && run >= 0 && side != (run & 1))
		fprintf(stderr, "compare: prompt %d of %d, %s\n", prompt + 1, j->n_prompts, what);
}

static void work(void *arg, struct err *e)
{
	struct job *j = arg;

	compare_run(&j->plan, &j->compare, e);
}

static int run_on_screen(struct job *j, const struct cli *c, struct err *e)
{
	const struct tui_options o = chat_screen(c);
	const struct tui_compare t = { .compare = &j->compare,
		.lock = &j->lock,
		.n_prompts = j->n_prompts,
		.repeat = opts.repeat,
		.work = work,
		.arg = j,
		.stop = &interrupted };

	return tui_compare(&t, &o, e);
}

static int run(struct job *j, const struct cli *c, struct err *e)
{
	j->plan = (struct compare_plan){ .prompt = j->prompt,
		.n_prompts = j->n_prompts,
		.repeat = opts.repeat,
		.stop = &interrupted,
		.report = on_screen(c) ? NULL : on_turn,
		.arg = j };
	for (int i = 0; i < 2; i++) {
		j->plan.session[i] = &j->side[i].session;
		j->plan.answer[i] = &j->side[i].cli.answer;
		j->plan.label[i] = j->side[i].cli.operand[i];
		if (encode_prompts(j, i, e))
			return -1;
	}
	if (on_screen(c))
		return run_on_screen(j, c, e);
	work(j, e);
	out_progress_end();
	return e->code ? -1 : 0;
}

static void close_all(struct job *j, struct err *e)
{
	for (int i = 0; i < 2; i++) {
		struct side *s = &j->side[i];

		cli_close(&s->session, &s->cli, e);
		for (int k = 0; s->ids && k < j->n_prompts; k++)
			free(s->ids[k]);
		free(s->ids);
		setting_stops_free(&s->cli.answer.stop);
		free(s->words);
		free(s->record);
	}
	for (int k = 0; j->text && k < j->n_prompts; k++)
		free(j->text[k]);
	free(j->text);
	free(j->prompt);
}

static int print(const struct cli *c, const struct compare *what, struct err *e)
{
	struct compare_table t;
	struct json j = { 0 };
	int rc = 0;

	if (compare_table(what, &t, e))
		return -1;
	if (c->json) {
		compare_json(what, &t, &j);
		rc = json_print(&j, e);
	} else {
		compare_print(what, &t, stdout);
	}
	compare_table_free(&t);
	return rc;
}

static int compare_settings(const struct cli *c, struct err *e)
{
	struct job j = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct err none = { 0 };
	int rc;

	interrupt_catch(SIGINT, (int)SA_RESETHAND | SA_RESTART);
	if (on_screen(c))
		app_block_signals();
	rc = read_side(&j, c, 0, e) || read_side(&j, c, 1, e) || take_prompts(&j, c, e) ||
		 open_side(&j, 0, e) || open_side(&j, 1, e) || run(&j, c, e);
	/* what was measured until it was stopped is shown */
	if (!rc || (e->code == ERR_INTERRUPTED && j.compare.side[1].n_answers))
		print(c, &j.compare, rc ? &none : e);
	close_all(&j, e);
	compare_free(&j.compare);
	return e->code ? -1 : 0;
}

/* ---- recordings ---- */

static int compare_recordings(const struct cli *c, char *const path[2], struct err *e)
{
	struct compare both = { 0 };
	int rc = 0;

	for (int i = 0; !rc && i < c->n_operands; i++)
		rc = compare_read(&both, path[1] ? i : -1, path[i], e);
	rc = rc ? rc : print(c, &both, e);
	compare_free(&both);
	return rc;
}

/* Whether the word names a recording, or is to: a file that is not there is an error later. */
static bool names_recording(const char *word, char **path, struct err *e)
{
	const size_t n = strlen(word);

	if (!n || strpbrk(word, "= ") || recordings_find(word, path, e))
		return false;
	return !access(*path, F_OK) || (n > 3 && !strcmp(word + n - 3, ".db"));
}

static int compare_verb(const struct cli *c, struct err *e)
{
	char *path[2] = { NULL, NULL };
	bool recorded[2] = { false, false };
	int rc = -1;

	for (int i = 0; i < 2 && i < c->n_operands; i++)
		recorded[i] = names_recording(c->operand[i], &path[i], e);
	if (e->code)
		rc = -1;
	else if (recorded[0] && (recorded[1] || c->n_operands == 1))
		rc = c->n_operands > 2 ? err_set(e, ERR_USAGE,
									 "two recordings are compared as they are, without a PROMPT")
							   : compare_recordings(c, path, e);
	else if (c->n_operands < 2)
		err_set(e, ERR_USAGE,
			"compare needs the settings of two sides, or recordings; see cutaway "
			"compare --help");
	else
		rc = compare_settings(c, e);
	free(path[0]);
	free(path[1]);
	return rc;
}

const struct verb verb_compare = {
	VERB(compare, "A B [PROMPT…]",
		"Model|Kernels|Exactness|Sampling|Answer|Scheduler|Speculation|Watching|Recording|"
		"Screen|raw|json"),
	.settings = true,
	OPERANDS(1, CLI_MAX_OPERANDS, "RECORDING"),
};
