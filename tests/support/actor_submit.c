/* See actor_submit.h. */
#include "tests/support/actor_submit.h"

struct submit_call {
	const struct engine_request *r;
	struct err *err;
	int64_t id;
};

static void call_submit(struct engine *e, void *arg)
{
	struct submit_call *c = arg;

	c->id = engine_submit(e, c->r, c->err);
}

int64_t actor_submit(struct actor *a, const struct engine_request *r, struct err *err)
{
	struct submit_call c = { r, err, -1 };

	actor_call(a, call_submit, &c);
	return c.id;
}
