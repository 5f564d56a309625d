/* See chat_kept.h. */
#include "tui/chat/chat_kept.h"

#include <stdlib.h>
#include <string.h>

#include "tui/chat/chat.h"

void chat_kept_free(struct chat_kept *k)
{
	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		free(k->engine[i]);
	*k = (struct chat_kept){ 0 };
}

/* What is measured is no setting, and what is observed follows the screen. */
static bool is_kept(int i)
{
	return engine_settings[i].when != SETTING_OPEN &&
		   strcmp(engine_settings[i].group, "Measuring") && i != ENGINE_AT_observe_layer &&
		   i != ENGINE_AT_observe_head;
}

void chat_kept_take(struct chat_kept *k, struct app *a)
{
	const struct chat *c = a->mode_data;

	chat_kept_free(k);
	for (int i = 0; i < N_ENGINE_SETTINGS; i++) {
		const char *value =
			is_kept(i) ? timeline_setting(&a->timeline, engine_settings[i].name) : NULL;

		k->engine[i] = value ? strdup(value) : NULL;
	}
	k->answer = c->settings;
	snprintf(k->search, sizeof k->search, "%s", c->search.method[0] ? c->search.method : "off");
	k->on = true;
}

struct words {
	char text[400];
	size_t n;
};

static void add(struct words *w, const char *name, const char *value)
{
	if (w->n < sizeof w->text)
		w->n += (size_t)snprintf(
			w->text + w->n, sizeof w->text - w->n, "%s%s %.60s", w->n ? ", " : "", name, value);
}

static void put_engine(struct app *a, struct words *w, const char *name, const char *value)
{
	char now[256];

	if (!value || chat_engine_get(a, name, now, sizeof now) || !strcmp(now, value))
		return;
	chat_engine_put_back(a, name, value);
	add(w, name, value);
}

static void put_answer(struct app *a, struct words *w, const struct chat_kept *k, int i)
{
	struct answer_settings *now = &((struct chat *)a->mode_data)->settings;
	const struct setting *s = &answer_settings[i];
	char value[SAMPLE_BIAS_TEXT], current[SAMPLE_BIAS_TEXT];

	if (s->type == SETTING_TEXT || s->type == SETTING_STOPS)
		return;
	setting_text(s, &k->answer, value, sizeof value);
	setting_text(s, now, current, sizeof current);
	if (!strcmp(value, current))
		return;
	setting_copy(s, now, &k->answer);
	chat_note(a, s->name, value);
	add(w, s->name, value);
}

void chat_kept_put_back(struct chat_kept *k, struct app *a)
{
	struct words w = { .n = 0 };

	for (int i = 0; k->on && i < N_ANSWER_SETTINGS; i++)
		put_answer(a, &w, k, i);
	for (int i = 0; k->on && i < N_ENGINE_SETTINGS; i++)
		put_engine(a, &w, engine_settings[i].name, k->engine[i]);
	if (k->on)
		put_engine(a, &w, "search", k->search);
	if (w.n)
		app_say(a, SAY_INFO, "as before the lesson: %s", w.text);
	chat_kept_free(k);
}
