/* SentencePiece vocabularies (llama, gemma): pairs by score, spaces, bytes. See tokenizer.h.
 *
 * Kudo and Richardson 2018, and bpe_model.cc of google/sentencepiece: a text begins as its
 * characters; of all neighbours that together are a token, those of the highest score are joined,
 * the leftmost first; symbols that are no token in the end are written byte by byte. There are no
 * words: one heap holds the pairs of the whole text, so the time is n log n.
 *
 * The file writes a space as U+2581; here tokens hold the space itself, and U+2581 in a text counts
 * as one. A text gets a space before it (unless the file forbids it), and so does what follows a
 * special token: the id before a text tells whether it gets one. */
#include <strings.h>

#include "base/text.h"
#include "engine/text/tokenizer_private.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */

/* --- the text --- */

bool encoder_begins_text(const struct encoder *c)
{
	int32_t last = *c->n ? (*c->ids)[*c->n - 1] : -1;

	if (last < 0 || last >= c->t->n_vocab)
		return true;
	return c->t->kind[last] == TOKEN_CONTROL || c->t->kind[last] == TOKEN_USER;
}

/* The tokenizer of Phi-3 keeps the white space after these two. */
static bool follows_eater(const struct encoder *c)
{
	int32_t last = *c->n ? (*c->ids)[*c->n - 1] : -1;

	return c->t->eats_space && last >= 0 && encoder_begins_text(c) && last != c->t->bos &&
		   last != tokenizer_id_of(c->t, "<|endoftext|>");
}

static size_t count_space(const char *text, size_t size)
{
	int32_t point;
	size_t n = 0, used;

	while (n < size && (used = text_point(text + n, size - n, &point)) && pre_is_space(point))
		n += used;
	return n;
}

static bool is_space_mark(const char *text, size_t size)
{
	return size >= 3 && !memcmp(text, SPACE, 3);
}

int64_t tokenizer_unmark(const char *text, size_t size, char *out)
{
	int64_t n = 0;

	for (size_t i = 0; i < size; i++) {
		bool mark = is_space_mark(text + i, size - i);

		out[n++] = mark ? ' ' : text[i];
		i += mark ? 2 : 0;
	}
	return n;
}

int64_t encoder_copy_text(struct encoder *c, const char *text, size_t size)
{
	bool space = c->t->adds_space && encoder_begins_text(c);

	if (size + 1 > c->text_room) {
		free(c->text);
		c->text_room = 0;
		c->text = malloc(size + 1);
		if (!c->text)
			return err_set(c->e, ERR_MEMORY, "no memory to tokenise a text of %zu bytes", size);
		c->text_room = size + 1;
	}
	*c->text = ' ';
	return space + tokenizer_unmark(text, size, c->text + space);
}

/* Makes one symbol of each character; bytes that are not UTF-8 are characters of their own. */
static int32_t split_text(struct encoder *c, int32_t size)
{
	struct symbol *symbol = c->symbol;
	int32_t n = 0;

	for (int32_t at = 0, used; at < size; at += used) {
		int32_t point;

		used = (int32_t)text_point(c->text + at, (size_t)(size - at), &point);
		symbol[n] = (struct symbol){ at, used, n - 1, n + 1, -1, -1 };
		n++;
	}
	symbol[n - 1].next = -1;
	return n;
}

/* --- ids --- */

/* True if these bytes of the text are tokens, all of them, and are pushed. *rc is -1 if that
 * failed. */
static bool push_bytes(struct encoder *c, int32_t at, int32_t size, int *rc)
{
	const unsigned char *bytes = (unsigned char *)c->text + at;

	for (int32_t i = 0; i < size; i++)
		if (c->t->byte[bytes[i]] < 0)
			return false;
	for (int32_t i = 0; i < size && !*rc; i++)
		*rc = encoder_push(c, c->t->byte[bytes[i]]);
	return true;
}

int encoder_push_piece(struct encoder *c, int32_t id, int32_t at, int32_t size, bool *unknown)
{
	bool before = *unknown;
	int rc = 0;

	*unknown = false;
	if (id >= 0)
		return encoder_push(c, id);
	if (push_bytes(c, at, size, &rc))
		return rc;
	*unknown = before || c->t->unknown >= 0;
	return before || !*unknown ? 0 : encoder_push(c, c->t->unknown);
}

static int push_symbols(struct encoder *c)
{
	const struct symbol *symbol = c->symbol;
	bool unknown = false;
	int rc = 0;

	for (int32_t i = 0; i >= 0 && !rc; i = symbol[i].next) {
		const struct symbol *s = &symbol[i];
		int32_t id = s->id;

		if (id < 0)
			id = tokenizer_find_word(c->t, c->text + s->at, (size_t)s->size);
		rc = encoder_push_piece(c, id, s->at, s->size, &unknown);
	}
	return rc;
}

static int encode_text(struct encoder *c, const char *text, size_t size)
{
	size_t eaten = follows_eater(c) ? count_space(text, size) : 0;
	int64_t n;

	if (eaten == size)
		return 0;
	n = encoder_copy_text(c, text + eaten, size - eaten);
	if (n < 0 || encoder_make_room(c, (size_t)n, sizeof(struct symbol)))
		return -1;
	encoder_join(c, split_text(c, (int32_t)n));
	return push_symbols(c);
}

/* --- opening --- */

/* Phi-3's special tokens take the white space after them, but the file has no key for it. */
static bool is_phi3(const struct gguf *g)
{
	static const char *const needle[] = { "phi-3", "phi3" };
	struct gguf_text text[2] = { { "", 0 }, { "", 0 } };
	struct err ignored = { 0 };

	gguf_opt_text(g, "general.architecture", &text[0], &ignored);
	gguf_opt_text(g, "general.name", &text[1], &ignored);
	for (int k = 0; k < 4; k++) {
		struct gguf_text t = text[k / 2];
		size_t n = strlen(needle[k % 2]);

		for (size_t i = 0; i + n <= t.size; i++)
			if (!strncasecmp(t.data + i, needle[k % 2], n))
				return true;
	}
	return false;
}

static int read_settings(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	struct err bad = { 0 };

	t->adds_bos = t->adds_space = true;
	t->eats_space = is_phi3(g);
	gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &t->adds_space, &bad);
	return bad.code ? err_set(e, bad.code, "%s", bad.text) : 0;
}

/* A byte token of another form keeps its text. */
int64_t tokenizer_spell_marked(
	const struct tokenizer *t, int32_t id, struct gguf_text text, char *out)
{
	if (t->kind[id] == TOKEN_CONTROL || t->kind[id] == TOKEN_UNKNOWN)
		return -1;
	if (t->kind[id] == TOKEN_BYTE) {
		int high = text.size == 6 ? text_hex(text.data[3]) : -1;
		int low = text.size == 6 ? text_hex(text.data[4]) : -1;

		if (high < 0 || low < 0 || memcmp(text.data, "<0x", 3) || text.data[5] != '>')
			return -1;
		*out = (char)(high << 4 | low);
		return 1;
	}
	return tokenizer_unmark(text.data, text.size, out);
}

/* The order of a score: it falls as the score rises. */
static uint32_t order_of(float score)
{
	uint32_t u;

	score += 0.0f; /* -0 is 0 */
	memcpy(&u, &score, sizeof u);
	return u >> 31 ? u : ~(u | 1u << 31);
}

float *tokenizer_read_scores(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char key[] = "tokenizer.ggml.scores";
	float *score;

	if (gguf_array_length(g, key) != t->n_vocab) {
		err_set(e, ERR_INPUT, "%s has no score for each token (%s)", gguf_path(g), key);
		return NULL;
	}
	score = malloc((size_t)t->n_vocab * sizeof *score);
	if (!score)
		err_no_memory(e, "%d scores", t->n_vocab);
	if (!score || gguf_array_f32(g, key, score, t->n_vocab, e)) {
		free(score);
		return NULL;
	}
	t->unknown = -1;
	for (int32_t id = 0; id < t->n_vocab; id++) {
		size_t size = tokenizer_size(t, id);

		if (t->ops->word_kinds >> t->kind[id] & 1 && size > t->longest)
			t->longest = size;
		if (t->kind[id] == TOKEN_UNKNOWN && t->unknown < 0)
			t->unknown = id;
	}
	return score;
}

static int read_order(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	float *score = tokenizer_read_scores(t, g, e);

	if (!score)
		return -1;
	t->order = malloc((size_t)t->n_vocab * sizeof *t->order);
	for (int32_t id = 0; id < t->n_vocab && t->order; id++)
		t->order[id] = order_of(score[id]);
	free(score);
	return t->order ? 0 : err_no_memory(e, "%d scores", t->n_vocab);
}

const struct tokenizer_ops tokenizer_spm = {
	.model = "llama",
	.word_kinds = 1u << TOKEN_NORMAL,
	.byte_kinds = 1u << TOKEN_BYTE,
	.read_settings = read_settings,
	.spell = tokenizer_spell_marked,
	.read_rules = read_order,
	.encode = encode_text,
};
