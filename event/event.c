/* See event.h. The run-time form of the event table, and the serial form of an event. */
#include "event/event.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define FIELD_I(name, unit, doc) { #name, unit, doc, EV_TYPE_I },
#define FIELD_R(name, unit, doc) { #name, unit, doc, EV_TYPE_R },
#define FIELD_T(name, unit, doc) { #name, unit, doc, EV_TYPE_T },
#define FIELD_B(name, unit, doc) { #name, unit, doc, EV_TYPE_B },
#define X(name, doc)                                                                               \
	static const struct ev_field fields_##name[] = { EV_FIELDS_##name(                             \
		FIELD_I, FIELD_R, FIELD_T, FIELD_B) };
EV_TABLE(X)
#undef X

const struct ev_info ev_info[EV_N_KINDS] = {
#define X(name, doc)                                                                               \
	{ #name, doc, fields_##name, (int)(sizeof fields_##name / sizeof *fields_##name) },
	EV_TABLE(X)
#undef X
};

#define CODE(list, v, n, d) { #list, #n, d, v },
#define C_request_kind(...) CODE(request_kind, __VA_ARGS__)
#define C_work(...) CODE(work, __VA_ARGS__)
#define C_schedule(...) CODE(schedule, __VA_ARGS__)
#define C_finish(...) CODE(finish, __VA_ARGS__)
#define C_page_action(...) CODE(page_action, __VA_ARGS__)
#define C_prefix(...) CODE(prefix, __VA_ARGS__)
#define C_source(...) CODE(source, __VA_ARGS__)
#define C_verdict(...) CODE(verdict, __VA_ARGS__)
#define C_rule(...) CODE(rule, __VA_ARGS__)
#define C_cut(...) CODE(cut, __VA_ARGS__)
#define C_stage(...) CODE(stage, __VA_ARGS__)
#define C_search_action(...) CODE(search_action, __VA_ARGS__)
#define C_sparse(...) CODE(sparse, __VA_ARGS__)
#define C_memory_kind(...) CODE(memory_kind, __VA_ARGS__)
#define C_lesson_action(...) CODE(lesson_action, __VA_ARGS__)
#define C_ask(...) CODE(ask, __VA_ARGS__)
#define C_hold(...) CODE(hold, __VA_ARGS__)
#define C_pin_action(...) CODE(pin_action, __VA_ARGS__)
#define C_answer_verdict(...) CODE(answer_verdict, __VA_ARGS__)
#define X(list) EV_CODES_##list(C_##list)
const struct ev_code ev_codes[] = { EV_CODE_LISTS(X){ NULL, NULL, NULL, 0 } };
#undef X

const char *ev_code_name(const char *list, int64_t value)
{
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (c->value == value && !strcmp(c->list, list))
			return c->name;
	return "?";
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
