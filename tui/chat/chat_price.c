/* The price of the lossy settings in the chat. See chat.h. */

#include "tui/chat/chat.h"

enum { LOOK_NS = 300000000 };

struct job {
	struct chat_price *c;
	bool over;
};

/* On the engine's thread, between two steps: the next case, if nothing runs. */
static void next(struct engine *engine, void *arg)
{
	struct job *j = arg;
	struct chat_price *c = j->c;
	int more = 1;

	if (!engine_idle(engine))
		return;
	if (!c->begun && apart_begin(&c->apart, engine, c->ids, c->n_ids, &c->err)) {
		j->over = true;
		return;
	}
	c->begun = true;
	if (c->stopping)
		apart_end(&c->apart, engine, &c->err);
	else
		more = apart_next(&c->apart, engine, &c->err);
	j->over = c->stopping || more <= 0;
}

static void end(struct app *a, struct chat_price *c)
{
	struct err e = c->err;
	const bool stopped = c->stopping;
	char question[48];

	snprintf(question, sizeof question, "price %" PRId64, c->request);
	chat_price_free(c);
	if (!e.code && !stopped)
		app_why(a, question, &e);
	if (e.code)
		app_say(a, SAY_ERROR, "/price: %s", e.text);
	else
		app_say(a, SAY_INFO, "/price %s; all settings are as before it",
			stopped ? "was stopped" : "is over");
}

static void stepped(void *app, void *arg)
{
	const struct job *j = arg;
	struct chat_price *c = j->c;
	struct app *a = app;

	c->asked = false;
	if (!a)
		return;
	a->dirty = true;
	chat_feed(a);
	if (j->over)
		end(a, c);
	else if (c->apart.next)
		app_say(a, SAY_INFO, "price: text %d of %d, %s; ^C stops", c->apart.next, c->apart.n,
			c->apart.one[c->apart.next - 1].name);
}

/* The newest case has ended, or there is none; seldom it is asked again, for an engine that was
 * busy. */
static bool is_due(const struct app *a, const struct chat_price *c)
{
	const int64_t id = c->apart.next ? c->apart.one[c->apart.next - 1].request : 0;
	const struct tl_request *r = id ? timeline_request(&a->timeline, id) : NULL;

	return c->begun && r && r->state == TL_FINISHED && r->id != c->reported
			   ? true
			   : now_ns() - c->looked_ns > LOOK_NS;
}

void chat_price_work(struct app *a)
{
	struct chat_price *c = &a->chat->price;
	struct job j = { .c = c };

	if (!c->running || c->asked || !is_due(a, c))
		return;
	c->looked_ns = now_ns();
	c->reported = c->apart.next ? c->apart.one[c->apart.next - 1].request : 0;
	c->asked = actor_post(a->chat->live.session.actor, next, stepped, &j, sizeof j);
}

void chat_price_free(struct chat_price *c)
{
	free(c->ids);
	*c = (struct chat_price){ 0 };
}

int chat_price(struct app *a, struct err *e)
{
	struct chat_price *c = &a->chat->price;
	const struct tl_request *r = view_request(&a->timeline, &a->state);
	const int32_t n = r ? r->n_prompt + r->n_tokens : 0;

	if (chat_busy(a))
		return err_set(e, ERR_USAGE, "/price: an answer runs: wait for its end, or /cancel it");
	if (!r || r->n_prompt < 1 || !r->prompt)
		return err_set(e, ERR_USAGE, "/price: there is no answer yet whose text could be scored");
	if (!a->mode->recording(a, e) || !(c->ids = malloc((size_t)n * sizeof *c->ids)))
		return e->code ? -1 : err_no_memory(e, "a text");
	for (int32_t i = 0; i < n; i++)
		c->ids[i] = i < r->n_prompt ? r->prompt[i] : (int32_t)r->token[i - r->n_prompt].id;
	c->n_ids = n;
	c->request = r->id;
	c->running = true;
	return 0;
}
