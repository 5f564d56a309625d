/* The fields that clients of this interface send, by what is done with them and by whose they are.
 * A field that constrains or changes the answer is served or refused by name; one that does neither
 * is accepted; any other name is refused, since a slip of the pen would be an answer that nobody
 * asked for. The settings of answers are fields, too (setting_of()), and need no line. */
#include "serve/serve_impl.h"

#include "base/near.h"
#include "base/text.h"

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
	const char *names, *by; /* names: with blanks between them; by: who has defined them */
	int paths;              /* served at these; 0: nowhere */
	const char *setting;    /* the answer's setting that it is */
	int also; /* paths where it is taken and not obeyed, since clients of these always send it */
	bool query_empty; /* whatever it says, the answer is the same */
	const char *none; /* words that ask for nothing, as null and empty values do; NULL: false */
	const char *why;  /* it is not served */
} fields[] = {
	/* what is read (query.c, query_prompt.c, query_pin.c) */
	{ "messages", "OpenAI", .paths = CHAT | PIN | IDS },
	{ "prompt", "OpenAI", .paths = TEXT | SCORE | PIN | IDS | INFILL },
	{ "suffix echo", "OpenAI", .paths = TEXT },
	{ "cache_prefix", "cutaway", .paths = TEXT },
	{ "input_prefix input_suffix input_extra", "llama-server", .paths = INFILL },
	{ "stop logit_bias", "OpenAI", .paths = ALL | INFILL },
	{ "ignore_eos", "vLLM, llama-server", .paths = ALL | INFILL },
	{ "stop_token_ids", "vLLM, SGLang", .paths = ALL | INFILL },
	{ "user", "OpenAI", .paths = ALL | EMBED | INFILL },
	{ "adapter", "cutaway", .paths = ALL | EMBED | INFILL | PIN },
	{ "n best_of stream stream_options", "OpenAI", .paths = ALL },
	{ "logprobs", "OpenAI", .paths = CHAT | TEXT },
	{ "top_logprobs", "OpenAI", .paths = CHAT },
	{ "include_stop_str_in_output", "vLLM", .paths = ALL },
	{ "response_format", "OpenAI", .paths = CHAT | TEXT, .none = "text" },
	{ "guided_json guided_regex guided_choice guided_grammar guided_json_object structured_outputs",
		"vLLM", .paths = CHAT | TEXT },
	{ "grammar", "llama-server", .paths = CHAT | TEXT },
	{ "json_schema", "llama-server, SGLang", .paths = CHAT | TEXT },
	{ "regex ebnf", "SGLang", .paths = CHAT | TEXT },
	{ "format", "ollama", .paths = CHAT | TEXT },
	{ "tools reasoning_effort", "OpenAI", .paths = TALK },
	{ "chat_template_kwargs", "vLLM, llama-server, SGLang", .paths = TALK },
	{ "enable_thinking", "Qwen", .paths = TALK },
	{ "thinking", "Anthropic, DeepSeek", .paths = TALK },
	{ "reasoning", "OpenRouter", .paths = TALK },
	{ "think", "ollama", .paths = TALK },
	{ "tool_choice", "OpenAI", .paths = TALK, .none = "none|auto" },
	{ "parallel_tool_calls", "OpenAI", .paths = CHAT, .none = "true" },
	{ "include_reasoning", "vLLM", .paths = CHAT, .none = "true" },
	{ "separate_reasoning", "SGLang", .paths = CHAT, .none = "true" },
	{ "thinking_token_budget", "vLLM", .paths = CHAT },
	{ "thinking_budget", "Qwen", .paths = CHAT },
	{ "reasoning_format", "llama-server", .paths = CHAT, .none = "auto" },
	{ "truncation", "OpenAI", .paths = CHAT, .none = "disabled" },
	{ "input dimensions", "OpenAI", .paths = EMBED },
	{ "encoding_format", "OpenAI", .paths = EMBED, .none = "float" },
	{ "pooling", "cutaway", .paths = EMBED, .none = "auto" },
	{ "cache_control", "Anthropic", .paths = CHAT | TEXT | PIN },
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
	{ "model metadata store service_tier safety_identifier prompt_cache_key "
	  "prompt_cache_retention prompt_cache_options",
		"OpenAI", .query_empty = true },
	{ "request_id", "vLLM", .query_empty = true },
	{ "rid", "SGLang", .query_empty = true },
	{ "cache_prompt id_slot", "llama-server", .query_empty = true },
	{ "keep_alive", "ollama", .query_empty = true },
	/* of stages that their own fields, below, must turn on */
	{ "mirostat_tau mirostat_eta", "llama-server, ollama", .query_empty = true },
	{ "dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers "
	  "xtc_threshold dynatemp_exponent",
		"llama-server", .query_empty = true },
	/* what is not served */
	{ "functions", "OpenAI", .why = ": their name is tools" },
	{ "function_call", "OpenAI", .none = "none|auto", .why = ": its name is tool_choice" },
	{ "modalities", "OpenAI", .none = "text" },
	{ "audio prediction web_search_options moderation", "OpenAI", .why = "" },
	{ "use_beam_search truncate_prompt_tokens return_token_strs mm_processor_kwargs "
	  "media_io_kwargs return_tokens_as_token_ids return_token_ids "
	  "repetition_detection kv_transfer_params vllm_xargs",
		"vLLM", .why = "" },
	{ "with_pieces post_sampling_probs return_tokens return_progress timings_per_token lora",
		"llama-server", .why = "" },
	{ "images context", "ollama", .why = "" },
	{ "stop_regex lora_path session_params return_hidden_states", "SGLang", .why = "" },
	{ "watermark truncate", "TGI", .why = "" },
	{ "safe_prompt", "Mistral", .why = "" },
	{ "verbosity", "OpenAI", .none = "medium" },
	{ "guided_decoding_backend guided_whitespace_pattern", "vLLM", .query_empty = true },
	{ "structural_tag", "vLLM, SGLang", .why = FORM },
	{ "allowed_token_ids", "vLLM", .why = FORM },
	{ "min_tokens", "vLLM", .none = "0" },
	{ "n_keep", "llama-server", .none = "0" },
	{ "min_new_tokens", "SGLang", .none = "0" },
	{ "bad_words", "vLLM", .why = ": logit_bias bans tokens" },
	{ "prompt_logprobs", "vLLM", .why = ": /v1/completions has them with echo, and /score" },
	{ "length_penalty", "vLLM", .none = "1" },
	{ "skip_special_tokens", "vLLM, SGLang", .none = "true" },
	{ "spaces_between_special_tokens", "vLLM", .none = "true" },
	{ "parse_special", "llama-server", .none = "true" },
	{ "normalize", "vLLM", .none = "true", .why = UNIT },
	{ "embd_normalize", "llama-server", .none = "2", .why = UNIT },
	{ "embed_dtype", "vLLM", .none = "float32", .why = ": vectors are 32-bit floats" },
	{ "endianness", "vLLM", .none = "native|little", .why = ": base64 has the little end first" },
	{ "add_generation_prompt", "vLLM, llama-server", .none = "true", .why = TEMPLATE },
	{ "continue_final_message", "vLLM, SGLang", .why = TEMPLATE },
	{ "chat_template documents", "vLLM", .why = TEMPLATE },
	{ "template", "ollama", .why = TEMPLATE },
	{ "logits_processors", "vLLM", .why = SAMPLER },
	{ "custom_logit_processor custom_params", "SGLang", .why = SAMPLER },
	{ "cache_salt", "vLLM", .why = ": all requests share the prefix cache" },
	{ "n_predict", "llama-server", .paths = INFILL, .setting = "max-tokens",
		.why = ": its name here is max_tokens" },
	{ "n_probs", "llama-server", .none = "0", .why = ": its name here is logprobs" },
	{ "mirostat", "llama-server, ollama", .none = "0", .why = SAMPLER },
	{ "dynatemp_range xtc_probability dry_multiplier", "llama-server", .none = "0",
		.why = SAMPLER },
	{ "typical_p", "llama-server, ollama", .none = "1", .why = SAMPLER },
	{ "tfs_z", "ollama", .none = "1", .why = SAMPLER },
	{ "top_n_sigma", "llama-server", .none = "-1|0", .why = SAMPLER },
	{ "samplers", "llama-server", .also = INFILL, .why = SAMPLER },
	{ "min_keep", "llama-server", .none = "0|1", .why = SAMPLER },
	{ "n_indent", "llama-server", .also = INFILL, .none = "0" },
	{ "t_max_predict_ms t_max_prompt_ms", "llama-server", .also = INFILL, .none = "0|-1" },
	{ "response_fields", "llama-server", .also = INFILL, .why = "" },
	{ "options", "ollama", .why = ": its settings are fields of the request here" },
	{ "num_predict", "ollama", .why = ": its name here is max_tokens" },
	{ "max_new_tokens", "SGLang", .why = ": its name here is max_tokens" },
	{ "num_ctx", "ollama", .why = ": see --ctx of cutaway serve" },
	{ "system", "ollama, Anthropic", .why = ": a system text is a message" },
	{ "raw", "ollama", .why = ": /v1/completions has no template" },
	{ "no_stop_trim", "SGLang", .why = ": its name here is include_stop_str_in_output" },
	{ "stream_reasoning", "SGLang", .none = "true", .why = ": a stream has thoughts as they come" },
	{ "do_sample", "TGI", .none = "true", .why = ": temperature 0 is greedy" },
	{ "random_seed", "Mistral", .why = ": its name here is seed" },
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static const struct field *find(const char *name)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		if (text_word(fields[i].names, ' ', name, strlen(name)) >= 0)
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

bool query_nothing(const cJSON *v, const char *none)
{
	const char *word;
	char number[32];

	if (!v || cJSON_IsNull(v) || (cJSON_IsFalse(v) && !none) ||
		((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child))
		return true;
	word = word_of(v, number);
	return word && (!*word || (none && text_word(none, '|', word, strlen(word)) >= 0));
}

/* ---- names ---- */

static int unknown(const char *given, struct err *e)
{
	struct near near = NEAR_NONE;
	char best[32] = "", name[32];

	for (size_t i = 0; i < N_FIELDS; i++)
		for (const char *at = fields[i].paths ? fields[i].names : ""; *at;) {
			const size_t n = strcspn(at, " ");

			snprintf(name, sizeof name, "%.*s", (int)n, at);
			if (near_try(&near, given, name))
				memcpy(best, name, sizeof best);
			at += n + (at[n] == ' ');
		}
	for (const struct setting *s = answer_settings; s->name; s++) {
		field_name(s, name);
		if (query_setting(name) && near_try(&near, given, name))
			memcpy(best, name, sizeof best);
	}
	return err_set(e, ERR_USAGE, "%.60s: there is no such field%s%s%s", given,
		*best ? "; did you mean " : "", best, *best ? "?" : ": see docs/serve.md");
}

static int elsewhere(const struct field *f, const char *name, struct err *e)
{
	return err_set(e, ERR_USAGE, "%s: it is a field of %s", name,
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
			return f->paths && !f->why ? elsewhere(f, v->string, e)
									   : err_set(e, ERR_USAGE, "%s is not served here%s", v->string,
											 f->why ? f->why : "");
		if (!f && !query_setting(v->string))
			return unknown(v->string, e);
	}
	return 0;
}
