/* Encoding, the part that all kinds of vocabulary share: it finds special tokens, and passes the
 * text between them to the kind's own encoder. See tokenizer.h. */
#include "base/array.h"
#include "engine/text/tokenizer_private.h"

int tokenizer_append(
	int32_t **ids, size_t *n, size_t *cap, const int32_t *more, size_t n_more, struct err *e)
{
	if (!ARRAY_ROOM(*ids, *cap, *n + n_more))
		return err_no_memory(e, "%zu token ids", *n + n_more);
	if (n_more)
		memcpy(*ids + *n, more, n_more * sizeof *more);
	*n += n_more;
	return 0;
}

int encoder_push(struct encoder *c, int32_t id)
{
	if (!ARRAY_ROOM(*c->ids, *c->cap, *c->n + 1))
		return err_no_memory(c->e, "%zu token ids", *c->n + 1);
	(*c->ids)[(*c->n)++] = id;
	return 0;
}

/* Of the special tokens [lo, hi), which are longer than `depth` bytes and share their first
 * `depth`, the first whose next byte is not below `byte`. */
static int32_t next_byte(const struct tokenizer *t, int32_t lo, int32_t hi, size_t depth, int byte)
{
	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2;

		if ((unsigned char)t->bytes[t->start[t->special[mid]] + depth] < byte)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The longest special token that text begins with, or -1. Each byte leaves fewer tokens, so the
 * time grows with the length of a token and hardly with their number. */
static int32_t special_at(
	const struct tokenizer *t, const char *text, size_t size, bool control, size_t *used)
{
	unsigned char byte = (unsigned char)*text;
	int32_t lo = t->special_first[byte], hi = t->special_first[byte + 1], found = -1;

	for (size_t depth = 1; lo < hi; depth++) {
		for (; lo < hi && tokenizer_size(t, t->special[lo]) == depth; lo++)
			if ((control || t->kind[t->special[lo]] != TOKEN_CONTROL) &&
				(*used != depth || found < 0 || t->special[lo] < found)) {
				found = t->special[lo];
				*used = depth;
			}
		if (depth == size)
			break;
		byte = (unsigned char)text[depth];
		lo = next_byte(t, lo, hi, depth, byte);
		hi = next_byte(t, lo, hi, depth, byte + 1);
	}
	return found;
}

/* The first special token in text. Control tokens only if `control`; user tokens always. */
static int32_t find_special(const struct tokenizer *t, const char *text, size_t size, bool control,
	size_t *at, size_t *used)
{
	*used = 0;
	for (*at = 0; *at < size; ++*at) {
		int32_t id = special_at(t, text + *at, size - *at, control, used);

		if (id >= 0)
			return id;
	}
	return -1;
}

int32_t tokenizer_find_special(
	const struct tokenizer *t, const char *text, size_t size, size_t *at, size_t *used)
{
	return find_special(t, text, size, true, at, used);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool special,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	struct encoder c = { .t = t, .ids = ids, .n = n, .cap = cap, .e = e };
	size_t at, used;
	int32_t id;
	int rc = 0;

	if (size >= INT32_MAX)
		return err_set(e, ERR_USAGE, "a text of %zu bytes is too long to tokenise", size);
	while (!rc && size) {
		id = find_special(t, text, size, special, &at, &used);
		if (id < 0) {
			rc = t->ops->encode(&c, text, size);
			break;
		}
		rc = t->ops->encode(&c, text, at) || encoder_push(&c, id) ? -1 : 0;
		text += at + used;
		size -= at + used;
	}
	free(c.symbol);
	free(c.heap);
	free(c.text);
	return rc;
}

int tokenizer_encode_prompt(const struct tokenizer *t, const char *text, size_t size, bool *added,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	size_t used = 0;
	const bool add = t->adds_bos && !(size && special_at(t, text, size, true, &used) == t->bos);

	if (added)
		*added = add;
	if (!ARRAY_ROOM(*ids, *cap, *n + 1))
		return err_no_memory(e, "the prompt");
	if (add)
		(*ids)[(*n)++] = t->bos;
	return tokenizer_encode(t, text, size, true, ids, n, cap, e);
}

char *tokenizer_text(
	const struct tokenizer *t, const int32_t *ids, size_t n, bool specials, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);

	for (size_t i = 0; f && i < n; i++) {
		const struct gguf_text b = tokenizer_bytes(t, ids[i]);

		if (specials || !tokenizer_is_special(t, ids[i]))
			fwrite(b.data, 1, b.size, f);
	}
	if (f && !fclose(f))
		return text;
	free(text);
	return NULL;
}
