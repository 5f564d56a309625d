/* SGLang (python/sglang/srt/entrypoints/http_server.py, openai/protocol.py; the metrics collector
 * of its scheduler). /metrics needs --enable-metrics; each rank of a tensor-parallel engine tells
 * the same there. It tells no ids over this interface. Probabilities are those after temperature
 * unless SGLANG_RETURN_ORIGINAL_LOGPROB is set there. */
#include "sessions/attach/attach_impl.h"

static void learn(struct attach_server_info *t, const cJSON *info)
{
	int64_t size = attach_int(info, "page_size"), room = attach_int(info, "max_total_num_tokens");

	attach_word(info, "version", t->version, sizeof t->version);
	t->slots = attach_int(info, "max_running_requests");
	if (size > 0 && room >= 0) {
		t->page_size = size;
		t->pages = room / size;
	}
}

static void poll(struct ev_polled *p, const char *m)
{
	p->running = attach_count(m, "sglang:num_running_reqs");
	p->waiting = attach_count(m, "sglang:num_queue_reqs");
	p->kv_used = attach_metric(m, "sglang:token_usage", true);
	p->kv_tokens = attach_count(m, "sglang:num_used_tokens");
	p->prompt_tokens = attach_count(m, "sglang:prompt_tokens_total");
	p->generated = attach_count(m, "sglang:generation_tokens_total");
	p->hit = attach_count(m, "sglang:cached_tokens_total");
}

const struct attach_server attach_sglang = { .name = "sglang",
	.owner = "sglang",
	.metrics = "sglang:",
	.info = "/get_server_info",
	.p = "after temperature, unless its SGLANG_RETURN_ORIGINAL_LOGPROB is set",
	.samples = true,
	.top_k_off = -1,
	.learn = learn,
	.poll = poll };
