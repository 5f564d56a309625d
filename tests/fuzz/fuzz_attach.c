/* What another server may answer: its list of models, metrics, info, slots, and a stream of pieces
 * cut anywhere; events of it are whole, within their bounds, and fold. No connection is made: the
 * client's functions are here. FUZZ_OPTIONS: -max_len=16384
 *
 * An input: a byte that says how the stream is cut, and parts that end with 0x1e, in the order of
 * `enum part`. One that begins with "!" is an error, of status 400 as a stream and 404 else; one
 * that is not there is a connection that fails. */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "fold/timeline.h"
#include "sessions/attach/attach_impl.h"
#include "tests/fuzz/fuzz.h"

enum part { MODELS, METRICS, INFO, SLOTS, STREAM, METRICS_LATER, SLOTS_LATER, N_PARTS };
static const char *const paths[] = { "/v1/models", "/metrics", "", "/slots",
	"/v1/chat/completions" };

static struct {
	const char *at;
	size_t size;
} part[N_PARTS];
static struct client_handler handler[STREAM + 1]; /* of the call to each path; who NULL: none */
static struct timeline told;

static enum part part_of(const char *path)
{
	for (int i = 0; i <= STREAM; i++)
		if (!strcmp(paths[i], path))
			return (enum part)i;
	return INFO;
}

static int status_of(enum part p)
{
	return part[p].size && *part[p].at == '!' ? p == STREAM ? 400 : 404 : 200;
}

/* ---- a client without a network ---- */

int client_open(struct client **c, const struct client_options *o, struct err *e)
{
	(void)c;
	(void)o;
	return err_set(e, ERR_IO, "no network");
}

void client_close(struct client *c)
{
	(void)c;
}

const char *client_root(const struct client *c)
{
	(void)c;
	return "http://user:key@127.0.0.1";
}

struct client_call *client_begin(
	struct client *c, const char *path, const char *body, struct client_handler h)
{
	cJSON *o = body ? cJSON_Parse(body) : NULL;

	FUZZ_CHECK(!body == !o);
	cJSON_Delete(o);
	handler[part_of(path)] = h;
	FUZZ_CHECK(!c);
	return (struct client_call *)&handler;
}

void client_cancel(struct client_call *call)
{
	FUZZ_CHECK(call);
	handler[STREAM].who = NULL;
}

int client_poll(struct client *c, int timeout_ms)
{
	(void)c;
	return timeout_ms < 0;
}

void client_wake(struct client *c)
{
	(void)c;
}

int client_fetch(struct client *c, const char *method, const char *path, const char *body,
	size_t most, struct client_answer *answer, struct err *e)
{
	enum part p = part_of(path);

	FUZZ_CHECK(!c && !method && !body);
	if (!part[p].at || part[p].size > most)
		return err_set(e, ERR_IO, "no answer");
	answer->status = status_of(p);
	answer->text = strndup(part[p].at, part[p].size);
	answer->size = strlen(answer->text);
	return 0;
}

/* The first `size` bytes of a part in pieces of n, each in memory of its own; and the call's end.
 */
static void answer(enum part path, enum part p, size_t size, size_t n, bool ends)
{
	struct client_handler h = handler[path];
	struct client_end end = { .status = part[p].at ? status_of(p) : 0 };
	bool more = part[p].at && h.who;

	for (size_t at = 0; more && at < size; at += n) {
		size_t k = size - at < n ? size - at : n;
		char *copy = malloc(k);

		FUZZ_CHECK(copy);
		memcpy(copy, part[p].at + at, k);
		more = h.piece(h.who, end.status, copy, k);
		free(copy);
	}
	end.error = more ? NULL : "broke off";
	handler[path].who = ends ? NULL : h.who;
	if (ends && h.who)
		h.end(h.who, &end);
}

/* ---- what it tells ---- */

static void check_event(const struct event *ev)
{
	const double p = ev->u.token.p, kv = ev->u.polled.kv_used;

	if (ev->kind == EV_token)
		FUZZ_CHECK(ev->u.token.id >= 0 && (isnan(p) || (p >= 0 && p <= 1)));
	if (ev->kind == EV_polled)
		FUZZ_CHECK(isnan(kv) || (kv >= 0 && kv <= 1));
	if (ev->kind == EV_slot)
		FUZZ_CHECK(ev->u.slot.slot >= 0 && (ev->u.slot.busy & ~1) == 0);
	if (ev->kind == EV_finish)
		FUZZ_CHECK(ev->u.finish.reason >= 0 && ev->u.finish.reason < EV_N_finish);
}

static void on_event(void *arg, const struct event *ev)
{
	size_t size = ev_pack(ev, NULL, 0);
	char *packed = malloc(size);
	struct event again;

	(void)arg;
	check_event(ev);
	FUZZ_CHECK(packed && ev_pack(ev, packed, size) == size && !ev_unpack(&again, packed, size));
	timeline_fold(&told, ev);
	FUZZ_CHECK(told.last_seq == ev->seq);
	free(packed);
}

static void ask(struct attach *a)
{
	static const char text[] = "hello";
	struct answer_settings s = ANSWER_DEFAULTS;

	FUZZ_CHECK(ARRAY_ROOM(a->message, a->cap_messages, a->n_messages + 1));
	a->message[a->n_messages++] = (struct attach_message){ true, strdup(text) };
	a->n_orders++;
	FUZZ_CHECK(attach_answer_begin(a, EV_REQUEST_KIND_chat, text, &s));
}

/* An answer, its figures, and one that is stopped on its way. */
static void converse(struct attach *a, size_t n)
{
	attach_emit_session(a);
	attach_poll_first(a);
	ask(a);
	for (int i = 0; i < 3 && handler[STREAM].who; i++) /* it may be asked again without logprobs */
		answer(STREAM, STREAM, part[STREAM].size, n, true);
	FUZZ_CHECK(!a->answer && !a->n_orders && a->ended >= 0);
	a->poll_at_ns = 0;
	attach_poll(a);
	answer(METRICS, METRICS_LATER, part[METRICS_LATER].size, n + 7, true);
	answer(SLOTS, SLOTS_LATER, part[SLOTS_LATER].size, n + 7, true);
	FUZZ_CHECK(!a->metrics.open && !a->slots.open && !a->metrics.text && !a->slots.text);
	ask(a);
	answer(STREAM, STREAM, part[STREAM].size / 2, n, false);
	attach_answer_cancel(a);
	FUZZ_CHECK(!a->answer && !a->n_orders);
}

static struct attach *open_it(void)
{
	struct attach *a = calloc(1, sizeof *a);
	struct event none;
	struct err e = { 0 };

	FUZZ_CHECK(a && !stream_open(&a->stream, 0, NULL, NULL, &e));
	FUZZ_CHECK(!stream_add(&a->stream, on_event, NULL));
	pthread_mutex_init(&a->lock, NULL);
	a->known = calloc(EV_OWN_IDS, sizeof *a->known);
	ev_init(&none, EV_polled);
	a->polled = none.u.polled;
	a->o.poll_ms = 1000;
	a->ended = -1;
	a->step = 1;
	a->logprobs = true;
	FUZZ_CHECK(a->known);
	return a;
}

static void cut(const char *data, size_t size)
{
	memset(part, 0, sizeof part);
	memset(handler, 0, sizeof handler);
	for (int i = 0; i < N_PARTS && size; i++) {
		const char *end = memchr(data, 0x1e, size);

		part[i].at = data;
		part[i].size = end ? (size_t)(end - data) : size;
		size -= part[i].size + (end != NULL);
		data += part[i].size + (end != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	struct attach *a;

	if (!size)
		return 0;
	cut((const char *)data + 1, size - 1);
	a = open_it();
	if (!attach_meet(a, &e))
		converse(a, 1u + *data);
	else
		FUZZ_CHECK(e.code && *e.text);
	timeline_empty(&told); /* it keeps the list of texts: half a million, by their ids */
	FUZZ_CHECK(!attach_close(a, NULL));
	return 0;
}
