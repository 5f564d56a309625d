/* See event.h. The run-time form of the event table, and the serial form of an event. */
#include "event/event.h"

#include <math.h>

/* clang-format off */
#define EVENT(name, doc) static const struct ev_field fields_##name[] = {
#define I(name, unit, doc) { #name, unit, doc, EV_TYPE_I },
#define R(name, unit, doc) { #name, unit, doc, EV_TYPE_R },
#define T(name, unit, doc) { #name, unit, doc, EV_TYPE_T },
#define B(name, unit, doc) { #name, unit, doc, EV_TYPE_B },
#define END(name) };
#include "event/events.def"
/* clang-format on */

const struct ev_info ev_info[EV_N_KINDS] = {
#define EVENT(name, doc)                                                                           \
	{ #name, doc, fields_##name, (int)(sizeof fields_##name / sizeof *fields_##name) },
#include "event/events.def"
};

#define LIST(list, prefix) static const char list_##prefix[] = #list;
#include "event/codes.def"

const struct ev_code ev_codes[] = {
#define CODE(prefix, value, name, doc) { list_##prefix, #name, doc, value },
#include "event/codes.def"
	{ NULL, NULL, NULL, 0 },
};

const char *ev_code_name(const char *list, int64_t value)
{
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (c->value == value && !strcmp(c->list, list))
			return c->name;
	return "?";
}

bool ev_finish_is_answer(int64_t reason)
{
	return reason == EV_FINISH_end || reason == EV_FINISH_whole || reason == EV_FINISH_stop ||
		   reason == EV_FINISH_length || reason == EV_FINISH_context;
}

/* The walk over the members relies on structs without padding. */
_Static_assert(sizeof(struct ev_span) == 16 && _Alignof(struct ev_span) == 8, "64-bit only");

void ev_init(struct event *ev, enum ev_kind kind)
{
	const struct ev_info *info = &ev_info[kind];
	char *member = (char *)&ev->u;

	memset(ev, 0, sizeof *ev);
	ev->kind = kind;
	for (int i = 0; i < info->n_fields; i++) {
		if (info->fields[i].type == EV_TYPE_I)
			*(int64_t *)(void *)member = EV_NULL_I;
		else if (info->fields[i].type == EV_TYPE_R)
			*(double *)(void *)member = (double)NAN;
		member += ev_field_size(info->fields[i].type);
	}
}

static size_t packed_size(const struct event *ev)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;
	size_t size = 24;

	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_span *span = (const void *)member;
		size += 8;
		if (info->fields[i].type >= EV_TYPE_T && span->data)
			size += span->size;
		member += ev_field_size(info->fields[i].type);
	}
	return size;
}

static char *put(char *p, const void *data, size_t size)
{
	memcpy(p, data, size);
	return p + size;
}

/* Serial form: kind (8 bytes), seq, t_ns, then each field: 8 bytes, for spans followed by size
 * bytes; an absent span has size -1. */
size_t ev_pack(const struct event *ev, void *buf, size_t cap)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;
	size_t size = packed_size(ev);
	int64_t word = ev->kind;
	char *p = buf;

	if (size > cap)
		return size;
	p = put(p, &word, 8);
	p = put(p, &ev->seq, 8);
	p = put(p, &ev->t_ns, 8);
	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_span *span = (const void *)member;

		if (info->fields[i].type < EV_TYPE_T) {
			p = put(p, member, 8);
		} else {
			word = span->data ? (int64_t)span->size : -1;
			p = put(p, &word, 8);
			if (span->data && span->size)
				p = put(p, span->data, span->size);
		}
		member += ev_field_size(info->fields[i].type);
	}
	return size;
}

int ev_unpack(struct event *ev, const void *buf, size_t size)
{
	const char *p = buf, *end = p + size;
	int64_t word;

	if (size < 24)
		return -1;
	memcpy(&word, p, 8);
	if (word < 0 || word >= EV_N_KINDS)
		return -1;
	memset(ev, 0, sizeof *ev);
	ev->kind = (enum ev_kind)word;
	memcpy(&ev->seq, p + 8, 8);
	memcpy(&ev->t_ns, p + 16, 8);
	p += 24;
	const struct ev_info *info = &ev_info[ev->kind];
	char *member = (char *)&ev->u;
	for (int i = 0; i < info->n_fields; i++) {
		struct ev_span *span = (void *)member;

		if (end - p < 8)
			return -1;
		memcpy(&word, p, 8);
		p += 8;
		if (info->fields[i].type < EV_TYPE_T) {
			memcpy(member, &word, 8);
		} else {
			if (word < -1 || word > end - p)
				return -1;
			if (word >= 0) {
				*span = (struct ev_span){ p, (size_t)word };
				p += word;
			}
		}
		member += ev_field_size(info->fields[i].type);
	}
	return p == end ? 0 : -1;
}
