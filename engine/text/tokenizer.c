/* The vocabulary: tokens and special tokens, copied out of the file. See tokenizer.h.
 *
 * Thread: read-only after tokenizer_open. Opening 49,152 tokens and 48,900 merges takes 8 ms: the
 * bytes of all tokens lie in one block, and the tables use open addressing; nothing is allocated
 * for a single token. A token's text becomes bytes here, once, by the rules of its kind of
 * vocabulary (tokenizer_merges.c, tokenizer_spm.c, tokenizer_unigram.c). */
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "engine/text/charsmap.h"
#include "engine/text/tokenizer_private.h"

/* Tokens that end a turn in the known families, whatever the file's eos may be. */
static const char *const end_names[] = {
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "</s>",
	"<end_of_turn>", "<eos>", "<|end_of_turn|>", "<EOT>", "[EOT]", "<turn|>", "<|return|>",
	"<|call|>",
	("<\xef\xbd\x9c"
	 "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"), /* DeepSeek */
};

static const struct tokenizer_ops *const kinds[] = { &tokenizer_bpe, &tokenizer_spm,
	&tokenizer_gemma4, &tokenizer_unigram };

/* --- words by their bytes --- */

static uint32_t hash_bytes(const struct tokenizer *t, const char *bytes, size_t size)
{
	uint32_t h = (uint32_t)t->seed;

	for (size_t i = 0; i < size; i++)
		h = tokenizer_hash(h, bytes[i]);
	return h;
}

static uint32_t first_slot(uint32_t hash)
{
	return hash ^ hash >> 15;
}

/* Whether these are the bytes of a token. */
static bool is_token(const struct tokenizer *t, int32_t id, const char *bytes, size_t size)
{
	return tokenizer_size(t, id) == size && !memcmp(t->bytes + t->start[id], bytes, size);
}

int32_t tokenizer_find_word(const struct tokenizer *t, const char *bytes, size_t size)
{
	return tokenizer_find_hashed(t, bytes, size, hash_bytes(t, bytes, size));
}

int32_t tokenizer_find_hashed(
	const struct tokenizer *t, const char *bytes, size_t size, uint32_t hash)
{
	int32_t id;

	for (uint32_t i = first_slot(hash);; i++) {
		id = t->word_slot[i & t->word_mask];
		if (id < 0)
			return -1;
		if (is_token(t, id, bytes, size))
			return id;
	}
}

/* At least twice n slots, all empty. */
int32_t *tokenizer_new_slots(int32_t n, uint32_t *mask)
{
	uint32_t size = 16;
	int32_t *p;

	while (size < 2 * (uint32_t)n)
		size *= 2;
	p = malloc(size * sizeof *p);
	if (p)
		memset(p, 0xff, size * sizeof *p);
	*mask = size - 1;
	return p;
}

/* --- opening --- */

/* Text of the file made printable for a message. */
const char *tokenizer_quoted(struct gguf_text text, char out[48])
{
	size_t n = text.size < 47 ? text.size : 47;

	for (size_t i = 0; i < n; i++)
		out[i] = text.data[i] > 0x20 && text.data[i] < 0x7f ? text.data[i] : '?';
	out[n] = '\0';
	return out;
}

static int read_kind(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	struct gguf_text model;
	char name[48];

	if (gguf_get_text(g, "tokenizer.ggml.model", &model, e))
		return -1;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !t->ops; i++)
		if (model.size == strlen(kinds[i]->model) &&
			!memcmp(model.data, kinds[i]->model, model.size))
			t->ops = kinds[i];
	if (!t->ops)
		return err_set(e, ERR_INPUT,
			"%s has a vocabulary of kind \"%s\" (tokenizer.ggml.model); supported are \"gpt2\" "
			"(byte-level BPE), \"llama\" (SentencePiece with scores), \"gemma4\" (BPE over "
			"characters) and \"t5\" (SentencePiece's Unigram)",
			gguf_path(g), tokenizer_quoted(model, name));
	return t->ops->read_settings(t, g, e);
}

static bool is_one_of(const struct tokenizer *t, int32_t id, uint32_t token_kinds)
{
	return token_kinds >> t->kind[id] & 1;
}

/* Fills bytes, start and the single-byte tokens. Text that has no such bytes is kept as it is, but
 * no word becomes that token: Command-R has U+200D in the byte alphabet and, beside it, as it is.
 */
static void spell_tokens(struct tokenizer *t, const struct gguf_text *text)
{
	uint32_t at = 0;

	memset(t->byte, 0xff, sizeof t->byte);
	for (int32_t id = 0; id < t->n_vocab; id++) {
		int64_t n = t->ops->spell(t, id, text[id], t->bytes + at);

		t->start[id] = at;
		if (n < 0) {
			n = (int64_t)text[id].size;
			memcpy(t->bytes + at, text[id].data, text[id].size);
			if (is_one_of(t, id, t->ops->word_kinds))
				t->kind[id] = TOKEN_MUTE;
		} else if (n == 1 && is_one_of(t, id, t->ops->byte_kinds) &&
				   t->byte[(unsigned char)t->bytes[at]] < 0) {
			t->byte[(unsigned char)t->bytes[at]] = id;
		}
		at += (uint32_t)n;
	}
	t->start[t->n_vocab] = at;
}

static int read_kinds(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char key[] = "tokenizer.ggml.token_type";
	int64_t *kind;

	memset(t->kind, TOKEN_NORMAL, (size_t)t->n_vocab);
	if (gguf_array_length(g, key) < 0)
		return 0;
	kind = malloc((size_t)t->n_vocab * sizeof *kind);
	if (!kind)
		return err_no_memory(e, "the vocabulary");
	if (gguf_array_i64(g, key, kind, t->n_vocab, e)) {
		free(kind);
		return -1;
	}
	for (int32_t id = 0; id < t->n_vocab; id++)
		if (kind[id] >= TOKEN_NORMAL && kind[id] <= TOKEN_BYTE)
			t->kind[id] = (uint8_t)kind[id];
	free(kind);
	return 0;
}

/* Of several tokens with the same bytes the first is found. */
static int index_words(struct tokenizer *t, struct err *e)
{
	t->word_slot = tokenizer_new_slots(t->n_vocab, &t->word_mask);
	if (!t->word_slot)
		return err_no_memory(e, "the vocabulary");
	for (int32_t id = 0; id < t->n_vocab; id++) {
		const char *bytes = t->bytes + t->start[id];
		size_t size = tokenizer_size(t, id);
		uint32_t i;

		if (!is_one_of(t, id, t->ops->word_kinds) || !size ||
			tokenizer_find_word(t, bytes, size) >= 0)
			continue;
		for (i = first_slot(hash_bytes(t, bytes, size)); t->word_slot[i & t->word_mask] >= 0;)
			i++;
		t->word_slot[i & t->word_mask] = id;
	}
	return 0;
}

static int read_tokens(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char key[] = "tokenizer.ggml.tokens";
	int64_t n = gguf_array_length(g, key);
	struct gguf_text *text = NULL;
	size_t total = 0;
	int rc = -1;

	if (n <= 0 || n >= 1 << 28)
		return err_set(e, ERR_INPUT, "%s has no vocabulary (%s)", gguf_path(g), key);
	t->n_vocab = (int32_t)n;
	text = malloc((size_t)n * sizeof *text);
	t->start = malloc(((size_t)n + 1) * sizeof *t->start);
	t->kind = malloc((size_t)n);
	t->end = calloc((size_t)n, sizeof *t->end);
	if (!text || !t->start || !t->kind || !t->end) {
		err_no_memory(e, "a vocabulary of %d tokens", t->n_vocab);
		goto out;
	}
	if (gguf_array_text(g, key, text, n, e) || read_kinds(t, g, e))
		goto out;
	for (int64_t i = 0; i < n; i++)
		total += text[i].size;
	t->bytes = malloc(total + 1);
	if (!t->bytes) {
		err_no_memory(e, "%zu bytes of tokens", total);
		goto out;
	}
	spell_tokens(t, text);
	rc = index_words(t, e);
out:
	free(text);
	return rc;
}

/* --- special tokens --- */

static int compare_special(const void *a, const void *b, void *arg)
{
	const struct tokenizer *t = arg;
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	size_t n = tokenizer_size(t, x), m = tokenizer_size(t, y);
	int order = memcmp(t->bytes + t->start[x], t->bytes + t->start[y], n < m ? n : m);

	if (order || n != m)
		return order ? order : n < m ? -1 : 1;
	if (t->kind[x] != t->kind[y])
		return t->kind[x] < t->kind[y] ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Of several with the same bytes and kind the first is found. */
static void drop_doubles(struct tokenizer *t)
{
	int32_t n = 0;

	for (int32_t i = 0; i < t->n_special; i++) {
		int32_t id = t->special[i], last = n ? t->special[n - 1] : -1;

		if (!n || t->kind[id] != t->kind[last] ||
			!is_token(t, last, t->bytes + t->start[id], tokenizer_size(t, id)))
			t->special[n++] = id;
	}
	t->n_special = n;
}

static int index_special(struct tokenizer *t, struct err *e)
{
	const uint32_t marks = 1u << TOKEN_CONTROL | 1u << TOKEN_USER;
	int32_t cap = 0;

	for (int32_t id = 0; id < t->n_vocab; id++) {
		if (!is_one_of(t, id, marks) || !tokenizer_size(t, id))
			continue;
		if (!ARRAY_ROOM(t->special, cap, t->n_special + 1))
			return err_no_memory(e, "special tokens");
		t->special[t->n_special++] = id;
	}
	if (t->n_special)
		qsort_r(t->special, (size_t)t->n_special, sizeof *t->special, compare_special, t);
	drop_doubles(t);
	for (int32_t i = 0; i < t->n_special; i++)
		t->special_first[(unsigned char)t->bytes[t->start[t->special[i]]] + 1]++;
	for (int b = 0; b < 256; b++)
		t->special_first[b + 1] += t->special_first[b];
	return 0;
}

/* An id that the file names, or -1. Without token types such a token counts as control. One that is
 * no token is noted and ignored: the text needs it nowhere, and answers may end by others. */
static int read_id(struct tokenizer *t, const struct gguf *g, const char *key, bool typed,
	int32_t *out, struct err *e)
{
	struct err bad = { 0 };
	int64_t id = -1;
	bool there = gguf_opt_i64(g, key, &id, &bad);

	*out = -1;
	if (!there && !bad.code)
		return 0;
	if (!there)
		return err_set(e, ERR_INPUT, "%s: %s", gguf_path(g), bad.text);
	if (id < 0 || id >= t->n_vocab) {
		snprintf(t->note, sizeof t->note, "%s is %lld, no token of its vocabulary of %d: ignored",
			key, (long long)id, t->n_vocab);
		return 0;
	}
	*out = (int32_t)id;
	if (!typed)
		t->kind[id] = TOKEN_CONTROL;
	return 0;
}

/* Where an answer ends with <|return|>, <|end|> is between its parts (Harmony). */
static void find_ends(struct tokenizer *t)
{
	bool parts = tokenizer_id_of(t, "<|return|>") >= 0;

	for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++) {
		int32_t id = tokenizer_id_of(t, end_names[i]);

		if (id >= 0 && !(parts && !strcmp(end_names[i], "<|end|>")))
			t->end[id] = true;
	}
}

static int read_ids(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char *const keys[] = { "tokenizer.ggml.bos_token_id",
		"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
		"tokenizer.ggml.eom_token_id" };
	bool typed = gguf_array_length(g, "tokenizer.ggml.token_type") >= 0;
	struct err bad = { 0 };
	int32_t id[4];

	for (int i = 0; i < 4; i++)
		if (read_id(t, g, keys[i], typed, &id[i], e))
			return -1;
	t->bos = id[0];
	t->eos = id[1];
	gguf_opt_bool(g, "tokenizer.ggml.add_bos_token", &t->adds_bos, &bad);
	gguf_opt_bool(g, "tokenizer.ggml.add_eos_token", &t->adds_eos, &bad);
	if (bad.code)
		return err_set(e, bad.code, "%s", bad.text);
	t->adds_bos = t->adds_bos && t->bos >= 0;
	t->adds_eos = t->adds_eos && t->eos >= 0;
	if (index_special(t, e))
		return -1;
	for (int i = 1; i < 4; i++)
		if (id[i] >= 0)
			t->end[id[i]] = true;
	find_ends(t);
	tokenizer_read_fim(t, g);
	return 0;
}

int tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *e)
{
	struct tokenizer *t = calloc(1, sizeof *t);

	*out = NULL;
	if (!t)
		return err_no_memory(e, "the tokenizer");
	if (getentropy(&t->seed, sizeof t->seed))
		t->seed = (uint64_t)now_ns();
	if (read_kind(t, g, e) || read_tokens(t, g, e) || t->ops->read_rules(t, g, e) ||
		read_ids(t, g, e)) {
		tokenizer_close(t);
		return -1;
	}
	*out = t;
	return 0;
}

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	free(t->bytes);
	free(t->start);
	free(t->kind);
	free(t->end);
	free(t->word_slot);
	free(t->pre);
	free(t->merge);
	free(t->merge_slot);
	free(t->order);
	free(t->score);
	charsmap_close(t->charsmap);
	free(t->special);
	free(t);
}

/* --- questions --- */

int32_t tokenizer_n_vocab(const struct tokenizer *t)
{
	return t->n_vocab;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

const char *tokenizer_note(const struct tokenizer *t)
{
	return *t->note ? t->note : NULL;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

bool tokenizer_adds_eos(const struct tokenizer *t)
{
	return t->adds_eos;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && id < t->n_vocab && t->end[id];
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && id < t->n_vocab &&
		   (t->kind[id] == TOKEN_CONTROL || t->kind[id] == TOKEN_UNKNOWN);
}

struct gguf_text tokenizer_bytes(const struct tokenizer *t, int32_t id)
{
	if (id < 0 || id >= t->n_vocab)
		return (struct gguf_text){ "", 0 };
	return (struct gguf_text){ t->bytes + t->start[id], tokenizer_size(t, id) };
}

struct gguf_text tokenizer_first_bytes(const struct tokenizer *t, int32_t id)
{
	struct gguf_text text = tokenizer_bytes(t, id);

	if (t->adds_space && text.size && *text.data == ' ')
		return (struct gguf_text){ text.data + 1, text.size - 1 };
	return text;
}

int32_t tokenizer_id_of(const struct tokenizer *t, const char *name)
{
	size_t size = strlen(name);

	int32_t found = -1;

	for (int32_t i = 0; i < t->n_special; i++)
		if ((found < 0 || t->special[i] < found) && is_token(t, t->special[i], name, size))
			found = t->special[i];
	return found;
}
