/* The options of several verbs, and the parser that reads the command line by all tables. Thread:
 * main's.
 *
 * Options may stand before or after the verb and its operands. Whether the verb takes an option is
 * known only at the end, so the parser notes which were given and decides then. */
#include <sys/stat.h>

#include "base/near.h"
#include "base/paths.h"
#include "base/preset.h"
#include "base/recordings.h"
#include "base/text.h"
#include "cli/cli.h"

static const struct setting shared[] = {
	OWN(FILE, cli, record, "record", "Recording",
		"record the session in this file, which must be new, or in a new one in DIR/",
		.arg = "FILE"),
	OWN(FLAG, cli, no_record, "no-record", "Recording",
		"record nothing (without it and --record: a new file under XDG data)"),
	OWN(FLAG, cli, ascii, "ascii", "Screen", "draw with ASCII alone"),
	OWN(CHOICE, cli, theme, "theme", "Screen",
		"colours; auto asks the terminal and honours NO_COLOR",
		SETTING_WORDS("auto", "dark", "light", "mono")),
	OWN(TEXT, cli, preset, "preset", "Answer",
		"the settings that the chat kept under this name (/preset save NAME), but those given",
		.arg = "NAME"),
	OWN(FLAG, cli, projector, "projector", "Screen",
		"for a class room: one view at a time (F7, F8), without dim colours"),
	OWN(FLAG, cli, raw, "raw", "Output", "no chat template; control tokens in the text are parsed"),
	OWN(FLAG, cli, json, "json", "Output", "write JSON"),
	OWN(FILE, cli, csv, "csv", "Output", "write the table as CSV to FILE, too", .arg = "FILE"),
	OWN(TEXT, cli, api_key, "api-key", "Server",
		"the server's key; better in the variable CUTAWAY_API_KEY, since others see a command line",
		.arg = "KEY"),
	OWN(FILE, cli, calibrate, "calibrate", "Calibration",
		"text whose inputs decide; without it the model writes one, by --seed", .arg = "FILE"),
	OWN(FLAG, cli, help, "help", "Help",
		"say what there is; `cutaway VERB --help` says it of a verb"),
	OWN(FLAG, cli, version, "version", "Help", "which cutaway this is"),
	OWN(FLAG, cli, man, "man", NULL, "the manual page"),
	OWN(CHOICE, cli, completion, "completion", NULL, "completion for a shell",
		SETTING_WORDS("bash")),
	{ 0 },
};

const struct option_alias option_aliases[] = {
	{ "greedy", "temp", "0" },
	{ "no-prefix-cache", "prefix-cache", "off" },
	{ "cache", "prefix-cache", NULL },
	{ "json-schema", "grammar", NULL },
	{ NULL, NULL, NULL },
};

void cli_init(struct cli *c)
{
	*c = (struct cli){ .engine = ENGINE_DEFAULTS, .answer = ANSWER_DEFAULTS, .theme = "auto" };
	c->engine.backend = "auto"; /* the program's default; the library's is the CPU */
}

void cli_free(struct cli *c)
{
	setting_stops_free(&c->answer.stop);
	for (int i = 0; i < CLI_MAX_OPERANDS; i++)
		free(c->path[i]);
	for (int i = 0; i < c->n_kept; i++)
		free(c->kept[i]);
	if (c->new_record)
		paths_drop_recording(c->new_record);
	free(c->new_record);
}

/* ---- the tables as one ---- */

static bool table_at(
	const struct setting *table, void *base, const struct verb *own, int *i, struct option *out)
{
	for (; table && table->name; table++)
		if (!(*i)--) {
			*out = (struct option){ table, base, own };
			return true;
		}
	return false;
}

bool option_at(struct cli *c, int i, struct option *out)
{
	if (table_at(engine_settings, &c->engine, NULL, &i, out) ||
		table_at(answer_settings, &c->answer, NULL, &i, out) || table_at(shared, c, NULL, &i, out))
		return true;
	for (int k = 0; verbs[k]; k++)
		if (table_at(verbs[k]->own, verbs[k]->opts, verbs[k], &i, out))
			return true;
	return false;
}

static bool has_word(const char *list, const char *word)
{
	return text_word(list, '|', word, strlen(word)) >= 0;
}

bool option_taken(const struct option *o, const struct verb *v)
{
	const char *group = o->s->group ? o->s->group : "Help";

	return o->own == v || !strcmp(group, "Help") ||
		   (!o->own && (has_word(v->takes, group) || has_word(v->takes, o->s->name)));
}

/* Verbs may have options of one name: then it is that of the verb that was named, and before it
 * was, none. */
static bool find_option(struct cli *c, const char *name, struct option *out)
{
	struct option o;
	int n = 0;

	for (int i = 0; option_at(c, i, &o); i++) {
		if (strcmp(o.s->name, name) != 0)
			continue;
		*out = o;
		n++;
		if (c->verb && option_taken(&o, c->verb))
			return true;
	}
	return n == 1 || (n && c->verb);
}

/* *value: the value that its alias sets, or NULL. */
static bool option_named(struct cli *c, const char *name, struct option *out, const char **value)
{
	*value = NULL;
	for (const struct option_alias *a = option_aliases; a->name; a++)
		if (!strcmp(a->name, name)) {
			name = a->setting;
			*value = a->value;
			break;
		}
	return find_option(c, name, out);
}

const char *cli_api_key(const struct cli *c)
{
	const char *key = c->api_key ? c->api_key : getenv("CUTAWAY_API_KEY");

	return key && *key ? key : NULL;
}

bool cli_given(const struct cli *c, const char *name)
{
	for (int i = 0; i < c->n_given; i++)
		if (!strcmp(c->given[i], name))
			return true;
	return false;
}

/* ---- what may have been meant ---- */

static int unknown_option(struct cli *c, const char *word, const char *name, struct err *e)
{
	struct near n = NEAR_NONE;
	struct option o;

	for (int i = 0; option_at(c, i, &o); i++)
		if (o.s->group && (!c->verb || option_taken(&o, c->verb))) {
			near_try(&n, name, o.s->name);
			for (const struct option_alias *a = option_aliases; a->name; a++)
				if (!strcmp(a->setting, o.s->name))
					near_try(&n, name, a->name);
		}
	return err_set(e, ERR_USAGE, "unknown option --%s%s%s%s", word,
		n.best ? "; did you mean --" : "", n.best ? n.best : "",
		n.best ? "?" : "; see cutaway --help");
}

static int unknown_verb(const char *word, struct err *e)
{
	struct near n = NEAR_NONE;

	for (int i = 0; verbs[i]; i++)
		near_try(&n, word, verbs[i]->name);
	return err_set(e, ERR_USAGE, "unknown command '%s'%s%s%s see cutaway help, or cutaway --help",
		word, n.best ? "; did you mean " : "", n.best ? n.best : "", n.best ? "?" : ";");
}

/* ---- parsing ---- */

/* Sets an option and notes that it was given; an error names it as "--name". */
static int put_option(struct cli *c, const struct option *o, const char *value, struct err *e)
{
	struct err own = { 0 };

	if (c->n_given == CLI_MAX_GIVEN)
		return err_set(e, ERR_USAGE, "too many options");
	c->given[c->n_given++] = o->s->name;
	return setting_put(o->s, o->base, value, &own) ? err_set(e, own.code, "--%s", own.text) : 0;
}

/* word: an option, with dashes or without. Returns how many words were used, or -1. */
static int parse_option(struct cli *c, const char *word, const char *next, struct err *e)
{
	char name[32], arg[128];
	const char *value, *fixed;
	struct option o;
	bool takes;

	word = !strcmp(word, "-h") ? "--help" : !strcmp(word, "-o") ? "--out" : word;
	if (*word == '-' && word[1] != '-')
		return err_set(e, ERR_USAGE, "%s: options begin with two dashes; see cutaway --help", word);
	word += *word == '-' ? 2 : 0;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
	if (!option_named(c, name, &o, &fixed))
		return unknown_option(c, word, name, e);
	value = strchr(word, '=') ? strchr(word, '=') + 1 : NULL;
	takes = o.s->type != SETTING_FLAG && !fixed;
	if (!takes && value)
		return err_set(e, ERR_USAGE, "--%s takes no value", name);
	if (takes && !value && o.s->bare && (!next || *next == '-'))
		value = "";
	if (takes && !value && !next)
		return err_set(
			e, ERR_USAGE, "--%s needs a value: %s", name, setting_arg(o.s, arg, sizeof arg));
	if (put_option(c, &o, fixed ? fixed : value ? value : next, e))
		return -1;
	return takes && !value ? 2 : 1;
}

static int add_operand(struct cli *c, const char *word, bool *has_verb, bool literal, struct err *e)
{
	if (!*has_verb && !literal && !strcmp(word, "help")) {
		c->help = true; /* and a verb may follow */
		return 0;
	}
	if (!*has_verb && !literal) {
		*has_verb = true;
		for (int i = 0; verbs[i]; i++)
			if (!strcmp(verbs[i]->name, word)) {
				c->verb = verbs[i];
				return 0;
			}
		return unknown_verb(word, e);
	}
	if (c->n_operands == CLI_MAX_OPERANDS)
		return err_set(e, ERR_USAGE, "too many operands");
	c->operand[c->n_operands++] = word;
	return 0;
}

/* Operands that name recordings become their paths. */
static int find_recordings(struct cli *c, struct err *e)
{
	const char *completes = c->verb->completes;

	if (!completes || strcmp(completes, "RECORDING") || c->verb->settings)
		return 0;
	for (int i = 0; i < c->n_operands; i++) {
		if (recordings_find(c->operand[i], &c->path[i], e))
			return -1;
		c->operand[i] = c->path[i];
	}
	return 0;
}

/* A folder gets a new file, so that the same command can be given again. */
static int name_record(struct cli *c, struct err *e)
{
	struct stat st;

	if (!c->record || !*c->record ||
		(c->record[strlen(c->record) - 1] != '/' && (stat(c->record, &st) || !S_ISDIR(st.st_mode))))
		return 0;
	if (paths_new_recording(c->record, &c->new_record, e))
		return -1;
	c->record = c->new_record;
	return 0;
}

/* One that the verb does not take, or that was given, is left out. Its text is kept: settings point
 * into it. */
static int take_preset(void *arg, const char *name, const char *value, struct err *e)
{
	struct cli *c = arg;
	struct option o;

	if (!find_option(c, name, &o) || cli_given(c, name) || !option_taken(&o, c->verb))
		return 0;
	if (c->n_kept == CLI_MAX_KEPT || !(c->kept[c->n_kept] = strdup(value)))
		return err_set(e, ERR_USAGE, "preset %s: too many settings", c->preset);
	return put_option(c, &o, c->kept[c->n_kept++], e);
}

/* Checks that need the whole command line. */
static int check_whole(struct cli *c, struct err *e)
{
	const struct verb *v = c->verb;
	struct option o, p;

	for (int i = 0; option_at(c, i, &o); i++)
		if (cli_given(c, o.s->name) && find_option(c, o.s->name, &p) && !option_taken(&p, v))
			return err_set(e, ERR_USAGE, "%s does not take --%s; see cutaway %s --help", v->name,
				o.s->name, v->name);
	if (c->n_operands < v->min_operands)
		return err_set(
			e, ERR_USAGE, "%s needs %s; see cutaway %s --help", v->name, v->operands, v->name);
	if (c->n_operands > v->max_operands)
		return err_set(e, ERR_USAGE, "%s: '%s' is too much; %s", v->name,
			c->operand[v->max_operands],
			v->max_operands ? "quote a text of several words" : "it takes options only");
	if (c->api_key && !*c->api_key)
		return err_set(e, ERR_USAGE, "--api-key: it is empty");
	if (c->record && c->no_record)
		return err_set(e, ERR_USAGE, "--record and --no-record exclude each other");
	if (c->preset && preset_read(c->preset, take_preset, c, e))
		return -1;
	c->engine.goes_on = c->answer.overflow && !strcmp(c->answer.overflow, "sinks");
	return find_recordings(c, e) || name_record(c, e) ? -1 : 0;
}

static bool is_option(const struct cli *c, const char *word)
{
	return word[0] == '-' && word[1] && !(c->verb && c->verb->settings && strpbrk(word, " \t\n"));
}

int cli_parse(struct cli *c, int argc, char **argv, struct err *e)
{
	bool has_verb = false, literal = false;

	cli_init(c);
	for (int i = 1; i < argc;) {
		int used = 1;
		if (!literal && !strcmp(argv[i], "--"))
			literal = true;
		else if (!literal && is_option(c, argv[i]))
			used = parse_option(c, argv[i], argv[i + 1], e);
		else if (add_operand(c, argv[i], &has_verb, literal, e))
			return -1;
		if (used < 0)
			return -1;
		i += used;
	}
	if (c->help || c->version || c->man || c->completion)
		return 0;
	if (!c->verb)
		c->verb = verbs[0];
	return check_whole(c, e);
}

/* ---- the settings of one side ---- */

/* Cuts text into words at blanks, in place; quotes hold a word together. Returns how many. */
static int cut_words(char *text, char *word[], int most)
{
	int n = 0;

	for (char *at = text, *to; *(at += strspn(at, " \t\n")) && n < most; n++) {
		char quote = 0;

		for (word[n] = to = at; *at && (quote || !strchr(" \t\n", *at)); at++) {
			if (*at == quote || (!quote && strchr("'\"", *at)))
				quote = quote ? 0 : *at;
			else
				*to++ = *at;
		}
		at += *at != '\0';
		*to = '\0';
	}
	return n;
}

int cli_settings(struct cli *c, const char *text, char **words, struct err *e)
{
	char *word[CLI_MAX_GIVEN];
	int n, used = 1;

	if (!(*words = strdup(text)))
		return err_no_memory(e, "settings");
	n = cut_words(*words, word, CLI_MAX_GIVEN);
	for (int i = 0; i < n; i += used) {
		const int before = c->n_given;
		const char *name;

		used = parse_option(c, word[i], i + 1 < n ? word[i + 1] : NULL, e);
		if (used < 0)
			return -1;
		name = c->n_given > before ? c->given[before] : NULL;
		if (name && !setting_find(engine_settings, name) && !setting_find(answer_settings, name))
			return err_set(e, ERR_USAGE, "--%s is no setting of the engine or of an answer", name);
	}
	return 0;
}
