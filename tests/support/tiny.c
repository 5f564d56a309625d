/* Tiny random models: weights, the file. See tiny.h. */
#include "tests/support/tiny.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ALIGN 32

static const struct k_type_info formats[] = {
#define X(name, id, n, bytes, ...) { #name, id, n, bytes },
	K_TYPES(X)
#undef X
};

/* --- weights --- */

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* About normal, of variance 1: four uniform numbers. Exact, so the same on every machine. */
static float next_normal(uint64_t *state)
{
	uint64_t r = next_random(state);
	int32_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (int32_t)(r >> (16 * i) & 0xffff);
	return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static void put_weights(struct bytes *b, enum k_type type, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += (size_t)formats[type].block)
		tiny_put_block(b, type, x + i);
}

/* --- the file --- */

struct plan {
	char name[64];
	enum k_type type;
	uint64_t cols, rows; /* rows 0: a vector */
	float mean, spread;
};

/* The feed-forward becomes one of experts, whose matrices lie one after the other, with a router.
 */
static int32_t plan_experts(
	const struct tiny_options *o, struct plan *p, int32_t n, int32_t first, int32_t layer)
{
	for (int32_t i = first; o->experts && i < n; i++) {
		char *end = strstr(p[i].name, ".weight");

		if (!strstr(p[i].name, ".ffn_") || !p[i].rows)
			continue;
		p[i].rows *= (uint64_t)o->experts;
		snprintf(end, sizeof p->name - (size_t)(end - p[i].name), "_exps.weight");
	}
	if (!o->experts)
		return n;
	p[n] = (struct plan){ "", K_F32, (uint64_t)o->dim, (uint64_t)o->experts, 0, 1 };
	snprintf(p[n].name, sizeof p->name, "blk.%d.ffn_gate_inp.weight", layer);
	return n + 1;
}

/* Rows of embedding and output have length 2.5, so that logits (dot products with a vector of rms
 * 1) spread by 2.5; the blocks outweigh the embedding, or a tied model would just repeat. Models
 * for measuring spread them by 10: as in real ones, few tokens have most of the probability. */
static int32_t plan_tensors(const struct tiny_options *o, struct plan *p)
{
	uint64_t dim = (uint64_t)o->dim, kv = dim / (uint64_t)o->heads * (uint64_t)o->kv_heads;
	uint64_t ffn = (uint64_t)o->ffn, vocab = (uint64_t)o->vocab;
	const enum k_type more = o->mix ? K_Q6_K : o->type;
	float embd = (o->repeat ? 10.0f : 2.5f) / sqrtf((float)dim), in = 1.5f / sqrtf((float)dim);
	int32_t n = 0;

	p[n++] = (struct plan){ "token_embd.weight", o->embd_type, dim, vocab, 0, embd };
	for (int32_t l = 0; l < o->layers; l++) {
		struct plan layer[] = {
			{ "attn_norm.weight", K_F32, dim, 0, 1, 0.1f },
			{ "attn_q.weight", o->type, dim, dim, 0, in },
			{ "attn_k.weight", o->type, dim, kv, 0, in },
			{ "attn_v.weight", more, dim, kv, 0, in },
			{ "attn_output.weight", o->type, dim, dim, 0, in },
			{ "ffn_norm.weight", K_F32, dim, 0, 1, 0.1f },
			{ "ffn_gate.weight", o->type, dim, ffn, 0, in },
			{ "ffn_up.weight", o->type, dim, ffn, 0, in },
			{ "ffn_down.weight", more, ffn, dim, 0, 1.5f / sqrtf((float)ffn) },
			{ "attn_q.bias", K_F32, dim, 0, 0, 0.3f },
			{ "attn_k.bias", K_F32, kv, 0, 0, 0.3f },
			{ "attn_v.bias", K_F32, kv, 0, 0, 0.3f },
		};
		int32_t n_layer = (int32_t)(sizeof layer / sizeof *layer) - (o->bias ? 0 : 3);

		for (int32_t i = 0; i < n_layer; i++) {
			p[n] = layer[i];
			snprintf(p[n++].name, sizeof p->name, "blk.%d.%.40s", l, layer[i].name);
		}
		n = plan_experts(o, p, n, n - n_layer, l);
	}
	p[n++] = (struct plan){ "output_norm.weight", K_F32, dim, 0, 1, 0.1f };
	if (!o->tied)
		p[n++] = (struct plan){ "output.weight", o->embd_type, dim, vocab, 0, embd };
	return n;
}

static uint64_t plan_values(const struct plan *p)
{
	return p->cols * (p->rows ? p->rows : 1);
}

static void put_arch(struct bytes *b, const struct tiny_options *o)
{
	const struct {
		const char *key;
		int32_t value;
	} keys[] = {
		{ "block_count", o->layers },
		{ "context_length", o->ctx },
		{ "embedding_length", o->dim },
		{ "feed_forward_length", o->ffn },
		{ "attention.head_count", o->heads },
		{ "attention.head_count_kv", o->kv_heads },
		{ "vocab_size", o->vocab },
		{ "rope.dimension_count", o->dim / o->heads },
	};
	char key[80];

	gguf_put_kv_text(b, "general.architecture", o->arch);
	gguf_put_kv_text(b, "general.name", "Tiny random");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].key);
		if (!o->by_layer || strncmp(keys[i].key, "attention.", 10)) {
			gguf_put_kv_u32(b, key, (uint32_t)keys[i].value);
			continue;
		}
		gguf_put_kv_array(b, key, 4, (uint64_t)o->layers);
		for (int32_t l = 0; l < o->layers; l++)
			bytes_u32(b, (uint32_t)keys[i].value >> (l && o->by_layer == 2));
	}
	if (o->experts) {
		snprintf(key, sizeof key, "%s.expert_count", o->arch);
		gguf_put_kv_u32(b, key, (uint32_t)o->experts);
		snprintf(key, sizeof key, "%s.expert_used_count", o->arch);
		gguf_put_kv_u32(b, key, (uint32_t)o->used);
	}
	snprintf(key, sizeof key, "%s.rope.freq_base", o->arch);
	gguf_put_kv_f32(b, key, 10000.0f);
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", o->arch);
	gguf_put_kv_f32(b, key, 1e-5f);
}

static void put_keys(struct bytes *b, const struct tiny_options *o)
{
	for (int i = 0; i < TINY_KEYS && o->key[i].name; i++)
		if (o->key[i].flag)
			gguf_put_kv_bool(b, o->key[i].name, o->key[i].value);
		else
			gguf_put_kv_u32(b, o->key[i].name, o->key[i].value);
}

static uint64_t n_keys(const struct tiny_options *o)
{
	uint64_t n = 0;

	while (n < TINY_KEYS && o->key[n].name)
		n++;
	return n;
}

#define N_ARCH_KV 12 /* of put_arch: 2 + 8 + 2 */

static int check_options(const struct tiny_options *o, struct err *e)
{
	if (o->dim < 32 || o->dim > 1 << 16 || o->dim % 32 || o->ffn < 32 || o->ffn > 1 << 16 ||
		o->ffn % 32)
		return err_set(e, ERR_USAGE, "dim and ffn must be multiples of 32, from 32 to 65536");
	if (o->heads < 1 || o->dim % o->heads || o->dim / o->heads % 2 || o->kv_heads < 1 ||
		o->heads % o->kv_heads)
		return err_set(e, ERR_USAGE, "heads must divide dim evenly, and kv-heads heads");
	if (o->layers < 1 || o->layers > 1024 || o->ctx < 1)
		return err_set(e, ERR_USAGE, "layers must be from 1 to 1024, ctx at least 1");
	if (o->vocab < TINY_MIN_VOCAB || o->vocab > TINY_MOST_VOCAB)
		return err_set(
			e, ERR_USAGE, "vocab must be from %d to %d", TINY_MIN_VOCAB, TINY_MOST_VOCAB);
	if (o->type >= K_N_TYPES || o->embd_type >= K_N_TYPES)
		return err_set(e, ERR_USAGE, "no such tensor type");
	if ((o->mix && (o->dim % 256 || o->ffn % 256)) || o->dim % formats[o->type].block ||
		o->ffn % formats[o->type].block || o->dim % formats[o->embd_type].block)
		return err_set(e, ERR_USAGE, "dim and ffn must be multiples of a type's block: %d and %d",
			formats[o->type].block, formats[o->embd_type].block);
	return tiny_check_tokenizer(o, e);
}

static int write_all(int fd, const uint8_t *data, size_t size, const char *path, struct err *e)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Descriptions, then data, each tensor from its own stream of random numbers. */

/* Numbers made at once: blocks, of which a prime number, so that rows which repeat (tiny.h) begin
 * at different places. Else many tokens had the very same logits, and no model has that. */
enum { CHUNK = 32 * 32749, CHUNK_OF_256 = 256 * 4093 };

static uint64_t chunk_of(enum k_type type)
{
	return formats[type].block == 256 ? CHUNK_OF_256 : CHUNK;
}

/* What is there goes to fd, if there is one, so that a model of any size needs little memory. */
static int flush(struct bytes *b, int fd, const char *path, struct err *e)
{
	int rc = fd < 0 ? 0 : write_all(fd, b->data, b->size, path, e);

	b->size = fd < 0 ? b->size : 0;
	return rc;
}

static size_t values_bytes(enum k_type type, uint64_t n)
{
	return (size_t)(n / (uint64_t)formats[type].block * (uint64_t)formats[type].block_bytes);
}

static int put_numbers(struct bytes *b, const struct plan *p, uint64_t seed, bool repeat, float *x,
	int fd, const char *path, struct err *e)
{
	const uint64_t values = plan_values(p), chunk = chunk_of(p->type);
	const size_t beyond = values_bytes(p->type, values) % ALIGN;
	uint64_t state = seed;

	for (uint64_t from = 0; from < values; from += chunk) {
		const uint64_t n = values - from < chunk ? values - from : chunk;

		if (from && repeat && fd >= 0) { /* they still lie there */
			b->size = values_bytes(p->type, n);
		} else {
			for (uint64_t k = 0; k < n; k++)
				x[k] = p->mean + p->spread * next_normal(&state);
			put_weights(b, p->type, x, n);
		}
		if (from + n == values && beyond)
			bytes_put(b, (const char[ALIGN]){ 0 }, ALIGN - beyond);
		if (flush(b, fd, path, e))
			return -1;
	}
	return 0;
}

static int put_tensors(struct bytes *b, const struct tiny_options *o, const struct plan *p,
	int32_t n, int fd, const char *path, struct err *e)
{
	uint64_t offset = 0;
	float *x;
	int rc;

	for (int32_t i = 0; i < n; i++) {
		const struct k_type_info *f = &formats[p[i].type];
		uint64_t dim[2] = { p[i].cols, p[i].rows }, values = plan_values(&p[i]);

		gguf_put_tensor(b, p[i].name, p[i].rows ? 2 : 1, dim, (uint32_t)f->gguf_id, offset);
		offset += values_bytes(p[i].type, values);
		offset = (offset + ALIGN - 1) / ALIGN * ALIGN;
	}
	bytes_pad(b, ALIGN);
	x = malloc(CHUNK * sizeof *x);
	if (!x)
		abort();
	rc = flush(b, fd, path, e);
	for (int32_t i = 0; i < n && !rc; i++)
		rc = put_numbers(
			b, &p[i], o->seed * 0x632BE59BD9B4E019u + (uint64_t)i, o->repeat, x, fd, path, e);
	free(x);
	return rc;
}

/* To fd, or with -1 all of it to *b. */
static int make(
	const struct tiny_options *o, struct bytes *b, int fd, const char *path, struct err *e)
{
	struct plan *p;
	int32_t n;
	int rc;

	if (check_options(o, e))
		return -1;
	p = calloc((size_t)o->layers * 13 + 3, sizeof *p);
	if (!p)
		abort();
	n = plan_tensors(o, p);
	gguf_put_header(
		b, 3, (uint64_t)n, N_ARCH_KV + (o->experts ? 2 : 0) + tiny_n_tokenizer_kv(o) + n_keys(o));
	put_keys(b, o);
	put_arch(b, o);
	tiny_put_tokenizer(b, o);
	rc = put_tensors(b, o, p, n, fd, path, e);
	free(p);
	return rc;
}

int tiny_make(const struct tiny_options *o, uint8_t **data, size_t *size, struct err *e)
{
	struct bytes b = { 0 };

	if (make(o, &b, -1, NULL, e))
		return -1;
	*data = b.data;
	*size = b.size;
	return 0;
}

int tiny_write(const struct tiny_options *o, const char *path, struct err *e)
{
	struct bytes b = { 0 };
	FILE *f;
	int rc;

	if (check_options(o, e))
		return -1;
	f = fopen(path, "wb");
	if (!f)
		rc = err_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
	else
		rc = make(o, &b, fileno(f), path, e);
	if (f && fclose(f) && !rc)
		rc = err_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
	free(b.data);
	return rc;
}

char *tiny_temp(const struct tiny_options *o, struct err *e)
{
	const char *dir = getenv("TMPDIR");
	char *path = NULL;
	uint8_t *data = NULL;
	size_t size;
	int fd = -1, rc = -1;

	if (asprintf(&path, "%s/tiny-XXXXXX", dir && *dir ? dir : "/tmp") < 0)
		abort();
	if (!tiny_make(o, &data, &size, e)) {
		fd = mkstemp(path);
		rc = fd < 0 ? err_set(e, ERR_IO, "cannot make %s: %s", path, strerror(errno))
					: write_all(fd, data, size, path, e);
	}
	if (fd >= 0)
		close(fd);
	free(data);
	if (rc) {
		free(path);
		return NULL;
	}
	return path;
}

enum k_type tiny_type(const char *name)
{
	int i = 0;

	while (i < K_N_TYPES && strcasecmp(formats[i].name, name))
		i++;
	return (enum k_type)i;
}
