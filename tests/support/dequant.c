/* dequant IN.gguf OUT.gguf: the same model with every tensor as F32, for
 * tests/program/test_oracle.py.
 *
 * The metadata are copied byte for byte. The formulas are the plain ones of the format (d*q, d*q +
 * m), on purpose not those of our kernels. Knows Q8_0, Q4_0, Q4_1, Q5_0, Q4_K, Q6_K, F16 and
 * F32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/gguf.h"
#include "tests/support/tiny.h"

static void fail(const char *what)
{
	fprintf(stderr, "dequant: %s\n", what);
	exit(1);
}

static float half(const uint8_t *p)
{
	unsigned h = p[0] | (unsigned)p[1] << 8, exponent = h >> 10 & 31, mantissa = h & 1023;
	double value = exponent == 0 ? mantissa * 0x1p-24 : (1024 + mantissa) * 0x1p-25;
	for (unsigned i = 1; exponent && i < exponent; i++)
		value *= 2;
	value *= exponent ? 2 : 1;
	return (float)(h >> 15 ? -value : value);
}

static void q4_k(const uint8_t *in, float *out)
{
	const uint8_t *s = in + 4, *q = in + 16;
	float d = half(in), least = half(in + 2);

	for (int k = 0; k < 256; k++) {
		int j = k / 32, code = q[k / 64 * 32 + k % 32] >> (k / 32 % 2 * 4) & 15;
		int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
		int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;

		out[k] = d * (float)scale * (float)code - least * (float)minimum;
	}
}

static void q6_k(const uint8_t *in, float *out)
{
	const int8_t *scale = (const int8_t *)in + 192;

	for (int k = 0; k < 256; k++) {
		/* four parts of 32 share a byte of high bits */
		int n = k / 128, part = k / 32 % 4, l = k % 32;
		int low = in[n * 64 + part % 2 * 32 + l] >> (part / 2 * 4) & 15;
		int high = in[128 + n * 32 + l] >> (part * 2) & 3;

		out[k] = half(in + 208) * (float)scale[k / 16] * (float)((low | high << 4) - 32);
	}
}

static void dequantise(const struct gguf_tensor *t, const uint8_t *in, float *out, size_t n)
{
	const int size = k_types[t->type].block_bytes, block = k_types[t->type].block;
	for (size_t i = 0; i < n; i += (size_t)block, in += size) {
		switch (t->type) {
		case K_F32: memcpy(&out[i], in, 4); break;
		case K_F16: out[i] = half(in); break;
		case K_Q8_0:
			for (int k = 0; k < 32; k++)
				out[i + (size_t)k] = half(in) * (float)(int8_t)in[2 + k];
			break;
		case K_Q4_0:
			for (int k = 0; k < 32; k++)
				out[i + (size_t)k] = half(in) * (float)((in[2 + k % 16] >> (k / 16 * 4) & 15) - 8);
			break;
		case K_Q5_0:
			for (int k = 0; k < 32; k++)
				out[i + (size_t)k] = half(in) * (float)(((in[6 + k % 16] >> (k / 16 * 4) & 15) |
															(in[2 + k / 8] >> k % 8 & 1) << 4) -
														16);
			break;
		case K_Q4_K: q4_k(in, out + i); break;
		case K_Q6_K: q6_k(in, out + i); break;
		case K_Q4_1:
			for (int k = 0; k < 32; k++)
				out[i + (size_t)k] =
					half(in) * (float)(in[4 + k % 16] >> (k / 16 * 4) & 15) + half(in + 2);
			break;
		default: fail("a tensor type it does not know");
		}
	}
}

static uint64_t read_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}

/* Bytes of a metadata value (the file has been opened by the engine's reader, so it is sound). */
static size_t value_size(uint32_t type, const uint8_t *p)
{
	static const size_t fixed[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	if (type == 8)
		return 8 + read_u64(p);
	if (type != 9)
		return type < sizeof fixed / sizeof *fixed ? fixed[type] : 0;
	uint32_t item;
	memcpy(&item, p, 4);
	size_t size = 12;
	for (uint64_t n = read_u64(p + 4); n; n--)
		size += value_size(item, p + size);
	return size;
}

/* Where the metadata end. */
static size_t metadata_end(const uint8_t *file)
{
	size_t at = 24;
	for (uint64_t n = read_u64(file + 16); n; n--) {
		uint32_t type;
		at += 8 + read_u64(file + at);
		memcpy(&type, file + at, 4);
		at += 4;
		at += value_size(type, file + at);
	}
	return at;
}

static size_t count(const struct gguf_tensor *t)
{
	size_t n = 1;
	for (int i = 0; i < t->n_dims; i++)
		n *= (size_t)t->dim[i];
	return n;
}

static uint8_t *read_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(size);
	if (!f || !data || fread(data, 1, size, f) != size)
		fail("the model cannot be read");
	fclose(f);
	return data;
}

static void write_head(FILE *out, const struct gguf *g)
{
	uint8_t *file = read_file(gguf_path(g), gguf_file_bytes(g));
	struct bytes b = { 0 };
	uint64_t offset = 0;
	bytes_put(&b, file, metadata_end(file));
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		uint64_t dim[4] = { 0 };
		for (int k = 0; k < t->n_dims; k++)
			dim[k] = (uint64_t)t->dim[k];
		gguf_put_tensor(&b, t->name, (uint32_t)t->n_dims, dim, 0, offset);
		offset += (count(t) * 4 + 31) / 32 * 32;
	}
	bytes_pad(&b, 32);
	if (fwrite(b.data, 1, b.size, out) != b.size)
		fail("the new file cannot be written");
	bytes_free(&b);
	free(file);
}

int main(int argc, char **argv)
{
	struct gguf *g = NULL;
	struct err e = { 0 };
	FILE *out = argc == 3 ? fopen(argv[2], "wb") : NULL;
	if (!out)
		fail("usage: dequant IN.gguf OUT.gguf");
	if (gguf_open(&g, argv[1], &e))
		fail(e.text);
	write_head(out, g);
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		size_t n = count(t), padded = (n * 4 + 31) / 32 * 32;
		float *values = calloc(1, padded);
		if (!values)
			fail("out of memory");
		dequantise(t, t->data, values, n);
		if (fwrite(values, 1, padded, out) != padded)
			fail("the new file cannot be written");
		free(values);
	}
	gguf_close(g);
	return fclose(out) ? 1 : 0;
}
