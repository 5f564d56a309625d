/* See cycle.h. */
#include "base/cycle.h"

static int64_t least(int period)
{
	int64_t n = (int64_t)period * CYCLE_TIMES;

	return n > CYCLE_LEAST ? n : CYCLE_LEAST;
}

int cycle_add(struct cycle *c, int32_t id)
{
	int found = 0;

	for (int period = CYCLE_MAX; period > 0; period--) {
		int64_t before = c->n - period;

		c->run[period] = before >= 0 && c->id[before % CYCLE_MAX] == id ? c->run[period] + 1 : 0;
		if (c->run[period] >= least(period))
			found = period;
	}
	c->id[c->n++ % CYCLE_MAX] = id;
	return found;
}
