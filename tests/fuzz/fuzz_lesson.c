/* Any bytes as a lesson: an error with a reason, or parts that a view can draw, and lines to type,
 * none of which runs a program, writes a file or opens one that it names. */
#include <stdlib.h>
#include <string.h>

#include "fold/timeline.h"
#include "sessions/lesson/lesson.h"
#include "tests/fuzz/fuzz.h"
#include "tui/app/commands.h"
#include "tui/views/views.h"

static void draw(struct timeline *t)
{
	static const int width[] = { 20, 38, 110 };

	for (int i = 0; i < 3; i++) {
		struct canvas c = { 0 };
		struct view_state s = { .token = -1 };
		struct err e = { 0 };

		if (canvas_resize(&c, width[i], 20, &e))
			abort();
		struct pen p = pen_of(&c, (struct rect){ 0, 0, width[i], 20 });

		view_lesson.draw(&p, t, &s);
		canvas_free(&c);
	}
}

/* ---- what it types, with a program that only looks ---- */

static int on_set(void *arg, const char *name, const char *value, struct err *e)
{
	(void)arg, (void)e;
	FUZZ_CHECK(strcmp(name, "score") && strcmp(name, "model"));
	if (!strcmp(name, "spec") || !strcmp(name, "twin") || !strcmp(name, "shadow"))
		FUZZ_CHECK(!strchr(value, '/') && !strstr(value, ".gguf"));
	return 0;
}

static int on_get(void *arg, const char *name, char *buf, size_t cap)
{
	(void)arg, (void)name;
	snprintf(buf, cap, "0");
	return 0;
}

static int on_act(void *arg, enum command_act act, const char *text, double number, struct err *e)
{
	(void)arg, (void)number, (void)e;
	FUZZ_CHECK(act != ACT_SAVE && act != ACT_EXPORT && act != ACT_LESSON && act != ACT_QUIT);
	FUZZ_CHECK(act != ACT_PIN || !*text || *text == '"');
	FUZZ_CHECK(act != ACT_MODEL || !strchr(text, '/'));
	return 0;
}

static void on_note(void *arg, const char *name, const char *value)
{
	(void)arg, (void)name, (void)value;
}

static void on_say(void *arg, const char *text)
{
	(void)arg, (void)text;
}

static void type_all(const char *lines)
{
	struct answer_settings settings = ANSWER_DEFAULTS;
	const struct command_host host = { .settings = &settings,
		.lesson = true,
		.views = views,
		.engine_set = on_set,
		.engine_get = on_get,
		.note = on_note,
		.say = on_say,
		.act = on_act };

	while (lines && *lines) {
		const size_t n = strcspn(lines, "\n");
		char *line = strndup(lines, n);
		struct err e = { 0 };

		if (line && *line == '/')
			commands_run(&host, line, &e);
		free(line);
		lines += n + (lines[n] == '\n');
	}
	setting_stops_free(&settings.stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lesson *l;
	struct err e = { 0 };
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (lesson_parse(&l, "fuzz", text, size, &e)) {
		if (!e.code || !*e.text)
			abort();
	} else {
		struct timeline t = { .lesson = { .name = "fuzz", .text = text, .part = l->n } };

		for (int32_t i = 0; i < l->n; i++) {
			if (lesson_stop(l, i) < i)
				abort();
			if (l->part[i].kind == LESSON_DO)
				type_all(l->part[i].text);
		}
		draw(&t);
		lesson_free(l);
	}
	free(text);
	return 0;
}
