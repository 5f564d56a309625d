/* What the chat says of itself: the status line, and what the end of the context will do. */

#include "tui/chat/chat.h"
#include "engine/visibility/visibility.h"

static void field_rec(struct app *a, struct app_status *s)
{
	const struct chat *c = a->chat;

	if (c->live.session.writer && !c->record_failed)
		app_field(s, INK_REJECTED, "%s rec", glyph(&a->canvas, GLYPH_RECORD));
	else if (c->record_failed || c->live.session.record_err.code || c->options->not_recorded)
		app_field(s, INK_REJECTED, "%s rec failed", glyph(&a->canvas, GLYPH_CROSS));
	else
		app_field(s, INK_DIM, "not recorded");
}

/* Measured values come last: their width changes and must not displace the other fields. */
static void fields_measured(struct app *a, struct app_status *s)
{
	const struct timeline *t = &a->timeline;
	const struct tl_request *r = timeline_chat(t);
	const struct tl_sample decode = timeline_sample(t, TL_DECODE);
	double reached = timeline_bandwidth(&decode), roof = timeline_peak_bandwidth(t);
	struct tl_latencies l = { NAN, NAN, NAN, NAN, NAN, NAN };

	if (isfinite(reached) && roof > 0 && reached <= roof)
		app_field(s, INK_TEXT, "%s MBU", view_percent(reached / roof).text);
	else if (isfinite(reached) && roof > 0)
		app_field(s, INK_TEXT, "above roof: %.0f > %.0f GB/s", reached / 1e9, roof / 1e9);
	/* on 80 columns speed and MBU say more */
	if (r && a->canvas.w >= 100)
		l = timeline_latencies(t, r);
	if (!isnan(l.ttft))
		app_field(s, INK_TEXT, "TTFT %.0f ms", l.ttft / 1e6);
	if (!isnan(l.itl_p50) && a->canvas.w >= 120) /* one field: p99 alone would have no name */
		app_field(s, INK_TEXT, "ITL p50 %.1f ms   p99 %.1f ms", l.itl_p50 / 1e6, l.itl_p99 / 1e6);
	else if (!isnan(l.itl_p50))
		app_field(s, INK_TEXT, "ITL p50 %.1f ms", l.itl_p50 / 1e6);
}

/* Whom the next answer is computed with; unless one was chosen, the first. */
static void field_adapter(const struct app *a, struct app_status *s)
{
	const struct timeline *t = &a->timeline;
	const char *chosen = a->chat->settings.adapter;

	if (!chosen && t->n_adapters)
		chosen = t->adapter[0].name;
	if (chosen && strcmp(chosen, "off") != 0)
		app_field(s, INK_TEXT, "adapter %.20s", chosen);
}

void chat_status(struct app *a, struct app_status *s)
{
	struct chat *c = a->chat;
	const struct timeline *t = &a->timeline;
	const struct tl_step *last = timeline_last_step(t);
	const struct tl_request *at; /* where the conversation stands, which /undo and lessons move */
	const double rate = timeline_rate(t, 0);

	if (!c->live.ready) {
		app_field(s, INK_TEXT, "opening the model  %.1f s", (double)(now_ns() - c->began_ns) / 1e9);
		return;
	}
	if (*c->live.guest_says.warning)
		app_field(s, INK_REJECTED, "%s", c->live.guest_says.mark);
	field_rec(a, s);
	if (a->past) {
		app_field(s, INK_REJECTED, "the past: step %lld of %lld", (long long)player_at(c->past),
			(long long)player_n_steps(c->past));
		return;
	}
	if (c->model)
		app_field(s, INK_BRIGHT, "opening another model");
	if (actor_paused(c->live.session.actor))
		app_field(s, INK_BRIGHT, "%s paused", glyph(&a->canvas, GLYPH_PAUSE));
	if (t->n_lost)
		app_field(s, INK_TEXT, "%lld events not shown", (long long)t->n_lost);
	if (isfinite(rate))
		app_field(s, INK_TEXT, "%4.0f tok/s", rate);
	at = timeline_request(t, chat_stands_at(a));
	app_context(t, at ? at : timeline_chat(t), a->state.anew, s);
	if (c->settings.system && *c->settings.system)
		app_field(s, INK_TEXT, "system");
	field_adapter(a, s);
	if (last)
		app_field(s, INK_TEXT, "step %lld", (long long)last->s.step);
	s->n_kept = s->n;
	fields_measured(a, s);
}

struct view_text chat_name(struct app *a)
{
	const struct timeline *t = &a->timeline;
	const char *dot = glyph(&a->canvas, GLYPH_DOT),
			   *where = a->chat->live.ready ? a->chat->live.guest_says.where : "";
	struct view_text out;

	if (!t->begun) {
		const char *path = a->chat->options->engine.model, *base = path ? strrchr(path, '/') : NULL;

		return view_form("%s", base ? base + 1 : path ? path : "");
	}
	out = view_form("%s%s%s%s%s %s %s%s%s %s%lld", where, *where ? " " : "", *where ? dot : "",
		*where ? " " : "", t->model_name, dot, t->backend, strcmp(t->isa, t->backend) ? " " : "",
		strcmp(t->isa, t->backend) ? t->isa : "", glyph(&a->canvas, GLYPH_TIMES),
		(long long)t->session.threads);
	if (t->n_ranks > 1)
		view_add(&out, " %s ranks:%d", dot, t->n_ranks);
	return out;
}

/* --- what the end of the context will do --- */

enum {
	NEAR = 8,     /* said when less than so large a part of the context is left for a question */
	OPENING = 256 /* tokens of a template for an empty turn, at most: before that it is not asked */
};

struct view_text chat_trim_words(const struct app *a, const struct conversation_prompt *p)
{
	return view_form("%d turn%s left out (%s tokens), %s computed again", p->trimmed_turns,
		plural(p->trimmed_turns), view_count(p->trimmed_tokens).text,
		view_count(p->moved + p->same % view_page_size(&a->timeline)).text);
}

static struct view_text ahead_words(
	const struct app *a, const struct conversation_prompt *p, int32_t left)
{
	const bool drops = answer_drops(&a->chat->settings);

	if (left > 0)
		return view_form("%s token%s left%s", view_count(left).text, left == 1 ? " is" : "s are",
			drops ? ", then the oldest turns go" : "; /overflow drop makes room");
	return drops ? view_form("next: at least %s", chat_trim_words(a, p).text)
				 : view_form("the context is full: /overflow drop leaves out old turns, /new "
							 "begins anew");
}

/* How far sequences go is chosen when the model is opened; and a template that knows nothing of
 * thoughts cannot be told. */
int chat_refuses(void *arg, const struct setting *s, const char *value, struct err *e)
{
	const struct chat *c = ((struct app *)arg)->chat;

	if (s == &answer_settings[ANSWER_AT_thinking] && strcmp(value, "auto") != 0 &&
		!template_can_think(engine_info(c->live.session.engine)->chat))
		return err_set(
			e, ERR_USAGE, "/thinking %s: this model's template has no word for it", value);
	if (s != &answer_settings[ANSWER_AT_overflow] || strcmp(value, "sinks") != 0 ||
		c->options->engine.goes_on)
		return 0;
	return err_set(e, ERR_USAGE,
		"/overflow sinks: how far answers go is chosen at the start: cutaway chat --overflow sinks "
		"(--continue goes on with this conversation)");
}

/* Positions that are seen of a sequence, whatever its length; 0: all. */
static int32_t reach_of(const struct app *a)
{
	const char *spec = timeline_setting(&a->timeline, "visible");
	struct err ignored = { 0 };
	struct visible v;

	return spec && !visible_parse(&v, spec, &ignored) ? visible_reach(&v) : 0;
}

static struct view_text reach_words(int32_t size, int32_t reach)
{
	return size <= reach ? view_form("in %s tokens the oldest keys and values are given up",
							   view_count(reach - size).text)
						 : view_form("%s of %s tokens are seen: the first and the newest",
							   view_count(reach).text, view_count(size).text);
}

/* Once for each state of the conversation: it is rendered for that. */
void chat_look_ahead(struct app *a)
{
	struct chat *c = a->chat;
	const int32_t ctx = engine_info(c->live.session.engine)->ctx,
				  room = answer_room(&c->settings, ctx);
	struct chat_ahead now = { .room = room, .drops = answer_drops(&c->settings) };
	struct conversation_prompt p;
	struct err ignored = { 0 }; /* the turn will be told it */
	int32_t left, reach = reach_of(a);

	conversation_think(c->live.conversation, c->settings.thinking);
	now.size = conversation_size(c->live.conversation, &now.request);
	if (now.size == c->ahead.size && now.request == c->ahead.request && room == c->ahead.room &&
		now.drops == c->ahead.drops)
		return;
	a->dirty = true;
	if (now.size > 0 && now.size + room + ctx / NEAR + OPENING > ctx &&
		!conversation_ahead(c->live.conversation, room, now.drops, &p, &left, &ignored) &&
		left < ctx / NEAR)
		now.words = ahead_words(a, &p, left);
	else if (now.size > 0 && reach > 0 && now.size > reach - reach / NEAR)
		now.words = reach_words(now.size, reach);
	c->ahead = now;
	c->waiting.ahead = c->ahead.words.text;
}
