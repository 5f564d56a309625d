/* See attach.h: opening, the thread, and the orders that reach it. Orders of the conversation are
 * done one after the other; a stop ends the answer that runs and drops those behind it. */
#include "sessions/attach/attach.h"

#include "base/array.h"
#include "base/signals.h"
#include "sessions/attach/attach_impl.h"

enum { WAIT_MS = 200 };

/* ---- orders ---- */

static void free_order(struct attach_order *o)
{
	setting_stops_free(&o->settings.stop);
	free(o->text);
	free(o->name);
	free(o);
}

static struct attach_order *take_order(struct attach *a, bool answering)
{
	struct attach_order *o = NULL;

	pthread_mutex_lock(&a->lock);
	if (a->first &&
		(!answering || a->first->what == ATTACH_STOP || a->first->what == ATTACH_NOTE)) {
		o = a->first;
		a->first = o->next;
		if (!a->first)
			a->last = NULL;
	}
	pthread_mutex_unlock(&a->lock);
	return o;
}

/* A stop goes before all that waits, which it drops. */
static void put_order(struct attach *a, struct attach_order *o)
{
	pthread_mutex_lock(&a->lock);
	for (struct attach_order *old; o->what == ATTACH_STOP && (old = a->first);) {
		a->first = old->next;
		a->n_orders--;
		free_order(old);
	}
	if (!a->first)
		a->last = NULL;
	*(a->last ? &a->last->next : &a->first) = o;
	a->last = o;
	a->n_orders++;
	pthread_mutex_unlock(&a->lock);
	client_wake(a->client);
}

static int order(struct attach *a, enum attach_what what, const char *text, const char *name,
	enum ev_code_request_kind kind, const struct answer_settings *settings, struct err *e)
{
	struct attach_order *o = calloc(1, sizeof *o);

	if (o) {
		*o = (struct attach_order){ .what = what,
			.kind = kind,
			.text = text ? strdup(text) : NULL,
			.name = name ? strdup(name) : NULL };
		if (settings)
			o->settings = *settings;
		o->settings.stop = (struct setting_stops){ { NULL } };
	}
	if (!o || (text && !o->text) || (name && !o->name) ||
		(settings && setting_stops_copy(&o->settings.stop, &settings->stop, e))) {
		if (o)
			free_order(o);
		return err_no_memory(e, "another turn");
	}
	put_order(a, o);
	return 0;
}

int attach_ask(struct attach *a, const char *text, enum ev_code_request_kind kind,
	const struct answer_settings *settings, struct err *e)
{
	return order(a, ATTACH_ASK, text, NULL, kind, settings, e);
}

int attach_retry(struct attach *a, const struct answer_settings *settings, struct err *e)
{
	return order(a, ATTACH_RETRY, NULL, NULL, EV_REQUEST_KIND_chat, settings, e);
}

int attach_new(struct attach *a, const char *system, struct err *e)
{
	return order(a, ATTACH_NEW, system, NULL, EV_REQUEST_KIND_chat, NULL, e);
}

int attach_stop(struct attach *a, struct err *e)
{
	return order(a, ATTACH_STOP, NULL, NULL, EV_REQUEST_KIND_chat, NULL, e);
}

int attach_note(struct attach *a, const char *name, const char *value, struct err *e)
{
	return order(a, ATTACH_NOTE, value, name, EV_REQUEST_KIND_chat, NULL, e);
}

bool attach_busy(struct attach *a)
{
	return a->n_orders > 0;
}

int attach_ended(struct attach *a, char *why, size_t cap)
{
	int ended;

	pthread_mutex_lock(&a->lock);
	ended = a->ended;
	snprintf(why, cap, "%s", a->ended_why);
	pthread_mutex_unlock(&a->lock);
	return ended;
}

/* ---- the conversation, on the thread ---- */

static void forget(struct attach *a, int32_t from)
{
	while (a->n_messages > from)
		free(a->message[--a->n_messages].text);
}

/* True: an answer runs, whose end ends the order. */
static bool ask(struct attach *a, struct attach_order *o)
{
	if (!ARRAY_ROOM(a->message, a->cap_messages, a->n_messages + 1))
		return false;
	a->message[a->n_messages++] = (struct attach_message){ true, o->text };
	o->text = NULL;
	return attach_answer_begin(a, o->kind, a->message[a->n_messages - 1].text, &o->settings);
}

static bool retry(struct attach *a, struct attach_order *o)
{
	int32_t n = a->n_messages;

	while (n && !a->message[n - 1].user)
		n--;
	if (!n)
		return false;
	o->text = a->message[n - 1].text;
	a->message[n - 1].text = NULL;
	forget(a, n - 1);
	return ask(a, o);
}

static void carry_out(struct attach *a, struct attach_order *o)
{
	bool runs = false;

	switch (o->what) {
	case ATTACH_ASK: runs = ask(a, o); break;
	case ATTACH_RETRY: runs = retry(a, o); break;
	case ATTACH_NEW:
		forget(a, 0);
		free(a->system);
		a->system = o->text;
		o->text = NULL;
		break;
	case ATTACH_STOP: attach_answer_cancel(a); break;
	case ATTACH_NOTE: attach_emit_setting(a, o->name, o->text); break;
	}
	free_order(o);
	if (!runs)
		a->n_orders--;
}

static void *run(void *arg)
{
	struct attach *a = arg;
	struct attach_order *o;
	struct event ev;

	while (!a->stop) {
		while ((o = take_order(a, a->answer != NULL)))
			carry_out(a, o);
		attach_poll(a);
		client_poll(a->client, WAIT_MS);
	}
	attach_answer_cancel(a);
	ev_init(&ev, EV_closed);
	ev.u.closed.steps = a->step - 1;
	stream_emit(&a->stream, &ev);
	return NULL;
}

/* ---- opening ---- */

static int open_events(struct attach *a, struct err *e)
{
	const struct session_options o = {
		.stream = &a->stream, .record = a->o.record, .viewer = true
	};

	return stream_open(&a->stream, 0, NULL, NULL, e) || session_open(&a->session, &o, e) ? -1 : 0;
}

static int open_parts(struct attach *a, struct err *e)
{
	const struct client_options c = {
		.url = a->o.url, .api_key = a->o.api_key, .idle_s = a->o.idle_s
	};

	sigset_t before;
	int rc;

	a->known = calloc(EV_OWN_IDS, sizeof *a->known);
	a->system = a->o.system ? strdup(a->o.system) : NULL;
	if (!a->known || (a->o.system && !a->system))
		return err_no_memory(e, "a session with a server");
	if (client_open(&a->client, &c, e) || attach_meet(a, e) || open_events(a, e))
		return -1;
	attach_emit_session(a);
	if (a->system)
		attach_emit_setting(a, "system", a->system);
	attach_poll_first(a);
	signals_block(&before);
	rc = pthread_create(&a->thread, NULL, run, a);
	signals_restore(&before);
	if (rc)
		return err_set(e, ERR_IO, "the system refused a thread to speak to the server");
	a->started = true;
	return 0;
}

int attach_open(struct attach **out, const struct attach_options *o, struct err *e)
{
	struct attach *a = calloc(1, sizeof *a);
	struct event none;

	*out = NULL;
	if (!a)
		return err_no_memory(e, "a session with a server");
	pthread_mutex_init(&a->lock, NULL);
	ev_init(&none, EV_polled);
	a->polled = none.u.polled;
	a->o = *o;
	a->ended = -1;
	a->step = 1;
	a->logprobs = true;
	if (open_parts(a, e)) {
		attach_close(a, NULL);
		return -1;
	}
	*out = a;
	return 0;
}

int attach_close(struct attach *a, struct err *e)
{
	int rc;

	if (!a)
		return 0;
	a->stop = true;
	if (a->started) {
		client_wake(a->client);
		pthread_join(a->thread, NULL);
	}
	rc = session_close(&a->session, e);
	client_close(a->client);
	stream_close(&a->stream);
	for (struct attach_order *o; (o = a->first);) {
		a->first = o->next;
		free_order(o);
	}
	forget(a, 0);
	free(a->message);
	free(a->system);
	attach_poll_free(a);
	attach_emit_free(a);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return rc;
}

struct ring *attach_ring(struct attach *a)
{
	return a->session.ring;
}

struct ring_cursor *attach_viewer(struct attach *a)
{
	return a->session.viewer;
}

struct writer *attach_writer(struct attach *a)
{
	return a->session.writer;
}

const char *attach_says(const struct attach *a)
{
	return a->says;
}

int attach_takes(const struct attach *a, const struct setting *s, struct err *e)
{
	/* the last two only where the server samples by them */
	static const int takes[] = { ANSWER_AT_temperature, ANSWER_AT_top_p, ANSWER_AT_seed,
		ANSWER_AT_max_tokens, ANSWER_AT_stop, ANSWER_AT_system, ANSWER_AT_top_k, ANSWER_AT_min_p };
	const size_t n = sizeof takes / sizeof *takes - (a->server->samples ? 0 : 2);

	for (size_t i = 0; i < n; i++)
		if (s == &answer_settings[takes[i]])
			return 0;
	return err_set(e, ERR_USAGE, "%s: this server decides (%s)", s->name, a->says);
}
