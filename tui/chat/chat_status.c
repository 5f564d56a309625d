/* The status line of the chat. */

#include "tui/chat/chat.h"

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
	double reached = timeline_bandwidth(t), roof = timeline_peak_bandwidth(t);
	struct tl_latencies l = { NAN, NAN, NAN, NAN, NAN, NAN };

	if (isfinite(reached) && roof > 0 && reached <= roof)
		app_field(s, INK_TEXT, "%.0f %% MBU", 100 * reached / roof);
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

void chat_status(struct app *a, struct app_status *s)
{
	struct chat *c = a->chat;
	const struct timeline *t = &a->timeline;
	const struct tl_step *last = timeline_last_step(t);
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
	app_context(t, a->state.anew, s);
	if (c->settings.system && *c->settings.system)
		app_field(s, INK_TEXT, "system");
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
