/* Tiny random models for tests: real GGUF files in the small, written in milliseconds, so that no
 * test needs a download. Same options and seed: same bytes. Also the writer under it, for files
 * that lie.
 *
 * The vocabulary is <|endoftext|>, <|im_start|>, <|im_end|> (ids 0, 1, 2), the 256 bytes (ids 3 +
 * byte) and merges trained on a paragraph of English. Weights are scaled so that logits spread by a
 * few units. Thread: any; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

enum { TINY_KEYS = 8 };

struct tiny_options {
	uint64_t seed;
	int32_t dim, layers, heads, kv_heads, ffn, vocab, ctx;
	enum k_type type;      /* of the matrices */
	enum k_type embd_type; /* of the embedding, and of the output matrix if it is separate */
	int32_t experts, used; /* a mixture, of ffn wide experts, in each layer; 0: none */
	bool tied;             /* no separate output matrix */
	bool bias;             /* biases on Q, K and V */
	int by_layer;          /* 1: numbers of heads are arrays, a number a layer; 2: they differ */
	/* a tensor's first million numbers over and over: for large files, in seconds */
	bool repeat;
	bool mix;              /* attn_v and ffn_down are Q6_K whatever the type, as in Q4_K_M files */
	const char *arch;      /* "llama", "qwen2" */
	const char *tokenizer; /* "bpe" (byte-level), "spm" (SentencePiece) or "gemma4" */
	const char *pre;       /* tokenizer.ggml.pre, of "bpe" */
	bool space_prefix;     /* of "spm" and "gemma4" */
	const char *chat;      /* "chatml", "zephyr", "llama2", "none", or a Jinja text */
	struct tiny_key {
		const char *name;
		uint32_t value;
		bool flag;    /* of type bool, else a number */
	} key[TINY_KEYS]; /* further metadata; name NULL: no more */
};
#define TINY_DEFAULTS                                                                              \
	(struct tiny_options)                                                                          \
	{                                                                                              \
		.seed = 1, .dim = 64, .layers = 2, .heads = 4, .kv_heads = 2, .ffn = 128, .vocab = 512,    \
		.ctx = 512, .type = K_Q4_1, .embd_type = K_Q8_0, .tied = true, .arch = "llama",            \
		.tokenizer = "bpe", .pre = "smollm", .space_prefix = true, .chat = "chatml"                \
	}

/* The file in memory, malloc'd. */
int tiny_make(const struct tiny_options *o, uint8_t **data, size_t *size, struct err *e);
/* The same to a file. */
int tiny_write(const struct tiny_options *o, const char *path, struct err *e);
/* The same to a new file under $TMPDIR or /tmp. Its path, malloc'd, or NULL; unlink it when
 * done. */
char *tiny_temp(const struct tiny_options *o, struct err *e);
/* A type by its name ("Q4_1"); K_N_TYPES if there is none. */
enum k_type tiny_type(const char *name);

#define TINY_MIN_VOCAB 259 /* three special tokens and the bytes */
#define TINY_MOST_VOCAB (1 << 20)

/* The part of the file that says how to tokenise (tiny_vocab.c), for tiny_make: whether o makes
 * sense, the number of keys, the keys. */
int tiny_check_tokenizer(const struct tiny_options *o, struct err *e);
struct bytes;
uint64_t tiny_n_tokenizer_kv(const struct tiny_options *o);
void tiny_put_tokenizer(struct bytes *b, const struct tiny_options *o);

/* One block of a type (of one number for F32, F16, BF16), rounded simply: scales from the
 * extremes. */
void tiny_put_block(struct bytes *b, enum k_type type, const float *x);

/* Growing bytes, little-endian. Out of memory aborts: these are tests. */
struct bytes {
	uint8_t *data;
	size_t size, cap;
};
void bytes_put(struct bytes *b, const void *data, size_t size);
void bytes_u32(struct bytes *b, uint32_t v);
void bytes_u64(struct bytes *b, uint64_t v);
void bytes_pad(struct bytes *b, size_t align); /* zeros up to a multiple of align */
void bytes_free(struct bytes *b);

/* Parts of a GGUF file. Types are those of the format's metadata (4: u32, 6: f32, 8: string …). */
void gguf_put_header(struct bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv);
void gguf_put_string(struct bytes *b, const char *s, size_t size);
void gguf_put_kv(struct bytes *b, const char *key, uint32_t type, const void *value, size_t size);
void gguf_put_kv_u32(struct bytes *b, const char *key, uint32_t v);
void gguf_put_kv_f32(struct bytes *b, const char *key, float v);
void gguf_put_kv_bool(struct bytes *b, const char *key, bool v);
void gguf_put_kv_text(struct bytes *b, const char *key, const char *v);
void gguf_put_kv_array(struct bytes *b, const char *key, uint32_t item, uint64_t n);
void gguf_put_tensor(struct bytes *b, const char *name, uint32_t n_dims, const uint64_t *dim,
	uint32_t type, uint64_t offset);

/* Set-up and teardown of a group of tests: one model of the defaults for all of them. One
 * thread. */
extern char *tiny_model; /* its path */
int tiny_model_make(void **state);
int tiny_model_drop(void **state);
/* The i-th of prompts for drafters: by turns one that repeats itself, and one in which there is
 * nothing to find, which is to be answered at a temperature. */
enum { TINY_PROMPT = 70 };
float tiny_prompt(int i, int32_t ids[TINY_PROMPT]); /* the temperature */
