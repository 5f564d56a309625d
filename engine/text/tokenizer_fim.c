/* Tokens of models that fill in the middle of a text (Bavarian et al. 2022): by the keys of the
 * file, else by the names that model families give them. See tokenizer.h. */
#include "engine/text/tokenizer_private.h"

enum { NAMES = 8 };

static const struct {
	const char *key, *former; /* after "tokenizer.ggml." */
	const char *name[NAMES];  /* of Qwen, StarCoder, Granite, DeepSeek, Code Llama, GLM, Falcon */
} table[TOKENIZER_N_FIM] = {
	[TOKENIZER_FIM_PREFIX] = { "fim_pre_token_id", "prefix_token_id",
		{ "<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "<PRE>",
			"<|code_prefix|>", "<|prefix|>" } },
	[TOKENIZER_FIM_SUFFIX] = { "fim_suf_token_id", "suffix_token_id",
		{ "<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>", "<SUF>",
			"<|code_suffix|>", "<|suffix|>" } },
	[TOKENIZER_FIM_MIDDLE] = { "fim_mid_token_id", "middle_token_id",
		{ "<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>", "<MID>",
			"<|code_middle|>", "<|middle|>" } },
	[TOKENIZER_FIM_REPO] = { "fim_rep_token_id", NULL,
		{ "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>", "<REPO>" } },
	[TOKENIZER_FIM_FILE] = { "fim_sep_token_id", NULL, { "<|file_sep|>" } },
	[TOKENIZER_FIM_PAD] = { "fim_pad_token_id", NULL,
		{ "<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>" } },
};

/* What is no token of the vocabulary is as if it were not there. */
static int32_t by_key(const struct tokenizer *t, const struct gguf *g, const char *key)
{
	struct err ignored = { 0 };
	int64_t id = -1;
	char whole[64];

	if (!key)
		return -1;
	snprintf(whole, sizeof whole, "tokenizer.ggml.%s", key);
	gguf_opt_i64(g, whole, &id, &ignored);
	return id >= 0 && id < t->n_vocab ? (int32_t)id : -1;
}

void tokenizer_read_fim(struct tokenizer *t, const struct gguf *g)
{
	for (int i = 0; i < TOKENIZER_N_FIM; i++) {
		t->fim[i] = by_key(t, g, table[i].key);
		if (t->fim[i] < 0)
			t->fim[i] = by_key(t, g, table[i].former);
		for (int k = 0; t->fim[i] < 0 && table[i].name[k]; k++)
			t->fim[i] = tokenizer_id_of(t, table[i].name[k]);
	}
}

int32_t tokenizer_fim(const struct tokenizer *t, enum tokenizer_fim which)
{
	return t->fim[which];
}
