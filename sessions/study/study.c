/* See study.h. */
#include "sessions/study/study.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/version.h"
#include "sessions/session.h"

struct study {
	struct stream stream;
	struct session session; /* of that stream */
	int64_t steps;
};

static void emit_session(struct study *s, const char *name, const char *model)
{
	struct event ev;

	ev_init(&ev, EV_session);
	ev.u.session.unix_ns = unix_ns();
	ev.u.session.version = ev_text(CUTAWAY_VERSION);
	ev.u.session.model_name = ev_text(name);
	if (model)
		ev.u.session.model_path = ev_text(model);
	stream_emit(&s->stream, &ev);
}

int study_open(
	struct study **out, const char *path, const char *name, const char *model, struct err *e)
{
	struct study *s = calloc(1, sizeof *s);

	*out = NULL;
	if (!s)
		return err_no_memory(e, "a recording");
	if (stream_open(&s->stream, 0, NULL, NULL, e) ||
		session_open(
			&s->session, &(struct session_options){ .stream = &s->stream, .record = path }, e)) {
		study_close(s, NULL);
		return -1;
	}
	stream_begin(&s->stream);
	emit_session(s, name, model);
	*out = s;
	return 0;
}

int study_close(struct study *s, struct err *e)
{
	struct event ev;
	int rc;

	if (!s)
		return 0;
	if (e) {
		ev_init(&ev, EV_closed);
		ev.u.closed.steps = s->steps;
		stream_emit(&s->stream, &ev);
	}
	rc = session_close(&s->session, e);
	stream_close(&s->stream);
	free(s);
	return rc;
}

void study_tell(struct study *s, struct event *ev, int64_t tokens)
{
	struct event step;

	if (ev->kind == EV_training) {
		stream_emit(&s->stream, ev);
		return;
	}
	*(ev->kind == EV_trained ? &ev->u.trained.step : &ev->u.changed.step) = ++s->steps;
	stream_emit(&s->stream, ev);
	ev_init(&step, EV_step);
	step.u.step.step = s->steps;
	step.u.step.tokens = tokens;
	stream_emit(&s->stream, &step);
}
