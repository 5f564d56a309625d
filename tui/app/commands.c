/* See commands.h. */
#include "tui/app/commands.h"

#include <ctype.h>
#include <stdio.h>

#include "base/models.h"
#include "sessions/lesson/lesson.h"

enum { NOTE_LENGTH = 140 }; /* of two lines on a small screen */

#define LIVE COMMAND_LIVE
#define REPLAY COMMAND_REPLAY
#define BOTH (COMMAND_LIVE | COMMAND_REPLAY)
#define LESSON COMMAND_LESSON
#define ROW(type_, name_, group_, doc_, ...)                                                       \
	&(const struct setting)                                                                        \
	{                                                                                              \
		.type = SETTING_##type_, .when = SETTING_ANY, .name = (name_), .group = (group_),          \
		.doc = (doc_), __VA_ARGS__                                                                 \
	}

/* Every row of the settings, then the chat's own settings, then commands that act. */
const struct command commands[] = {
#define SAMPLE(type, field, ...)                                                                   \
	{ COMMAND_ANSWER, 0, LIVE | LESSON, &answer_settings[ANSWER_AT_##field] },
#define ANSWER SAMPLE
#include "engine/settings/settings.def"
#define ENGINE(type, field, ...)                                                                   \
	{ COMMAND_ENGINE, 0, LIVE | LESSON, &engine_settings[ENGINE_AT_##field] },
#include "engine/settings/settings.def"
#define ACT(type, act, where, ...) { COMMAND_ACT, ACT_##act, where, ROW(type, __VA_ARGS__) },
#define CHAT(type, where, ...) { COMMAND_ENGINE, 0, where, ROW(type, __VA_ARGS__) },
#include "tui/app/commands.def"
	{ 0 },
};

/* ---- settings ---- */

bool commands_value(const struct command_host *h, const struct command *c, char *out, size_t cap)
{
	if (c->kind == COMMAND_ACT || (c->kind == COMMAND_ANSWER && !h->settings))
		return false;
	if (c->kind == COMMAND_ENGINE)
		return h->engine_get(h->arg, c->s->name, out, cap) == 0;
	setting_text(c->s, h->settings, out, cap);
	if (!*out)
		snprintf(out, cap, "default");
	return true;
}

static int say_value(const struct command_host *h, const struct command *c)
{
	char value[256], arg[128], text[800];

	if (!commands_value(h, c, value, sizeof value))
		snprintf(value, sizeof value, "not known before the model is there");
	snprintf(text, sizeof text, "%s is %s   (/%s %s: %s)", c->s->name, value, c->s->name,
		setting_arg(c->s, arg, sizeof arg), c->s->doc);
	h->say(h->arg, text);
	return 0;
}

static int changed(const struct command_host *h, const struct command *c)
{
	char value[SAMPLE_BIAS_TEXT], text[640];

	if (!commands_value(h, c, value, sizeof value))
		return 0;
	if (c->kind == COMMAND_ANSWER) /* the engine emits the events of its own settings */
		h->note(h->arg, c->s->name, value);
	if (c->s->type == SETTING_BIAS) /* what does not fit the line is counted */
		setting_text(c->s, h->settings, value, 60);
	if (c->s->group && !strcmp(c->s->group, "Measuring")) /* what was measured is no value */
		snprintf(text, sizeof text, "%s: measured   (%s)", c->s->name, c->s->doc);
	else if (strlen(value) + strlen(c->s->doc) > NOTE_LENGTH || !strcmp(value, "off"))
		/* the hint line said it, or it says what on does */
		snprintf(text, sizeof text, "%s is now %.256s", c->s->name, value);
	else
		snprintf(text, sizeof text, "%s is now %.256s   (%s)", c->s->name, value, c->s->doc);
	h->say(h->arg, text);
	return 0;
}

void commands_say_set(const struct command_host *h, const char *name)
{
	for (const struct command *c = commands; c->s; c++)
		if (c->kind == COMMAND_ENGINE && !strcmp(c->s->name, name))
			changed(h, c);
}

int commands_refused(const char *name, const struct err *why, struct err *e)
{
	return err_set(
		e, why->code, "%s%s", strncmp(why->text, name, strlen(name)) ? "" : "/", why->text);
}

/* The values of a setting, cut at a colon; they are valid as long as `copy`. */
static struct command_names words_of(const struct setting *s, char copy[COMMAND_NAMES][24])
{
	struct command_names l = { 0 };

	for (int i = 0; setting_word(s, i) && l.n < COMMAND_NAMES; i++) {
		snprintf(copy[l.n], sizeof copy[l.n], "%.*s", (int)strcspn(setting_word(s, i), ":"),
			setting_word(s, i));
		if (!l.n || strcmp(l.name[l.n - 1], copy[l.n]) != 0) { /* ngram, ngram:4 */
			l.name[l.n] = copy[l.n];
			l.n++;
		}
	}
	return l;
}

/* Completes an unambiguous prefix of a value, and keeps what follows a colon: "look:3,3,2".
 * malloc'd; NULL: the error. */
static char *whole_value(const struct setting *s, const char *arg, struct err *e)
{
	char copy[COMMAND_NAMES][24], head[24], *whole;
	struct command_names l = words_of(s, copy);
	size_t n = strcspn(arg, ": \t");
	int n_found = 0, at = -1;

	snprintf(head, sizeof head, "%.*s", n < sizeof head ? (int)n : 0, arg);
	if (isalpha((unsigned char)*head))
		at = command_names_find(&l, head, n, &n_found);
	if (n_found > 1) {
		command_names_choose(&l, s->name, head, e);
		return NULL;
	}
	if (asprintf(&whole, "%s%s", at < 0 ? "" : l.name[at], at < 0 ? arg : arg + n) >= 0)
		return whole;
	err_no_memory(e, "a setting");
	return NULL;
}

/* The engine would refuse the next turn. */
static int check_bias(const struct command_host *h, const char *value, struct err *e)
{
	struct sample_bias b;

	if (sample_bias_read(value, &b, e))
		return -1;
	if (!h->vocab || !b.n || b.entry[b.n - 1].id < (uint32_t)h->vocab)
		return 0;
	return err_set(e, ERR_USAGE, "logit-bias: token %u is not in the vocabulary, 0 to %d",
		b.entry[b.n - 1].id, h->vocab - 1);
}

static int put_value(
	const struct command_host *h, const struct command *c, const char *value, struct err *e)
{
	int rc;

	if (c->kind == COMMAND_ANSWER && h->refuses && h->refuses(h->arg, c->s, value, e))
		return -1;
	if (c->s == &answer_settings[ANSWER_AT_system])
		return h->act(h->arg, ACT_SYSTEM, value, 0, e);
	if (c->s->type == SETTING_BIAS && check_bias(h, value, e))
		return -1;
	if (c->kind == COMMAND_ANSWER)
		return setting_put(c->s, h->settings, value, e) ? -1 : changed(h, c);
	if (setting_check(c->s, value, e))
		return -1;
	rc = h->engine_set(h->arg, c->s->name, value, e);
	return rc < 0 ? -1 : rc ? 0 : changed(h, c);
}

/* ---- acts ---- */

bool commands_switches(const struct command *c)
{
	return c->kind == COMMAND_ACT && c->s->type == SETTING_CHOICE && !strcmp(c->s->words[0], "on");
}

static int act(
	const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	double number = c->s->type == SETTING_NUMBER ? c->s->low : 0;
	struct command_names known;
	const char *word;

	if (*arg && c->s->type == SETTING_NONE)
		return err_set(e, ERR_USAGE, "%s takes no argument: %s", c->s->name, c->s->doc);
	if (c->act == ACT_GOTO && isalpha((unsigned char)*arg)) /* git's checkout */
		return err_set(e, ERR_USAGE, "goto %.40s: a step is a number; /tree goes to a branch", arg);
	if (c->act == ACT_VIEW && *arg) {
		known = commands_views(h);
		if (*arg > '0' && *arg <= '9' && !arg[1] && *arg - '1' < known.n)
			arg = known.name[*arg - '1'];
		else if (!(arg = command_names_choose(&known, c->s->name, arg, e)))
			return -1;
	} else if (c->s->type == SETTING_NUMBER) {
		if (*arg && !(*arg == '@' && c->act == ACT_FORK) && setting_put(c->s, &number, arg, e))
			return -1;
	} else if (c->s->type == SETTING_CHOICE) {
		if ((*arg || !commands_switches(c)) && setting_put(c->s, &word, arg, e))
			return -1;
	} else if (c->s->type == SETTING_FILE && (*arg || !c->s->more) && setting_check(c->s, arg, e)) {
		return -1;
	}
	return h->act(h->arg, c->act, arg, number, e);
}

static int command_run(
	const struct command_host *h, const struct command *c, const char *arg, struct err *e);

/* "NAME VALUE": any setting by its name, even one that can no longer change. */
static int set_any(const struct command_host *h, const char *arg, struct err *e)
{
	const char *from = arg + strspn(arg, "-");
	size_t n = strcspn(from, " =");
	struct err own = { 0 };
	const struct command *of[COMMAND_NAMES];
	struct command_names l = { 0 };
	char name[41];
	int n_found, at;

	if (!*arg)
		return h->act(h->arg, ACT_INFO, "", 0, e);
	snprintf(name, sizeof name, "%.*s", (int)(n < 40 ? n : 40), from);
	for (const struct command *c = commands; c->s; c++)
		if (c->kind != COMMAND_ACT) {
			of[l.n] = c;
			l.name[l.n++] = c->s->name;
		}
	at = command_names_find(&l, name, strlen(name), &n_found);
	if (at >= 0) {
		const int rc = command_run(h, of[at], from + n + strspn(from + n, " ="), &own);

		return rc < 0 ? commands_refused(l.name[at], &own, e) : rc;
	}
	if (n_found > 1)
		return command_names_choose(&l, "set", name, e) ? 0 : -1;
	return err_set(e, ERR_USAGE, "there is no setting %s: /set alone lists them", name);
}

/* Whether a lesson may type the command with this argument. */
static int lesson_may(const struct command *c, const char *arg, struct err *e)
{
	/* /set asks for the setting that it names; a text in quotes is the lesson's own */
	const bool own = *arg == '"' && c->act == ACT_PIN;

	if (!(c->where & COMMAND_LESSON))
		return err_set(e, ERR_USAGE, "%s: a lesson may not type this command", c->s->name);
	if (!own && setting_names_file(c->s, arg))
		return err_set(e, ERR_USAGE, "%s %.60s: a lesson may not name a file", c->s->name, arg);
	return 0;
}

static int command_run(
	const struct command_host *h, const struct command *c, const char *arg, struct err *e)
{
	char *whole;
	int rc;

	if (h->lesson && lesson_may(c, arg, e))
		return -1;
	if (c->act == ACT_SET)
		return set_any(h, arg, e);
	if (!*arg && c->kind != COMMAND_ACT)
		return say_value(h, c);
	/* a name or a stop text is what was typed, however a word of completion begins */
	whole = c->s->type == SETTING_CHOICE || c->kind == COMMAND_ENGINE ? whole_value(c->s, arg, e)
																	  : strdup(arg);
	if (!whole)
		return -1;
	rc = c->kind == COMMAND_ACT ? act(h, c, whole, e) : put_value(h, c, whole, e);
	free(whole);
	return rc;
}

/* The argument after the name, with the prefix of an alias. malloc'd. */
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
	struct err own = { 0 };
	char *arg;
	int result;

	if (!c)
		return -1;
	line += 1 + strcspn(line + 1, " \t\n");
	arg = argument(before, line + strspn(line, " \t\n"));
	if (!arg)
		return err_no_memory(e, "a command");
	result = command_run(h, c, arg, &own);
	free(arg);
	return result < 0 ? commands_refused(c->s->name, &own, e) : result;
}
