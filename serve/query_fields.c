/* The fields that clients of this interface send, a line each, with whose they are. A field that
 * constrains or changes the answer is served or refused by name; one that does neither is accepted;
 * any other name is refused, since a slip of the pen would be an answer that nobody asked for. The
 * settings of answers are fields, too (setting_of()), and need no line. */
#include "serve/serve_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

/* Paths that take it. */
enum {
	CHAT = 1 << QUERY_CHAT,
	TEXT = 1 << QUERY_TEXT,
	SCORE = 1 << QUERY_SCORE,
	EMBED = 1 << QUERY_EMBED,
	INFILL = 1 << QUERY_INFILL,
	PIN = 1 << QUERY_PIN,
	IDS = 1 << QUERY_TOKENIZE,
	WORDS = 1 << QUERY_DETOKENIZE,
	ALL = CHAT | TEXT | SCORE | PIN,
	TALK = CHAT | PIN | IDS /* what has messages */
};

#define FORM ": answers are not bound to a form"
#define TEMPLATE ": the template is the model's own"
#define UNIT ": vectors have length 1"
#define SAMPLER ": this stage of sampling is not here"

static const struct field {
	const char *name, *by; /* by: who has defined it */
	int paths;             /* served at these; 0: nowhere */
	const char *setting;   /* the answer's setting that it is */
	int also; /* paths where it is taken and not obeyed, since clients of these always send it */
	bool query_empty; /* whatever it says, the answer is the same */
	const char *none; /* words that ask for nothing, as null and empty values do; NULL: false */
	const char *why;  /* it is not served */
} fields[] = {
	/* what is read (query.c, query_prompt.c, query_pin.c) */
	{ "messages", "OpenAI", .paths = CHAT | PIN | IDS },
	{ "prompt", "OpenAI", .paths = TEXT | SCORE | PIN | IDS | INFILL },
	{ "suffix", "OpenAI", .paths = TEXT },
	{ "input_prefix", "llama-server", .paths = INFILL },
	{ "input_suffix", "llama-server", .paths = INFILL },
	{ "input_extra", "llama-server", .paths = INFILL },
	{ "stop", "OpenAI", .paths = ALL | INFILL },
	{ "logit_bias", "OpenAI", .paths = ALL | INFILL },
	{ "user", "OpenAI", .paths = ALL | EMBED | INFILL },
	{ "n", "OpenAI", .paths = ALL },
	{ "best_of", "OpenAI", .paths = ALL },
	{ "stream", "OpenAI", .paths = ALL },
	{ "stream_options", "OpenAI", .paths = ALL },
	{ "logprobs", "OpenAI", .paths = ALL },
	{ "top_logprobs", "OpenAI", .paths = ALL },
	{ "echo", "OpenAI", .paths = TEXT },
	{ "response_format", "OpenAI", .paths = CHAT | TEXT, .none = "text" },
	{ "guided_json", "vLLM", .paths = CHAT | TEXT },
	{ "guided_regex", "vLLM", .paths = CHAT | TEXT },
	{ "guided_choice", "vLLM", .paths = CHAT | TEXT },
	{ "guided_grammar", "vLLM", .paths = CHAT | TEXT },
	{ "guided_json_object", "vLLM", .paths = CHAT | TEXT },
	{ "structured_outputs", "vLLM", .paths = CHAT | TEXT },
	{ "grammar", "llama-server", .paths = CHAT | TEXT },
	{ "json_schema", "llama-server, SGLang", .paths = CHAT | TEXT },
	{ "regex", "SGLang", .paths = CHAT | TEXT },
	{ "ebnf", "SGLang", .paths = CHAT | TEXT },
	{ "format", "ollama", .paths = CHAT | TEXT },
	{ "tools", "OpenAI", .paths = TALK },
	{ "tool_choice", "OpenAI", .paths = TALK, .none = "none|auto" },
	{ "parallel_tool_calls", "OpenAI", .paths = CHAT, .none = "true" },
	{ "chat_template_kwargs", "vLLM, llama-server, SGLang", .paths = TALK },
	{ "enable_thinking", "Qwen", .paths = TALK },
	{ "reasoning_effort", "OpenAI", .paths = TALK },
	{ "thinking", "Anthropic, DeepSeek", .paths = TALK },
	{ "reasoning", "OpenRouter", .paths = TALK },
	{ "think", "ollama", .paths = TALK },
	{ "thinking_token_budget", "vLLM", .paths = CHAT },
	{ "thinking_budget", "Qwen", .paths = CHAT },
	{ "include_reasoning", "vLLM", .paths = CHAT, .none = "true" },
	{ "separate_reasoning", "SGLang", .paths = CHAT, .none = "true" },
	{ "reasoning_format", "llama-server", .paths = CHAT, .none = "auto" },
	{ "ignore_eos", "vLLM, llama-server", .paths = ALL | INFILL },
	{ "stop_token_ids", "vLLM, SGLang", .paths = ALL | INFILL },
	{ "include_stop_str_in_output", "vLLM", .paths = ALL },
	{ "truncation", "OpenAI", .paths = CHAT, .none = "disabled" },
	{ "input", "OpenAI", .paths = EMBED },
	{ "encoding_format", "OpenAI", .paths = EMBED, .none = "float" },
	{ "dimensions", "OpenAI", .paths = EMBED },
	{ "pooling", "cutaway", .paths = EMBED, .none = "auto" },
	{ "cache_control", "Anthropic", .paths = CHAT | TEXT | PIN },
	{ "cache_prefix", "cutaway", .paths = TEXT },
	{ "ttl", "cutaway", .paths = PIN },
	{ "content", "llama-server", .paths = IDS },
	{ "add_special", "llama-server", .paths = IDS, .none = "true" },
	{ "add_special_tokens", "vLLM", .paths = IDS, .none = "true" },
	{ "tokens", "llama-server, vLLM", .paths = WORDS },
	/* settings by other names */
	{ "temperature", "OpenAI", .paths = ALL | INFILL, .setting = "temp" },
	{ "max_completion_tokens", "OpenAI", .paths = ALL | INFILL, .setting = "max-tokens" },
	{ "repetition_penalty", "vLLM, SGLang", .paths = ALL | INFILL, .setting = "repeat-penalty" },
	{ "repeat_last_n", "llama-server, ollama", .paths = ALL | INFILL, .setting = "penalty-window" },
	/* what asks for nothing that could be done otherwise */
	{ "model", "OpenAI", .query_empty = true },
	{ "metadata", "OpenAI", .query_empty = true },
	{ "store", "OpenAI", .query_empty = true },
	{ "service_tier", "OpenAI", .query_empty = true },
	{ "safety_identifier", "OpenAI", .query_empty = true },
	{ "prompt_cache_key", "OpenAI", .query_empty = true },
	{ "prompt_cache_retention", "OpenAI", .query_empty = true },
	{ "request_id", "vLLM", .query_empty = true },
	{ "rid", "SGLang", .query_empty = true },
	{ "cache_prompt", "llama-server", .query_empty = true },
	{ "id_slot", "llama-server", .query_empty = true },
	{ "keep_alive", "ollama", .query_empty = true },
	/* of stages that their own fields, below, must turn on */
	{ "mirostat_tau", "llama-server, ollama", .query_empty = true },
	{ "mirostat_eta", "llama-server, ollama", .query_empty = true },
	{ "dry_base", "llama-server", .query_empty = true },
	{ "dry_allowed_length", "llama-server", .query_empty = true },
	{ "dry_penalty_last_n", "llama-server", .query_empty = true },
	{ "dry_sequence_breakers", "llama-server", .query_empty = true },
	{ "xtc_threshold", "llama-server", .query_empty = true },
	{ "dynatemp_exponent", "llama-server", .query_empty = true },
	/* what is not served */
	{ "functions", "OpenAI", .why = ": their name is tools" },
	{ "function_call", "OpenAI", .none = "none|auto", .why = ": its name is tool_choice" },
	{ "modalities", "OpenAI", .none = "text" },
	{ "audio", "OpenAI", .why = "" },
	{ "prediction", "OpenAI", .why = "" },
	{ "verbosity", "OpenAI", .none = "medium" },
	{ "web_search_options", "OpenAI", .why = "" },
	{ "moderation", "OpenAI", .why = "" },
	{ "guided_decoding_backend", "vLLM", .query_empty = true },
	{ "guided_whitespace_pattern", "vLLM", .query_empty = true },
	{ "structural_tag", "vLLM, SGLang", .why = FORM },
	{ "min_tokens", "vLLM", .none = "0" },
	{ "bad_words", "vLLM", .why = ": logit_bias bans tokens" },
	{ "allowed_token_ids", "vLLM", .why = FORM },
	{ "prompt_logprobs", "vLLM", .why = ": /v1/completions has them with echo, and /score" },
	{ "use_beam_search", "vLLM", .why = "" },
	{ "length_penalty", "vLLM", .none = "1" },
	{ "skip_special_tokens", "vLLM, SGLang", .none = "true" },
	{ "spaces_between_special_tokens", "vLLM", .none = "true" },
	{ "truncate_prompt_tokens", "vLLM", .why = "" },
	{ "normalize", "vLLM", .none = "true", .why = UNIT },
	{ "embd_normalize", "llama-server", .none = "2", .why = UNIT },
	{ "embed_dtype", "vLLM", .none = "float32", .why = ": vectors are 32-bit floats" },
	{ "endianness", "vLLM", .none = "native|little", .why = ": base64 has the little end first" },
	{ "add_generation_prompt", "vLLM, llama-server", .none = "true", .why = TEMPLATE },
	{ "continue_final_message", "vLLM, SGLang", .why = TEMPLATE },
	{ "parse_special", "llama-server", .none = "true" },
	{ "with_pieces", "llama-server", .why = "" },
	{ "return_token_strs", "vLLM", .why = "" },
	{ "chat_template", "vLLM", .why = TEMPLATE },
	{ "documents", "vLLM", .why = TEMPLATE },
	{ "mm_processor_kwargs", "vLLM", .why = "" },
	{ "media_io_kwargs", "vLLM", .why = "" },
	{ "logits_processors", "vLLM", .why = SAMPLER },
	{ "return_tokens_as_token_ids", "vLLM", .why = "" },
	{ "return_token_ids", "vLLM", .why = "" },
	{ "repetition_detection", "vLLM", .why = "" },
	{ "cache_salt", "vLLM", .why = ": all requests share the prefix cache" },
	{ "kv_transfer_params", "vLLM", .why = "" },
	{ "vllm_xargs", "vLLM", .why = "" },
	{ "n_predict", "llama-server", .paths = INFILL, .setting = "max-tokens",
		.why = ": its name here is max_tokens" },
	{ "n_probs", "llama-server", .none = "0", .why = ": its name here is logprobs" },
	{ "mirostat", "llama-server, ollama", .none = "0", .why = SAMPLER },
	{ "dynatemp_range", "llama-server", .none = "0", .why = SAMPLER },
	{ "typical_p", "llama-server, ollama", .none = "1", .why = SAMPLER },
	{ "tfs_z", "ollama", .none = "1", .why = SAMPLER },
	{ "xtc_probability", "llama-server", .none = "0", .why = SAMPLER },
	{ "dry_multiplier", "llama-server", .none = "0", .why = SAMPLER },
	{ "top_n_sigma", "llama-server", .none = "-1|0", .why = SAMPLER },
	{ "samplers", "llama-server", .also = INFILL, .why = SAMPLER },
	{ "min_keep", "llama-server", .none = "0|1", .why = SAMPLER },
	{ "n_keep", "llama-server", .none = "0" },
	{ "n_indent", "llama-server", .also = INFILL, .none = "0" },
	{ "t_max_predict_ms", "llama-server", .also = INFILL, .none = "0|-1" },
	{ "t_max_prompt_ms", "llama-server", .also = INFILL, .none = "0|-1" },
	{ "post_sampling_probs", "llama-server", .why = "" },
	{ "return_tokens", "llama-server", .why = "" },
	{ "return_progress", "llama-server", .why = "" },
	{ "timings_per_token", "llama-server", .why = "" },
	{ "response_fields", "llama-server", .also = INFILL, .why = "" },
	{ "lora", "llama-server", .why = "" },
	{ "options", "ollama", .why = ": its settings are fields of the request here" },
	{ "num_predict", "ollama", .why = ": its name here is max_tokens" },
	{ "num_ctx", "ollama", .why = ": see --ctx of cutaway serve" },
	{ "system", "ollama, Anthropic", .why = ": a system text is a message" },
	{ "template", "ollama", .why = TEMPLATE },
	{ "raw", "ollama", .why = ": /v1/completions has no template" },
	{ "images", "ollama", .why = "" },
	{ "context", "ollama", .why = "" },
	{ "stop_regex", "SGLang", .why = "" },
	{ "no_stop_trim", "SGLang", .why = ": its name here is include_stop_str_in_output" },
	{ "min_new_tokens", "SGLang", .none = "0" },
	{ "max_new_tokens", "SGLang", .why = ": its name here is max_tokens" },
	{ "stream_reasoning", "SGLang", .none = "true", .why = ": a stream has thoughts as they come" },
	{ "lora_path", "SGLang", .why = "" },
	{ "session_params", "SGLang", .why = "" },
	{ "custom_logit_processor", "SGLang", .why = SAMPLER },
	{ "custom_params", "SGLang", .why = SAMPLER },
	{ "return_hidden_states", "SGLang", .why = "" },
	{ "do_sample", "TGI", .none = "true", .why = ": temperature 0 is greedy" },
	{ "watermark", "TGI", .why = "" },
	{ "truncate", "TGI", .why = "" },
	{ "random_seed", "Mistral", .why = ": its name here is seed" },
	{ "safe_prompt", "Mistral", .why = "" },
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static const struct field *find(const char *name)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

/* A setting's name with _ for - */
static void field_name(const struct setting *s, char name[32])
{
	snprintf(name, 32, "%s", s->name);
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : *c;
}

const struct setting *query_setting(const char *field)
{
	const struct field *f = find(field);
	char name[32];

	if (f)
		return f->setting ? setting_find(answer_settings, f->setting) : NULL;
	for (const struct setting *s = answer_settings; s->name; s++) {
		field_name(s, name);
		if (!strcmp(name, field) && s->type < SETTING_CHOICE)
			return s;
	}
	return NULL;
}

size_t query_param(const char *message)
{
	char word[64];
	const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");

	if (!n || n >= sizeof word)
		return 0;
	snprintf(word, sizeof word, "%.*s", (int)n, message);
	return message[n] == ':' || find(word) || query_setting(word) ? n : 0;
}

/* ---- what a value says ---- */

/* The word or number that stands for the whole: of an object its type, of a list its one item. */
static const char *word_of(const cJSON *v, char number[32])
{
	if (cJSON_IsObject(v))
		v = foreign_member(v, "type");
	else if (cJSON_IsArray(v))
		v = v->child->next ? NULL : v->child;
	if (cJSON_IsNumber(v)) {
		snprintf(number, 32, "%.9g", v->valuedouble);
		return number;
	}
	return cJSON_IsTrue(v) ? "true" : cJSON_GetStringValue(v);
}

static bool is_among(const char *word, const char *list)
{
	for (size_t n; list && *list; list += n + (list[n] == '|')) {
		n = strcspn(list, "|");
		if (strlen(word) == n && !memcmp(word, list, n))
			return true;
	}
	return false;
}

bool query_nothing(const cJSON *v, const char *none)
{
	const char *word;
	char number[32];

	if (!v || cJSON_IsNull(v) || (cJSON_IsFalse(v) && !none) ||
		((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child))
		return true;
	word = word_of(v, number);
	return word && (!*word || is_among(word, none));
}

/* ---- names ---- */

static void try_name(const char *given, const char *name, int *least, char best[64])
{
	const int edits = near_edits(given, name);

	if (edits >= *least || edits >= (int)strlen(name))
		return;
	*least = edits;
	snprintf(best, 64, "%s", name);
}

static int unknown(const char *given, struct err *e)
{
	int least = NEAR_ENOUGH + 1;
	char best[64] = "", name[32];

	for (size_t i = 0; i < N_FIELDS; i++)
		if (fields[i].paths)
			try_name(given, fields[i].name, &least, best);
	for (const struct setting *s = answer_settings; s->name; s++) {
		field_name(s, name);
		if (query_setting(name))
			try_name(given, name, &least, best);
	}
	return err_set(e, ERR_USAGE, "%.60s: there is no such field%s%s%s", given,
		*best ? "; did you mean " : "", best, *best ? "?" : ": see docs/serve.md");
}

static int elsewhere(const struct field *f, struct err *e)
{
	return err_set(e, ERR_USAGE, "%s: it is a field of %s", f->name,
		f->paths & TEXT     ? "/v1/completions"
		: f->paths & CHAT   ? "/v1/chat/completions"
		: f->paths & INFILL ? "/infill"
		: f->paths & EMBED  ? "/v1/embeddings"
		: f->paths & PIN    ? "/pin"
		: f->paths & WORDS  ? "/detokenize"
							: "/tokenize");
}

int query_check(enum query_kind kind, const cJSON *o, struct err *e)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, o)
	{
		const struct field *f = find(v->string);

		if (f && !f->query_empty && !((f->paths | f->also) & 1 << kind) &&
			!query_nothing(v, f->none))
			return f->paths && !f->why ? elsewhere(f, e)
									   : err_set(e, ERR_USAGE, "%s is not served here%s", f->name,
											 f->why ? f->why : "");
		if (!f && !query_setting(v->string))
			return unknown(v->string, e);
	}
	return 0;
}
