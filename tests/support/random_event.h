/* For tests: events of all kinds with every field random or absent, the same for the same seed. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "event/event.h"

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline void random_field(
	uint64_t *state, enum ev_type type, void *member, unsigned char *bytes, size_t cap)
{
	uint64_t r = random_u64(state);

	if (type == EV_TYPE_I) {
		int64_t v = (int64_t)(r % 3 ? r % 100000 : random_u64(state));

		*(int64_t *)member = r % 7 == 0 ? EV_NULL_I : v;
	} else if (type == EV_TYPE_R) {
		double v = (double)(int64_t)random_u64(state) / 3e12;

		*(double *)member = r % 7 == 0 ? (double)NAN : r % 11 == 0 ? (double)INFINITY : v;
	} else {
		struct ev_span *span = member;

		span->data = r % 7 == 0 ? NULL : bytes;
		span->size = r % 7 == 0 ? 0 : r >> 8 & 1 ? (r >> 16) % cap : (r >> 16) % 20;
		for (size_t i = 0; i < span->size; i++)
			bytes[i] = (unsigned char)(type == EV_TYPE_T ? 32 + random_u64(state) % 95
														 : random_u64(state));
	}
}

enum { RANDOM_FIELDS = 32 };

/* An event whose spans point into bytes [RANDOM_FIELDS * cap], each of less than cap bytes. */
static inline void random_event(struct event *ev, int64_t seq, unsigned char *bytes, size_t cap)
{
	uint64_t state = (uint64_t)seq * 77 + 1;
	char *member = (char *)&ev->u;

	ev_init(ev, (enum ev_kind)(random_u64(&state) % EV_N_KINDS));
	ev->seq = seq;
	ev->t_ns = seq * 1000;
	for (int i = 0; i < ev_info[ev->kind].n_fields; i++) {
		random_field(
			&state, ev_info[ev->kind].fields[i].type, member, bytes + (size_t)i * cap, cap);
		member += ev_field_size(ev_info[ev->kind].fields[i].type);
	}
}

/* Equal as far as a recording can tell: any NaN is absent. */
static inline bool event_equal(const struct event *a, const struct event *b)
{
	const char *x = (const char *)&a->u, *y = (const char *)&b->u;

	if (a->kind != b->kind || a->seq != b->seq || a->t_ns != b->t_ns)
		return false;
	for (int i = 0; i < ev_info[a->kind].n_fields; i++) {
		enum ev_type type = ev_info[a->kind].fields[i].type;

		if (type >= EV_TYPE_T) {
			const struct ev_span *s = (const void *)x, *t = (const void *)y;

			if (!s->data != !t->data || s->size != t->size ||
				(s->size && memcmp(s->data, t->data, s->size)))
				return false;
		} else if (memcmp(x, y, 8)) {
			double p, q;

			memcpy(&p, x, 8);
			memcpy(&q, y, 8);
			if (type == EV_TYPE_I || !isnan(p) || !isnan(q))
				return false;
		}
		x += ev_field_size(type);
		y += ev_field_size(type);
	}
	return true;
}
