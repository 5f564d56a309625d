/* Part of the timeline: the targets of latency (service level objectives: the settings slo-ttft and
 * slo-itl), and how many requests met them: goodput, as in DistServe (Zhong et al. 2024), with the
 * 99th percentile of a request's inter-token latencies in place of their mean, so that no gap
 * hides.
 *
 * A request is held against the targets in force when it ends; with a new target the counts begin
 * anew. */
#include "fold/timeline_fold.h"

static double target_of(const struct timeline *t, const char *name)
{
	const char *value = timeline_setting(t, name);
	const double ms = value ? strtod(value, NULL) : 0;

	return ms > 0 && !isinf(ms) ? ms * 1e6 : 0;
}

struct tl_target timeline_target(const struct timeline *t)
{
	return (struct tl_target){ target_of(t, "slo-ttft"), target_of(t, "slo-itl") };
}

struct tl_missed timeline_missed(const struct timeline *t, const struct tl_latencies *l)
{
	const struct tl_target target = timeline_target(t);

	return (struct tl_missed){ target.ttft > 0 && l->ttft > target.ttft,
		target.itl > 0 && l->itl_p99 > target.itl };
}

void tl_slo_set(struct timeline *t, const struct tl_setting *s)
{
	const char *before = timeline_setting(t, s->name);

	if (!strncmp(s->name, "slo-", 4) && (!before || strcmp(before, s->value) != 0))
		t->slo = (struct tl_slo){ 0 };
}

void tl_note_served(struct timeline *t, const struct tl_request *r)
{
	const struct tl_latencies l = timeline_latencies(t, r);
	const struct tl_missed missed = timeline_missed(t, &l);
	struct tl_slo *s = &t->slo;

	s->since_ns = s->ended && s->since_ns < r->arrival_ns ? s->since_ns : r->arrival_ns;
	s->last_ns = r->finished_ns;
	s->ended++;
	s->met += !missed.ttft && !missed.itl;
	s->late += missed.ttft;
	s->slow += missed.itl;
}
