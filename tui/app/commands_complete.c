/* Completion and hints for the prompt, from the table of commands. See commands.h. */
#include "tui/app/commands.h"
#include "sessions/watch/watch.h"

#include <stdio.h>

struct list {
	char **text;
	size_t n;
};

/* Adds a name, after `before`, if it begins as what was typed. */
static void offer(struct list *l, const char *before, const char *name, const char *begun, size_t n)
{
	char **grown = strncmp(name, begun, n) ? NULL : realloc(l->text, (l->n + 2) * sizeof *grown);

	if (!grown)
		return;
	l->text = grown;
	l->text[l->n + 1] = NULL;
	if (asprintf(&l->text[l->n], "%s%s", before, name) >= 0)
		l->n++;
	else
		l->text[l->n] = NULL;
}

static void add_words(struct list *l, const struct setting *s, const char *begun, size_t n)
{
	for (int i = 0; setting_word(s, i); i++)
		offer(l, "", setting_word(s, i), begun, n);
}

static void add_known(
	struct list *l, const struct command_names *known, const char *begun, size_t n)
{
	for (int i = 0; i < known->n; i++)
		if (command_names_begin(known, i, begun, n))
			offer(l, "", known->name[i], "", 0);
}

/* After the file of a picture. */
static bool picture_named(const struct command *c, const char *line, int start)
{
	const char *file = line + strcspn(line, " ");
	size_t n = command_picture_file(file);

	return c->act == ACT_EXPORT && n && file + n < line + start;
}

/* Adds the columns of expressions over a step; they may follow a bracket or an operator. */
static void add_columns(struct list *l, const char *begun, size_t n)
{
	size_t head = n;

	while (
		head > 0 && (begun[head - 1] == '_' || (begun[head - 1] >= 'a' && begun[head - 1] <= 'z')))
		head--;
	for (int i = 0; watch_column(i); i++) {
		char before[64];

		snprintf(before, sizeof before, "%.*s", (int)head, begun);
		if (head < sizeof before)
			offer(l, before, watch_column(i)->name, begun + head, n - head);
	}
}

/* settings: those alone, for /set. */
static void add_commands(
	struct list *l, const struct command_host *h, bool settings, const char *begun, size_t n)
{
	for (const struct command *c = commands; c->s; c++)
		if (commands_usable(h, c) && (!settings || c->kind != COMMAND_ACT))
			offer(l, settings ? "" : "/", c->s->name, begun, n);
}

/* Aliases from debuggers and git, and names of views, are offered where no command has this
 * prefix. */
static void add_names(struct list *l, const struct command_host *h, const char *begun, size_t n)
{
	add_commands(l, h, false, begun, n);
	for (const struct command_alias *a = command_aliases; !l->n && a->name; a++)
		offer(l, "/", a->name, begun, n);
	for (struct command_names v = commands_views(h); !l->n && v.n-- > 0;)
		offer(l, "/", v.name[v.n], begun, n);
}

/* Values are completed where they stand: the first word after the name of a setting, the second
 * after /set. */
static void add_values(
	struct list *l, const struct command_host *h, const char *line, const char *begun, size_t n)
{
	const char *word = line + strcspn(line, " \t\n");
	const struct command *c = commands_find(h, line);
	char name[64];
	size_t size;

	word += strspn(word, " \t\n");
	if (c->act == ACT_SET && word == begun) {
		add_commands(l, h, true, begun, n);
		return;
	}
	if (c->act == ACT_SET) {
		size = strcspn(word, " \t\n");
		snprintf(name, sizeof name, "/%.*s", size < 60 ? (int)size : 0, word);
		c = commands_find(h, name);
		word += size + strspn(word + size, " \t\n");
	}
	if (c && (c->kind == COMMAND_ACT || word == begun))
		add_words(l, c->s, begun, n);
}

char **commands_complete(void *host, const char *line, int start, int end, bool *files)
{
	const struct command_host *h = host;
	const char *begun = line + start;
	size_t n = (size_t)(end - start);
	const struct command *c;
	struct command_names known;
	struct list l = { 0 };

	*files = *begun == '@' && *line != '/';
	if (*line != '/')
		return NULL;
	if (start == 0) {
		add_names(&l, h, begun + (n > 0), n - (n > 0));
		return l.text;
	}
	c = commands_find(h, line);
	if (!c)
		return NULL;
	known = c->act == ACT_VIEW ? commands_views(h) : commands_pictures(h);
	*files = c->s->type == SETTING_FILE && !picture_named(c, line, start);
	if (c->act == ACT_VIEW || (c->act == ACT_EXPORT && !*files))
		add_known(&l, &known, begun, n);
	else
		add_values(&l, h, line, begun, n);
	if (c->act == ACT_BREAK || c->act == ACT_TBREAK || c->act == ACT_WATCH || c->act == ACT_FIND ||
		c->act == ACT_RFIND || c->act == ACT_PRINT)
		add_columns(&l, begun, n);
	return l.text;
}

static int hint_many(
	const struct command_host *h, const char *begun, size_t n, char *out, size_t cap)
{
	size_t used = 0;
	int found = 0;

	for (const struct command *c = commands; c->s && used < cap; c++) {
		if (!commands_usable(h, c) || strncmp(c->s->name, begun, n) != 0)
			continue;
		int more = snprintf(out + used, cap - used, "%s/%s", used ? "  " : "", c->s->name);

		used += more > 0 ? (size_t)more : 0;
		found++;
	}
	return found;
}

void commands_hint(const struct command_host *h, const char *line, char *out, size_t cap)
{
	const struct command *c = commands_find(h, line);
	size_t n = *line == '/' ? strcspn(line + 1, " \t\n") : 0;
	char value[128], arg[128];
	int used;

	*out = '\0';
	if (*line != '/')
		return;
	if (!n && !line[1]) {
		snprintf(out, cap,
			"Enter lists all commands, views, lessons and settings; Tab completes a name");
		return;
	}
	/* a short alias is the beginning of other names, too */
	if (!line[1 + n] && (!c || strncmp(c->s->name, line + 1, n) || strlen(c->s->name) != n) &&
		(hint_many(h, line + 1, n, out, cap) > 1 || !c))
		return;
	if (!c)
		return;
	setting_arg(c->s, arg, sizeof arg);
	used = snprintf(out, cap, "/%s%s%s  %s", c->s->name, *arg ? " " : "", arg, c->s->doc);
	if (used > 0 && (size_t)used < cap && commands_value(h, c, value, sizeof value))
		snprintf(out + used, cap - (size_t)used, " (now %s)", value);
}
