/* See random_session.h: what a session is drawn from. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/draft/file.h"
#include "engine/model/gguf.h"
#include "tests/support/random_session.h"
#include "tests/support/tiny_draft.h"

struct session_model {
	const char *name;
	int often;
	bool drafters; /* there are files of drafters for it */
};

/* Without a tiny_ they are files of tests/data/zoo. */
enum { DEVICE_OPS = 16 };
static const struct session_model models[] = { { "tiny_llama", 30, true },
	{ "tiny_qwen2", 4, false }, { "gemma2", 3, false }, { "gemma3", 3, false },
	{ "gemma4", 2, false }, { "gpt-oss", 3, false }, { "mamba2", 2, false }, { "mamba", 1, false },
	{ "jamba", 2, false }, { "falcon-h1", 2, false }, { "lfm2", 2, false },
	{ "qwen3next", 2, false }, { "rwkv7-heads", 2, false }, { "deepseek2", 2, false },
	{ "mixtral", 2, false }, { "minimax", 1, false }, { "granitehybrid", 1, false },
	{ "phi3-longrope", 1, false }, { "bitnet", 1, false }, { "mixed", 2, false },
	{ "mixed-states", 2, false }, { "gpt2", 1, false }, { "t5", 2, false }, { "dream", 2, false },
	{ "llada", 1, false } };

enum { LLAMA, QWEN2, EAGLE, LAYERS, MEDUSA, PRUNED, N_FILES };
static char *file[N_FILES];
static const char *const mark[N_FILES] = { "@llama", "@qwen2", "@eagle", "@layers", "@medusa",
	"@pruned" };

const struct session_choice session_choices[] = {
	{ "threads", 12, { "2", "3" } },
	{ "isa", 6, { "scalar", "avx2" } },
	{ "backend", 2, { "ref" } },
	{ "cuda-mode", 0, { "launches", "graph" } },
	{ "pack-zeros", 5, { "off" } },
	{ "link", 5, { "100gbit,1us", "off" } },
	{ "slots", 90, { "1", "2", "3", "4", "6", "8" } },
	{ "pages", 85, { "5", "9", "11", "12", "16", "24", "40", "0" } },
	{ "page-size", 40, { "16", "32", "48", "64" } },
	{ "prefill-chunk", 60, { "0", "1", "7", "16", "33", "-1" } },
	{ "budget", 50, { "8", "17", "40", "100", "0" } },
	{ "prefix-cache", 20, { "off", "on" } },
	{ "kv-cache", 8, { "off", "on", "on" } },
	{ "evict", 40, { "lru", "fifo", "lfu" } },
	{ "pin-limit", 20, { "0", "0.25", "0.5", "1" } },
	{ "policy", 60,
		{ "fcfs", "static", "prefill-first", "decode-first", "tgi", "shortest", "shortest-job",
			"priority", "fair", "deadline" } },
	{ "waiting-served-ratio", 10, { "0", "0.3", "2" } },
	{ "max-waiting-tokens", 10, { "0", "4", "20" } },
	{ "spec", 70,
		{ "off", "ngram:4", "ngram:8,1,4,4,pool", "ngram:3,1,2,3", "jacobi:4", "lookahead:4,3,4",
			"skip:1,4,0", "auto", "draft:@llama,4,2", "draft:@pruned,5", "beside:@llama,4,2",
			"beside:@pruned,4,4", "eagle:@eagle,5,12,0", "eagle:@layers,4,4,0",
			"medusa:@medusa" } },
	{ "shadow", 15, { "off", "free", "all", "ngram+jacobi" } },
	{ "rule", 6, { "rejection", "race" } },
	{ "visible", 25,
		{ "full", "window:40", "sinks:4+window:30", "stream:4+window:40", "h2o:300", "top:64",
			"window:8+dilation:4" } },
	{ "cache-format", 25, { "f16", "f32", "bf16", "q8", "e4m3", "kivi4", "kivi2" } },
	{ "cache-residual", 10, { "128", "256" } },
	{ "skip-below", 4, { "0", "0.05" } },
	{ "skip-zeros", 6, { "on", "off" } },
	{ "weights", 4, { "model", "4/32", "e4m3/row" } },
	{ "activations", 4, { "model", "bf16", "llm.int8" } },
	{ "twin", 10, { "on", "off", "off", "@llama" } },
	{ "exchange", 10, { "q8", "f32", "f16" } },
	{ "give-back", 15, { "off", "on" } },
	{ "attention", 20, { "flash", "heads", "matrix" } },
	{ "near-zero", 2, { "0.01", "0" } },
	{ "attention-every", 15, { "0", "1", "4" } },
	{ "observe-layer", 8, { "0", "1", "-1" } },
	{ "observe-head", 8, { "0", "1", "-1" } },
	{ "watch-layers", 15, { "on", "off" } },
	{ "tensor-parallel", 7, { "2" } },
	{ "pipeline-parallel", 7, { "2" } },
	{ "sequence-parallel", 7, { "2" } },
	{ "micro-batches", 3, { "1", "2", "5" } },
	{ "expert-parallel", 3, { "on" } },
	{ "prefill-ranks", 10, { "1", "2" } },
	{ "prefill-least", 15, { "1", "8", "16", "64" } },
	{ "state-memory", 8, { "0", "1" } },
	{ "denoise", 8, { "confidence", "entropy", "threshold" } },
	{ "denoise-steps", 8, { "0", "3", "8" } },
	{ "denoise-block", 8, { "0", "3", "8" } },
	{ "denoise-above", 4, { "0.3", "0.9" } },
};
const int session_n_choices = sizeof session_choices / sizeof *session_choices;

uint32_t session_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(random_u64(state) % n);
}

const char *session_value(uint64_t *state, const struct session_choice *c, bool drafters)
{
	uint32_t n = 0;

	while (n < 16 && c->value[n] && (drafters || !strchr(c->value[n], '@')))
		n++;
	return c->value[session_below(state, n)];
}

const char *session_path(const char *value)
{
	static char text[256];
	const char *at = strchr(value, '@');

	for (int i = 0; at && i < N_FILES; i++)
		if (!strncmp(at, mark[i], strlen(mark[i]))) {
			snprintf(text, sizeof text, "%.*s%s%s", (int)(at - value), value, file[i],
				at + strlen(mark[i]));
			return text;
		}
	return value;
}

const char *session_model_name(const struct session_model *m)
{
	return m->name;
}

bool session_has_drafters(const struct session_model *m)
{
	return m->drafters;
}

const char *session_model_path(const struct session *s)
{
	static char path[128];

	if (s->model->drafters)
		return file[LLAMA];
	if (!strcmp(s->model->name, "tiny_qwen2"))
		return file[QWEN2];
	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", s->model->name);
	return path;
}

const struct session_model *session_some_model(uint64_t *state)
{
	const struct session_model *m = models;
	int all = 0;

	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		all += models[i].often;
	for (int at = (int)session_below(state, (uint32_t)all); at >= m->often; m++)
		at -= m->often;
	return m;
}

void session_draw(struct session *s, uint64_t seed)
{
	uint64_t state = seed;

	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->model = session_some_model(&state);
	for (int i = 0; i < session_n_choices; i++) {
		const struct session_choice *c = &session_choices[i];

		if (session_below(&state, 100) >= (uint32_t)c->percent)
			continue;
		s->set[s->n_set].name = c->name;
		s->set[s->n_set++].value = session_value(&state, c, s->model->drafters);
	}
	/* of phi3-longrope the context decides the rotation */
	s->goes_on = session_below(&state, 16) == 0 && strcmp(s->model->name, "phi3-longrope") != 0;
	s->n_ops = SESSION_OPS / 4 + (int)session_below(&state, SESSION_OPS * 3 / 4);
	for (int i = 0; i < s->n_ops; i++) {
		s->op[i].kind = session_some_op(&state);
		s->op[i].draw = random_u64(&state);
	}
}

void session_to_device(struct session *s)
{
	int at = 0;

	while (at < s->n_set && strcmp(s->set[at].name, "backend") != 0)
		at++;
	s->n_set += at == s->n_set;
	s->set[at].name = "backend";
	s->set[at].value = "cuda";
	s->n_ops = s->n_ops < DEVICE_OPS ? s->n_ops : DEVICE_OPS;
}

void session_print(const struct session *s, FILE *to)
{
	fprintf(to, "# seed %llu, model %s%s\n# settings:", (unsigned long long)s->seed, s->model->name,
		s->goes_on ? ", goes on" : "");
	for (int i = 0; i < s->n_set; i++)
		if (!s->set[i].off)
			fprintf(to, " %s %s;", s->set[i].name, s->set[i].value);
	fputc('\n', to);
}

bool session_models(void)
{
	struct tiny_options llama = TINY_DEFAULTS, qwen2 = TINY_DEFAULTS;
	struct err e = { 0 };
	struct gguf *g;
	char hash[17];
	struct tiny_draft_options o = {
		.seed = 7, .kind = "eagle", .hash = hash, .n_ids = 300, .type = K_Q8_0
	};

	llama.layers = 4;
	qwen2.arch = "qwen2";
	qwen2.bias = true;
	qwen2.pre = "qwen2";
	file[LLAMA] = tiny_temp(&llama, &e);
	file[QWEN2] = tiny_temp(&qwen2, &e);
	if (!file[LLAMA] || gguf_open(&g, file[LLAMA], &e) || draft_vocab_hash(g, hash, &e))
		return false;
	gguf_close(g);
	file[EAGLE] = tiny_draft_temp(&llama, &o, &e);
	o.n_lower = 2, o.lower[1] = 2;
	file[LAYERS] = tiny_draft_temp(&llama, &o, &e);
	o = (struct tiny_draft_options){
		.seed = 8, .kind = "medusa", .hash = hash, .heads = 3, .type = K_Q4_1
	};
	file[MEDUSA] = tiny_draft_temp(&llama, &o, &e);
	o = (struct tiny_draft_options){
		.seed = 9, .kind = "model", .hash = hash, .n_ids = 400, .layers = 2, .type = K_Q8_0
	};
	file[PRUNED] = tiny_draft_temp(&llama, &o, &e);
	for (int i = 0; i < N_FILES; i++)
		if (!file[i])
			return false;
	return true;
}

void session_models_drop(void)
{
	for (int i = 0; i < N_FILES; i++) {
		unlink(file[i]);
		free(file[i]);
	}
}
