/* Events: what the engine did, as plain data. Law 1: screens, the log, exports and statistics are
 * all folds of this one stream.
 *
 * Everything is made from one table (events.def): the structs, the serial form in the ring, the SQL
 * schema, the reader, docs/trace.md. To add an event, add it there.
 *
 * Columns: I(name, unit, doc) 64-bit integer, R(...) double, T(...) UTF-8 text, B(...) packed
 * bytes. An absent value is EV_NULL_I, NaN, or a span whose data is NULL; in SQL it is NULL. Units:
 * "" for a plain count or id, "ns", "bytes", "ops", "nats", "bits", "tok/s", "x" for a ratio, "p"
 * for a probability, "flag", or the name of a code list of codes.def. Packed bytes are
 * little-endian; the doc says how to unpack them.
 *
 * Every event also has `seq` (its number in the session, the primary key over all tables) and
 * `t_ns` (monotonic, since the session began). Events of a step come before the `step` event that
 * closes it.
 *
 * Ownership: the spans of an event belong to its emitter and are valid only during the sink call; a
 * sink that keeps them copies them. Thread: sinks are called on the engine's thread. */
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Of each code list: EV_PAGE_alloc, and so on, and EV_N_page_action. */
/* clang-format off */
#define LIST(list, prefix) enum ev_code_##list {
#define CODE(prefix, value, name, doc) EV_##prefix##_##name = value,
#define END(list) EV_N_##list };
#include "event/codes.def"
/* clang-format on */

#define EV_NULL_I INT64_MIN

struct ev_span {
	const void *data; /* NULL: absent */
	size_t size;      /* bytes */
};

enum ev_kind {
#define EVENT(name, doc) EV_##name,
#include "event/events.def"
	EV_N_KINDS
};

/* clang-format off */
#define EVENT(name, doc) struct ev_##name {
#define I(name, unit, doc) int64_t name;
#define R(name, unit, doc) double name;
#define T(name, unit, doc) struct ev_span name;
#define B(name, unit, doc) struct ev_span name;
#define END(name) };
#include "event/events.def"
/* clang-format on */

struct event {
	enum ev_kind kind;
	int64_t seq;  /* from 1 */
	int64_t t_ns; /* since the session began */
	union {
#define EVENT(name, doc) struct ev_##name name;
#include "event/events.def"
	} u;
};

typedef void ev_sink(void *arg, const struct event *ev);

/* The table at run time. The members of a struct ev_x lie one after the other without padding (8
 * bytes for I and R, a span for T and B), so a fold over the fields walks from &ev->u by
 * ev_field_size(). */
enum ev_type { EV_TYPE_I, EV_TYPE_R, EV_TYPE_T, EV_TYPE_B };
struct ev_field {
	const char *name, *unit, *doc;
	enum ev_type type;
};
struct ev_info {
	const char *name, *doc;
	const struct ev_field *fields;
	int n_fields;
};
extern const struct ev_info ev_info[EV_N_KINDS];

static inline size_t ev_field_size(enum ev_type type)
{
	return type < EV_TYPE_T ? 8 : sizeof(struct ev_span);
}

struct ev_code {
	const char *list, *name, *doc;
	int value;
};
extern const struct ev_code ev_codes[]; /* ends with list == NULL */
/* Name of a value in a list, or "?". */
const char *ev_code_name(const char *list, int64_t value);
/* Whether a request with this ev_code_finish gave an answer, to its own end or as long as it may
 * be; not if it was refused, stopped, dropped, or failed. */
bool ev_finish_is_answer(int64_t reason);

/* Ids from here on are none of a model's: texts have them that another server told without ids. */
enum { EV_OWN_IDS = 1 << 19 };

/* Sets every field of kind's struct to absent. */
void ev_init(struct event *ev, enum ev_kind kind);
/* Kinds as bits of a set. */
#define EV_BIT(kind) (UINT64_C(1) << EV_##kind)

/* The bytes of a C string; NULL: absent. */
static inline struct ev_span ev_text(const char *s)
{
	return (struct ev_span){ s, s ? strlen(s) : 0 };
}

/* The text as a C string, cut to fit; absent: "". */
static inline void ev_copy(char *to, size_t cap, struct ev_span text)
{
	const size_t n = !text.data ? 0 : text.size < cap ? text.size : cap - 1;

	if (n)
		memcpy(to, text.data, n);
	to[n] = '\0';
}
static inline bool ev_is(struct ev_span text, const char *s)
{
	return text.data && text.size == strlen(s) && !memcmp(text.data, s, text.size);
}

/* Of packed bytes, which are little-endian as the machines are that this runs on, the item i, of
 * `size` bytes; false: they end before it. */
static inline bool ev_item(struct ev_span packed, size_t i, void *to, size_t size)
{
	if (!packed.data || i >= packed.size / size)
		return false;
	memcpy(to, (const char *)packed.data + i * size, size);
	return true;
}
/* As many whole ones as there are, at most `most`. Returns how many. */
static inline size_t ev_items(struct ev_span packed, void *to, size_t size, size_t most)
{
	const size_t there = packed.data ? packed.size / size : 0, n = there < most ? there : most;

	if (n)
		memcpy(to, packed.data, n * size);
	return n;
}

/* Serial form: for the ring and for tests. ev_pack returns the size, and writes only if it fits
 * cap; ev_unpack returns 0, or -1 if the bytes are not a whole event; its spans point into buf. */
size_t ev_pack(const struct event *ev, void *buf, size_t cap);
int ev_unpack(struct event *ev, const void *buf, size_t size);

/* A mask of a diffusion model's answer and the token proposed for it, as packed in ev_denoise. */
enum { EV_DENOISED_MOST = 1024 };
struct ev_denoised {
	uint32_t pos, id;
	float p, entropy;
	uint32_t fixed;
};

/* A candidate and a sampler stage, as packed in ev_token; a kernel stage, as packed in ev_time; a
 * logit bias, as packed in ev_request. */
struct ev_candidate {
	uint32_t id;
	float logit, p, arrival;
	uint32_t cut;
};
struct ev_stage {
	uint32_t left;
	float mass, value;
};
struct ev_stage_time {
	uint64_t stage, ns, bytes, ops;
};
/* One that waits, as packed in ev_queue. */
struct ev_queued {
	int64_t request, rank;
};
enum { EV_QUEUE_MOST = 32, EV_PROMPT_REFUSED = 64 };
struct ev_bias {
	uint32_t id;
	float bias;
};
/* Whether a token (its source) was there before the session began, which continues a conversation.
 */
static inline bool ev_is_earlier(int64_t source)
{
	return source == EV_SOURCE_recorded || source == EV_SOURCE_carried;
}
/* Whether it is an input: no row of logits that this model computed says anything of it. */
static inline bool ev_is_given(int64_t source)
{
	return source == EV_SOURCE_forced || source == EV_SOURCE_carried;
}
/* Of the sampler. The stages of logit bias and grammar come first in a draw and last in the list,
 * where they are only if the request has them (bias also where it has a grammar alone): ordinary
 * rows are no longer for them. */
enum { EV_N_STAGES = 5, EV_AT_BIAS = EV_N_STAGES, EV_AT_GRAMMAR, EV_MOST_STAGES };
