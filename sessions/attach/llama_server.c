/* llama-server, of llama.cpp (tools/server: server-context.cpp, server-task.cpp, README.md; read at
 * b1-0c1e570, the source in llama-cpp-python 0.3.36). It tells token ids, the progress of a prompt
 * and its slots; its KV cache has no pages. /metrics needs --metrics; /slots is on unless
 * --no-slots. Probabilities are those of its logits, before its samplers. */
#include "sessions/attach/attach_impl.h"

static void learn(struct attach_server_info *t, const cJSON *props)
{
	const cJSON *settings = foreign_member(props, "default_generation_settings");

	attach_word(props, "build_info", t->version, sizeof t->version);
	t->slots = attach_int(props, "total_slots");
	if (attach_int(settings, "n_ctx") != EV_NULL_I)
		t->ctx = attach_int(settings, "n_ctx");
}

static void ask(struct json *j)
{
	json_bool(j, "return_progress", true);
	json_bool(j, "timings_per_token", true);
}

static void extra(struct attach_extra *x, const cJSON *chunk)
{
	const cJSON *progress = foreign_member(chunk, "prompt_progress");

	x->works = progress != NULL;
	if (!progress)
		return;
	x->prompt = attach_int(progress, "total");
	x->cached = attach_int(progress, "cache");
}

static void poll(struct ev_polled *p, const char *m)
{
	const int64_t computed = attach_count(m, "llamacpp:prompt_tokens_total");

	p->running = attach_count(m, "llamacpp:requests_processing");
	p->waiting = attach_count(m, "llamacpp:requests_deferred");
	p->generated = attach_count(m, "llamacpp:tokens_predicted_total");
	p->hit = attach_count(m, "llamacpp:prompt_tokens_cached_total");
	if (p->hit != EV_NULL_I && computed != EV_NULL_I)
		p->prompt_tokens = p->asked = computed + p->hit; /* the first counts without cached ones */
}

static void slot(struct ev_slot *s, const cJSON *o)
{
	const cJSON *next = foreign_member(o, "next_token");

	s->slot = attach_int(o, "id");
	s->busy = cJSON_IsTrue(foreign_member(o, "is_processing"));
	s->task = attach_int(o, "id_task");
	s->ctx = attach_int(o, "n_ctx");
	s->tokens = attach_int(o, "n_prompt_tokens"); /* of what it holds, the answer too */
	if (s->busy)
		s->generated = attach_int(cJSON_IsArray(next) ? next->child : next, "n_decoded");
}

const struct attach_server attach_llama_server = { .name = "llama-server",
	.owner = "llamacpp",
	.metrics = "llamacpp:",
	.info = "/props",
	.slots = "/slots",
	.p = "before penalties, temperature and cuts",
	.samples = true,
	.learn = learn,
	.ask = ask,
	.extra = extra,
	.poll = poll,
	.slot = slot };
