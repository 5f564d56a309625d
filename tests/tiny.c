/* Tiny random models: vocabulary, weights, the file. See tiny.h. */
#include "tests/tiny.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define N_SPECIAL 3
#define N_FIRST (N_SPECIAL + 256) /* tokens before the first merge */
#define ALIGN 32

static const struct k_type_info formats[] = {
#define X(name, id, n, bytes) {#name, id, n, bytes},
	K_TYPES(X)
#undef X
};

static const char *const special_names[N_SPECIAL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static const char sample[] =
	"The cache holds the keys and the values of every token that the model has read. A page "
	"holds sixteen of them, and a table says which page comes next. When two requests begin with "
	"the same words they share the pages of those words, and only what differs is computed "
	"again. When there are no free pages, the page that was not used for the longest time is "
	"given away. The sampler takes the logits, divides them by the temperature, cuts what is not "
	"likely, and draws. The draft guesses what the model would say, and the model checks all of "
	"the guesses in one step: those that it would have said are kept, and the first that it "
	"would not have said is thrown away. user system assistant You are a helpful AI assistant "
	"named SmolLM, trained by Hugging Face. What is this? It is a small model, with small "
	"numbers, for the tests of the engine and the tools.";

static const char chatml[] =
	"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
	"{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
	"<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
	"'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
	"{{ '<|im_start|>assistant\n' }}{% endif %}";

/* --- vocabulary: byte pairs trained on the sample --- */

struct pair {
	int32_t left, right;
};

/* The most frequent pair inside words; ties go to the first. False if none comes twice. */
static bool best_pair(const int32_t *ids, int32_t n, struct pair *best)
{
	int32_t most = 1;

	for (int32_t i = 0; i + 1 < n; i++) {
		int32_t count = 0;

		if (ids[i + 1] == N_SPECIAL + ' ') /* words keep the space before them, not after */
			continue;
		for (int32_t k = i; k + 1 < n; k++)
			count += ids[k] == ids[i] && ids[k + 1] == ids[i + 1];
		if (count > most) {
			most = count;
			*best = (struct pair){ids[i], ids[i + 1]};
		}
	}
	return most > 1;
}

static int32_t apply_pair(int32_t *ids, int32_t n, struct pair p, int32_t out)
{
	int32_t used = 0;

	for (int32_t i = 0; i < n; i++) {
		bool hit = i + 1 < n && ids[i] == p.left && ids[i + 1] == p.right;

		ids[used++] = hit ? out : ids[i];
		i += hit;
	}
	return used;
}

/* n merges; when the sample has no more to give, pairs of low bytes that no text needs. */
static void train(struct pair *merge, int32_t n)
{
	int32_t ids[sizeof sample], size = (int32_t)sizeof sample - 1, spare = 0;
	bool more = true;

	for (int32_t i = 0; i < size; i++)
		ids[i] = N_SPECIAL + (unsigned char)sample[i];
	for (int32_t i = 0; i < n; i++) {
		more = more && best_pair(ids, size, &merge[i]);
		if (more)
			size = apply_pair(ids, size, merge[i], N_FIRST + i);
		else
			merge[i] =
				(struct pair){N_SPECIAL + 0x80 + spare / 128, N_SPECIAL + 0x80 + spare % 128};
		spare += !more;
	}
}

/* A byte as the byte alphabet writes it (Radford et al. 2019, encoder.py). */
static void put_alphabet(struct bytes *b, int byte)
{
	int c = byte, low = 0;
	char utf8[2];

	if (!((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad))) {
		for (int i = 0; i < byte; i++)
			low += !((i >= 0x21 && i <= 0x7e) || (i >= 0xa1 && i != 0xad));
		c = 256 + low;
	}
	if (c < 0x80) {
		bytes_put(b, &(char){(char)c}, 1);
		return;
	}
	utf8[0] = (char)(0xc0 | c >> 6);
	utf8[1] = (char)(0x80 | (c & 0x3f));
	bytes_put(b, utf8, 2);
}

static void put_token_text(struct bytes *b, const struct pair *merge, int32_t id)
{
	if (id >= N_FIRST) {
		put_token_text(b, merge, merge[id - N_FIRST].left);
		put_token_text(b, merge, merge[id - N_FIRST].right);
	} else {
		put_alphabet(b, id - N_SPECIAL);
	}
}

static void put_vocabulary(struct bytes *b, int32_t vocab)
{
	int32_t n_merges = vocab - N_FIRST;
	struct pair *merge = calloc((size_t)n_merges + 1, sizeof *merge);
	struct bytes text = {0};

	if (!merge)
		abort();
	train(merge, n_merges);
	gguf_put_kv_array(b, "tokenizer.ggml.tokens", 8, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++) {
		text.size = 0;
		if (id < N_SPECIAL)
			bytes_put(&text, special_names[id], strlen(special_names[id]));
		else
			put_token_text(&text, merge, id);
		gguf_put_string(b, (char *)text.data, text.size);
	}
	gguf_put_kv_array(b, "tokenizer.ggml.token_type", 5, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++)
		bytes_u32(b, id < N_SPECIAL ? 3 : 1);
	gguf_put_kv_array(b, "tokenizer.ggml.merges", 8, (uint64_t)n_merges);
	for (int32_t i = 0; i < n_merges; i++) {
		text.size = 0;
		put_token_text(&text, merge, merge[i].left);
		bytes_put(&text, " ", 1);
		put_token_text(&text, merge, merge[i].right);
		gguf_put_string(b, (char *)text.data, text.size);
	}
	free(merge);
	bytes_free(&text);
}

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

static uint16_t to_f16(float x)
{
	uint32_t u, sign, magnitude, rest;
	int shift;

	memcpy(&u, &x, sizeof u);
	sign = u >> 16 & 0x8000;
	magnitude = u & 0x7fffffff;
	if (magnitude >= 0x47800000)
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x33000000)
		return (uint16_t)sign;
	if (magnitude >= 0x38800000) { /* normal: rebias, drop 13 bits, ties to even */
		magnitude -= 0x38000000;
		return (uint16_t)(sign | (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13);
	}
	shift = 126 - (int)(magnitude >> 23);
	magnitude = (magnitude & 0x7fffff) | 0x800000;
	rest = magnitude & ((1u << shift) - 1);
	magnitude >>= shift;
	magnitude += rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (magnitude & 1));
	return (uint16_t)(sign | magnitude);
}

static float from_f16(uint16_t h)
{
	int e = h >> 10 & 31;
	float m = (float)(h & 0x3ff);

	m = e ? ldexpf(m + 1024.0f, e - 25) : ldexpf(m, -24);
	return h & 0x8000 ? -m : m;
}

static void put_u16(struct bytes *b, uint16_t v)
{
	bytes_put(b, &v, sizeof v);
}

static int clamp_round(float x, int low, int high)
{
	int q = (int)floorf(x + 0.5f);

	return q < low ? low : q > high ? high : q;
}

static void put_q8_0(struct bytes *b, const float *x)
{
	float most = 0;
	uint16_t d;

	for (int i = 0; i < 32; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	d = to_f16(most / 127.0f);
	put_u16(b, d);
	for (int i = 0; i < 32; i++) {
		int8_t q = (int8_t)(d ? clamp_round(x[i] / from_f16(d), -127, 127) : 0);

		bytes_put(b, &q, 1);
	}
}

/* Q4_0 (value = d * (q - 8)) and Q4_1 (value = d * q + m): low nibbles hold the first 16 values. */
static void put_q4(struct bytes *b, const float *x, bool with_min)
{
	float low = x[0], high = x[0], bottom;
	uint16_t d, m;

	for (int i = 1; i < 32; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	d = to_f16(with_min ? (high - low) / 15.0f : (high > -low ? high : -low) / 7.5f);
	m = to_f16(low);
	bottom = with_min ? from_f16(m) : -8.0f * from_f16(d);
	put_u16(b, d);
	if (with_min)
		put_u16(b, m);
	for (int i = 0; i < 16; i++) {
		int a = d ? clamp_round((x[i] - bottom) / from_f16(d), 0, 15) : 0;
		int c = d ? clamp_round((x[i + 16] - bottom) / from_f16(d), 0, 15) : 0;
		uint8_t both = (uint8_t)(a | c << 4);

		bytes_put(b, &both, 1);
	}
}

static void put_weights(struct bytes *b, enum k_type type, const float *x, size_t n)
{
	uint32_t u;

	for (size_t i = 0; i < n; i += (size_t)formats[type].block) {
		switch (type) {
		case K_F32:
			bytes_put(b, &x[i], 4);
			break;
		case K_F16:
			put_u16(b, to_f16(x[i]));
			break;
		case K_BF16:
			memcpy(&u, &x[i], 4);
			put_u16(b, (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16));
			break;
		case K_Q8_0:
			put_q8_0(b, x + i);
			break;
		default:
			put_q4(b, x + i, type == K_Q4_1);
		}
	}
}

/* --- the file --- */

struct plan {
	char name[64];
	enum k_type type;
	uint64_t cols, rows; /* rows 0: a vector */
	float mean, spread;
};

/* Rows of embedding and output have length 2.5, so that logits (dot products with a vector of rms
 * 1) spread by 2.5; the blocks outweigh the embedding, or a tied model would just repeat. */
static int32_t plan_tensors(const struct tiny_options *o, struct plan *p)
{
	uint64_t dim = (uint64_t)o->dim, kv = dim / (uint64_t)o->heads * (uint64_t)o->kv_heads;
	uint64_t ffn = (uint64_t)o->ffn, vocab = (uint64_t)o->vocab;
	float embd = 2.5f / sqrtf((float)dim), in = 1.5f / sqrtf((float)dim);
	int32_t n = 0;

	p[n++] = (struct plan){"token_embd.weight", o->embd_type, dim, vocab, 0, embd};
	for (int32_t l = 0; l < o->layers; l++) {
		struct plan layer[] = {
			{"attn_norm.weight", K_F32, dim, 0, 1, 0.1f},
			{"attn_q.weight", o->type, dim, dim, 0, in},
			{"attn_k.weight", o->type, dim, kv, 0, in},
			{"attn_v.weight", o->type, dim, kv, 0, in},
			{"attn_output.weight", o->type, dim, dim, 0, in},
			{"ffn_norm.weight", K_F32, dim, 0, 1, 0.1f},
			{"ffn_gate.weight", o->type, dim, ffn, 0, in},
			{"ffn_up.weight", o->type, dim, ffn, 0, in},
			{"ffn_down.weight", o->type, ffn, dim, 0, 1.5f / sqrtf((float)ffn)},
			{"attn_q.bias", K_F32, dim, 0, 0, 0.3f},
			{"attn_k.bias", K_F32, kv, 0, 0, 0.3f},
			{"attn_v.bias", K_F32, kv, 0, 0, 0.3f},
		};
		int32_t n_layer = (int32_t)(sizeof layer / sizeof *layer) - (o->bias ? 0 : 3);

		for (int32_t i = 0; i < n_layer; i++) {
			p[n] = layer[i];
			snprintf(p[n++].name, sizeof p->name, "blk.%d.%.40s", l, layer[i].name);
		}
	}
	p[n++] = (struct plan){"output_norm.weight", K_F32, dim, 0, 1, 0.1f};
	if (!o->tied)
		p[n++] = (struct plan){"output.weight", o->embd_type, dim, vocab, 0, embd};
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
		{"block_count", o->layers},			{"context_length", o->ctx},
		{"embedding_length", o->dim},		{"feed_forward_length", o->ffn},
		{"attention.head_count", o->heads}, {"attention.head_count_kv", o->kv_heads},
		{"vocab_size", o->vocab},			{"rope.dimension_count", o->dim / o->heads},
	};
	char key[80];

	gguf_put_kv_text(b, "general.architecture", o->arch);
	gguf_put_kv_text(b, "general.name", "Tiny random");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].key);
		gguf_put_kv_u32(b, key, (uint32_t)keys[i].value);
	}
	snprintf(key, sizeof key, "%s.rope.freq_base", o->arch);
	gguf_put_kv_f32(b, key, 10000.0f);
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", o->arch);
	gguf_put_kv_f32(b, key, 1e-5f);
}

#define N_KV 21 /* 2 + 8 + 2 of put_arch, 9 of put_tokenizer */

static void put_tokenizer(struct bytes *b, const struct tiny_options *o)
{
	gguf_put_kv_text(b, "tokenizer.ggml.model", "gpt2");
	gguf_put_kv_text(b, "tokenizer.ggml.pre", o->pre);
	gguf_put_kv_u32(b, "tokenizer.ggml.bos_token_id", 1);
	gguf_put_kv_u32(b, "tokenizer.ggml.eos_token_id", 2);
	gguf_put_kv_bool(b, "tokenizer.ggml.add_bos_token", false);
	put_vocabulary(b, o->vocab);
	if (!strcmp(o->chat, "chatml"))
		gguf_put_kv_text(b, "tokenizer.chat_template", chatml);
}

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
	if (o->vocab < N_FIRST || o->vocab > N_FIRST + 16384)
		return err_set(e, ERR_USAGE, "vocab must be from %d to %d", N_FIRST, N_FIRST + 16384);
	if (o->type >= K_N_TYPES || o->embd_type >= K_N_TYPES)
		return err_set(e, ERR_USAGE, "no such tensor type");
	if (strcmp(o->chat, "chatml") && strcmp(o->chat, "none"))
		return err_set(e, ERR_USAGE, "template must be chatml or none");
	return 0;
}

/* Descriptions, then data, each tensor from its own stream of random numbers. */
static void put_tensors(struct bytes *b, const struct tiny_options *o, const struct plan *p,
						int32_t n)
{
	uint64_t offset = 0, most = 0;
	float *x;

	for (int32_t i = 0; i < n; i++) {
		const struct k_type_info *f = &formats[p[i].type];
		uint64_t dim[2] = {p[i].cols, p[i].rows}, values = plan_values(&p[i]);

		gguf_put_tensor(b, p[i].name, p[i].rows ? 2 : 1, dim, (uint32_t)f->gguf_id, offset);
		offset += values / (uint64_t)f->block * (uint64_t)f->block_bytes;
		offset = (offset + ALIGN - 1) / ALIGN * ALIGN;
		most = values > most ? values : most;
	}
	bytes_pad(b, ALIGN);
	x = malloc(most * sizeof *x);
	if (!x)
		abort();
	for (int32_t i = 0; i < n; i++) {
		uint64_t state = o->seed * 0x632BE59BD9B4E019u + (uint64_t)i, values = plan_values(&p[i]);

		for (uint64_t k = 0; k < values; k++)
			x[k] = p[i].mean + p[i].spread * next_normal(&state);
		put_weights(b, p[i].type, x, values);
		bytes_pad(b, ALIGN);
	}
	free(x);
}

int tiny_make(const struct tiny_options *o, uint8_t **data, size_t *size, struct err *e)
{
	struct bytes b = {0};
	struct plan *p;
	int32_t n;

	if (check_options(o, e))
		return -1;
	p = calloc((size_t)o->layers * 12 + 3, sizeof *p);
	if (!p)
		abort();
	n = plan_tensors(o, p);
	gguf_put_header(&b, 3, (uint64_t)n, N_KV - (strcmp(o->chat, "chatml") ? 1 : 0));
	put_arch(&b, o);
	put_tokenizer(&b, o);
	put_tensors(&b, o, p, n);
	free(p);
	*data = b.data;
	*size = b.size;
	return 0;
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

int tiny_write(const struct tiny_options *o, const char *path, struct err *e)
{
	uint8_t *data;
	size_t size;
	FILE *f;
	int rc;

	if (tiny_make(o, &data, &size, e))
		return -1;
	f = fopen(path, "wb");
	if (!f)
		rc = err_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
	else
		rc = write_all(fileno(f), data, size, path, e);
	if (f && fclose(f) && !rc)
		rc = err_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
	free(data);
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
