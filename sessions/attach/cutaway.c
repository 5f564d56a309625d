/* `cutaway serve`, ours on another machine: sessions/serve. Its metrics have vLLM's meanings. */
#include "sessions/attach/attach_impl.h"

static void poll(struct ev_polled *p, const char *m)
{
	p->running = attach_count(m, "cutaway:num_requests_running");
	p->waiting = attach_count(m, "cutaway:num_requests_waiting");
	p->kv_used = attach_metric(m, "cutaway:kv_cache_usage_perc", true);
	p->prompt_tokens = attach_count(m, "cutaway:prompt_tokens_total");
	p->generated = attach_count(m, "cutaway:generation_tokens_total");
	p->asked = attach_count(m, "cutaway:prefix_cache_queries_total");
	p->hit = attach_count(m, "cutaway:prefix_cache_hits_total");
	p->preempted = attach_count(m, "cutaway:num_preemptions_total");
}

const struct attach_server attach_cutaway = { .name = "cutaway",
	.owner = "cutaway",
	.metrics = "cutaway:",
	.p = "before penalties, temperature and cuts",
	.samples = true,
	.poll = poll };
