/* Unigram vocabularies (T5, XLM-R): the cut of the highest score. See tokenizer.h.
 *
 * Kudo 2018, and normalizer.cc and unigram_model.cc of google/sentencepiece: a text is normalised;
 * of all ways to cut it into words, the one whose scores have the highest sum is taken (Viterbi): a
 * cell for each byte holds the best word that ends there, so the time is the text's length times
 * that of the longest word. A character that is no word scores 10 less than the worst word, a word
 * of the model's authors about 0. Of equal sums the first found stays, whose last word is the
 * longer. Sums are doubles, as in Hugging Face's tokenizers and llama.cpp; the library's are
 * floats, whose rounding sometimes orders equal cuts, such as those of a run, otherwise.
 *
 * Here, too, tokens hold a space for U+2581. Words of the authors are found before
 * (tokenizer_encode), and what lies between two of them is a text of its own; normalising may still
 * make one. */
#include <float.h>

#include "base/array.h"
#include "base/text.h"
#include "engine/text/charsmap.h"
#include "engine/text/tokenizer_private.h"

struct cell {
	double score; /* of the best cut of the text up to here */
	int32_t id;   /* its last word, or -1: an unknown character */
	int32_t from; /* where that begins; -1: no cut ends here */
};

/* --- normalising --- */

static int make_text_room(struct encoder *c, size_t n)
{
	if (n >= INT32_MAX)
		return err_set(c->e, ERR_USAGE, "normalised, the text is too long to tokenise");
	if (!ARRAY_ROOM(c->text, c->text_room, n))
		return err_set(c->e, ERR_MEMORY, "no memory to tokenise a text of %zu bytes", n);
	return 0;
}

/* How many bytes at the beginning are normalised together, and what they become. */
static size_t normalise_first(
	const struct tokenizer *t, const char *text, size_t size, struct gguf_text *out)
{
	size_t used = t->charsmap ? charsmap_match(t->charsmap, text, size, out) : 0;
	int32_t point;

	if (used)
		return used;
	used = text_point(text, size, &point);
	*out = point < 0 ? (struct gguf_text){ "\xef\xbf\xbd", 3 } : (struct gguf_text){ text, used };
	return used;
}

/* Into c->text; returns its size, or -1 on error. */
static int64_t normalise(struct encoder *c, const char *text, size_t size)
{
	const struct tokenizer *t = c->t;
	bool begins = encoder_begins_text(c), after_space = t->trims && begins;
	struct gguf_text out;
	size_t n = 0;

	if (make_text_room(c, 1))
		return -1;
	if (begins && t->adds_space)
		c->text[n++] = ' ';
	for (size_t at = 0; at < size;) {
		if (make_text_room(c, n + CHARSMAP_LONGEST))
			return -1;
		at += normalise_first(t, text + at, size - at, &out);
		for (; after_space && out.size && *out.data == ' '; out.size--)
			out.data++;
		if (!out.size)
			continue;
		after_space = t->trims && out.data[out.size - 1] == ' ';
		n += (size_t)tokenizer_unmark(out.data, out.size, c->text + n);
	}
	while (t->trims && n && c->text[n - 1] == ' ')
		n--;
	return (int64_t)n;
}

/* --- the best cut --- */

/* By the first byte alone: a table may write bytes that are no UTF-8. */
static int32_t character_size(char first, int32_t most)
{
	unsigned char byte = (unsigned char)first;
	int32_t n = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;

	return n < most ? n : most;
}

static void offer(struct cell *to, double score, int32_t id, int32_t from)
{
	if (to->from < 0 || score > to->score)
		*to = (struct cell){ score, id, from };
}

/* All words that begin here; whether one of them is the character of n bytes. */
static bool offer_words(const struct encoder *c, int32_t at, int32_t size, int32_t n)
{
	struct cell *cell = (struct cell *)c->symbol + at;
	const char *text = c->text + at;
	size_t left = (size_t)(size - at), most = left < c->t->longest ? left : c->t->longest;
	uint32_t hash = (uint32_t)c->t->seed;
	bool whole = false;

	for (size_t i = 1; i <= most; i++) {
		int32_t id;

		hash = tokenizer_hash(hash, text[i - 1]);
		id = tokenizer_find_hashed(c->t, text, i, hash);
		if (id < 0)
			continue;
		offer(&cell[i], cell->score + c->t->score[id], id, at);
		whole = whole || i == (size_t)n;
	}
	return whole;
}

static void find_cut(struct encoder *c, int32_t size)
{
	struct cell *cell = c->symbol;

	for (int32_t i = 0; i <= size; i++)
		cell[i] = (struct cell){ 0, -1, -1 };
	for (int32_t at = 0, n; at < size; at += n) {
		n = character_size(c->text[at], size - at);
		if (!offer_words(c, at, size, n))
			offer(&cell[at + n], cell[at].score + c->t->unknown_score, -1, at);
	}
}

/* The cells of the best cut lead from its end back; turned round, each leads to the next one's
 * end. */
static int push_cut(struct encoder *c, int32_t size)
{
	struct cell *cell = c->symbol;
	bool unknown = false;
	int32_t next = -1;
	int rc = 0;

	for (int32_t at = size, from; at > 0; at = from) {
		from = cell[at].from;
		cell[at].from = next;
		next = at;
	}
	for (int32_t at = 0; next > 0 && !rc; at = next, next = cell[next].from)
		rc = encoder_push_piece(c, cell[next].id, at, next - at, &unknown);
	return rc;
}

static int encode_text(struct encoder *c, const char *text, size_t size)
{
	int64_t n = size ? normalise(c, text, size) : 0;

	if (n <= 0)
		return n < 0 ? -1 : 0;
	if (encoder_make_room(c, (size_t)n + 1, sizeof(struct cell)))
		return -1;
	find_cut(c, (int32_t)n);
	return push_cut(c, (int32_t)n);
}

/* --- opening --- */

static int read_charsmap(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char key[] = "tokenizer.ggml.precompiled_charsmap";
	int64_t n = gguf_array_length(g, key), *item;
	struct err why = { 0 };
	uint8_t *bytes;
	int rc = -1;

	if (n <= 0)
		return 0;
	item = malloc((size_t)n * sizeof *item);
	bytes = malloc((size_t)n);
	if (!item || !bytes) {
		err_no_memory(e, "%s, of %lld bytes", key, (long long)n);
	} else if (!gguf_array_i64(g, key, item, n, e)) {
		for (int64_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)item[i];
		rc = charsmap_open(&t->charsmap, bytes, (size_t)n, &why);
		if (rc)
			err_set(e, why.code, "%s: %s (%s)", gguf_path(g), why.text, key);
	}
	free(item);
	free(bytes);
	return rc;
}

static int read_settings(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	struct err bad = { 0 };

	t->adds_eos = true;
	gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &t->adds_space, &bad);
	if (!bad.code)
		gguf_opt_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &t->trims, &bad);
	if (bad.code)
		return err_set(e, bad.code, "%s", bad.text);
	return read_charsmap(t, g, e);
}

/* The length of a word of the authors counts where scores are above 0. In the file's form a space
 * is three bytes. */
static double user_score(const struct tokenizer *t, int32_t id, float most)
{
	size_t size = 0;

	for (uint32_t i = t->start[id]; i < t->start[id + 1]; i++)
		size += t->bytes[i] == ' ' ? 3 : 1;
	return (float)size * most - 0.1;
}

static int read_scores(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	float *score = tokenizer_read_scores(t, g, e), least = FLT_MAX, most = FLT_MIN;

	if (!score)
		return -1;
	t->score = malloc((size_t)t->n_vocab * sizeof *t->score);
	for (int32_t id = 0; id < t->n_vocab; id++) {
		if (t->kind[id] != TOKEN_NORMAL)
			continue;
		least = score[id] < least ? score[id] : least;
		most = score[id] > most ? score[id] : most;
	}
	for (int32_t id = 0; id < t->n_vocab && t->score; id++)
		t->score[id] = t->kind[id] == TOKEN_USER ? user_score(t, id, most) : score[id];
	t->unknown_score = least - 10.0f;
	free(score);
	return t->score ? 0 : err_no_memory(e, "%d scores", t->n_vocab);
}

const struct tokenizer_ops tokenizer_unigram = {
	.model = "t5",
	.word_kinds = 1u << TOKEN_NORMAL | 1u << TOKEN_USER,
	.byte_kinds = 1u << TOKEN_BYTE,
	.read_settings = read_settings,
	.spell = tokenizer_spell_marked,
	.read_rules = read_scores,
	.encode = encode_text,
};
