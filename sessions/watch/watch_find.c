/* Searching a recording for a step: see watch_find in watch.h. */
#include "base/clock.h"
#include "sessions/watch/watch.h"
#include "trace/reader.h"

/* An expression may take half a second in each step. */
static const int64_t TELL_NS = 20000000;

/* Skips tables that no expression can use: attention and times are most of a file. */
static int only_needed(struct reader *r, struct err *e)
{
	reader_only(r, EV_BIT(vocab) | EV_BIT(request) | EV_BIT(admit) | EV_BIT(lookup) | EV_BIT(page) |
					   EV_BIT(preempt) | EV_BIT(cancel) | EV_BIT(rewind) | EV_BIT(token) |
					   EV_BIT(step) | EV_BIT(finish));
	return reader_seek(r, 1, e);
}

/* Recordings cannot be read backwards: reads forwards and keeps the last match. */
static int search(struct watch_set *s, struct reader *r, int64_t from, bool back,
	bool (*progress)(void *arg, int64_t step), void *arg, struct watch_hit *hit, struct err *e)
{
	struct event ev;
	int64_t told = now_ns();
	int rc, found = 0;

	while ((rc = reader_next(r, &ev, e)) > 0) {
		if (!watch_feed(s, &ev))
			continue;
		if (back && ev.u.step.step >= from)
			return found;
		if (watch_holds(s, 0) && (back || ev.u.step.step > from)) {
			*hit = watch_hit(s, 0);
			found = 1;
			if (!back)
				return found;
		}
		if (!progress || now_ns() - told < TELL_NS)
			continue;
		if (!progress(arg, ev.u.step.step))
			return err_set(e, ERR_INTERRUPTED, "stopped");
		told = now_ns();
	}
	return rc < 0 ? -1 : found;
}

int watch_find(const char *path, const char *expr, int64_t from, bool back,
	bool (*progress)(void *arg, int64_t step), void *arg, struct watch_hit *hit, struct err *e)
{
	struct watch_set *s = NULL;
	struct reader *r = NULL;
	int found = -1;

	if (!watch_open(&s, e) && watch_add(s, expr, NULL, e) >= 0 && !reader_open(&r, path, e) &&
		!only_needed(r, e))
		found = search(s, r, from, back, progress, arg, hit, e);
	reader_close(r);
	watch_close(s);
	return found;
}
