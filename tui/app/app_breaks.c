/* /break, /watch, /print, /find and /rfind, and their results. See breaks.h. */

#include "tui/app/app.h"

static int64_t step_of(struct app *a)
{
	const struct tl_step *s = timeline_last_step(app_timeline(a));

	return s ? s->s.step : 0;
}

static int breaks_go_to(struct app *a, const char *expr, bool back, struct err *e)
{
	const char *path = a->mode->recording(a, e);
	struct err own = { 0 };

	if (!path)
		return -1;
	if (breaks_find(a->breaks, path, expr, step_of(a), back, &own))
		return err_set(e, own.code, "%s%s", own.text,
			strpbrk(expr, "<>='") ? "" : "; /grep looks for words in what was said");
	app_say(a, SAY_INFO, "searching %s for %s", back ? "backward" : "forward",
		breaks_searched(a->breaks));
	return 0;
}

/* gdb's: one value on a line below the screen, many in a popup. */
static int print(struct app *a, const char *expr, struct err *e)
{
	struct err own = { 0 };
	const char *path = a->mode->recording(a, e);
	char *say;
	int where;

	if (!path)
		return -1;
	if (!step_of(a))
		return err_set(e, ERR_USAGE, "there is no step yet");
	if (watch_print(path, expr, step_of(a), &say, &where, &own))
		return breaks_point_out(expr, where, &own, e);
	if (*expr)
		app_say(a, SAY_INFO, "%s = %s   (step %lld)", expr, say, (long long)step_of(a));
	else
		app_show(a, "the step that is looked at", say);
	free(say);
	return 0;
}

static int add_or_list(struct app *a, enum breaks_kind kind, const char *text, struct err *e)
{
	char *say;

	if (breaks_command(a->breaks, kind, text, &say, e))
		return -1;
	if (!*text && say)
		app_show(a, kind == BREAKS_WATCH ? "watches" : "breakpoints", say);
	else if (say)
		app_say(a, SAY_INFO, "%s", say);
	free(say);
	if (a->mode->breaks_changed)
		a->mode->breaks_changed(a);
	return 0;
}

int app_break(struct app *a, enum command_act act, const char *text, struct err *e)
{
	switch (act) {
	case ACT_BREAK: return add_or_list(a, BREAKS_BREAK, text, e);
	case ACT_TBREAK: return add_or_list(a, BREAKS_ONCE, text, e);
	case ACT_WATCH: return add_or_list(a, BREAKS_WATCH, text, e);
	case ACT_PRINT: return print(a, text, e);
	default: return breaks_go_to(a, text, act == ACT_RFIND, e);
	}
}

struct view_text app_look_at(struct app *a, const struct watch_hit *hit)
{
	const struct timeline *t = app_timeline(a);
	const struct tl_request *r = hit->request > 0 ? timeline_request(t, hit->request) : NULL;
	int32_t i = r ? r->n_tokens : 0;

	while (i-- > 0 && r->token[i].pos != hit->pos)
		;
	if (i < 0)
		return (struct view_text){ "" };
	a->state.request = r->id;
	a->state.token = i + 1 < r->n_tokens ? i : -1;
	return view_form(": %s:%lld, %s", view_label(r->id).text, (long long)hit->pos,
		view_quote(t, r->token[i].id).text);
}

static void take_search(struct app *a)
{
	struct err e = { 0 };
	struct watch_hit at;

	switch (breaks_found(a->breaks, &at, &e)) {
	case SEARCH_FOUND:
		at.step = at.step < TL_INT_MAX ? at.step : TL_INT_MAX; /* of a recording that lies */
		if (!a->host.act(a->host.arg, ACT_GOTO, "", (double)at.step, &e))
			app_say(a, SAY_INFO, "step %lld%s: %s", (long long)at.step, app_look_at(a, &at).text,
				breaks_searched(a->breaks));
		break;
	case SEARCH_NOTHING:
		app_say(a, SAY_INFO,
			"no step that way for which %s holds; /find looks forward, /rfind back",
			breaks_searched(a->breaks));
		break;
	case SEARCH_RUNS:
		app_say(a, SAY_INFO, "searching for %s: step %lld (^C stops)", breaks_searched(a->breaks),
			(long long)at.step);
		break;
	case SEARCH_FAILED:
	case SEARCH_NONE: break;
	}
	app_complain(a, &e);
}

void app_breaks_work(struct app *a)
{
	char why[160];
	struct watch_hit hit = breaks_stopped(a->breaks, why, sizeof why);

	if (hit.step) {
		app_say(a, SAY_INFO, "stopped after step %lld%s: %s", (long long)hit.step,
			app_look_at(a, &hit).text, why);
		a->dirty = true;
	}
	take_search(a);
}

int app_breaks_timeout(struct app *a)
{
	return breaks_searching(a->breaks) ? 100 : -1;
}
