/* What BPE reads from the file: pre-tokenizer, byte alphabet, merges. See tokenizer.h.
 *
 * A "gpt2" file writes every byte as a printable character (Radford et al. 2019, encoder.py), a
 * "gemma4" file a space as U+2581; tokens and merges are turned back into bytes here. */
#include "engine/text/tokenizer_private.h"

/* --- the byte alphabet --- */

/* back[code point] = byte, or -1: printable Latin-1 is itself, the others follow from 256 on. */
static void make_alphabet(int16_t back[TOKENIZER_ALPHABET])
{
	int next = 256;

	memset(back, 0xff, TOKENIZER_ALPHABET * sizeof *back);
	for (int b = 0; b < 256; b++) {
		bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);

		back[itself ? b : next++] = (int16_t)b;
	}
}

/* Writes the bytes of the text; returns their number, or -1 if a character is not in the
 * alphabet. */
static int64_t spell(const int16_t back[TOKENIZER_ALPHABET], struct gguf_text text, char *out)
{
	int64_t n = 0;

	for (size_t i = 0; i < text.size; i++) {
		unsigned char a = (unsigned char)text.data[i], b;
		int c = a;

		if (a >= 0x80) { /* all other characters of the alphabet have two bytes in UTF-8 */
			if (a < 0xc2 || a > 0xc5 || i + 1 == text.size)
				return -1;
			b = (unsigned char)text.data[++i];
			if ((b & 0xc0) != 0x80)
				return -1;
			c = (a & 0x1f) << 6 | (b & 0x3f);
		}
		if (c >= TOKENIZER_ALPHABET || back[c] < 0)
			return -1;
		out[n++] = (char)back[c];
	}
	return n;
}

int64_t tokenizer_spell_bpe(const struct tokenizer *t, int32_t id, struct gguf_text text, char *out)
{
	if (t->kind[id] == TOKEN_CONTROL || t->kind[id] == TOKEN_USER)
		return -1;
	return spell(t->back, text, out);
}

int tokenizer_read_pre(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	struct gguf_text pre = { "default", 7 };
	const struct pre_rule *rule;
	struct err bad = { 0 };
	char name[48], known[512];

	gguf_opt_text(g, "tokenizer.ggml.pre", &pre, &bad);
	rule = t->ops->rule ? t->ops->rule : pre_by_name(pre.data, pre.size);
	if (bad.code || !rule)
		return err_set(e, ERR_INPUT,
			"%s has the vocabulary \"%s\" with the pre-tokenizer \"%s\" (tokenizer.ggml.pre); "
			"supported are %s",
			gguf_path(g), t->ops->model, tokenizer_quoted(pre, name),
			pre_known(known, sizeof known));
	t->pre = pre_compile(rule);
	if (!t->pre)
		return err_no_memory(e, "the pre-tokenizer");
	t->adds_bos = rule->adds_bos;
	t->whole_words = rule->whole_words;
	make_alphabet(t->back);
	return 0;
}

/* --- merges --- */

/* Of splitmix64 (Steele et al. 2014), from the seed. */
static uint32_t hash_pair(const struct tokenizer *t, int32_t left, int32_t right)
{
	uint64_t h = t->seed + ((uint64_t)(uint32_t)left << 32 | (uint32_t)right);

	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
	h = (h ^ h >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(h >> 32);
}

int32_t tokenizer_find_merge(const struct tokenizer *t, int32_t left, int32_t right)
{
	for (uint32_t i = hash_pair(t, left, right);; i++) {
		int32_t rank = t->merge_slot[i & t->merge_mask];

		if (rank < 0 || (t->merge[rank].left == left && t->merge[rank].right == right))
			return rank;
	}
}

static int64_t spell_half(const struct tokenizer *t, struct gguf_text text, char *out)
{
	return t->ops->rule ? tokenizer_unmark(text.data, text.size, out) : spell(t->back, text, out);
}

/* "left right" in the form of the file, where no token holds a space. buf has room for the text. */
static int parse_merge(const struct tokenizer *t, struct gguf_text text, char *buf, struct merge *m)
{
	const char *gap = text.size > 2 ? memchr(text.data + 1, ' ', text.size - 2) : NULL;
	struct gguf_text left, right;
	int64_t a, b;

	if (!gap)
		return -1;
	left = (struct gguf_text){ text.data, (size_t)(gap - text.data) };
	right = (struct gguf_text){ gap + 1, text.size - left.size - 1 };
	a = spell_half(t, left, buf);
	b = a < 0 ? -1 : spell_half(t, right, buf + a);
	if (b < 0)
		return -1;
	m->left = tokenizer_find_word(t, buf, (size_t)a);
	m->right = tokenizer_find_word(t, buf + a, (size_t)b);
	m->out = tokenizer_find_word(t, buf, (size_t)(a + b));
	return m->left < 0 || m->right < 0 || m->out < 0 ? -1 : 0;
}

static int index_merges(
	struct tokenizer *t, const struct gguf *g, const struct gguf_text *text, struct err *e)
{
	size_t longest = 0;
	char *buf;

	for (int32_t i = 0; i < t->n_merges; i++)
		longest = text[i].size > longest ? text[i].size : longest;
	buf = malloc(longest + 1);
	if (!buf)
		return err_no_memory(e, "a merge of %zu bytes", longest);
	for (int32_t i = 0; i < t->n_merges; i++) {
		struct merge *m = &t->merge[i];
		uint32_t k;

		if (parse_merge(t, text[i], buf, m)) {
			free(buf);
			return err_set(e, ERR_INPUT, "%s: merge %d is not of two tokens that make a third",
				gguf_path(g), i);
		}
		if (tokenizer_find_merge(t, m->left, m->right) >= 0)
			continue; /* the earlier one has the lower rank */
		for (k = hash_pair(t, m->left, m->right); t->merge_slot[k & t->merge_mask] >= 0;)
			k++;
		t->merge_slot[k & t->merge_mask] = i;
	}
	free(buf);
	return 0;
}

int tokenizer_read_merges(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char key[] = "tokenizer.ggml.merges";
	int64_t n = gguf_array_length(g, key);
	struct gguf_text *text;
	int rc = -1;

	if (n < 0 || n >= 1 << 28)
		return err_set(e, ERR_INPUT, "%s has no merges (%s)", gguf_path(g), key);
	t->n_merges = (int32_t)n;
	text = malloc(((size_t)n + 1) * sizeof *text);
	t->merge = malloc(((size_t)n + 1) * sizeof *t->merge);
	t->merge_slot = tokenizer_new_slots(t->n_merges, &t->merge_mask);
	if (!text || !t->merge || !t->merge_slot)
		err_no_memory(e, "%d merges", t->n_merges);
	else if (!gguf_array_text(g, key, text, n, e))
		rc = index_merges(t, g, text, e);
	free(text);
	return rc;
}
