/* Pre-tokenizers: where text is cut into words before byte pairs are merged. Private to the
 * tokenizer.
 *
 * Each is a regular expression of the model's authors, written as a scanner (linear in the text).
 * Unicode categories come from utf8proc. A byte that is not part of valid UTF-8 counts as a
 * character that is neither letter, number nor space. Thread: any; no state. */
#ifndef CUTAWAY_ENGINE_TOKENIZER_PRE_H
#define CUTAWAY_ENGINE_TOKENIZER_PRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pre_kind {
	PRE_GPT2,
	PRE_SMOLLM,
	PRE_LLAMA3,
	PRE_QWEN2,
};

/* The kind of this name in tokenizer.ggml.pre; -1 if there is none. */
int pre_by_name(const char *name, size_t size);
/* The names, for an error message. */
extern const char pre_names[];

/* Bytes of the first word of text; at least 1 unless size is 0. */
size_t pre_next(enum pre_kind kind, const char *text, size_t size);

/* White_Space of Unicode. */
bool pre_is_space(int32_t point);

#endif
