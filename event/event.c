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

int ev_since(enum ev_kind kind)
{
	if (kind == EV_denoise)
		return 14;
	if (kind == EV_experts || kind == EV_state)
		return 13;
	if (kind == EV_queue || kind == EV_attached || kind == EV_polled || kind == EV_slot ||
		kind == EV_pin)
		return 12;
	if (kind == EV_price || kind == EV_sparsity || kind == EV_outliers || kind == EV_importance)
		return 10;
	if (kind == EV_lesson || kind == EV_answer || kind == EV_product || kind == EV_roof)
		return 9;
	if (kind == EV_memory)
		return 8;
	if (kind == EV_window || kind == EV_cost || kind == EV_shadow || kind == EV_choice ||
		kind == EV_search || kind == EV_sharing)
		return 3;
	return kind == EV_rewind || kind == EV_fork ? 2 : 1;
}

/* Columns that were added later than their table. */
static const struct {
	enum ev_kind kind;
	const char *name;
	int since;
} later[] = {
	{ EV_session, "device", 2 },
	{ EV_draft, "parent", 3 },
	{ EV_draft, "top", 3 },
	{ EV_draft, "depth", 3 },
	{ EV_draft, "other", 3 },
	{ EV_draft, "other_arrival", 3 },
	{ EV_draft, "other_winner_arrival", 3 },
	{ EV_step, "drafters_ns", EV_DRAFTERS_SINCE },
	{ EV_search, "judge", 6 },
	{ EV_step, "run_delay_ns", EV_RUN_DELAY_SINCE },
	{ EV_page, "memory", 8 },
	{ EV_token, "rows", 9 },
	{ EV_token, "pairs", 9 },
	{ EV_token, "ns", 9 },
	{ EV_token, "rank", 16 },
	{ EV_finish, "queue_ns", 9 },
	{ EV_finish, "itl_p50_ns", 9 },
	{ EV_finish, "itl_p99_ns", 9 },
	{ EV_session, "params", 9 },
	{ EV_session, "memory_bytes", 9 },
	{ EV_attention, "read", 10 },
	{ EV_step, "kv_bytes", 10 },
	{ EV_step, "kv_whole_bytes", 10 },
	{ EV_step, "twin_rows", 10 },
	{ EV_step, "twin_ns", 10 },
	{ EV_step, "twin_bytes", 10 },
	{ EV_step, "twin_ops", 10 },
	{ EV_request, "user", 11 },
	{ EV_request, "priority", 11 },
	{ EV_request, "deadline", 11 },
	{ EV_step, "hold", 11 },
	{ EV_step, "hold_first", 11 },
	{ EV_admit, "rank", 11 },
	{ EV_preempt, "rank", 11 },
	{ EV_request, "logit_bias", 12 },
	{ EV_request, "top", 12 },
	{ EV_score, "candidates", 12 },
	{ EV_finish, "prompt", 12 },
	{ EV_lookup, "pin", 12 },
	{ EV_lookup, "pinned", 12 },
	{ EV_step, "pages_pinned", 12 },
	{ EV_memory, "latent", 13 },
	{ EV_request, "input", 15 },
};

int ev_field_since(enum ev_kind kind, int field)
{
	const char *name = ev_info[kind].fields[field].name;

	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		if (later[i].kind == kind && !strcmp(later[i].name, name))
			return later[i].since;
	return ev_since(kind);
}

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
