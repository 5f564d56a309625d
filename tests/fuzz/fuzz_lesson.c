/* Any bytes as a lesson: an error with a reason, or parts that a view can draw. */
#include <stdlib.h>
#include <string.h>

#include "fold/timeline.h"
#include "sessions/lesson/lesson.h"
#include "tests/fuzz/fuzz.h"
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

		for (int32_t i = 0; i < l->n; i++)
			if (lesson_stop(l, i) < i)
				abort();
		draw(&t);
		lesson_free(l);
	}
	free(text);
	return 0;
}
