/* Finds the command that a line names: by name, by an alias from debuggers or git, or by a unique
 * prefix; and suggests names. See commands.h. */
#include <stdio.h>
#include <strings.h>

#include "base/near.h"
#include "tui/app/commands.h"

const struct command_alias command_aliases[] = {
	/* gdb, rr */
	{ "b", "break", "" },
	{ "tb", "tbreak", "" },
	{ "d", "break", "off" },
	{ "delete", "break", "off" },
	{ "c", "continue", "" },
	{ "resume", "continue", "" },
	{ "s", "step", "" },
	{ "next", "step", "" },
	{ "stepi", "step", "" },
	{ "rs", "back", "" },
	{ "reverse-step", "back", "" },
	{ "reverse-next", "back", "" },
	{ "reverse-stepi", "back", "" },
	{ "rc", "rfind", "break" },
	{ "reverse-continue", "rfind", "break" },
	{ "jump", "goto", "" },
	{ "seek", "goto", "" },
	{ "display", "watch", "" },
	{ "undisplay", "watch", "off" },
	{ "x", "lens", "" },
	{ "p", "print", "" },
	{ "output", "print", "" },
	{ "i", "info", "" },
	{ "bt", "tree", "" },
	{ "backtrace", "tree", "" },
	{ "where", "info", "" },
	{ "until", "find", "" },
	{ "advance", "find", "" },
	{ "clear", "new", "" },
	{ "disable", "break", "off" },
	{ "list", "view", "chat" },
	{ "run", "continue", "" },
	{ "inspect", "lens", "" },
	{ "checkpoint", "fork", "" },
	{ "greedy", "temp", "0" },
	{ "h", "help", "" },
	{ "exit", "quit", "" },
	{ "bye", "quit", "" },
	{ "open", "sessions", "" },
	{ "history", "sessions", "" },
	/* git */
	{ "log", "tree", "" },
	{ "branch", "tree", "" },
	{ "branches", "tree", "" },
	{ "reflog", "tree", "" },
	{ "switch", "tree", "" },
	{ "checkout", "goto", "" },
	{ "reset", "rewind", "" },
	{ "revert", "undo", "" },
	{ "blame", "why", "" },
	{ "status", "info", "" },
	{ "show", "print", "" },
	{ "config", "set", "" },
	{ "cherry-pick", "try", "" },
	/* less */
	{ "rsearch", "rfind", "" },
	{ NULL, NULL, NULL },
};

/* Verbs of the program that work on files. */
static const char *const outside[] = { "verify", "diff", "whatif", "replay", "certify", "bench",
	"tokenize", NULL };

/* ---- one rule for all names ---- */

bool command_names_begin(const struct command_names *l, int i, const char *text, size_t n)
{
	return !strncasecmp(l->name[i], text, n) || (l->title[i] && !strncasecmp(l->title[i], text, n));
}

static bool is_called(const struct command_names *l, int i, const char *text, size_t n)
{
	return command_names_begin(l, i, text, n) &&
		   (strlen(l->name[i]) == n || (l->title[i] && strlen(l->title[i]) == n));
}

int command_names_find(const struct command_names *l, const char *text, size_t n, int *n_found)
{
	int at = -1;

	*n_found = 0;
	for (int i = 0; i < l->n; i++) {
		if (is_called(l, i, text, n)) {
			*n_found = 1;
			return i;
		}
		if (command_names_begin(l, i, text, n)) {
			at = i;
			(*n_found)++;
		}
	}
	return *n_found == 1 ? at : -1;
}

/* The names with this prefix, each after a blank and `before`. */
static void names_text(const struct command_names *l, const char *text, size_t n,
	const char *before, char *out, size_t cap)
{
	size_t used = 0;

	*out = '\0';
	for (int i = 0; i < l->n && used < cap - 24; i++)
		if (command_names_begin(l, i, text, n))
			used += (size_t)snprintf(out + used, cap - used, " %s%.20s", before, l->name[i]);
}

const char *command_names_choose(
	const struct command_names *l, const char *what, const char *text, struct err *e)
{
	size_t n = strlen(text);
	int n_found, at = *text ? command_names_find(l, text, n, &n_found) : -1;
	char names[300];

	if (at >= 0)
		return l->name[at];
	names_text(l, text, *text && n_found ? n : 0, "", names, sizeof names);
	if (!*text)
		err_set(e, ERR_USAGE, "%s needs one of%s", what, names);
	else if (n_found)
		err_set(e, ERR_USAGE, "%s %.40s could be%s", what, text, names);
	else
		err_set(e, ERR_USAGE, "%s %.40s: none is called so; there are%s", what, text, names);
	return NULL;
}

struct command_names commands_views(const struct command_host *h)
{
	struct command_names l = { 0 };

	for (; h->views && h->views[l.n] && l.n < COMMAND_NAMES; l.n++) {
		l.name[l.n] = h->views[l.n]->id;
		l.title[l.n] = h->views[l.n]->name;
	}
	return l;
}

struct command_names commands_pictures(const struct command_host *h)
{
	struct command_names l = commands_views(h);

	l.name[l.n++] = "screen";
	return l;
}

size_t command_picture_file(const char *text)
{
	for (size_t n = 1; *text && text[n]; n++)
		if ((!strncmp(text + n, ".svg", 4) || !strncmp(text + n, ".png", 4)) &&
			strchr(" \t", text[n + 4]))
			return n + 4;
	return 0;
}

/* ---- commands ---- */

bool commands_usable(const struct command_host *h, const struct command *c)
{
	return c->s->when >= SETTING_IDLE && (c->where & (h->replay ? COMMAND_REPLAY : COMMAND_LIVE));
}

/* Length of the name after the slash. */
static size_t name_length(const char *line)
{
	return *line == '/' ? strcspn(line + 1, " \t\n") : 0;
}

static bool is_name(const char *name, const char *text, size_t n)
{
	return strlen(name) == n && !memcmp(name, text, n);
}

static const struct command *named(const char *name, size_t n)
{
	const struct command *found = NULL;

	/* what acts goes before a setting that only the command line has: /model */
	for (const struct command *c = commands; c->s; c++)
		if (is_name(c->s->name, name, n) && (!found || c->kind == COMMAND_ACT))
			found = c;
	return found;
}

static const struct command_alias *alias(const char *name, size_t n)
{
	for (const struct command_alias *a = command_aliases; a->name; a++)
		if (is_name(a->name, name, n))
			return a;
	return NULL;
}

/* A view is found by its name in singular or plural: /batch, /page. With an argument it is not a
 * view. */
static const char *view_named(const struct command_host *h, const char *name, size_t n)
{
	struct command_names l = commands_views(h);

	if (name[n + strspn(name + n, " \t\n")])
		return NULL;
	for (int i = 0; i < l.n; i++) {
		size_t size = strlen(l.name[i]);

		if (!memcmp(l.name[i], name, size < n ? size : n) &&
			(size == n || (size == n + 1 && l.name[i][n] == 's') ||
				(n == size + 1 && name[size] == 's')))
			return l.name[i];
	}
	return NULL;
}

static struct command_names usable(const struct command_host *h)
{
	struct command_names l = { 0 };

	for (const struct command *c = commands; c->s && l.n < COMMAND_NAMES; c++)
		if (commands_usable(h, c))
			l.name[l.n++] = c->s->name;
	return l;
}

static const struct command *begun(
	const struct command_host *h, const char *name, size_t n, int *n_found)
{
	struct command_names l = usable(h);
	int at = command_names_find(&l, name, n, n_found);

	return at < 0 ? NULL : named(l.name[at], strlen(l.name[at]));
}

static const struct command *commands_lookup(
	const struct command_host *h, const char *name, size_t n, const char **before, int *n_found)
{
	const struct command *c = named(name, n);
	const struct command_alias *a = c ? NULL : alias(name, n);
	const char *view = a || (c && commands_usable(h, c)) ? NULL : view_named(h, name, n);

	*before = "";
	*n_found = 0;
	if (view) {
		*before = view;
		return named("view", 4);
	}
	if (a)
		c = named(a->command, strlen(a->command));
	if (c && commands_usable(h, c)) {
		*before = a ? a->before : "";
		return c;
	}
	return c && !a ? NULL : begun(h, name, n, n_found);
}

const struct command *commands_find(const struct command_host *h, const char *line)
{
	const char *before;
	int n_found;

	return name_length(line) ? commands_lookup(h, line + 1, name_length(line), &before, &n_found)
							 : NULL;
}

/* ---- what may have been meant ---- */

static int ambiguous(const struct command_host *h, const char *name, size_t n, struct err *e)
{
	struct command_names l = usable(h);
	char like[200];

	names_text(&l, name, n, "/", like, sizeof like);
	return err_set(e, ERR_USAGE, "/%.*s could be%s", (int)(n > 40 ? 40 : n), name, like);
}

static const char *nearest(const struct command_host *h, const char *name)
{
	struct near n = NEAR_NONE;

	for (const struct command *c = commands; c->s; c++)
		if (commands_usable(h, c))
			near_try(&n, name, c->s->name);
	for (const struct command_alias *a = command_aliases; a->name; a++)
		if (strlen(a->name) > NEAR_ENOUGH &&
			commands_usable(h, named(a->command, strlen(a->command))))
			near_try(&n, name, a->name);
	return n.best;
}

static int unknown(const struct command_host *h, const char *text, size_t n, struct err *e)
{
	const struct command_alias *a = alias(text, n);
	const struct command *elsewhere = a ? named(a->command, strlen(a->command)) : named(text, n);
	char name[41], arg[128];
	const char *near;

	snprintf(name, sizeof name, "%.*s", (int)(n > 40 ? 40 : n), text);
	near = nearest(h, name);
	for (int i = 0; outside[i]; i++)
		if (!strcmp(outside[i], name))
			return err_set(e, ERR_USAGE,
				"there is no command /%s here, but one of the shell: cutaway %s --help", name,
				name);
	if (elsewhere && h->replay)
		return err_set(e, ERR_USAGE,
			"/%s needs an engine, and there is none in a replay: see cutaway chat",
			elsewhere->s->name);
	if (elsewhere && elsewhere->s->when < SETTING_IDLE)
		return err_set(e, ERR_USAGE, "%s is set %s%s %s", name,
			elsewhere->s->when == SETTING_OPEN ? "at the start: cutaway chat --" : "by /set ", name,
			setting_arg(elsewhere->s, arg, sizeof arg));
	return err_set(e, ERR_USAGE, "there is no command /%s%s%s%s%s /help lists them", name,
		h->replay ? " in a replay" : "", near ? "; did you mean /" : "", near ? near : "",
		near ? "?" : ":");
}

const struct command *commands_named(
	const struct command_host *h, const char *line, const char **before, struct err *e)
{
	size_t n = name_length(line);
	const struct command *c;
	int n_found;

	if (!n) {
		err_set(e, ERR_USAGE, "a command is / and a name: /help lists them");
		return NULL;
	}
	c = commands_lookup(h, line + 1, n, before, &n_found);
	if (!c && n_found > 1)
		ambiguous(h, line + 1, n, e);
	else if (!c)
		unknown(h, line + 1, n, e);
	return c;
}
