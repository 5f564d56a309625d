/* See commands.h. */
#include "tui/commands.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 128 }; /* of a command, together */

#define PARAM(field) offsetof(struct settings, params.field)
#define LIVE COMMAND_LIVE
#define BOTH (COMMAND_LIVE | COMMAND_REPLAY)

/* clang-format off */
const struct command commands[] = {
	{ "temp", "NUMBER", "temperature: 0 is greedy, above 1 flattens the distribution", COMMAND_FLOAT, 0, 10,
	  PARAM(temperature), NULL, "0|0.7|1|1.5", 0, LIVE },
	{ "top-k", "N", "only the N best tokens take part in the draw; 0: all", COMMAND_INT, 0, 1e6,
	  PARAM(top_k), NULL, "0|40", 0, LIVE },
	{ "top-p", "P", "only the best tokens that together have probability P; 1: all", COMMAND_FLOAT, 0, 1,
	  PARAM(top_p), NULL, "0.9|0.95|1", 0, LIVE },
	{ "min-p", "P", "only tokens with at least P times the best one's probability; 0: all", COMMAND_FLOAT,
	  0, 1, PARAM(min_p), NULL, "0|0.05|0.1", 0, LIVE },
	{ "repeat", "FACTOR", "divides the logits of tokens that occurred lately; 1: off", COMMAND_FLOAT, 0.01,
	  100, PARAM(repeat_penalty), "repeat-penalty", "1|1.1|1.3", 0, LIVE },
	{ "freq", "NUMBER", "taken off a logit for each time the token occurred lately; 0: off", COMMAND_FLOAT,
	  -100, 100, PARAM(frequency_penalty), "frequency-penalty", "0|0.5", 0, LIVE },
	{ "presence", "NUMBER", "taken off the logits of all tokens that occurred lately; 0: off",
	  COMMAND_FLOAT, -100, 100, PARAM(presence_penalty), "presence-penalty", "0|0.5", 0, LIVE },
	{ "penalty-window", "N", "tokens that count as lately; 0: none", COMMAND_INT, 0, 1e6,
	  PARAM(penalty_window), NULL, "0|64|256", 0, LIVE },
	{ "seed", "N", "key of all draws: the same seed gives the same text", COMMAND_SEED, 0, 0, PARAM(seed),
	  NULL, "0|1|2", 0, LIVE },
	{ "greedy", "", "always the likeliest token: /temp 0", COMMAND_FLOAT, 0, 0, PARAM(temperature), NULL,
	  NULL, 0, LIVE },
	{ "max-tokens", "N", "longest answer; 0: until the context is full", COMMAND_INT, 0, 1e6,
	  offsetof(struct settings, max_tokens), NULL, "0|64|256", 0, LIVE },
	{ "stop", "TEXT", "an answer ends where TEXT appears (\\n is a new line); off: none", COMMAND_TEXTS, 0,
	  0, 0, NULL, "off", 0, LIVE },
	{ "full", "stop|drop", "a full context stops the conversation or drops its oldest turns",
	  COMMAND_CHOICE, 0, 0, offsetof(struct settings, drop_turns), NULL, "stop|drop", 0, LIVE },
	{ "system", "TEXT", "begins anew with this system text; default: the model's own; off: none",
	  COMMAND_ACT, 0, 0, 0, NULL, "default|off", ACT_SYSTEM, LIVE },
	{ "spec", "off|NAME[:ARGS]", "who guesses tokens ahead; the text stays the same, unless /rule says rejection", COMMAND_ENGINE, 0, 0, 0,
	  "spec", "off|auto|ngram|ngram:4|ngram:8|jacobi|lookahead|skip:24|draft|medusa|eagle", 0, LIVE },
	{ "shadow", "off|free|all|NAME+NAME", "who guesses beside the run without being used: see the drafters view",
	  COMMAND_ENGINE, 0, 0, 0, "shadow", "off|free|all", 0, LIVE },
	{ "rule", "race|rejection", "how guesses are judged: in the target's own draw, or by rejection (another text, equally likely)",
	  COMMAND_ENGINE, 0, 0, 0, "rule", "race|rejection", 0, LIVE },
	{ "search", "best N|beam N [PENALTY]|mcts N|off", "each answer is the best of several, on shared pages: see the "
	  "search view", COMMAND_ENGINE, 0, 0, 0, "search", "off|best:8|beam:4|beam:4,0.6|mcts:32|mcts:32,3,16", 0, LIVE },
	{ "score", "COMMAND|off", "who judges the answers of a search: it reads one, and prints a number; off: their "
	  "log-probability", COMMAND_ENGINE, 0, 0, 0, "score", "FILE", 0, LIVE },
	{ "roof", "measure", "reads once more how fast this machine reads memory, which steps are held against: see the time "
	  "view", COMMAND_ENGINE, 0, 0, 0, "roof", "measure", 0, LIVE },
	{ "page-size", "N", "tokens in a KV page, a multiple of 16; only while nothing runs", COMMAND_ENGINE, 0,
	  0, 0, "page-size", "16|32|64", 0, LIVE },
	{ "prefill-chunk", "N", "most prompt tokens of one request in a step; 0: whole", COMMAND_ENGINE, 0, 0,
	  0, "prefill-chunk", "0|32|128", 0, LIVE },
	{ "budget", "N", "most rows in one step, of all requests (vLLM: max_num_batched_tokens)", COMMAND_ENGINE, 0, 0, 0, "budget",
	  "64|256|512", 0, LIVE },
	{ "prefix-cache", "on|off", "whether pages of old prompts are found again", COMMAND_ENGINE, 0, 0, 0,
	  "prefix-cache", "on|off", 0, LIVE },
	{ "evict", "lru|fifo|lfu", "which cached page goes first: longest unread, longest kept, least found",
	  COMMAND_ENGINE, 0, 0, 0, "evict", "lru|fifo|lfu", 0, LIVE },
	{ "policy", "fcfs|shortest", "who is served first: first come, or shortest prompt", COMMAND_ENGINE, 0, 0, 0,
	  "policy", "fcfs|shortest", 0, LIVE },
	{ "attention-every", "N", "tokens from one whose attention is recorded to the next", COMMAND_ENGINE,
	  0, 0, 0, "attention-every", "1|4|8|16", 0, LIVE },
	{ "layer", "N|mean", "the layer that the attention view shows", COMMAND_ACT, 0, 0, 0, NULL, "mean|0",
	  ACT_LAYER, BOTH },
	{ "head", "N|mean", "the head that the attention view shows, of that layer", COMMAND_ACT, 0, 0, 0, NULL,
	  "mean|0", ACT_HEAD, BOTH },
	{ "new", "", "forgets the conversation and begins anew", COMMAND_ACT, 0, 0, 0, NULL, NULL, ACT_NEW,
	  LIVE },
	{ "retry", "", "answers the last turn again, with another draw", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_RETRY, LIVE },
	{ "fork", "N|@POS", "N answers to the last turn at once, sharing its pages; @POS: a second future from there",
	  COMMAND_ACT_NUMBER_OR_POS, 2, 64, 0, NULL, "2|4", ACT_FORK, LIVE },
	{ "rewind", "POS|turn N|-N", "takes the engine back: to a position, to a turn, by N tokens; F5 goes on",
	  COMMAND_ACT, 0, 0, 0, NULL, "turn", ACT_REWIND, LIVE },
	{ "try", "TOKEN|#ID", "puts another token under the cursor, or after the newest, and goes on from it",
	  COMMAND_ACT, 0, 0, 0, NULL, NULL, ACT_TRY, LIVE },
	{ "undo", "", "back to the branch that was left last by going back", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_UNDO, LIVE },
	{ "load", "N", "N background requests from the shipped prompts, so that the batch fills",
	  COMMAND_ACT_NUMBER, 1, 256, 0, NULL, "4|8|16", ACT_LOAD, LIVE },
	{ "cancel", "", "stops the answer and the background requests", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_STOP_ANSWER, LIVE },
	{ "set", "NAME VALUE", "any setting by its name, as on the command line; alone: all of them", COMMAND_ACT, 0, 0, 0,
	  NULL, NULL, ACT_SET, LIVE },
	{ "save", "FILE", "writes the conversation as text; FILE.db: a copy of the recording", COMMAND_ACT_FILE,
	  0, 0, 0, NULL, NULL, ACT_SAVE, LIVE },
	{ "pause", "", "holds between two steps, or goes on", COMMAND_ACT, 0, 0, 0, NULL, NULL, ACT_PAUSE,
	  BOTH },
	{ "continue", "", "goes on: after a pause, or from the step that is looked at", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_CONTINUE, BOTH },
	{ "step", "N", "runs N steps, then holds", COMMAND_ACT_NUMBER, 1, 1e6, 0, NULL, NULL, ACT_STEP, BOTH },
	{ "back", "N", "looks N steps back; F5 goes on from there", COMMAND_ACT_NUMBER, 1, 1e12, 0, NULL, NULL,
	  ACT_BACK, BOTH },
	{ "goto", "STEP", "looks at a step; F5 goes on from there", COMMAND_ACT_NUMBER, 0, 1e12, 0, NULL, NULL, ACT_GOTO,
	  BOTH },
	{ "speed", "FACTOR", "how fast it plays: 1 as recorded", COMMAND_ACT_NUMBER, 0.01, 1000, 0, NULL,
	  "0.25|0.5|1|2|4|16", ACT_SPEED, COMMAND_REPLAY },
	{ "view", "NAME", "goes to a view; /batch, /pages and so on do, too", COMMAND_ACT_VIEW, 0, 0, 0, NULL, NULL, ACT_VIEW, BOTH },
	{ "zoom", "", "the view in focus fills the screen, or goes back", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_ZOOM, BOTH },
	{ "break", "EXPR", "stops after a step for which a SQL expression holds; alone it lists, off takes away",
	  COMMAND_ACT, 0, 0, 0, NULL, "off", ACT_BREAK, BOTH },
	{ "tbreak", "EXPR", "the same, once: it is taken away when it has stopped", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_TBREAK, BOTH },
	{ "watch", "NAME EXPR", "shows a number of each step as a sparkline (/view watch); alone it lists",
	  COMMAND_ACT, 0, 0, 0, NULL, "off", ACT_WATCH, BOTH },
	{ "find", "EXPR|break", "goes to the next step for which a SQL expression, or any breakpoint, holds; alone: again",
	  COMMAND_ACT, 0, 0, 0, NULL, "break", ACT_FIND, BOTH },
	{ "rfind", "EXPR|break", "the same backward", COMMAND_ACT, 0, 0, 0, NULL, "break", ACT_RFIND, BOTH },
	{ "print", "EXPR", "a SQL expression over the step that is looked at; alone: all that it logged", COMMAND_ACT, 0, 0,
	  0, NULL, NULL, ACT_PRINT, BOTH },
	{ "why", "WHAT [WHERE]", "explains from the log: why a miss, evict, preempt, wait, reject, token, slow",
	  COMMAND_ACT, 0, 0, 0, NULL, "miss|evict|preempt|wait|reject|token|slow", ACT_WHY, BOTH },
	{ "tree", "", "the branches of the session; Enter goes to one", COMMAND_ACT, 0, 0, 0, NULL, NULL,
	  ACT_TREE, BOTH },
	{ "lens", "POS", "looks into a token: what each layer would say, every head's attention, all logits", COMMAND_ACT,
	  0, 0, 0, NULL, NULL, ACT_LENS, BOTH },
	{ "info", "", "the session in numbers: model, pages, what happened so far, settings", COMMAND_ACT, 0, 0, 0, NULL,
	  NULL, ACT_INFO, BOTH },
	{ "theme", "dark|light", "colours for a dark or a light ground", COMMAND_ACT_WORD, 0, 0, 0, NULL,
	  "dark|light", ACT_THEME, BOTH },
	{ "help", "", "lists the commands", COMMAND_ACT, 0, 0, 0, NULL, NULL, ACT_HELP, BOTH },
	{ "quit", "", "ends the session; it is saved", COMMAND_ACT, 0, 0, 0, NULL, NULL, ACT_QUIT, BOTH },
	{ 0 },
};
/* clang-format on */

/* --- settings --- */

void settings_free(struct settings *s)
{
	free(s->system);
	s->system = NULL;
	for (int i = 0; i <= SETTINGS_STOPS; i++) {
		free(s->stop[i]);
		s->stop[i] = NULL;
	}
}

/* \n, \t and \\ are understood. */
static char *unescape(const char *text)
{
	char *out = malloc(strlen(text) + 1), *to = out;

	for (; out && *text; text++) {
		if (*text == '\\' && (text[1] == 'n' || text[1] == 't' || text[1] == '\\')) {
			text++;
			*to++ = *text == 'n' ? '\n' : *text == 't' ? '\t' : '\\';
		} else {
			*to++ = *text;
		}
	}
	if (out)
		*to = '\0';
	return out;
}

int settings_add_stop(struct settings *s, const char *text, struct err *e)
{
	int n = 0;

	while (n <= SETTINGS_STOPS && s->stop[n])
		n++;
	if (n >= SETTINGS_STOPS)
		return err_set(e, ERR_USAGE, "there are %d stop strings already: /stop off forgets them", n);
	s->stop[n] = unescape(text);
	return s->stop[n] ? 0 : err_set(e, ERR_MEMORY, "no memory for a stop string");
}

/* --- values --- */

static float *field_float(const struct command_host *h, const struct command *c)
{
	return (float *)(void *)((char *)h->settings + c->offset);
}

static int32_t *field_int(const struct command_host *h, const struct command *c)
{
	return (int32_t *)(void *)((char *)h->settings + c->offset);
}

static void stops_text(const struct settings *s, char *out, size_t cap)
{
	size_t used = 0;

	snprintf(out, cap, "off");
	for (int i = 0; i < SETTINGS_STOPS && s->stop[i] && used < cap; i++) {
		int n = snprintf(out + used, cap - used, "%s'%s'", i ? " " : "", s->stop[i]);

		used += n > 0 ? (size_t)n : 0;
	}
}

bool commands_value(const struct command_host *h, const struct command *c, char *out, size_t cap)
{
	if (c->kind == COMMAND_ENGINE)
		return h->engine_get(h->arg, c->engine, out, cap) == 0;
	if (!h->settings || c->kind > COMMAND_ENGINE)
		return false;
	switch (c->kind) {
	case COMMAND_INT:
		snprintf(out, cap, "%d", *field_int(h, c));
		return true;
	case COMMAND_FLOAT:
		snprintf(out, cap, "%g", (double)*field_float(h, c));
		return *c->args; /* /greedy has none */
	case COMMAND_SEED:
		snprintf(out, cap, "%llu", (unsigned long long)h->settings->params.seed);
		return true;
	case COMMAND_CHOICE:
		snprintf(out, cap, "%s", h->settings->drop_turns ? "drop" : "stop");
		return true;
	default:
		stops_text(h->settings, out, cap);
		return true;
	}
}

static int say_value(const struct command_host *h, const struct command *c)
{
	char value[256], text[640];

	if (!commands_value(h, c, value, sizeof value))
		snprintf(value, sizeof value, "not known before the model is there");
	snprintf(text, sizeof text, "%s is %s   (/%s %s: %s)", c->name, value, c->name, c->args, c->doc);
	h->say(h->arg, text);
	return 0;
}

static int changed(const struct command_host *h, const struct command *c)
{
	char value[256], text[640];

	if (!*c->args) /* /greedy is a name for /temp 0 */
		c = commands;
	if (!commands_value(h, c, value, sizeof value))
		return 0;
	if (c->kind != COMMAND_ENGINE) /* the engine notes its own */
		h->note(h->arg, c->engine ? c->engine : c->name, value);
	snprintf(text, sizeof text, "%s is now %s   (%s)", c->name, value, c->doc);
	h->say(h->arg, text);
	return 0;
}

void commands_say_set(const struct command_host *h, const char *engine)
{
	char now[256], text[320];

	for (const struct command *c = commands; c->name; c++)
		if (c->kind == COMMAND_ENGINE && !strcmp(c->engine, engine)) {
			changed(h, c);
			return;
		}
	if (h->engine_get(h->arg, engine, now, sizeof now))
		return;
	snprintf(text, sizeof text, "%s is now %s", engine, now);
	h->say(h->arg, text);
}

static int parse_number(const struct command *c, const char *arg, double *out, struct err *e)
{
	bool whole = c->kind == COMMAND_INT || (c->kind >= COMMAND_ACT && c->min == floor(c->min));
	char *end;

	*out = strtod(arg, &end);
	while (isspace((unsigned char)*end))
		end++;
	if (*end || !isfinite(*out) || *out < c->min || *out > c->max || (whole && *out != floor(*out)))
		return err_set(e, ERR_USAGE, "/%s %.40s: %s from %.10g to %.10g is needed", c->name, arg,
					   whole ? "a whole number" : "a number", c->min, c->max);
	return 0;
}

static int set_seed(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	unsigned long long seed;
	char *end;

	errno = 0;
	seed = strtoull(arg, &end, 0);
	if (errno || *end || !isdigit((unsigned char)*arg))
		return err_set(e, ERR_USAGE, "/seed %.40s: a whole number from 0 to 2^64-1 is needed", arg);
	h->settings->params.seed = seed;
	return changed(h, c);
}

static int set_number(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	double value = 0;

	if (*c->args && parse_number(c, arg, &value, e) < 0)
		return -1;
	if (c->kind == COMMAND_INT)
		*field_int(h, c) = (int32_t)value;
	else
		*field_float(h, c) = (float)value;
	return changed(h, c);
}

/* The words of a command, up to a colon; they live as long as `copy`. */
static struct command_names words_of(const struct command *c, char copy[WORDS])
{
	struct command_names l = { 0 };
	char *rest = copy;

	snprintf(copy, WORDS, "%s", c->words && strcmp(c->words, "FILE") ? c->words : "");
	for (char *word; (word = strsep(&rest, "|")) && l.n < COMMAND_NAMES;) {
		word[strcspn(word, ":")] = '\0';
		if (!l.n || strcmp(l.name[l.n - 1], word) != 0) /* ngram, ngram:4 */
			l.name[l.n++] = word;
	}
	return l;
}

static const char *choose_word(const struct command *c, const char *arg, char copy[WORDS], struct err *e)
{
	struct command_names l = words_of(c, copy);
	char what[24];

	snprintf(what, sizeof what, "/%s", c->name);
	return command_names_choose(&l, what, arg, e);
}

/* "look:3,3,2": the engine knows whole names alone, and more than these. */
static int set_engine(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	char copy[WORDS], head[24], *whole = NULL;
	struct command_names l = words_of(c, copy);
	size_t n = strcspn(arg, ": \t");
	int n_found = 0, at, rc;

	snprintf(head, sizeof head, "%.*s", n < sizeof head ? (int)n : 0, arg);
	at = isalpha((unsigned char)*head) ? command_names_find(&l, head, n, &n_found) : -1;
	if (n_found > 1)
		return choose_word(c, head, copy, e) ? 0 : -1;
	if (at >= 0 && asprintf(&whole, "%s%s", l.name[at], arg + n) < 0)
		return err_set(e, ERR_MEMORY, "no memory for a setting");
	rc = h->engine_set(h->arg, c->engine, whole ? whole : arg, e);
	free(whole);
	return rc < 0 ? -1 : rc ? 0 : changed(h, c);
}

static int set_choice(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	char copy[WORDS];
	const char *word = choose_word(c, arg, copy, e);

	if (!word)
		return -1;
	h->settings->drop_turns = *word == 'd';
	return changed(h, c);
}

static int set_stops(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	if (!strcmp(arg, "off")) {
		for (int i = 0; i < SETTINGS_STOPS; i++) {
			free(h->settings->stop[i]);
			h->settings->stop[i] = NULL;
		}
	} else if (settings_add_stop(h->settings, arg, e) < 0) {
		return -1;
	}
	return changed(h, c);
}

/* --- acts --- */

static int act(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	struct command_names known;
	double number = c->min;
	char copy[WORDS];

	switch (c->kind) {
	case COMMAND_ACT_NUMBER:
	case COMMAND_ACT_NUMBER_OR_POS:
		if (*arg && !(*arg == '@' && c->kind == COMMAND_ACT_NUMBER_OR_POS) && parse_number(c, arg, &number, e) < 0)
			return -1;
		break;
	case COMMAND_ACT_FILE:
		if (!*arg)
			return err_set(e, ERR_USAGE, "/%s needs the name of a file", c->name);
		break;
	case COMMAND_ACT_VIEW:
		known = commands_views(h);
		if (!(arg = command_names_choose(&known, "/view", arg, e)))
			return -1;
		break;
	case COMMAND_ACT_WORD:
		if (!(arg = choose_word(c, arg, copy, e)))
			return -1;
		break;
	default:
		if (*arg && !*c->args)
			return err_set(e, ERR_USAGE, "/%s takes no argument", c->name);
		break;
	}
	return h->act(h->arg, c->act, arg, number, e);
}

static int run(const struct command_host *h, const struct command *c, const char *arg, struct err *e);

/* A setting that has a command of its own, or one of the engine that has none. */
static int set_any(const struct command_host *h, const char *arg, struct err *e)
{
	const char *from = arg + strspn(arg, "-");
	size_t n = strcspn(from, " =");
	const char *value = from + n + strspn(from + n, " =");
	char name[41], now[256], text[320];
	struct command_names l = { 0 };
	int n_found, at, rc;

	if (!*arg)
		return h->act(h->arg, ACT_INFO, "", 0, e);
	snprintf(name, sizeof name, "%.*s", (int)(n < 40 ? n : 40), from);
	for (const struct command *c = commands; c->name; c++)
		if (c->kind <= COMMAND_ENGINE && *c->args)
			l.name[l.n++] = c->name;
	at = command_names_find(&l, name, strlen(name), &n_found);
	if (at >= 0) {
		snprintf(text, sizeof text, "/%s", l.name[at]);
		return run(h, commands_find(h, text), value, e);
	}
	if (n_found > 1)
		return command_names_choose(&l, "/set", name, e) ? 0 : -1;
	if (h->engine_get(h->arg, name, now, sizeof now))
		return err_set(e, ERR_USAGE, "there is no setting %s: /set alone lists them", name);
	rc = *value ? h->engine_set(h->arg, name, value, e) : 0;
	if (rc || h->engine_get(h->arg, name, now, sizeof now))
		return rc < 0 ? -1 : 0;
	snprintf(text, sizeof text, "%s is %s%s", name, *value ? "now " : "", now);
	h->say(h->arg, text);
	return 0;
}

static int run(const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	if (c->act == ACT_SET && c->kind == COMMAND_ACT)
		return set_any(h, arg, e);
	if (c->kind >= COMMAND_ACT)
		return act(h, c, arg, e);
	if (!*arg && *c->args)
		return say_value(h, c);
	if (*arg && !*c->args)
		return err_set(e, ERR_USAGE, "/%s takes no argument", c->name);
	switch (c->kind) {
	case COMMAND_ENGINE:
		return set_engine(h, c, arg, e);
	case COMMAND_SEED:
		return set_seed(h, c, arg, e);
	case COMMAND_CHOICE:
		return set_choice(h, c, arg, e);
	case COMMAND_TEXTS:
		return set_stops(h, c, arg, e);
	default:
		return set_number(h, c, arg, e);
	}
}

/* What stands behind the name, with what an alias puts before it. malloc'd. */
static char *argument(const char *before, const char *line)
{
	size_t n = strlen(line), b = strlen(before);
	char *arg = malloc(b + n + 2);

	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (arg)
		sprintf(arg, "%s%s%.*s", before, b && n ? " " : "", (int)n, line);
	return arg;
}

int commands_run(const struct command_host *h, const char *line, struct err *e)
{
	const char *before;
	const struct command *c = commands_named(h, line, &before, e);
	char *arg;
	int result;

	if (!c)
		return -1;
	line += 1 + strcspn(line + 1, " \t\n");
	arg = argument(before, line + strspn(line, " \t\n"));
	if (!arg)
		return err_set(e, ERR_MEMORY, "no memory for a command");
	result = run(h, c, arg, e);
	free(arg);
	return result;
}
