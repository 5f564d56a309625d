/* cutaway attach: the screens and the recorder over a server that is not ours. Thread: main's. */
#include <time.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/text.h"
#include "cli/chat_open.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "sessions/attach/attach.h"
#include "tui/attach/attached.h"

static struct attach_opts {
	const char *served_model;
	int32_t idle, poll;
} opts = { .idle = 120, .poll = 1000 };

static const struct setting attach_own[] = {
	OWN(TEXT, attach_opts, served_model, "served-model", "Server",
		"which of the server's models; without it the first that it names", .arg = "NAME"),
	OWN(INT, attach_opts, idle, "idle", "Server", "give up an answer after so long without a byte",
		.arg = "SECONDS", .low = 1, .high = 86400),
	OWN(INT, attach_opts, poll, "poll", "Server",
		"from asking for the server's figures (/metrics, /slots) to asking again; 0: at the start "
		"alone",
		.arg = "MS", .high = 3600000),
	{ 0 },
};

/* ---- answers on standard output ---- */

static void print(void *arg, const char *bytes, size_t size)
{
	(void)arg;
	fwrite(bytes, 1, size, stdout);
	fflush(stdout);
}

static int answer(struct attach *a, const struct cli *c, const char *prompt, struct err *e)
{
	const struct timespec tick = { .tv_nsec = 5000000 };
	char why[240], *clean;

	if (attach_ask(a, prompt, EV_REQUEST_KIND_run, &c->answer, e))
		return -1;
	while (attach_busy(a) && !atomic_load(&interrupted))
		nanosleep(&tick, NULL);
	putchar('\n');
	if (out_flush(e))
		return -1;
	if (atomic_load(&interrupted))
		return err_set(e, ERR_INTERRUPTED, "stopped");
	if (attach_ended(a, why, sizeof why) == EV_FINISH_lost) {
		clean = text_clean(why, strlen(why), false, NULL);
		err_set(e, ERR_IO, "%s", clean ? clean : "the answer was lost");
		free(clean);
		return -1;
	}
	return 0;
}

static int answers(struct attach *a, const struct cli *c, struct err *e)
{
	interrupt_catch(SIGINT, 0);
	interrupt_catch(SIGTERM, 0);
	for (int i = 1; i < c->n_operands; i++)
		if (answer(a, c, c->operand[i], e))
			return -1;
	return 0;
}

/* ---- all ---- */

static int run(struct attach *a, const struct cli *c, struct tui_end *end, struct err *e)
{
	struct tui_options o = chat_screen(c);
	char *history = NULL;
	int rc;

	/* the server decides on all that does not travel with a request */
	for (const struct setting *s = answer_settings; s->name; s++)
		if (cli_given(c, s->name) && attach_takes(a, s, e))
			return -1;
	if (c->n_operands > 1)
		return answers(a, c, e);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(
			e, ERR_USAGE, "without a terminal attach needs prompts: cutaway attach URL 'PROMPT'");
	if (paths_state("history", &history, NULL))
		history = NULL; /* the prompt works without a history */
	o.answer = c->answer;
	o.history = history;
	rc = tui_attach(a, &o, end, e);
	free(history);
	return rc;
}

static int attach_verb(const struct cli *c, struct err *e)
{
	struct attach_options o = { .url = c->operand[0],
		.api_key = cli_api_key(c),
		.model = opts.served_model,
		.idle_s = opts.idle,
		.poll_ms = opts.poll,
		.system = answer_system(&c->answer, NULL),
		.record = c->no_record ? NULL : c->record };
	struct err why = { 0 };
	struct tui_end end = { 0 };
	struct attach *a = NULL;
	char *record = NULL;

	o.text = c->n_operands > 1 ? print : NULL;
	if (!c->no_record && !c->record) {
		if (paths_new_recording(NULL, &record, &why))
			out_complain("not recorded: %s", why.text);
		o.record = record;
	}
	if (!attach_open(&a, &o, e)) {
		run(a, c, &end, e);
		attach_close(a, e);
		chat_report_end(o.record, &end, false);
	} else if (record) {
		paths_drop_recording(record);
	}
	free(record);
	return e->code ? -1 : 0;
}

const struct verb verb_attach = {
	VERB(attach, "URL [PROMPT…]",
		"api-key|temp|top-p|top-k|min-p|seed|max-tokens|stop|system|Recording|ascii|theme"),
	OPERANDS(1, CLI_MAX_OPERANDS, NULL),
};
