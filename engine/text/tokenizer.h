/* Text to token ids and back, from the file's own vocabulary. Four kinds (tokenizer.ggml.model):
 *
 *   "gpt2"    byte-level BPE by merges, in words (tokenizer.ggml.pre, see tokenizer_rules.c)
 *   "llama"   SentencePiece by scores, with byte fallback (Llama 2, Mistral, TinyLlama, Gemma,
 * Phi-3) "gemma4"  BPE by merges over the characters of a line, with byte fallback "t5"
 * SentencePiece's Unigram: the cut of the highest score (T5, Flan-T5, XLM-R)
 *
 * Input is bytes: invalid UTF-8 is tokenised byte by byte, never refused. Only "t5" normalises: it
 * reads white space, letters of other widths and the like as others, and an invalid byte as U+FFFD,
 * so that decoding gives the normalised text back. Ownership: who opens
 * closes; thread: read-only after open, so any number of threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/model/gguf.h"

struct tokenizer;

int tokenizer_open(struct tokenizer **t, const struct gguf *g, struct err *e);
void tokenizer_close(struct tokenizer *t);

int32_t tokenizer_n_vocab(const struct tokenizer *t);
/* Ids of control tokens, -1 where the file names none. */
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);
/* What of the file is odd and was ignored, or NULL. */
const char *tokenizer_note(const struct tokenizer *t);
bool tokenizer_adds_bos(const struct tokenizer *t);
/* Whether a whole input ends with eos: of an encoder, since other text is to be continued. */
bool tokenizer_adds_eos(const struct tokenizer *t);
/* True for every token that ends a turn (eos, eot, <|im_end|>, <|eot_id|>, <|endoftext|> …). */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id); /* control tokens */

/* Appends the ids of text to *ids (malloc'd, grown with realloc; *n used, *cap allocated). With
 * special, control tokens written out in the text ("<|im_end|>") become that token; without, they
 * are text. Bytes that have no token in the vocabulary (in SmolLM2: 21, most of them never in
 * UTF-8) are left out, or are the file's unknown token. A SentencePiece file has a space put before
 * a text (unless add_space_prefix forbids it). Text begins where *ids is empty or ends with a
 * special token; after any other id it continues, and gets none. No bos or eos is added. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t size, bool special,
	int32_t **ids, size_t *n, size_t *cap, struct err *e);

/* A byte that byte-level BPE leaves out, as llama.cpp and the tokenizers library do. */
bool tokenizer_drops(const struct tokenizer *t, unsigned char byte);

/* Appends ids as they are. */
int tokenizer_append(
	int32_t **ids, size_t *n, size_t *cap, const int32_t *more, size_t n_more, struct err *e);

/* A text that begins a sequence, without a template: with bos where the file adds it, unless the
 * text spells it out, and control tokens parsed. *added: bos was not in the text; NULL is fine. */
int tokenizer_encode_prompt(const struct tokenizer *t, const char *text, size_t size, bool *added,
	int32_t **ids, size_t *n, size_t *cap, struct err *e);

/* The first control token spelled out in text (the longest, if several begin there): its id, where
 * it begins and its length; -1 if there is none. */
int32_t tokenizer_find_special(
	const struct tokenizer *t, const char *text, size_t size, size_t *at, size_t *used);

/* Bytes of a token; for control tokens their name. Not NUL-terminated, may be part of a
 * character. */
struct gguf_text tokenizer_bytes(const struct tokenizer *t, int32_t id);
/* The same for the first token of an answer: without the one space that a SentencePiece file puts
 * before the first word of a text and that is not part of it. */
struct gguf_text tokenizer_first_bytes(const struct tokenizer *t, int32_t id);
/* Bytes of several, one after the other, malloc'd; NULL: no memory. specials: control tokens by
 * their names, else they are left out. */
char *tokenizer_text(
	const struct tokenizer *t, const int32_t *ids, size_t n, bool specials, size_t *size);
/* control token by name, or -1 */
int32_t tokenizer_id_of(const struct tokenizer *t, const char *name);

/* Tokens that tell a model which part of a text is to be filled in (tokenizer_fim.c). */
enum tokenizer_fim {
	TOKENIZER_FIM_PREFIX,
	TOKENIZER_FIM_SUFFIX,
	TOKENIZER_FIM_MIDDLE,
	TOKENIZER_FIM_REPO, /* a repository's name follows */
	TOKENIZER_FIM_FILE, /* a file's name follows */
	TOKENIZER_FIM_PAD,
	TOKENIZER_N_FIM
};
int32_t tokenizer_fim(const struct tokenizer *t, enum tokenizer_fim which); /* -1: it has none */

/* Streaming decode: whole UTF-8 characters only. Feed the bytes of each token; returns how many
 * bytes of out are ready. Bytes that can never become valid come out as U+FFFD, so a safe cap is 3
 * * size + 4; what does not fit is dropped. utf8_stream_flush gives what is left (an unfinished
 * character as U+FFFD). */
struct utf8_stream {
	unsigned char held[4];
	int n_held, missing; /* missing: text_utf8() of what is held */
};
size_t utf8_stream_feed(
	struct utf8_stream *s, const void *bytes, size_t size, char *out, size_t cap);
size_t utf8_stream_flush(struct utf8_stream *s, char *out, size_t cap);
