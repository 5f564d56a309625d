/* See demo_random.h. */
#include "tests/support/demo_random.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

enum { LARGEST_SPAN = 700, VOCAB = 300, PAGES = 24, LAYERS = 5 };

/* splitmix64: Steele, Lea and Flood 2014 */
static uint64_t next(struct demo_random *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int64_t random_int(struct demo_random *d, const char *name)
{
	static const int64_t odd[] = { EV_NULL_I, -1, 0, 1, INT32_MAX, (int64_t)INT32_MAX + 1,
		INT64_MAX, INT64_MIN + 1, (int64_t)1 << 50, ((int64_t)1 << 50) + 1 };
	uint64_t kind = next(d) % 40;

	if (kind == 0)
		return odd[next(d) % (sizeof odd / sizeof *odd)];
	if (!strcmp(name, "step"))
		return d->step + (kind < 3 ? (int64_t)(next(d) % 5) - 2 : 0);
	if (!strcmp(name, "action") || !strcmp(name, "reason") || !strcmp(name, "work"))
		return (int64_t)(next(d) % 8);
	if (!strcmp(name, "request"))
		return 1 + (int64_t)(next(d) % (uint64_t)(d->n_requests ? d->n_requests : 1));
	if (!strcmp(name, "pos"))
		return (int64_t)(d->step + (int64_t)(next(d) % 4));
	return (int64_t)(next(d) % (kind < 25 ? 6 : kind < 35 ? 40 : 100000));
}

static double random_real(struct demo_random *d)
{
	static const double odd[] = { 0, -1, 1e308, -1e308, 1e-320 };
	uint64_t kind = next(d) % 40;

	if (kind == 0)
		return NAN;
	if (kind == 1)
		return next(d) % 2 ? INFINITY : -INFINITY;
	if (kind < 4)
		return odd[next(d) % (sizeof odd / sizeof *odd)];
	return (double)(next(d) >> 11) / (double)((uint64_t)1 << 53);
}

/* Random bytes, or text that is at home in a terminal, with controls and broken UTF-8 in it. */
static struct ev_span random_span(struct demo_random *d, const char *name)
{
	static const char *const texts[] = { " word", "\n", "\x1b[31mred", "\xe8\x93", "\x9d", "蓝色",
		"a\u0301\u0301", "", "\t", "\xff\xfe", "attention", "qkv", "page-size", "pages",
		"\u202e right to left", "x y z words to be wrapped", "👩‍👩‍👧" };
	unsigned char *at = d->bytes + d->used;
	uint64_t kind = next(d) % 8;
	size_t size = next(d) % LARGEST_SPAN;

	if (kind == 0 || d->used + LARGEST_SPAN > sizeof d->bytes)
		return (struct ev_span){ NULL, 0 };
	if (kind < 5 && strcmp(name, "share") != 0) {
		const char *text = texts[next(d) % (sizeof texts / sizeof *texts)];

		return (struct ev_span){ text, strlen(text) };
	}
	if (!strcmp(name, "candidates"))
		size -= size % sizeof(struct ev_candidate);
	if (!strcmp(name, "stages"))
		size = (EV_N_STAGES + size % 2) * sizeof(struct ev_stage);
	if (!strcmp(name, "share"))
		size = LAYERS * (1 + size % 20);
	for (size_t i = 0; i < size; i++)
		at[i] = (unsigned char)next(d);
	d->used += size;
	return (struct ev_span){ at, size };
}

/* Most stages, each once, with a number among theirs that is too large now and then. */
static struct ev_span random_stages(struct demo_random *d)
{
	struct ev_stage_time told[EV_N_stage];
	size_t n = 0;

	for (uint64_t i = 0; i < EV_N_stage; i++)
		if (next(d) % 4)
			told[n++] =
				(struct ev_stage_time){ i, next(d) >> next(d) % 64, next(d) >> 40, next(d) >> 30 };
	if (d->used + sizeof told > sizeof d->bytes)
		return (struct ev_span){ NULL, 0 };
	memcpy(d->bytes + d->used, told, n * sizeof *told);
	d->used += n * sizeof *told;
	return (struct ev_span){ d->bytes + d->used - n * sizeof *told, n * sizeof *told };
}

static void sensible_session(struct event *ev)
{
	ev_init(ev, EV_session);
	ev->u.session.vocab = VOCAB;
	ev->u.session.pages = PAGES;
	ev->u.session.page_size = 16;
	ev->u.session.slots = 4;
	ev->u.session.n_layers = LAYERS;
	ev->u.session.n_heads = 3;
	ev->u.session.ctx = 256;
}

/* Two of three events come from the kinds that build most on each other. */
static enum ev_kind random_kind(struct demo_random *d)
{
	static const enum ev_kind often[] = { EV_token, EV_batch, EV_page, EV_step, EV_draft, EV_vocab,
		EV_time, EV_attention, EV_token, EV_step };

	if (next(d) % 3)
		return often[next(d) % (sizeof often / sizeof *often)];
	return (enum ev_kind)(next(d) % EV_N_KINDS);
}

void demo_random_event(struct demo_random *d, struct event *ev)
{
	const struct ev_info *info;
	char *member;

	d->used = 0;
	if (!d->seq) {
		d->step = 1;
		sensible_session(ev);
	} else {
		ev_init(ev, random_kind(d));
		info = &ev_info[ev->kind];
		member = (char *)&ev->u;
		for (int i = 0; i < info->n_fields; i++) {
			const struct ev_field *f = &info->fields[i];

			if (f->type == EV_TYPE_I)
				*(int64_t *)(void *)member = random_int(d, f->name);
			else if (f->type == EV_TYPE_R)
				*(double *)(void *)member = random_real(d);
			else
				*(struct ev_span *)(void *)member = random_span(d, f->name);
			member += ev_field_size(f->type);
		}
	}
	if (ev->kind == EV_time && next(d) % 4)
		ev->u.time.stages = random_stages(d);
	if (ev->kind == EV_request && next(d) % 4)
		ev->u.request.request = ++d->n_requests;
	if (ev->kind == EV_step)
		d->step++;
	ev->seq = ++d->seq - (next(d) % 200 ? 0 : 2) + (next(d) % 200 ? 0 : 1);
	ev->t_ns = d->seq * 1000003;
}
