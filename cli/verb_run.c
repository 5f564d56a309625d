/* cutaway run: one answer on standard output. Thread: main's. */
#include <unistd.h>

#include "base/cycle.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/run.h"
#include "cli/open.h"
#include "cli/prompt.h"
#include "engine/draft/draft.h"
#include "engine/lossy.h"
#include "engine/text/held.h"

static struct run_options opts;

static const struct setting run_own[] = {
	OWN(FILE, run_options, batch, "batch", "Answer",
		"answer each line of FILE (-: standard input), --slots at a time, a line of JSON each; "
		"\\n, \\t and \\\\ in a line stand for newline, tab and backslash",
		.arg = "FILE"),
	OWN(TEXT, run_options, best_of, "best-of", "Search",
		"sample N answers side by side and print the best", .arg = "N"),
	OWN(TEXT, run_options, beam, "beam", "Search",
		"beam search: the N most probable beginnings live on; answers score logp / tokens^ALPHA "
		"(1)",
		.arg = "N[,ALPHA]"),
	OWN(TEXT, run_options, mcts, "mcts", "Search",
		"tree search over sentences (or so many tokens) with N simulations",
		.arg = "N[,CHILDREN[,TOKENS]]"),
	OWN(TEXT, run_options, score, "score", "Search",
		"COMMAND scores answers: the text on its standard input, a number out (without it: "
		"log-probability)",
		.arg = "COMMAND"),
	{ 0 },
};

static bool searches(void)
{
	return opts.best_of || opts.beam || opts.mcts;
}

/* limit of an answer if none is given: nobody watches, and a small model may never end */
enum { RUN_TOKENS = 512 };

struct run {
	const struct cli *c;
	const struct tokenizer *tokenizer;
	bool terminal;
	/* Filled by the sink, emptied after each step. */
	struct ev_token *token;               /* spans are not valid */
	struct ev_price price[2 * DRAFT_MAX]; /* with a twin: of the same tokens */
	int n_tokens, cap_tokens, n_prices;
	bool finished, no_memory;
	enum ev_code_finish reason;
	char why[256];
	struct utf8_stream stream; /* of --json */
	char lossy[128];           /* lossy settings that the hashes depend on; "": none */
	struct held_text held;
	bool begun, newline; /* a token came; the last byte was a newline */
	struct cycle cycle;
	int period; /* tokens that the answer repeats at its end, 0: it does not */
};

static void on_event(void *arg, const struct event *ev)
{
	struct run *r = arg;
	if (ev->kind == EV_token) {
		if (ARRAY_ROOM(r->token, r->cap_tokens, r->n_tokens + 1))
			r->token[r->n_tokens++] = ev->u.token;
		else
			r->no_memory = true;
	}
	if (ev->kind == EV_price && r->n_prices < 2 * DRAFT_MAX)
		r->price[r->n_prices++] = ev->u.price;
	if (ev->kind == EV_finish) {
		r->finished = true;
		r->reason = (enum ev_code_finish)ev->u.finish.reason;
		ev_copy(r->why, sizeof r->why, ev->u.finish.why);
	}
}

static void show(struct run *r, const char *bytes, size_t size)
{
	if (!size) /* an answer without text has no buffer */
		return;
	r->newline = bytes[size - 1] == '\n';
	fwrite(bytes, 1, size, stdout);
}

static int emit_text(struct run *r, const char *bytes, size_t size, struct err *e)
{
	struct gguf_text ready;

	if (held_add(&r->held, setting_stops(&r->c->answer.stop), bytes, size, &ready, e))
		return -1;
	show(r, ready.data, ready.size);
	return 0;
}

static int emit_json(struct run *r, const struct ev_token *t, struct gguf_text bytes, struct err *e)
{
	struct json j = { 0 };
	size_t cap = bytes.size + 8;
	char *whole = malloc(cap);
	if (!whole)
		return err_no_memory(e, "the answer");
	json_put(&j, "{'pos': %ld, 'id': %ld", t->pos, t->id);
	json_bytes(&j, "text", whole, utf8_stream_feed(&r->stream, bytes.data, bytes.size, whole, cap));
	json_real(&j, "p", t->p, 9);
	json_hash(&j, "hash", (uint64_t)t->hash);
	for (int i = 0; i < r->n_prices; i++)
		if (r->price[i].pos == t->pos) {
			json_put(&j, "'kl': %.9g, 'exact_logp': %.9g, 'exact_best': %ld", r->price[i].kl,
				r->price[i].exact_logp, r->price[i].exact_best);
		}
	if (*r->lossy)
		json_text(&j, "lossy", r->lossy);
	free(whole);
	return json_print(&j, e);
}

static int emit(struct run *r, struct err *e)
{
	for (int i = 0; i < r->n_tokens; i++) {
		const struct ev_token *t = &r->token[i];
		r->period = cycle_add(&r->cycle, (int32_t)t->id);
		struct gguf_text bytes = tokenizer_bytes(r->tokenizer, (int32_t)t->id);
		if (!r->begun && !r->c->raw)
			bytes = tokenizer_first_bytes(r->tokenizer, (int32_t)t->id);
		r->begun = true;
		if (tokenizer_is_special(r->tokenizer, (int32_t)t->id) || t->is_end)
			bytes.size = 0; /* control tokens have a name, but no text */
		if (r->c->json ? emit_json(r, t, bytes, e) : emit_text(r, bytes.data, bytes.size, e))
			return -1;
	}
	r->n_tokens = r->n_prices = 0;
	return r->no_memory ? err_no_memory(e, "the answer") : out_flush(e);
}

/* Prints what is still held back when the answer has ended. */
static void emit_rest(struct run *r)
{
	if (r->c->json)
		return;
	const struct gguf_text rest = held_rest(&r->held);
	show(r, rest.data, rest.size);
	if (!r->newline && (r->terminal || !r->c->raw))
		putchar('\n');
}

/* Explains an end that the answer's text does not show. */
static void explain_end(const struct run *r)
{
	if (r->reason == EV_FINISH_context)
		fprintf(stderr,
			"cutaway: the context is full: the answer stops here (see --ctx and --pages)\n");
	if (r->reason == EV_FINISH_length && !cli_given(r->c, "max-tokens"))
		fprintf(stderr,
			"cutaway: the answer stops at %d tokens: --max-tokens N changes that (0: until the "
			"context is full)\n",
			r->c->answer.max_tokens);
	if (r->period)
		fprintf(stderr,
			"cutaway: the answer ends in a loop: its last %lld tokens repeat %d token%s%s\n",
			(long long)(r->cycle.run[r->period] + r->period), r->period, plural(r->period),
			r->c->answer.params.temperature > 0 ? ""
												: "; greedy decoding often does, --temp 0.7 draws");
}

/* Exit status of an answer that ended, with its message. */
static int end_status(const struct run *r, struct err *e)
{
	if (r->reason == EV_FINISH_refused)
		return err_set(e, ERR_USAGE, "the prompt does not fit: %s", r->why);
	if (r->reason == EV_FINISH_failed)
		return err_set(e, ERR_INPUT, "the answer failed: %s", r->why);
	explain_end(r);
	if (interrupted && !e->code)
		e->code = ERR_INTERRUPTED;
	return e->code ? -1 : 0;
}

static int answer(
	struct run *r, struct engine *engine, const struct engine_request *q, struct err *e)
{
	int64_t id = engine_submit(engine, q, e);
	if (id < 0)
		return -1;
	while (!r->finished) {
		if (interrupted)
			engine_cancel(engine, id);
		int more = engine_step(engine, e);
		if (more < 0 || emit(r, e)) {
			engine_cancel(engine, id);
			engine_step(engine, NULL);
			return -1;
		}
		if (!more && !r->finished)
			return err_set(e, ERR_DEVICE, "the engine stopped before the answer was whole");
	}
	emit_rest(r);
	out_flush(e); /* before messages about it */
	return end_status(r, e);
}

/* The operand, or standard input: then *read is malloc'd. NULL: the error. */
static const char *read_prompt(const struct cli *c, char **read, size_t *size, struct err *e)
{
	if (c->n_operands) {
		*size = strlen(c->operand[0]);
		return c->operand[0];
	}
	if (isatty(STDIN_FILENO))
		fprintf(stderr, "cutaway: the prompt is read from the terminal; Ctrl-D ends it\n");
	if (in_read(NULL, read, size, e))
		return NULL;
	if (!c->raw && *size && (*read)[*size - 1] == '\n')
		(*read)[--*size] = 0; /* the shell adds the final newline */
	if (*size || c->raw)      /* which has an error of its own */
		return *read;
	free(*read);
	err_set(e, ERR_USAGE, "standard input is empty: give a PROMPT, or '' for an empty turn");
	return NULL;
}

/* Answers one prompt, given as ids. */
static void run_answer(struct run *r, struct session *s, const char *text, const int32_t *ids,
	size_t n_ids, struct err *e)
{
	struct engine_request q = engine_answer_request(&r->c->answer);

	q.kind = EV_REQUEST_KIND_run;
	q.ids = ids;
	q.n_ids = (int32_t)n_ids;
	q.text = text;
	if (searches())
		run_search(r->c, &opts, s->engine, &q, e);
	else
		answer(r, s->engine, &q, e);
}

static int run_verb(const struct cli *c, struct err *e)
{
	struct cli own = *c;
	struct run r = { .c = &own, .terminal = isatty(STDOUT_FILENO), .newline = true };
	struct session s = { 0 };
	char *read = NULL;
	int32_t *ids = NULL;
	size_t size = 0, n_ids = 0;
	const char *text = NULL;

	own.engine.abandon = &interrupted;
	if (!cli_given(c, "max-tokens"))
		own.answer.max_tokens = RUN_TOKENS;
	if (opts.batch && (c->n_operands || searches()))
		return err_set(e, ERR_USAGE, "--batch and a PROMPT or a search exclude each other");
	if (opts.score && !searches())
		return err_set(e, ERR_USAGE, "--score goes with --best-of, --beam or --mcts");
	if (!opts.batch && !(text = read_prompt(c, &read, &size, e)))
		return -1;
	interrupt_catch(SIGINT, (int)SA_RESETHAND | SA_RESTART);
	if (opts.batch)
		return batch_run(&own, opts.batch, e);
	run_search_slots(&opts, &own);
	if (!cli_open(&s, &own, on_event, &r, e)) {
		const struct lossy_settings lossy = lossy_of(s.engine);

		r.tokenizer = engine_tokenizer(s.engine);
		lossy_print(&lossy, r.lossy, sizeof r.lossy);
		prompt_note_template(c, s.engine);
		if (!prompt_ids(c, s.engine, text, size, &ids, &n_ids, e))
			run_answer(&r, &s, text, ids, n_ids, e);
	}
	cli_close(&s, c, e);
	free(ids);
	free(read);
	free(r.held.text);
	free(r.token);
	return e->code ? -1 : 0;
}

const struct verb verb_run = {
	VERB(run, "[PROMPT]",
		"Model|Kernels|Exactness|Sampling|Answer|Scheduler|Speculation|Watching|Recording|"
		"raw|json|outliers|importance"),
	OPERANDS(0, 1, NULL),
};
