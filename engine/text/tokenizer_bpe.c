/* Encoding by BPE: words, pairs of bytes or of characters (Sennrich et al. 2016). See tokenizer.h.
 *
 * The words of gemma4 are lines, with spaces in them; its symbols are characters, and the bytes of
 * those that are no token. Newlines in a row are one token, if there is one of so many.
 */
#include "base/text.h"
#include "engine/text/tokenizer_private.h"

/* The token of the character that text begins with, and its size; -1 if there is none. */
static int32_t first_character(const struct tokenizer *t, const char *text, size_t size, size_t *n)
{
	int32_t point;

	*n = text_point(text, size, &point);
	return point >= 0 ? tokenizer_find_word(t, text, *n) : -1;
}

/* Makes one symbol of each character that is a token (gemma4) or else of each byte; bytes without
 * a token are left out. */
static int32_t split_word(struct encoder *c, const char *word, size_t size)
{
	struct symbol *symbol = c->symbol;
	int32_t n = 0;

	for (size_t i = 0, used; i < size; i += used) {
		int32_t id = -1;

		used = 1;
		if (c->t->ops->rule)
			id = first_character(c->t, word + i, size - i, &used);
		if (id < 0) {
			used = 1;
			id = c->t->byte[(unsigned char)word[i]];
		}
		if (id < 0)
			continue;
		symbol[n] = (struct symbol){ .prev = n - 1, .next = n + 1, .id = id };
		n++;
	}
	if (n)
		symbol[n - 1].next = -1;
	return n;
}

static int encode_word(struct encoder *c, const char *word, size_t size)
{
	const struct symbol *symbol;
	int32_t n, id = -1;

	if (c->t->whole_words || (c->t->ops->rule && *word == '\n'))
		id = tokenizer_find_word(c->t, word, size);
	if (id >= 0)
		return encoder_push(c, id);
	if (encoder_make_room(c, size, sizeof(struct symbol)))
		return -1;
	n = split_word(c, word, size);
	encoder_join(c, n);
	symbol = c->symbol;
	for (int32_t i = n ? 0 : -1; i >= 0; i = symbol[i].next)
		if (encoder_push(c, symbol[i].id))
			return -1;
	return 0;
}

static int encode_words(struct encoder *c, const char *text, size_t size)
{
	struct pre_words w = { .pre = c->t->pre, .text = text, .size = size };

	for (size_t n; (n = pre_next(&w));)
		if (encode_word(c, text + w.at - n, n))
			return -1;
	return 0;
}

static int encode_marked(struct encoder *c, const char *text, size_t size)
{
	int64_t n = size ? encoder_copy_text(c, text, size) : 0;

	return n < 0 ? -1 : encode_words(c, c->text, (size_t)n);
}

#define TEXTUAL (1u << TOKEN_NORMAL | 1u << TOKEN_UNKNOWN | 1u << TOKEN_UNUSED | 1u << TOKEN_BYTE)

const struct tokenizer_ops tokenizer_bpe = {
	.model = "gpt2",
	.word_kinds = TEXTUAL,
	.byte_kinds = TEXTUAL,
	.read_settings = tokenizer_read_pre,
	.spell = tokenizer_spell_bpe,
	.read_rules = tokenizer_read_merges,
	.encode = encode_words,
};

const struct tokenizer_ops tokenizer_gemma4 = {
	.model = "gemma4",
	.rule = &pre_lines,
	.word_kinds = 1u << TOKEN_NORMAL | 1u << TOKEN_USER,
	.byte_kinds = 1u << TOKEN_BYTE,
	.read_settings = tokenizer_read_pre,
	.spell = tokenizer_spell_marked,
	.read_rules = tokenizer_read_merges,
	.encode = encode_marked,
};

bool tokenizer_drops(const struct tokenizer *t, unsigned char byte)
{
	return t->ops == &tokenizer_bpe && t->byte[byte] < 0;
}
