/* What the palette lists, and what becomes of what is chosen. See app.h. */

#include "base/models.h"
#include "sessions/lesson/lesson.h"
#include "tui/app/app.h"

enum { LINE = 200 };

/* ---- commands and settings ---- */

static void names_of(const struct command *c, char *out, size_t cap)
{
	size_t used = 0;

	*out = '\0';
	for (const struct command_alias *a = command_aliases; a->name && used < cap; a++)
		if (!strcmp(a->command, c->s->name) && !*a->before)
			used += (size_t)snprintf(out + used, cap - used, "%s ", a->name);
}

static void add_command(struct app *a, const struct command *c)
{
	const bool whole = c->s->type == SETTING_NONE || commands_switches(c);
	const struct view_text line = view_form("/%s%s", c->s->name, whole ? "" : " ");
	char value[64], more[LINE];

	if (!commands_value(&a->host, c, value, sizeof value))
		value[0] = '\0';

	names_of(c, more, sizeof more);
	palette_add(&a->palette, &(struct palette_item){ .group = c->s->group,
								 .name = c->s->name,
								 .value = value,
								 .text = c->s->doc,
								 .more = more,
								 .key = app_key_of(line.text),
								 .line = line.text });
}

/* The engine chooses some values itself, so what it had at first counts as usual, unless it was
 * asked for. */
static bool engine_changed(struct app *a, const struct command *c, const char *now)
{
	const struct engine_options usual = ENGINE_DEFAULTS;
	char asked[256], value[256];

	for (int32_t i = 0; i < a->timeline.n_settings; i++) {
		const struct tl_setting *s = &a->timeline.setting[i];

		if (!strcmp(s->name, c->s->name) && strncmp(s->first, now, sizeof s->first - 1) != 0)
			return true;
	}
	if (!a->host.opened || setting_find(engine_settings, c->s->name) != c->s)
		return false;
	setting_text(c->s, a->host.opened, asked, sizeof asked);
	setting_text(c->s, &usual, value, sizeof value);
	return strcmp(asked, value) != 0;
}

bool app_is_changed(struct app *a, const struct command *c)
{
	char now[256], usual[256];

	if (!commands_usable(&a->host, c) || !commands_value(&a->host, c, now, sizeof now) ||
		!strcmp(c->s->group, "Measuring"))
		return false;
	if (c->kind == COMMAND_ENGINE)
		return engine_changed(a, c, now);
	setting_text(c->s, a->host.usual ? a->host.usual : &answer_defaults, usual, sizeof usual);
	return strcmp(now, *usual ? usual : "default") != 0;
}

/* Groups stay together, whatever the order of the table; what acts comes first. */
static void add_commands(struct app *a, bool settings, bool changed)
{
	for (const struct command *first = commands; first->s; first++) {
		const char *group = first->s->group;
		const struct command *before = commands;

		while (before < first && strcmp(before->s->group, group) != 0)
			before++;
		for (const struct command *c = before == first ? first : NULL; c && c->s; c++)
			if ((c->kind != COMMAND_ACT) == settings && !strcmp(c->s->group, group) &&
				commands_usable(&a->host, c) && (!changed || app_is_changed(a, c)))
				add_command(a, c);
	}
}

/* ---- views, lessons, models ---- */

static void add_views(struct app *a)
{
	for (int v = 0; views[v]; v++) {
		char text[LINE];

		view_summary(v, text, sizeof text);
		palette_add(&a->palette, &(struct palette_item){ .group = "Views",
									 .name = views[v]->name,
									 .text = text,
									 .more = views[v]->id,
									 .line = view_form("/view %s", views[v]->id).text });
	}
}

/* alone: they have the headings of their topics. */
static void add_lessons(struct app *a, bool alone)
{
	struct lesson_entry l;

	for (int i = 0; lesson_entry(i, &l); i++)
		palette_add(
			&a->palette, &(struct palette_item){ .group = alone ? l.topic : "Lessons",
							 .name = l.name,
							 .value = *l.read ? l.read : view_form("%d min", l.minutes).text,
							 .text = l.title,
							 .line = view_form("/lesson %s", l.name).text });
}

static void add_models(struct app *a)
{
	const char *name;

	for (int i = 0; (name = models_name(i)); i++)
		palette_add(&a->palette,
			&(struct palette_item){
				.group = "Models", .name = name, .line = view_form("/model %s", name).text });
}

/* ---- */

void app_palette(struct app *a, const char *title, unsigned parts, const char *filter)
{
	if (!title)
		title = a->host.opened ? "commands, views, lessons, settings" : "commands, views";
	palette_begin(&a->palette, title, filter);
	if (parts & PALETTE_COMMANDS)
		add_commands(a, false, false);
	if (parts & PALETTE_VIEWS)
		add_views(a);
	if (parts & PALETTE_LESSONS && a->host.opened)
		add_lessons(a, parts == PALETTE_LESSONS);
	if (parts & PALETTE_MODELS && a->host.opened)
		add_models(a);
	if (parts & (PALETTE_SETTINGS | PALETTE_CHANGED))
		add_commands(a, true, parts & PALETTE_CHANGED);
	if (parts == PALETTE_CHANGED && !a->palette.n) {
		palette_close(&a->palette);
		app_say(a, SAY_INFO, "all settings have their defaults; ^P lists them");
		return;
	}
	palette_show(&a->palette);
	a->dirty = true;
}

static void put_line(FILE *out, const char *what, const char *value)
{
	if (*value)
		fprintf(out, "%s%s\n", what, value);
}

/* F1 on a command or a setting. */
static void explain_command(struct app *a, const struct command *c)
{
	char arg[256], names[LINE], value[256] = "";
	FILE *out = app_write(a, NULL);

	if (!out)
		return;
	setting_arg(c->s, arg, sizeof arg);
	names_of(c, names, sizeof names);
	commands_value(&a->host, c, value, sizeof value);
	fprintf(out, "/%s %s\n\n%s\n\n", c->s->name, arg, c->s->doc);
	put_line(out, "now           ", value);
	put_line(out, "also called   ", names);
	if (setting_word(c->s, 0))
		fprintf(out, "for example  ");
	for (int i = 0; setting_word(c->s, i) && i < 24; i++)
		fprintf(out, " %s", setting_word(c->s, i));
	app_show_written(a, c->s->name, NULL);
}

static void explain(struct app *a, const struct palette_item *i)
{
	const struct command *c = commands_find(&a->host, i->line);

	for (int v = 0; views[v]; v++)
		if (!strcmp(i->group, "Views") && !strcmp(i->name, views[v]->name)) {
			app_show(a, views[v]->name, views[v]->help);
			return;
		}
	if (c &&
		(c->kind != COMMAND_ACT || i->line[strlen(i->line) - 1] == ' ' || !strchr(i->line, ' ')))
		explain_command(a, c);
	else
		app_show(a, i->name, i->text);
}

static void type(struct app *a, const char *line)
{
	a->prompt_hidden = false;
	app_focus(a, FOCUS_PROMPT);
	prompt_set(line);
}

bool app_palette_key(struct app *a, const struct term_key *k)
{
	const struct palette_item *chosen;
	const enum palette_answer answer = palette_key(&a->palette, k, &chosen);
	char line[LINE] = "";

	if (chosen)
		snprintf(line, sizeof line, "%s", chosen->line);
	if (answer == PALETTE_EXPLAIN)
		explain(a, chosen);
	if (answer == PALETTE_STAYS || answer == PALETTE_EXPLAIN)
		return true;
	palette_close(&a->palette);
	if (answer == PALETTE_TYPE || (answer == PALETTE_RUN && line[strlen(line) - 1] == ' '))
		type(a, line);
	else if (answer == PALETTE_RUN)
		a->mode->line(a, line);
	return true;
}
