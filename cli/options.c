/* The table of options, and the parser that reads the command line by it. Thread: main's.
 *
 * Options may stand before or after the verb and its operands. Whether the verb takes an option is
 * known only at the end, so the parser notes which were given and judges then. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "cli/cli.h"

enum {
	ENGINE = VERB_CHAT | VERB_RUN | VERB_SCORE | VERB_BENCH,
	KERNELS = ENGINE | VERB_VERIFY | VERB_DIFF,
	JSON = VERB_RUN | VERB_TOKENIZE | VERB_SCORE | VERB_BENCH | VERB_CERTIFY | VERB_WHATIF | VERB_VERIFY |
		   VERB_DIFF,
	ANSWER = VERB_CHAT | VERB_RUN,
	SCREEN = VERB_CHAT | VERB_REPLAY | VERB_DIFF,
};

/* clang-format off */
#define AT(member) offsetof(struct cli, member)
#define FLAG(group, name, verbs, member, doc) \
	{ group, name, NULL, doc, AT(member), OPTION_FLAG, verbs, false, 0, 0, 0 }
#define WORD(type, group, name, arg, verbs, member, doc) \
	{ group, name, arg, doc, AT(member), OPTION_##type, verbs, false, 0, 0, 0 }
#define INT(group, name, arg, verbs, member, min, max, step, doc) \
	{ group, name, arg, doc, AT(member), OPTION_INT, verbs, false, min, max, step }
#define FLOAT(group, name, arg, verbs, member, min, max, doc) \
	{ group, name, arg, doc, AT(member), OPTION_FLOAT, verbs, false, min, max, 0 }
/* clang-format on */

const struct option options[] = {
	WORD(FILE, "Model", "model", "FILE", VERB_ALL & ~(VERB_CACHE | VERB_WHY | VERB_EXPORT | VERB_DEVICES), engine.model,
		 "GGUF file of the Llama family (without it: the model that `make model` fetches)"),
	INT("Model", "ctx", "N", ENGINE, engine.ctx, 0, 1 << 20, 1,
		"longest sequence in tokens; 0: the model's own, at most 8192"),
	WORD(CHOICE, "Model", "packed-cache", "auto|on|off", KERNELS, engine.packed_cache,
		 "keep the packed weights for the next start: for a model that takes long, always, never"),

	WORD(ZERO, "Sampling", "greedy", NULL, ANSWER, params.temperature,
		 "always the most probable token: the same as --temp 0"),
	FLOAT("Sampling", "temp", "T", ANSWER, params.temperature, 0, 100, "temperature; 0 is greedy"),
	INT("Sampling", "top-k", "K", ANSWER, params.top_k, 0, 1 << 24, 1,
		"keep the K best tokens; 0: off"),
	FLOAT("Sampling", "top-p", "P", ANSWER, params.top_p, 0, 1,
		  "keep the best tokens of mass P; 1: off"),
	FLOAT("Sampling", "min-p", "P", ANSWER, params.min_p, 0, 1,
		  "keep tokens at least P times as probable as the best; 0: off"),
	FLOAT("Sampling", "repeat-penalty", "X", ANSWER, params.repeat_penalty, 0.01, 100,
		  "divide the logits of seen tokens by X; 1: off"),
	FLOAT("Sampling", "frequency-penalty", "X", ANSWER, params.frequency_penalty, -100, 100,
		  "lower logits by X for each time a token was seen"),
	FLOAT("Sampling", "presence-penalty", "X", ANSWER, params.presence_penalty, -100, 100,
		  "lower logits of seen tokens by X"),
	INT("Sampling", "penalty-window", "N", ANSWER, params.penalty_window, 0, 1 << 20, 1,
		"tokens that the penalties look back on"),
	WORD(U64, "Sampling", "seed", "N", ANSWER | VERB_CERTIFY, params.seed,
		 "key of the draws: same seed, same text; certify: of the mixed cases"),

	WORD(TEXT, "Answer", "system", "TEXT", ANSWER, system,
		 "system text (\"\": none; without it: the model's own)"),
	INT("Answer", "max-tokens", "N", ANSWER | VERB_BENCH, max_tokens, 0, 1 << 20, 1,
		"most tokens of an answer; 0: until the context is full; without it run has 512, bench --spec 64"),
	WORD(STOP, "Answer", "stop", "TEXT", ANSWER, stop,
		 "end the answer before TEXT; may be given up to 16 times"),
	WORD(CHOICE, "Answer", "full", "stop|drop", VERB_CHAT, full,
		 "when the context is full: stop the answer, or drop the oldest turns"),
	WORD(FILE, "Answer", "batch", "FILE", VERB_RUN, batch,
		 "answer each line of FILE (-: standard input), --slots at a time, a line of JSON each; \\n, "
		 "\\t and \\\\ in a line stand for newline, tab and backslash"),
	WORD(TEXT, "Search", "best-of", "N", VERB_RUN, best_of,
		 "sample N answers side by side and print the best"),
	WORD(TEXT, "Search", "beam", "N[,ALPHA]", VERB_RUN, beam,
		 "beam search: the N most probable beginnings live on; answers score logp / tokens^ALPHA (1)"),
	WORD(TEXT, "Search", "mcts", "N[,CHILDREN[,TOKENS]]", VERB_RUN, mcts,
		 "tree search over sentences (or so many tokens) with N simulations"),
	WORD(TEXT, "Search", "score", "COMMAND", VERB_RUN, score,
		 "judge answers by COMMAND: the text on its standard input, a number out (without it: by log-probability)"),
	FLAG("Answer", "raw", VERB_RUN, raw, "no chat template; control tokens in the text are parsed"),

	INT("Engine", "threads", "N", KERNELS, engine.threads, 0, 256, 1, "0: one a core"),
	WORD(CHOICE, "Engine", "backend", "auto|cuda|cpu|ref", KERNELS, engine.backend,
		 "auto: a GPU if one can be used, else the CPU; ref: the plain kernels that define the arithmetic"),
	INT("Engine", "device", "N", KERNELS, engine.device, 0, 255, 1, "which GPU: see cutaway devices"),
	WORD(CHOICE, "Engine", "cuda-mode", "launches|graph|persistent", KERNELS, engine.cuda_mode,
		 "how a GPU runs a step: a launch a stage, one graph, or one kernel that stays (the default)"),
	WORD(CHOICE, "Engine", "exact", "on|off", ENGINE, engine.exact,
		 "off: a GPU multiplies many rows by F16 or BF16 weights on its float tensor cores: not exact, not verifiable"),
	WORD(TEXT, "Engine", "isa", "NAME", KERNELS, engine.isa,
		 "instruction set of the kernels (without it: the best of this machine)"),
	INT("Engine", "slots", "N", ANSWER | VERB_WHATIF, engine.slots, 1, 256, 1, "requests that run at once (vLLM: max_num_seqs)"),
	INT("Engine", "pages", "N", ANSWER | VERB_WHATIF, engine.pages, 0, 1 << 24, 1,
		"KV pages; 0: room for a longest sequence, at least four a slot"),
	INT("Engine", "page-size", "N", ANSWER | VERB_WHATIF, engine.page_size, 16, 1024, 16,
		"tokens of a KV page, a multiple of 16"),
	INT("Engine", "prefill-chunk", "N", ANSWER | VERB_WHATIF, engine.prefill_chunk, 0, 1 << 20, 1,
		"most prompt tokens of one request in a step; 0: whole prompts"),
	INT("Engine", "budget", "N", ANSWER | VERB_WHATIF, engine.budget, 1, 4096, 1,
		"most tokens computed in a step (vLLM: max_num_batched_tokens)"),
	FLAG("Engine", "no-prefix-cache", ANSWER, no_prefix_cache,
		 "compute every prompt from its first token"),
	WORD(CHOICE, "Engine", "evict", "lru|fifo|lfu", ANSWER | VERB_WHATIF, engine.evict,
		 "which cached page goes when one is needed: longest unread, longest kept, least found"),
	WORD(CHOICE, "Engine", "policy", "fcfs|shortest", ANSWER | VERB_WHATIF, engine.policy,
		 "who is served first: first come, or the shortest prompt"),
	WORD(CHOICE, "Engine", "cache", "on|off", VERB_WHATIF, cache, "the prefix cache"),
	FLAG("Engine", "verify", VERB_WHATIF, verify,
		 "then run it for real, with the model, and compare"),
	WORD(TEXT, "Engine", "spec", "off|NAME[:ARGS]", ANSWER | VERB_WHATIF | VERB_BENCH, engine.spec,
		 "who guesses ahead: ngram, jacobi, lookahead, skip, draft, medusa, eagle, auto; see docs/speculation.md"),
	WORD(TEXT, "Engine", "shadow", "off|free|all|NAME+NAME", ANSWER, engine.shadow,
		 "drafters that guess beside the run without being used, to see how they would have done"),
	WORD(CHOICE, "Engine", "rule", "race|rejection", ANSWER, rule,
		 "how a draft is judged: it wins the target's own draw, or modified rejection sampling"),

	WORD(FILE, "Recording", "record", "FILE", ANSWER, record,
		 "where the session is recorded (without it: a new file under XDG data)"),
	FLAG("Recording", "no-record", ANSWER, no_record, "record nothing"),

	WORD(FILE, "Recording", "file", "FILE", VERB_WHY, file,
		 "the recording that is asked (without it: the newest under XDG data)"),

	WORD(TEXT, "Recording", "range", "A:B", VERB_VERIFY, range,
		 "verify the rows of these steps alone: A:B, A:, :B or one step"),
	FLAG("Recording", "deep", VERB_DIFF, deep,
		 "compute the divergence exactly, with the model (or both models, over the tokens of A)"),
	FLAG("Screen", "view", VERB_DIFF, view, "both texts side by side in the terminal"),

	WORD(FILE, "Screen", "commands", "FILE", VERB_CHAT, commands,
		 "begin with these lines, as if typed: / commands and turns"),
	FLAG("Screen", "ascii", SCREEN | VERB_BENCH, ascii, "draw with ASCII alone"),
	WORD(CHOICE, "Screen", "theme", "auto|dark|light|mono", SCREEN, theme,
		 "colours; auto asks the terminal and honours NO_COLOR"),

	FLAG("Screen", "follow", VERB_REPLAY, follow,
		 "stay at the end of a recording that is being written (without FILE: the newest)"),

	FLAG("Output", "json", JSON | VERB_DEVICES, json, "write JSON"),
	WORD(TEXT, "Output", "only", "NAME", VERB_BENCH, only, "measure this figure alone"),
	WORD(TEXT, "Output", "search", "METHOD+METHOD", VERB_BENCH, search,
		 "what searches cost and share: best:8+beam:4+mcts:32, or these; see docs/search.md"),
	FLAG("Output", "roofline", VERB_BENCH, roofline,
		 "draw each kernel stage against the limits of the machine"),
	FLAG("Output", "profile", VERB_BENCH, profile,
		 "print where a token's time goes, stage by stage"),
	FLAG("Output", "turns", VERB_BENCH, turns,
		 "with --only: one run for each line on standard input, its value on a line"),
	WORD(FILE, "Output", "svg", "FILE", VERB_BENCH, svg, "write that picture as SVG"),
	WORD(CHOICE, "Output", "to", "perfetto|csv|jsonl|asciicast|html", VERB_EXPORT, to,
		 "the format (without it: by the ending of --out)"),
	WORD(FILE, "Output", "out", "FILE", VERB_EXPORT, out,
		 "write to FILE, also -o (without it: standard output)"),
	WORD(TEXT, "Output", "table", "NAME", VERB_EXPORT, table,
		 "csv: which kind of events (token)"),
	FLAG("Output", "plain", VERB_TOKENIZE, plain, "control tokens written in the text are text"),
	FLAG("Output", "quick", VERB_CERTIFY, quick, "a smaller proof, under half a minute"),
	INT("Output", "seconds", "N", VERB_CERTIFY, seconds, 0, 1 << 20, 1,
		"begin no case that would end after N seconds; 0: 170, or 18 with --quick"),

	FLAG("Help", "help", VERB_ALL, help,
		 "say what there is; `cutaway VERB --help` says it of a verb"),
	FLAG("Help", "version", VERB_ALL, version, "which cutaway this is"),
	{"Help", "man", NULL, "the manual page", AT(man), OPTION_FLAG, VERB_ALL, true, 0, 0, 0},
	{"Help", "completion", "bash", "completion for a shell", AT(completion), OPTION_CHOICE,
	 VERB_ALL, true, 0, 0, 0},
	{0},
};
enum { N_OPTIONS = sizeof options / sizeof *options - 1 };

void cli_init(struct cli *c)
{
	*c = (struct cli){
		.engine = ENGINE_DEFAULTS,
		.params = SAMPLE_DEFAULTS,
		.rule = "race",
		.full = "stop",
		.theme = "auto",
	};
	c->engine.backend = "auto"; /* of the program; a library takes the CPU */
}

_Static_assert((int)N_OPTIONS <= (int)CLI_MAX_OPTIONS, "struct cli has room for each option");
bool cli_given(const struct cli *c, const char *name)
{
	for (int i = 0; i < N_OPTIONS; i++)
		if (!strcmp(options[i].name, name))
			return c->given[i];
	return false;
}

const char *option_default(const struct option *o, char *buf, size_t cap)
{
	struct cli c;
	cli_init(&c);
	const void *at = (const char *)&c + o->at;
	buf[0] = 0;
	if (o->type == OPTION_INT)
		snprintf(buf, cap, "%d", *(const int32_t *)at);
	else if (o->type == OPTION_FLOAT)
		snprintf(buf, cap, "%.4g", (double)*(const float *)at);
	else if (o->type == OPTION_U64)
		snprintf(buf, cap, "%llu", (unsigned long long)*(const uint64_t *)at);
	else if (o->type == OPTION_CHOICE || o->type == OPTION_TEXT)
		if (*(const char *const *)at)
			snprintf(buf, cap, "%s", *(const char *const *)at);
	return buf;
}

/* The nearest name at most 2 edits away (and not all of it), or NULL. */
static const char *nearest_option(const char *name)
{
	const char *best = NULL;
	int least = NEAR_ENOUGH + 1;
	for (const struct option *o = options; o->name; o++) {
		int d = near_edits(name, o->name);
		if (!o->hidden && d < least && d < (int)strlen(o->name)) {
			least = d;
			best = o->name;
		}
	}
	return best;
}

static const char *nearest_verb(const char *name)
{
	const char *best = NULL;
	int least = NEAR_ENOUGH + 1;
	for (const struct verb *v = verbs; v->name; v++) {
		int d = near_edits(name, v->name);
		if (d < least && d < (int)strlen(v->name)) {
			least = d;
			best = v->name;
		}
	}
	return best;
}

static int set_int(const struct option *o, void *at, const char *value, struct err *e)
{
	char *end;
	errno = 0;
	long long n = strtoll(value, &end, 10);
	if (end == value || *end)
		return err_set(e, ERR_USAGE, "--%s %s: that is not a whole number", o->name, value);
	if (errno || (double)n < o->min || (double)n > o->max)
		return err_set(e, ERR_USAGE, "--%s %s: it must be between %.0f and %.0f", o->name, value,
					   o->min, o->max);
	if (n % o->step)
		return err_set(e, ERR_USAGE, "--%s %s: it must be a multiple of %d", o->name, value,
					   o->step);
	*(int32_t *)at = (int32_t)n;
	return 0;
}

static int set_u64(const struct option *o, void *at, const char *value, struct err *e)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(value, &end, 10);
	if (end == value || *end || errno || strchr(value, '-'))
		return err_set(e, ERR_USAGE, "--%s %s: it must be a whole number from 0 to 2^64 - 1",
					   o->name, value);
	*(uint64_t *)at = n;
	return 0;
}

static int set_float(const struct option *o, void *at, const char *value, struct err *e)
{
	char *end;
	double x = strtod(value, &end);
	if (end == value || *end || isnan(x))
		return err_set(e, ERR_USAGE, "--%s %s: that is not a number", o->name, value);
	if (x < o->min || x > o->max)
		return err_set(e, ERR_USAGE, "--%s %s: it must be between %g and %g", o->name, value,
					   o->min, o->max);
	*(float *)at = (float)x;
	return 0;
}

static int set_choice(const struct option *o, void *at, const char *value, struct err *e)
{
	size_t size = strlen(value);
	for (const char *word = o->arg; word; word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL)
		if (size && strcspn(word, "|") == size && !memcmp(word, value, size)) {
			*(const char **)at = value;
			return 0;
		}
	return err_set(e, ERR_USAGE, "--%s %s: it must be one of %s", o->name, value, o->arg);
}

static int add_stop(struct cli *c, const char *value, struct err *e)
{
	int n = 0;
	while (c->stop[n])
		n++;
	if (!*value)
		return err_set(e, ERR_USAGE, "--stop: an empty text would stop every answer at once");
	if (n == CLI_MAX_STOP)
		return err_set(e, ERR_USAGE, "--stop: at most %d of them", CLI_MAX_STOP);
	c->stop[n] = value;
	return 0;
}

static int set(struct cli *c, const struct option *o, const char *value, struct err *e)
{
	void *at = (char *)c + o->at;
	switch (o->type) {
	case OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case OPTION_ZERO:
		*(float *)at = 0;
		return 0;
	case OPTION_INT:
		return set_int(o, at, value, e);
	case OPTION_U64:
		return set_u64(o, at, value, e);
	case OPTION_FLOAT:
		return set_float(o, at, value, e);
	case OPTION_CHOICE:
		return set_choice(o, at, value, e);
	case OPTION_STOP:
		return add_stop(c, value, e);
	case OPTION_FILE:
		if (!*value)
			return err_set(e, ERR_USAGE, "--%s: a file must be named", o->name);
		/* fall through */
	case OPTION_TEXT:
		*(const char **)at = value;
		return 0;
	}
	return 0;
}

static const struct option *find_option(const char *name, size_t size)
{
	for (const struct option *o = options; o->name; o++)
		if (strlen(o->name) == size && !memcmp(o->name, name, size))
			return o;
	return NULL;
}

/* word is argv[i], which begins with a dash. Returns how many words were used, or -1. */
static int parse_option(struct cli *c, bool *given, const char *word, const char *next,
						struct err *e)
{
	if (!strcmp(word, "-h"))
		word = "--help";
	if (!strcmp(word, "-o"))
		word = "--out";
	const char *name = word + 2;
	if (word[1] != '-')
		return err_set(e, ERR_USAGE, "%s: options begin with two dashes; see cutaway --help", word);
	size_t size = strcspn(name, "=");
	const struct option *o = find_option(name, size);
	if (!o) {
		char text[32];
		snprintf(text, sizeof text, "%.*s", (int)size, name);
		const char *near = nearest_option(text);
		return err_set(e, ERR_USAGE, "unknown option %s%s%s%s", word,
					   near ? "; did you mean --" : "", near ? near : "",
					   near ? "?" : "; see cutaway --help");
	}
	const char *value = name[size] ? name + size + 1 : NULL;
	if (!value && (!strcmp(o->name, "spec") || !strcmp(o->name, "search")) && (!next || *next == '-'))
		value = ""; /* bench --spec, --search: all of them */
	if (!o->arg && value)
		return err_set(e, ERR_USAGE, "--%s takes no value", o->name);
	if (o->arg && !value && !next)
		return err_set(e, ERR_USAGE, "--%s needs a value: %s", o->name, o->arg);
	given[o - options] = true;
	if (set(c, o, value ? value : next, e))
		return -1;
	return o->arg && !value ? 2 : 1;
}

static int add_operand(struct cli *c, const char *word, bool *has_verb, bool literal, struct err *e)
{
	if (!*has_verb && !literal) {
		*has_verb = true;
		for (const struct verb *v = verbs; v->name; v++)
			if (!strcmp(v->name, word)) {
				c->verb = v;
				return 0;
			}
		const char *near = nearest_verb(word);
		return err_set(e, ERR_USAGE, "unknown command '%s'%s%s%s", word,
					   near ? "; did you mean " : "", near ? near : "",
					   near ? "?" : "; see cutaway --help");
	}
	if (c->n_operands == CLI_MAX_OPERANDS)
		return err_set(e, ERR_USAGE, "too many operands");
	c->operand[c->n_operands++] = word;
	return 0;
}

/* What can only be judged when all was read. */
static int check_whole(const struct cli *c, const bool *given, struct err *e)
{
	const struct verb *v = c->verb;
	for (int i = 0; i < N_OPTIONS; i++)
		if (given[i] && !(options[i].verbs & v->bit))
			return err_set(e, ERR_USAGE, "%s does not take --%s; see cutaway %s --help", v->name,
						   options[i].name, v->name);
	if (c->n_operands < v->min_operands)
		return err_set(e, ERR_USAGE, "%s needs %s; see cutaway %s --help", v->name, v->operands,
					   v->name);
	if (c->n_operands > v->max_operands)
		return err_set(e, ERR_USAGE, "%s: '%s' is too much; %s", v->name, c->operand[v->max_operands],
					   v->max_operands ? "quote a text of several words" : "it takes options only");
	if (c->record && c->no_record)
		return err_set(e, ERR_USAGE, "--record and --no-record exclude each other");
	if (c->batch && c->n_operands)
		return err_set(e, ERR_USAGE, "--batch and a PROMPT exclude each other");
	return 0;
}

int cli_parse(struct cli *c, int argc, char **argv, struct err *e)
{
	bool given[N_OPTIONS] = {false}, has_verb = false, literal = false;
	cli_init(c);
	for (int i = 1; i < argc;) {
		int used = 1;
		if (!literal && !strcmp(argv[i], "--"))
			literal = true;
		else if (!literal && argv[i][0] == '-' && argv[i][1])
			used = parse_option(c, given, argv[i], argv[i + 1], e);
		else if (add_operand(c, argv[i], &has_verb, literal, e))
			return -1;
		if (used < 0)
			return -1;
		i += used;
	}
	for (int k = 0; k < N_OPTIONS; k++)
		c->given[k] = given[k];
	if (c->help || c->version || c->man || c->completion)
		return 0;
	if (!c->verb)
		c->verb = &verbs[0];
	c->engine.prefix_cache = !c->no_prefix_cache;
	c->engine.rejection = !strcmp(c->rule, "rejection");
	return check_whole(c, given, e);
}
