/* The one table of settings. A row holds a setting's name, type, range, default, unit, when it may
 * change and what it does; from it are made its field in struct engine_options or struct
 * sample_params, its default there, its reading and range check, its command-line option (--name),
 * its slash command (/name), completion, help, the manual page, the setting events of the log and
 * what-if's overrides. To add one is to add its row, and the code that acts on it: see
 * docs/extend.md.
 *
 * Rows of the program's own options (cli/) and of commands that are no settings
 * (tui/chat/commands.c) are of the same type. Thread: any; tables are constant, values belong to
 * the caller. */
#ifndef CUTAWAY_ENGINE_SETTINGS_H
#define CUTAWAY_ENGINE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "kernels/format/kv.h"

struct engine;
struct engine_options;

/* Applies the settings in `to` to the engine, and may write the resulting values into `to`. */
typedef int setting_apply(struct engine *e, struct engine_options *to, struct err *err);

enum setting_type {
	SETTING_NONE,   /* a command that takes nothing */
	SETTING_FLAG,   /* bool; true where it is named, without a value */
	SETTING_SWITCH, /* bool: on or off */
	SETTING_INT,    /* int32_t in low … high, a multiple of step */
	SETTING_U64,    /* uint64_t */
	SETTING_FLOAT,  /* float in low … high */
	SETTING_NUMBER, /* double, likewise: argument of a command; whole if step is 1 */
	/* const char *: one of words, and points to it; NULL as its default: chosen by the machine */
	SETTING_CHOICE,
	SETTING_TEXT,  /* const char *, not copied */
	SETTING_FILE,  /* const char *, not copied: the name of a file */
	SETTING_STOPS, /* struct setting_stops: each value adds one; off: none */
	SETTING_BIAS,  /* struct sample_bias: ID:BIAS,ID:BIAS …; off: none */
	SETTING_TYPES,
};

enum setting_when {
	SETTING_OPEN, /* when the engine is opened */
	/* while nothing runs or waits, in a chat by /set: its name is a view's, or another changes it
	 */
	SETTING_BY_SET,
	SETTING_IDLE, /* while nothing runs or waits */
	SETTING_ANY,
};

enum setting_effect {
	SETTING_LOSSLESS, /* the same logits and the same tokens, bit for bit */
	SETTING_DRAWS,    /* the same logits, other tokens drawn from them */
	SETTING_LOSSY,    /* other logits, unless it is at its default */
};

enum { SETTING_STOPS_MAX = 16 };
struct setting_stops { /* malloc'd; ends with NULL */
	char *text[SETTING_STOPS_MAX + 1];
};

/* Logit bias as in OpenAI's interface, whose limits these are. */
enum { SAMPLE_BIAS_MAX = 300, SAMPLE_BIAS_MOST = 100, SAMPLE_BIAS_TEXT = SAMPLE_BIAS_MAX * 32 };
struct sample_bias {
	int32_t n;
	struct ev_bias entry[SAMPLE_BIAS_MAX]; /* ascending ids, each once; within ± SAMPLE_BIAS_MOST */
};

struct setting {
	enum setting_type type;
	size_t at;            /* offset of its value in the struct that the table describes */
	setting_apply *apply; /* NULL: setting the field is enough */
	const char *name;     /* without dashes or slash */
	const char *group;    /* heading in the help; a verb takes options by group or by name */
	const char *arg;      /* its value as shown in the help; NULL: its words */
	double low, high;
	int step;  /* 0: any */
	bool bare; /* as an option it may stand without a value: "" */
	enum setting_when when;
	enum setting_effect effect;
	bool recorded;    /* though it is fixed when the engine is opened: prompts depend on it */
	bool part;        /* of a lossy one: it says more of the one before it */
	bool file;        /* a text that may name a file: see setting_names_file() */
	const char *unit; /* of a number, or NULL */
	/* Of a choice, all its values; else the values that completion offers. more(0), more(1) …
	 * follow; NULL ends them. */
	const char *const *words;
	const char *(*more)(int i);
	const char *doc;
};

#define SETTING_WORDS(...)                                                                         \
	.words = (const char *const[])                                                                 \
	{                                                                                              \
		__VA_ARGS__, NULL                                                                          \
	}

#define SETTING_CACHE_WORD(name, ...) #name,
#define SETTING_ROUND_WORD(name, word, ...) word,

/* X(type, field, default, apply, row's other fields): fields of struct engine_options, in the order
 * of the log. */
#define ENGINE_SETTINGS(X)                                                                                                                                                        \
	X(FILE, model, NULL, NULL, .name = "model", .group = "Model", .arg = "FILE",                                                                                                  \
		.doc =                                                                                                                                                                    \
			"GGUF file whose architecture is bitnet, cohere2, cutaway-mixed, deepseek2, dream, falcon-h1, gemma2, gemma3, gemma4, glm4, gpt2, "                                   \
			"gptneox, gpt-oss, granite, granitehybrid, granitemoe, hunyuan-dense, jamba, lfm2, lfm2moe, llada, llama (Mixtral is one too), mamba, "                               \
			"mamba2, minimax-01, olmo2, olmoe, phi3, qwen2, qwen2moe, qwen3, qwen3moe, qwen3next, qwen35, rwkv7, smollm3 or t5 (without it: "                                     \
			"the model that `make model` fetches)")                                                                                                                               \
	X(INT, ctx, 0, NULL, .name = "ctx", .group = "Model", .arg = "N", .high = 1 << 20,                                                                                            \
		.unit = "tokens",                                                                                                                                                         \
		.doc =                                                                                                                                                                    \
			"longest sequence; 0: the model's own, at most 8192; beyond what it was made for: with --visible stream")                                                             \
	X(TEXT, date, NULL, NULL, .name = "date", .group = "Model", .arg = "YYYY-MM-DD",                                                                                              \
		.recorded = true,                                                                                                                                                         \
		.doc =                                                                                                                                                                    \
			"the day that chat templates show (Llama 3.2, gpt-oss, Granite); without it that of the start")                                                                       \
	X(CHOICE, packed_cache, "auto", NULL, .name = "packed-cache", .group = "Kernels",                                                                                             \
		SETTING_WORDS("auto", "on", "off"),                                                                                                                                       \
		.doc =                                                                                                                                                                    \
			"keep the packed weights for the next start: for a model that takes long, always, never")                                                                             \
	X(INT, threads, 0, NULL, .name = "threads", .group = "Kernels", .arg = "N", .high = 256,                                                                                      \
		.doc = "threads that compute; 0: one a core")                                                                                                                             \
	X(CHOICE, backend, "cpu", NULL, .name = "backend", .group = "Kernels",                                                                                                        \
		SETTING_WORDS("auto", "cuda", "cpu", "ref"),                                                                                                                              \
		.doc =                                                                                                                                                                    \
			"auto: a GPU if one can be used, else the CPU; ref: the plain kernels that define the arithmetic")                                                                    \
	X(INT, device, 0, NULL, .name = "device", .group = "Kernels", .arg = "N", .high = 255,                                                                                        \
		.doc = "which GPU: see cutaway devices")                                                                                                                                  \
	X(TEXT, isa, NULL, NULL, .name = "isa", .group = "Kernels", .arg = "NAME",                                                                                                    \
		.doc = "instruction set of the kernels (without it: the best of this machine)")                                                                                           \
	X(INT, slots, 8, NULL, .name = "slots", .group = "Scheduler", .arg = "N", .low = 1,                                                                                           \
		.high = 256, .unit = "requests", .doc = "requests that run at once (vLLM: max_num_seqs)")                                                                                 \
	X(INT, prefill_chunk, -1, engine_apply_chunk, .name = "prefill-chunk", .group = "Scheduler",                                                                                  \
		.arg = "N", .low = -1, .high = 1 << 20, .when = SETTING_ANY, .unit = "tokens",                                                                                            \
		SETTING_WORDS("0", "32", "128"),                                                                                                                                          \
		.doc =                                                                                                                                                                    \
			"most prompt tokens of one request in a step; 0: whole prompts; -1: 128, of a GPU 512")                                                                               \
	X(INT, budget, 0, engine_apply_budget, .name = "budget", .group = "Scheduler", .arg = "N",                                                                                    \
		.high = 4096, .when = SETTING_ANY, .unit = "rows", SETTING_WORDS("64", "256", "512"),                                                                                     \
		.doc =                                                                                                                                                                    \
			"most rows in one step, of all requests (vLLM: max_num_batched_tokens); 0: 256, of a GPU 1024")                                                                       \
	X(SWITCH, prefix_cache, true, engine_apply_prefix, .name = "prefix-cache",                                                                                                    \
		.group = "Scheduler", .when = SETTING_ANY,                                                                                                                                \
		.doc = "whether pages of old prompts are found again")                                                                                                                    \
	X(SWITCH, kv_cache, true, engine_apply_prefix, .name = "kv-cache", .group = "Scheduler",                                                                                      \
		.when = SETTING_ANY,                                                                                                                                                      \
		.doc =                                                                                                                                                                    \
			"off: each token computes its whole sequence again, to the same bits, and nothing is drafted")                                                                        \
	X(CHOICE, evict, "lru", engine_apply_evict, .name = "evict", .group = "Scheduler",                                                                                            \
		.when = SETTING_ANY, .words = prefix_policies,                                                                                                                            \
		.doc = "which cached page goes first: longest unread, longest kept, least found")                                                                                         \
	X(FLOAT, pin_limit, 0.5f, engine_apply_pin_limit, .name = "pin-limit", .group = "Scheduler",                                                                                  \
		.arg = "X", .high = 1, .when = SETTING_ANY, SETTING_WORDS("0", "0.25", "0.5"),                                                                                            \
		.doc = "share of the pages that declared prefixes may keep; more is refused")                                                                                             \
	X(CHOICE, policy, "fcfs", engine_apply_policy, .name = "policy", .group = "Scheduler",                                                                                        \
		.arg = "NAME", .when = SETTING_ANY, .more = sched_policy_name,                                                                                                            \
		.doc =                                                                                                                                                                    \
			"who is admitted, computed and preempted first: first come, or as docs/scheduling.md says")                                                                           \
	X(FLOAT, waiting_served_ratio, 0.3f, engine_apply_joining, .name = "waiting-served-ratio",                                                                                    \
		.group = "Scheduler", .arg = "X", .high = 1000, .when = SETTING_ANY,                                                                                                      \
		SETTING_WORDS("0.3", "1.2", "2"),                                                                                                                                         \
		.doc = "policy tgi: those that wait join the batch when they are X times as many as run")                                                                                 \
	X(INT, max_waiting_tokens, 20, engine_apply_joining, .name = "max-waiting-tokens",                                                                                            \
		.group = "Scheduler", .arg = "N", .high = 1 << 20, .when = SETTING_ANY, .unit = "tokens",                                                                                 \
		SETTING_WORDS("4", "20", "64"),                                                                                                                                           \
		.doc =                                                                                                                                                                    \
			"policy tgi: fewer join, too, when each answer has grown by N tokens since the last joined")                                                                          \
	X(FLOAT, slo_ttft, 0, NULL, .name = "slo-ttft", .group = "Watching", .arg = "MS",                                                                                             \
		.high = 600000, .when = SETTING_ANY, .unit = "ms", SETTING_WORDS("0", "200", "1000"),                                                                                     \
		.doc =                                                                                                                                                                    \
			"target of the time to the first token, for the view latency: goodput counts requests that meet it; 0: none")                                                         \
	X(FLOAT, slo_itl, 0, NULL, .name = "slo-itl", .group = "Watching", .arg = "MS",                                                                                               \
		.high = 600000, .when = SETTING_ANY, .unit = "ms", SETTING_WORDS("0", "50", "100"),                                                                                       \
		.doc =                                                                                                                                                                    \
			"target of the inter-token latency: a request meets it if its 99th percentile does; 0: none")                                                                         \
	X(TEXT, spec, "off", engine_apply_spec, .name = "spec", .group = "Speculation", .bare = true,                                                                                 \
		.arg = "off|NAME[:ARGS]", .when = SETTING_ANY, .file = true, SETTING_WORDS("off"),                                                                                        \
		.more = draft_offer,                                                                                                                                                      \
		.doc =                                                                                                                                                                    \
			"who guesses tokens ahead; the text stays the same, unless the rule is rejection; see "                                                                               \
			"docs/speculation.md")                                                                                                                                                \
	X(TEXT, shadow, "off", engine_apply_shadow, .name = "shadow", .group = "Speculation",                                                                                         \
		.arg = "off|free|all|NAME+NAME", .when = SETTING_ANY, .file = true,                                                                                                       \
		SETTING_WORDS("off", "free", "all"), .more = draft_offer,                                                                                                                 \
		.doc =                                                                                                                                                                    \
			"drafters that guess beside the run without being used, to see how they would have done")                                                                             \
	X(CHOICE, rule, "race", engine_apply_rule, .name = "rule", .group = "Speculation",                                                                                            \
		.when = SETTING_ANY, .effect = SETTING_DRAWS, SETTING_WORDS("race", "rejection"),                                                                                         \
		.doc =                                                                                                                                                                    \
			"how drafts are verified: in the target's own draw, or by modified rejection sampling "                                                                               \
			"(another text, equally likely)")                                                                                                                                     \
	X(INT, page_size, 16, engine_apply_page_size, .name = "page-size", .group = "Scheduler",                                                                                      \
		.arg = "N", .low = 16, .high = 1024, .step = 16, .when = SETTING_IDLE, .unit = "tokens",                                                                                  \
		SETTING_WORDS("16", "32", "64"), .doc = "tokens of a KV page, a multiple of 16")                                                                                          \
	X(INT, pages, 0, engine_apply_pages, .name = "pages", .group = "Scheduler", .arg = "N",                                                                                       \
		.high = 1 << 24, .when = SETTING_BY_SET, .unit = "pages",                                                                                                                 \
		.doc = "KV pages; 0: room for a longest sequence, at least four a slot; in serve "                                                                                        \
			   "for one of each slot, within a quarter of the memory")                                                                                                            \
	X(FLOAT, state_memory, 0, NULL, .name = "state-memory", .group = "Scheduler", .arg = "MB",                                                                                    \
		.high = 1 << 19, .unit = "MB", SETTING_WORDS("0", "256", "1024"),                                                                                                         \
		.doc =                                                                                                                                                                    \
			"most that snapshots of recurrent states take; 0: a snapshot for each page, within 1024 MB")                                                                          \
	X(TEXT, visible, "full", engine_apply_visible, .name = "visible", .group = "Exactness",                                                                                       \
		.arg = "POLICY", .when = SETTING_IDLE, .effect = SETTING_LOSSY, .more = visible_offer,                                                                                    \
		.doc =                                                                                                                                                                    \
			"positions that a token sees of those before it: all, the last N, the first N and the last N "                                                                        \
			"(stream: counted inside the cache), a pattern with gaps, those that matter most to it, or that "                                                                     \
			"got most attention so far (h2o)")                                                                                                                                    \
	X(CHOICE, cache_format, "f16", engine_apply_cache_format, .name = "cache-format",                                                                                             \
		.group = "Exactness", .when = SETTING_IDLE, .effect = SETTING_LOSSY,                                                                                                      \
		.words = (const char *const[]){ K_CACHES(SETTING_CACHE_WORD) K_CODED(SETTING_CACHE_WORD)                                                                                  \
				NULL },                                                                                                                                                           \
		.doc =                                                                                                                                                                    \
			"format of cached keys and values: 16 bits, as computed, its upper half, 8 bits as a float or "                                                                       \
			"with a scale, 4 and 2 bits with the newest tokens in 16")                                                                                                            \
	X(INT, cache_residual, K_RECENT, engine_apply_cache_format, .name = "cache-residual",                                                                                         \
		.group = "Exactness", .arg = "N", .low = K_RECENT, .high = 1 << 20, .step = K_SPAN,                                                                                       \
		.when = SETTING_IDLE, .effect = SETTING_LOSSY, .part = true, .unit = "tokens",                                                                                            \
		SETTING_WORDS("128", "256", "512"),                                                                                                                                       \
		.doc = "with --cache-format kivi4 or kivi2: newest tokens in 16 bits, at least")                                                                                          \
	X(FLOAT, skip_below, 0, engine_apply_skip, .name = "skip-below", .group = "Exactness",                                                                                        \
		.arg = "X", .high = 1, .when = SETTING_IDLE, .effect = SETTING_LOSSY,                                                                                                     \
		SETTING_WORDS("0", "0.01", "0.05"),                                                                                                                                       \
		.doc =                                                                                                                                                                    \
			"inner values of a feed-forward below X of a token's largest count as 0, and the columns of its "                                                                     \
			"last matrix that only they use are not read; 0: none")                                                                                                               \
	X(TEXT, weights, "model", engine_apply_weights, .name = "weights", .group = "Exactness",                                                                                      \
		.arg = "GRID", .when = SETTING_IDLE, .effect = SETTING_LOSSY,                                                                                                             \
		SETTING_WORDS("model", "8/32", "4/32", "4/128z", "3/128", "2/32", "nf4/64", "q4_0"),                                                                                      \
		.doc =                                                                                                                                                                    \
			"the layers' matrices rounded to nearest: BITS/GROUP, with z from the least weight to the greatest, "                                                                 \
			"nf4/64, or a file's format; kept as floats, so it shows the price and not the speed")                                                                                \
	X(CHOICE, activations, "model", engine_apply_activations, .name = "activations",                                                                                              \
		.group = "Exactness", .when = SETTING_IDLE, .effect = SETTING_LOSSY,                                                                                                      \
		.words = (const char *const[]){ "model", K_ROUNDS(SETTING_ROUND_WORD) NULL },                                                                                             \
		.doc =                                                                                                                                                                    \
			"what the products of the layers read: as the weights' format wants it, or weights as floats and "                                                                    \
			"activations of this format")                                                                                                                                         \
	X(TEXT, twin, "off", engine_apply_twin, .name = "twin", .group = "Exactness",                                                                                                 \
		.arg = "off|on|FILE", .when = SETTING_IDLE, .file = true, SETTING_WORDS("off", "on"),                                                                                     \
		.doc =                                                                                                                                                                    \
			"compute each token a second time with exact settings, to see what the lossy ones cost; "                                                                             \
			"FILE: with the weights of this model")                                                                                                                               \
	X(CHOICE, denoise, "confidence", NULL, .name = "denoise", .group = "Sampling",                                                                                                \
		.when = SETTING_ANY, .effect = SETTING_DRAWS,                                                                                                                             \
		SETTING_WORDS("confidence", "entropy", "threshold"),                                                                                                                      \
		.doc =                                                                                                                                                                    \
			"of a diffusion model: which masks a step makes tokens: those drawn with the greatest probability, those of the least entropy, or all above denoise-above")           \
	X(INT, denoise_steps, 0, NULL, .name = "denoise-steps", .group = "Sampling", .arg = "N",                                                                                      \
		.high = 4096, .when = SETTING_ANY, .effect = SETTING_DRAWS, .unit = "steps",                                                                                              \
		SETTING_WORDS("0", "8", "32"),                                                                                                                                            \
		.doc =                                                                                                                                                                    \
			"of a diffusion model: steps of an answer, at least one a block: fewer cost less and fix more tokens that do not know of each other; 0: one a token")                 \
	X(INT, denoise_block, 0, NULL, .name = "denoise-block", .group = "Sampling", .arg = "N",                                                                                      \
		.high = 4096, .when = SETTING_ANY, .effect = SETTING_DRAWS, .unit = "tokens",                                                                                             \
		SETTING_WORDS("0", "8", "32"),                                                                                                                                            \
		.doc =                                                                                                                                                                    \
			"of a diffusion model: blocks of N tokens one after another, from left to right; 0: the whole answer at once")                                                        \
	X(FLOAT, denoise_above, 0.9f, NULL, .name = "denoise-above", .group = "Sampling", .arg = "P",                                                                                 \
		.high = 1, .when = SETTING_ANY, .effect = SETTING_DRAWS,                                                                                                                  \
		SETTING_WORDS("0.5", "0.9", "0.99"),                                                                                                                                      \
		.doc =                                                                                                                                                                    \
			"with --denoise threshold: tokens drawn with a greater probability are fixed, and the most probable in any case")                                                     \
	X(SWITCH, give_back, true, engine_apply_give_back, .name = "give-back", .group = "Scheduler",                                                                                 \
		.when = SETTING_IDLE,                                                                                                                                                     \
		.doc = "whether keys and values that no token to come will see give back their pages")                                                                                    \
	X(CHOICE, attention, "flash", engine_apply_attention, .name = "attention", .group = "Kernels",                                                                                \
		.when = SETTING_IDLE, .words = (const char *const[]){ "flash", "heads", "matrix", NULL },                                                                                 \
		.doc =                                                                                                                                                                    \
			"attention in tiles that a cache holds, threads sharing a head's spans (flash); a head to a thread or block "                                                         \
			"(heads); all scores of a layer to memory first (matrix)")                                                                                                            \
	X(INT, attention_every, 0, engine_apply_every, .name = "attention-every", .group = "Watching",                                                                                \
		.arg = "N", .high = 1024, .when = SETTING_ANY, .unit = "tokens",                                                                                                          \
		SETTING_WORDS("1", "4", "8", "16"),                                                                                                                                       \
		.doc =                                                                                                                                                                    \
			"tokens from one whose attention is recorded to the next; 0: 1 to 8, by the model's size")                                                                            \
	X(FLOAT, near_zero, 1e-3f, engine_apply_near_zero, .name = "near-zero", .group = "Watching",                                                                                  \
		.arg = "X", .high = 1, .when = SETTING_ANY, SETTING_WORDS("0.01", "0.001", "0.0001"),                                                                                     \
		.doc = "attention values below it count as near zero")                                                                                                                    \
	X(INT, observe_layer, -1, engine_apply_layer, .name = "observe-layer", .group = "Watching",                                                                                   \
		.arg = "N", .low = -1, .high = 1 << 16, .when = SETTING_ANY,                                                                                                              \
		.doc = "layer of the head whose attention is recorded alone; -1: none")                                                                                                   \
	X(INT, observe_head, -1, engine_apply_head, .name = "observe-head", .group = "Watching",                                                                                      \
		.arg = "N", .low = -1, .high = 1 << 16, .when = SETTING_ANY,                                                                                                              \
		.doc = "that head, in observe-layer; -1: none")                                                                                                                           \
	X(SWITCH, watch_layers, false, engine_apply_watch, .name = "watch-layers",                                                                                                    \
		.group = "Watching", .when = SETTING_ANY,                                                                                                                                 \
		.doc =                                                                                                                                                                    \
			"note for each token which experts ran and what recurrent layers keep: see /view experts, /view state")                                                               \
	X(CHOICE, cuda_mode, NULL, engine_apply_cuda_mode, .name = "cuda-mode", .group = "Kernels",                                                                                   \
		.when = SETTING_ANY, SETTING_WORDS("launches", "graph"),                                                                                                                  \
		.doc =                                                                                                                                                                    \
			"how a GPU runs a step: the kernels recorded as one graph, each beginning while the one before still runs where the GPU can (the default), or a launch for each one") \
	X(TEXT, outliers, "", engine_apply_outliers, .name = "outliers", .group = "Measuring",                                                                                        \
		.arg = "measure", .when = SETTING_IDLE, SETTING_WORDS("measure"),                                                                                                         \
		.doc =                                                                                                                                                                    \
			"channels of activations whose values are far larger than the others', over the shipped prompts: "                                                                    \
			"see /view outliers")                                                                                                                                                 \
	X(TEXT, importance, "", engine_apply_importance, .name = "importance", .group = "Measuring",                                                                                  \
		.arg = "measure", .when = SETTING_IDLE, SETTING_WORDS("measure"),                                                                                                         \
		.doc =                                                                                                                                                                    \
			"how much each layer, head and channel does, over the shipped prompts: see /view importance")                                                                         \
	X(TEXT, roof, "", engine_apply_roof, .name = "roof", .group = "Measuring", .arg = "measure",                                                                                  \
		.when = SETTING_ANY, SETTING_WORDS("measure"),                                                                                                                            \
		.doc =                                                                                                                                                                    \
			"bandwidth of plain reads, which steps are held against in the time view; measure: read it once more")

/* Fields of struct sample_params. */
#define SAMPLE_SETTINGS(X)                                                                         \
	X(FLOAT, temperature, 0.7f, NULL, .name = "temp", .group = "Sampling", .arg = "T",             \
		.high = 100, .when = SETTING_ANY, .effect = SETTING_DRAWS,                                 \
		SETTING_WORDS("0", "0.7", "1", "1.5"),                                                     \
		.doc = "temperature: 0 is greedy, above 1 flattens the distribution")                      \
	X(INT, top_k, 0, NULL, .name = "top-k", .group = "Sampling", .arg = "K", .high = 1 << 24,      \
		.when = SETTING_ANY, .effect = SETTING_DRAWS, .unit = "tokens", SETTING_WORDS("0", "40"),  \
		.doc = "only the K best tokens take part in the draw; 0: all")                             \
	X(FLOAT, top_p, 0.9f, NULL, .name = "top-p", .group = "Sampling", .arg = "P", .high = 1,       \
		.when = SETTING_ANY, .effect = SETTING_DRAWS, SETTING_WORDS("0.9", "0.95", "1"),           \
		.doc = "only the best tokens that together have probability P; 1: all")                    \
	X(FLOAT, min_p, 0, NULL, .name = "min-p", .group = "Sampling", .arg = "P", .high = 1,          \
		.when = SETTING_ANY, .effect = SETTING_DRAWS, SETTING_WORDS("0", "0.05", "0.1"),           \
		.doc = "only tokens with at least P times the best one's probability; 0: all")             \
	/* divides positive logits and multiplies negative ones (Keskar 2019) */                       \
	X(FLOAT, repeat_penalty, 1, NULL, .name = "repeat-penalty", .group = "Sampling", .arg = "X",   \
		.low = 0.01, .high = 100, .when = SETTING_ANY, .effect = SETTING_DRAWS,                    \
		SETTING_WORDS("1", "1.1", "1.3"),                                                          \
		.doc = "divides the logits of tokens in the penalty window; 1: off")                       \
	X(FLOAT, frequency_penalty, 0, NULL, .name = "frequency-penalty", .group = "Sampling",         \
		.arg = "X", .low = -100, .high = 100, .when = SETTING_ANY, .effect = SETTING_DRAWS,        \
		SETTING_WORDS("0", "0.5"),                                                                 \
		.doc = "taken off a logit for each time the token occurred in the penalty window; 0: off") \
	X(FLOAT, presence_penalty, 0, NULL, .name = "presence-penalty", .group = "Sampling",           \
		.arg = "X", .low = -100, .high = 100, .when = SETTING_ANY, .effect = SETTING_DRAWS,        \
		SETTING_WORDS("0", "0.5"),                                                                 \
		.doc = "taken off the logits of all tokens that occurred in the penalty window; 0: off")   \
	X(INT, penalty_window, 64, NULL, .name = "penalty-window", .group = "Sampling", .arg = "N",    \
		.high = 1 << 20, .when = SETTING_ANY, .effect = SETTING_DRAWS, .unit = "tokens",           \
		SETTING_WORDS("0", "64", "256"), .doc = "newest tokens that the penalties count; 0: none") \
	X(BIAS, logit_bias, { 0 }, NULL, .name = "logit-bias", .group = "Sampling",                    \
		.arg = "ID:BIAS,...|off", .when = SETTING_ANY, .effect = SETTING_DRAWS,                    \
		SETTING_WORDS("off"),                                                                      \
		.doc = "added to the logits of these token ids, before all else; -100 bans, 100 forces")   \
	X(U64, seed, 0, NULL, .name = "seed", .group = "Sampling", .arg = "N", .when = SETTING_ANY,    \
		.effect = SETTING_DRAWS, SETTING_WORDS("0", "1", "2"),                                     \
		.doc = "key of all draws: the same seed gives the same text; certify: of the mixed cases")

/* Fields of struct answer_settings besides its params. */
#define ANSWER_SETTINGS(X)                                                                           \
	X(INT, max_tokens, 0, NULL, .name = "max-tokens", .group = "Answer", .arg = "N",                 \
		.high = 1 << 20, .when = SETTING_ANY, .unit = "tokens", SETTING_WORDS("0", "64", "256"),     \
		.doc = "longest answer; 0: until the context is full; without it run has 512")               \
	X(STOPS, stop, { { NULL } }, NULL, .name = "stop", .group = "Answer", .arg = "TEXT",             \
		.when = SETTING_ANY, SETTING_WORDS("off"),                                                   \
		.doc =                                                                                       \
			"an answer ends where TEXT appears (\\n is a new line, \\t a tab); up to 16; off: none") \
	X(CHOICE, full, "stop", NULL, .name = "full", .group = "Chat", .when = SETTING_ANY,              \
		SETTING_WORDS("stop", "drop"),                                                               \
		.doc = "a full context stops the conversation, or drops its oldest turns")                   \
	X(TEXT, system, NULL, NULL, .name = "system", .group = "Answer", .arg = "TEXT",                  \
		.when = SETTING_ANY, SETTING_WORDS("default", "off"),                                        \
		.doc = "begins a conversation with this system text; default: the model's own; off: none")   \
	X(TEXT, user, NULL, NULL, .name = "user", .group = "Answer", .arg = "NAME",                      \
		.when = SETTING_ANY, SETTING_WORDS("alice", "bob"),                                          \
		.doc = "whose requests these are: the policy fair shares out by user")                       \
	X(INT, priority, 0, NULL, .name = "priority", .group = "Answer", .arg = "N", .low = -1000,       \
		.high = 1000, .when = SETTING_ANY, SETTING_WORDS("-1", "0", "1"),                            \
		.doc = "class of the requests: the policy priority takes the lower first")                   \
	X(INT, deadline, 0, NULL, .name = "deadline", .group = "Answer", .arg = "N", .high = 1 << 30,    \
		.when = SETTING_ANY, .unit = "steps", SETTING_WORDS("0", "50", "500"),                       \
		.doc = "steps until a request should have ended, for the policy deadline; 0: any number")

/* C types of the fields that X makes. */
#define SETTING_C_SWITCH bool
#define SETTING_C_FLAG bool
#define SETTING_C_INT int32_t
#define SETTING_C_U64 uint64_t
#define SETTING_C_FLOAT float
#define SETTING_C_CHOICE const char *
#define SETTING_C_TEXT const char *
#define SETTING_C_FILE const char *
#define SETTING_C_STOPS struct setting_stops
#define SETTING_C_BIAS struct sample_bias
#define SETTING_FIELD(type, field, ...) SETTING_C_##type field;
#define SETTING_DEFAULT(type, field, initial, ...) .field = initial,

struct sample_params {
	SAMPLE_SETTINGS(SETTING_FIELD)
};
#define SAMPLE_DEFAULTS ((struct sample_params){ SAMPLE_SETTINGS(SETTING_DEFAULT) })

/* Settings of the next request, not of the engine. */
struct answer_settings {
	struct sample_params params;
	ANSWER_SETTINGS(SETTING_FIELD)
};
#define ANSWER_DEFAULTS                                                                            \
	((struct answer_settings){                                                                     \
		.params = { SAMPLE_SETTINGS(SETTING_DEFAULT) }, ANSWER_SETTINGS(SETTING_DEFAULT) })

/* Indexes into the tables: ENGINE_AT_budget, ANSWER_AT_seed. */
enum {
#define X(type, field, ...) ENGINE_AT_##field,
	ENGINE_SETTINGS(X)
#undef X
		N_ENGINE_SETTINGS
};
enum {
#define X(type, field, ...) ANSWER_AT_##field,
	SAMPLE_SETTINGS(X) ANSWER_SETTINGS(X)
#undef X
		N_ANSWER_SETTINGS
};
extern const struct setting engine_settings[]; /* of struct engine_options; ends with name NULL */
extern const struct setting answer_settings[]; /* of struct answer_settings; ends with name NULL */

/* The row of this name, or NULL. */
const struct setting *setting_find(const struct setting *table, const char *name);
/* Reads value (NULL for flags) into the setting's field of the struct at base. -1 with ERR_USAGE:
 * "NAME VALUE: ", then the range; nothing is changed then. */
int setting_put(const struct setting *s, void *base, const char *value, struct err *e);
/* Copies the field from one struct to another of the same type; strings are not duplicated. */
void setting_copy(const struct setting *s, void *to, const void *from);
/* Checks only that setting_put() could read the value. */
int setting_check(const struct setting *s, const char *value, struct err *e);
/* Whether the field is equal in two structs. */
bool setting_same(const struct setting *s, const void *a, const void *b);
/* Its value as text that setting_put() reads; "" for a text that is NULL; of a bias that does not
 * fit, how many it has. */
void setting_text(const struct setting *s, const void *base, char *buf, size_t cap);
/* Word i of its values or of what completion offers; NULL: there are no more. */
const char *setting_word(const struct setting *s, int i);
/* Whether the value makes the program open a file of its choosing: it is of a type that does, or
 * says so, and is none of the words, alone or with numbers behind a colon ("draft:2,2"). What
 * strangers wrote (a lesson, a recording) may not choose files. */
bool setting_names_file(const struct setting *s, const char *value);
/* Of a choice: the number of the word that is its value in the struct at base; of NULL, 0. */
int setting_choice(const struct setting *s, const void *base);
/* Its value in a line of help: "N", "on|off", "lru|fifo|lfu"; "" if it takes none. Returns buf. */
const char *setting_arg(const struct setting *s, char *buf, size_t cap);
/* What it does, the names that more() gives, the value in the struct at base (or NULL) and whether
 * other values are lossy. */
const char *setting_doc(const struct setting *s, const void *base, char *buf, size_t cap);

/* The parameters of a request in the log, and the reverse; spans point into *p. */
struct sample_params sample_params_of(const struct ev_request *q);
void sample_params_tell(const struct sample_params *p, struct ev_request *q);
/* "temp 0.7, top-k 0, …, seed 5" */
void sample_params_print(const struct sample_params *p, char *buf, size_t cap);
/* settings_bias.c. Puts in one more; -1 with ERR_USAGE: it is out of range, there already, or too
 * many. */
int sample_bias_add(struct sample_bias *b, int64_t id, double bias, struct err *e);
/* "15:5,27:-100", or "off". */
int sample_bias_read(const char *text, struct sample_bias *out, struct err *e);
void sample_bias_text(const struct sample_bias *b, char *buf, size_t cap);
bool sample_bias_same(const struct sample_bias *a, const struct sample_bias *b);
/* Of the column of the log; what makes no sense there is left out. */
struct sample_bias sample_bias_of(struct ev_span packed);
/* The text that a conversation begins with; own: the model's, or NULL. */
const char *answer_system(const struct answer_settings *a, const char *own);
/* As a list that ends with NULL. */
const char *const *setting_stops(const struct setting_stops *stops);
void setting_stops_free(struct setting_stops *stops);
/* Copies `from` to `to`, which had none. */
int setting_stops_copy(struct setting_stops *to, const struct setting_stops *from, struct err *e);

#endif
