/* vLLM (vllm/entrypoints/openai/chat_completion/protocol.py, serving.py;
 * vllm/v1/metrics/loggers.py). It tells the ids of drawn tokens (return_token_ids, in newer
 * versions; older ones ignore the field), its pool's pages and how much of it is in use; not who
 * runs where. Cached tokens of a request it tells with --enable-prompt-tokens-details.
 * Probabilities are raw unless --logprobs-mode says otherwise. */
#include "sessions/attach/attach_impl.h"

static void learn(struct attach_server_info *t, const cJSON *version)
{
	attach_word(version, "version", t->version, sizeof t->version);
}

static void learn_metrics(struct attach_server_info *t, const char *m)
{
	t->pages = attach_label(m, "vllm:cache_config_info", "num_gpu_blocks");
	t->page_size = attach_label(m, "vllm:cache_config_info", "block_size");
}

static void ask(struct json *j)
{
	json_bool(j, "return_token_ids", true);
}

static void poll(struct ev_polled *p, const char *m)
{
	p->running = attach_count(m, "vllm:num_requests_running");
	p->waiting = attach_count(m, "vllm:num_requests_waiting");
	p->kv_used = attach_metric(m, "vllm:kv_cache_usage_perc", true);
	if (!(p->kv_used >= 0)) /* its name before 0.10 */
		p->kv_used = attach_metric(m, "vllm:gpu_cache_usage_perc", true);
	p->prompt_tokens = attach_count(m, "vllm:prompt_tokens_total");
	p->generated = attach_count(m, "vllm:generation_tokens_total");
	p->asked = attach_count(m, "vllm:prefix_cache_queries_total");
	p->hit = attach_count(m, "vllm:prefix_cache_hits_total");
	p->preempted = attach_count(m, "vllm:num_preemptions_total");
}

const struct attach_server attach_vllm = { .name = "vllm",
	.owner = "vllm",
	.metrics = "vllm:",
	.info = "/version",
	.p = "before penalties, temperature and cuts, unless its --logprobs-mode says otherwise",
	.samples = true,
	.top_k_off = -1,
	.learn = learn,
	.learn_metrics = learn_metrics,
	.ask = ask,
	.poll = poll };
