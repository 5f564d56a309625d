/* See schedule.h. */
#include "engine/diffuse/schedule.h"

#include <stdio.h>
#include <string.h>

#include "engine/core/settings.h"
#include "engine/diffuse/canvas.h"

#define DENOISE_ROW(field) (&engine_settings[ENGINE_AT_##field])

struct schedule schedule_of(const struct engine_options *o)
{
	return (struct schedule){ .by = (enum ev_code_schedule)setting_choice(DENOISE_ROW(denoise), o),
		.steps = o->denoise_steps,
		.block = o->denoise_block,
		.above = o->denoise_above };
}

void schedule_print(const struct schedule *s, char text[SCHEDULE_TEXT])
{
	snprintf(text, SCHEDULE_TEXT, "%s:%d:%d:%.9g", DENOISE_ROW(denoise)->words[s->by],
		(int)s->steps, (int)s->block, (double)s->above);
}

int schedule_parse(struct schedule *s, const char *text, struct err *e)
{
	const struct setting *row[] = { DENOISE_ROW(denoise), DENOISE_ROW(denoise_steps),
		DENOISE_ROW(denoise_block), DENOISE_ROW(denoise_above) };
	struct engine_options o = ENGINE_DEFAULTS;

	for (int i = 0; i < 4; i++) {
		const size_t n = strcspn(text, ":");
		char word[SCHEDULE_TEXT];

		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), text);
		if (setting_put(row[i], &o, word, e))
			return -1;
		text += n + (text[n] == ':');
	}
	*s = schedule_of(&o);
	return 0;
}

void schedule_block(struct canvas *c)
{
	const int32_t size = c->how.block ? c->how.block : c->n;
	int32_t at = 0;

	while (at < c->n && c->cell[at].fixed)
		at++;
	c->first = at;
	c->end = size ? at / size * size + size : 0;
	c->end = c->end < c->n ? c->end : c->n;
}

/* Greater is surer. */
static double confidence(const struct canvas *c, const struct canvas_cell *cell)
{
	return c->how.by == EV_SCHEDULE_entropy ? -cell->drawn.entropy : (double)cell->drawn.p;
}

/* How many a step fixes; 0: those that reach the threshold. */
static int32_t share(const struct canvas *c)
{
	const int32_t left = c->how.steps - c->n_steps;

	if (c->how.by == EV_SCHEDULE_threshold)
		return 0;
	if (!c->how.steps)
		return 1;
	return left > 1 ? (c->n_masked + left - 1) / left : c->n_masked;
}

static struct canvas_cell *best_of(const struct canvas *c)
{
	struct canvas_cell *best = NULL;

	for (int32_t i = c->first; i < c->end; i++) {
		struct canvas_cell *cell = &c->cell[i];

		if (cell->fixed || cell->chosen || cell->drawn.id == c->mask)
			continue;
		if (!best || confidence(c, cell) > confidence(c, best))
			best = cell;
	}
	return best;
}

void schedule_choose(struct canvas *c)
{
	const int32_t most = share(c);
	struct canvas_cell *best;

	for (int32_t n = 0; (best = best_of(c)); n++) {
		if (most ? n >= most : n && best->drawn.p < c->how.above)
			return;
		best->chosen = true;
	}
}
