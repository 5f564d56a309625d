/* What a server says of itself: at the start who it is, then its figures. See attach_impl.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "sessions/attach/attach_impl.h"

/* ---- who it is ---- */

/* malloc'd; NULL: it did not answer so. */
static char *ask(struct attach *a, const char *path, int *status, struct err *e)
{
	struct client_answer answer = { 0 };

	*status = 0;
	if (client_fetch(a->client, NULL, path, NULL, ATTACH_BODY, &answer, e))
		return NULL;
	*status = answer.status;
	return answer.text;
}

static int refused(struct attach *a, int status, const char *text, struct err *e)
{
	char clean[ATTACH_WHY];

	if (status == 401 || status == 403)
		return err_set(e, ERR_USAGE, "%s asks for another key: --api-key, or CUTAWAY_API_KEY",
			a->reported.url);
	return err_set(e, ERR_IO, "%s/v1/models answers with status %d: %s", a->reported.url, status,
		text_cleaned(clean, sizeof clean, text, strnlen(text, 160)));
}

/* The model that was asked for, or the first. */
static const cJSON *model_of(struct attach *a, const cJSON *list, struct err *e)
{
	const cJSON *m;
	char id[ATTACH_WHY], first[ATTACH_WHY] = "";

	cJSON_ArrayForEach(m, foreign_member(list, "data"))
	{
		attach_word(m, "id", id, sizeof id);
		if (!*first)
			snprintf(first, sizeof first, "%s", id);
		if (*id && (!a->o.model || !strcmp(a->o.model, id)))
			return m;
	}
	if (*first)
		err_set(e, ERR_USAGE, "%s has no model %.80s; it has %.80s", a->reported.url, a->o.model,
			first);
	else
		err_set(e, ERR_INPUT,
			"%s/v1/models is no list of models: is that URL the root of an OpenAI interface?",
			a->reported.url);
	return NULL;
}

static int read_models(struct attach *a, char *owner, size_t cap, struct err *e)
{
	int status, rc = -1;
	char *text = ask(a, "/v1/models", &status, e);
	cJSON *list = text && status < 400 ? foreign_json_parse(text, strlen(text)) : NULL;
	const cJSON *m;

	if (text && status >= 400) {
		refused(a, status, text, e);
	} else if (text && (m = model_of(a, list, e))) {
		const cJSON *meta = foreign_member(m, "meta");

		attach_word(m, "id", a->reported.model, sizeof a->reported.model);
		attach_word(m, "owned_by", owner, cap);
		a->reported.ctx = attach_int(m, "max_model_len");
		if (a->reported.ctx == EV_NULL_I)
			a->reported.ctx = attach_int(meta, "n_ctx");
		rc = 0;
	}
	cJSON_Delete(list);
	free(text);
	return rc;
}

/* What was read to know the server is its first figures, too. */
static void keep(struct attach_body *b, char *text, bool good)
{
	if (good)
		*b = (struct attach_body){ .text = text, .n = strlen(text) };
	else
		free(text);
}

static void read_info(struct attach *a)
{
	int status;
	char *text = a->server->info ? ask(a, a->server->info, &status, NULL) : NULL;
	cJSON *o = text && status < 400 ? foreign_json_parse(text, strlen(text)) : NULL;

	if (cJSON_IsObject(o))
		a->server->learn(&a->reported, o);
	cJSON_Delete(o);
	free(text);
	text = a->server->slots ? ask(a, a->server->slots, &status, NULL) : NULL;
	a->reported.has_slots = text && status < 400;
	keep(&a->slots, text, a->reported.has_slots);
}

int attach_meet(struct attach *a, struct err *e)
{
	char owner[ATTACH_WORD] = "", *metrics;
	int status;

	a->reported.ctx = a->reported.slots = a->reported.pages = a->reported.page_size = EV_NULL_I;
	snprintf(a->reported.url, sizeof a->reported.url, "%s", client_root(a->client));
	if (read_models(a, owner, sizeof owner, e))
		return -1;
	metrics = ask(a, "/metrics", &status, NULL);
	a->server = attach_which(owner, metrics && status < 400 ? metrics : NULL);
	a->reported.has_metrics = metrics && status < 400 && a->server->poll;
	if (a->reported.has_metrics && a->server->learn_metrics)
		a->server->learn_metrics(&a->reported, metrics);
	keep(&a->metrics, metrics, a->reported.has_metrics);
	read_info(a);
	snprintf(a->says, sizeof a->says, "%s%s%s", a->server->name, *a->reported.version ? " " : "",
		a->reported.version);
	return 0;
}

/* ---- its figures ---- */

/* True: it changed, and was told. */
static bool emit_slot(struct attach *a, const cJSON *o)
{
	struct event ev;
	int32_t i = 0;

	ev_init(&ev, EV_slot);
	a->server->slot(&ev.u.slot, o);
	if (ev.u.slot.slot < 0 || ev.u.slot.slot >= ATTACH_SLOTS)
		return false;
	while (i < a->n_slots && a->slot[i].slot != ev.u.slot.slot)
		i++;
	if (i == a->n_slots) {
		if (!ARRAY_ROOM(a->slot, a->cap_slots, a->n_slots + 1))
			return false;
		a->n_slots++;
	} else if (!memcmp(&a->slot[i], &ev.u.slot, sizeof *a->slot)) {
		return false;
	}
	a->slot[i] = ev.u.slot;
	ev.u.slot.step = a->step;
	stream_emit(&a->stream, &ev);
	return true;
}

static bool emit_slots(struct attach *a)
{
	cJSON *list = a->slots.text ? foreign_json_parse(a->slots.text, a->slots.n) : NULL;
	const cJSON *o;
	bool any = false;

	if (a->slots.text && !cJSON_IsArray(list))
		snprintf(a->poll_error, sizeof a->poll_error, "%s is no JSON array", a->server->slots);
	cJSON_ArrayForEach(o, list) any |= cJSON_IsArray(list) && emit_slot(a, o);
	cJSON_Delete(list);
	return any;
}

static bool same_polled(const struct ev_polled *a, const struct ev_polled *b)
{
	return a->running == b->running && a->waiting == b->waiting && a->kv_tokens == b->kv_tokens &&
		   a->prompt_tokens == b->prompt_tokens && a->generated == b->generated &&
		   a->asked == b->asked && a->hit == b->hit && a->preempted == b->preempted &&
		   (isnan(a->kv_used) ? isnan(b->kv_used) : fabs(a->kv_used - b->kv_used) < 1e-9);
}

static bool emit_polled(struct attach *a)
{
	struct event ev;

	ev_init(&ev, EV_polled);
	if (a->metrics.text && !a->poll_error[0])
		a->server->poll(&ev.u.polled, a->metrics.text);
	if (!(ev.u.polled.kv_used >= 0 && ev.u.polled.kv_used <= 1))
		ev.u.polled.kv_used = (double)NAN;
	if (a->polled_once && same_polled(&ev.u.polled, &a->polled) &&
		!strcmp(a->poll_error, a->poll_told))
		return false;
	a->polled_once = true;
	ev.u.polled.step = a->step;
	if (a->poll_error[0])
		ev.u.polled.error = ev_text(a->poll_error);
	a->polled = ev.u.polled;
	strcpy(a->poll_told, a->poll_error);
	stream_emit(&a->stream, &ev);
	return true;
}

static void drop_body(struct attach_body *b)
{
	free(b->text);
	*b = (struct attach_body){ 0 };
}

/* All that was asked has been answered, or not. */
static void end_poll(struct attach *a)
{
	bool any;

	if (a->metrics.open || a->slots.open)
		return;
	any = emit_slots(a);
	if (emit_polled(a) | any)
		attach_emit_step(a, 0);
	drop_body(&a->metrics);
	drop_body(&a->slots);
	a->poll_at_ns = now_ns() + (int64_t)a->o.poll_ms * 1000000;
}

static bool body_piece(void *who, int status, const char *bytes, size_t size)
{
	struct attach_body *b = who;

	if (status >= 400)
		return true;
	return b->n + size <= ATTACH_BODY && array_text(&b->text, &b->n, &b->cap, bytes, size);
}

static void body_end(void *who, const struct client_end *end)
{
	struct attach_body *b = who;
	struct attach *a = b->open;

	b->open = NULL;
	if (end->status >= 400)
		snprintf(
			a->poll_error, sizeof a->poll_error, "%s answers with status %d", b->path, end->status);
	else if (end->error)
		snprintf(a->poll_error, sizeof a->poll_error, "%s: %s", b->path, end->error);
	end_poll(a);
}

static void body_begin(struct attach *a, struct attach_body *b, const char *path)
{
	b->path = path;
	b->open =
		client_begin(a->client, path, NULL, (struct client_handler){ b, body_piece, body_end })
			? a
			: NULL;
}

void attach_poll_first(struct attach *a)
{
	if (a->reported.has_metrics || a->reported.has_slots)
		end_poll(a);
}

void attach_poll(struct attach *a)
{
	if (!a->o.poll_ms || (!a->reported.has_metrics && !a->reported.has_slots) || a->metrics.open ||
		a->slots.open || now_ns() < a->poll_at_ns)
		return;
	a->poll_error[0] = '\0';
	if (a->reported.has_metrics)
		body_begin(a, &a->metrics, "/metrics");
	if (a->reported.has_slots)
		body_begin(a, &a->slots, a->server->slots);
}

void attach_poll_free(struct attach *a)
{
	drop_body(&a->metrics);
	drop_body(&a->slots);
	free(a->slot);
}
