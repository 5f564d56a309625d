/* See tiny_draft.h. Logits of these drafters are small: at a temperature the race's random numbers
 * then decide, which are the target's, so that some guesses are right. */
#include "tests/support/tiny_draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 640, ALIGN = 32 };

struct plan {
	struct {
		char name[48];
		uint64_t cols, rows; /* rows 0: a vector */
		float mean;
	} tensor[MOST];
	int32_t n;
};

static void add(struct plan *p, const char *name, uint64_t cols, uint64_t rows, float mean)
{
	snprintf(p->tensor[p->n].name, sizeof p->tensor[p->n].name, "%s", name);
	p->tensor[p->n].cols = cols;
	p->tensor[p->n].rows = rows;
	p->tensor[p->n++].mean = mean;
}

static void add_layer(struct plan *p, const struct tiny_options *t, int32_t i)
{
	uint64_t dim = (uint64_t)t->dim, kv = dim / (uint64_t)t->heads * (uint64_t)t->kv_heads,
			 ffn = (uint64_t)t->ffn;
	const struct {
		const char *name;
		uint64_t cols, rows;
	} parts[] = {
		{ "attn_norm", dim, 0 },
		{ "attn_q", dim, dim },
		{ "attn_k", dim, kv },
		{ "attn_v", dim, kv },
		{ "attn_output", dim, dim },
		{ "ffn_norm", dim, 0 },
		{ "ffn_gate", dim, ffn },
		{ "ffn_up", dim, ffn },
		{ "ffn_down", ffn, dim },
	};
	char name[48];

	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
		snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[k].name);
		add(p, name, parts[k].cols, parts[k].rows, 1);
	}
}

static void plan_tensors(
	struct plan *p, const struct tiny_options *t, const struct tiny_draft_options *o)
{
	static const char *const parts[] = { "norm", "gate", "up", "down", "output_norm" };
	uint64_t dim = (uint64_t)t->dim, ffn = (uint64_t)t->ffn;
	char name[48];

	if (!strcmp(o->kind, "eagle")) {
		add(p, "fc.embed.weight", dim, dim, 0);
		add(p, "fc.hidden.weight", dim, dim, 0);
		add(p, "fc.embed_norm.weight", dim, 0, 1);
		add(p, "fc.hidden_norm.weight", dim, 0, 1);
		for (int32_t i = 0; i < o->n_lower; i++) {
			snprintf(name, sizeof name, "fc.lower.%d.weight", i);
			add(p, name, dim, dim, 0);
			snprintf(name, sizeof name, "fc.lower.%d_norm.weight", i);
			add(p, name, dim, 0, 1);
		}
		add_layer(p, t, 0);
	}
	for (int32_t i = 0; !strcmp(o->kind, "model") && i < o->layers; i++)
		add_layer(p, t, i);
	for (int32_t i = 0; !strcmp(o->kind, "medusa") && i < o->heads; i++)
		for (int k = 0; k < 5; k++) {
			snprintf(name, sizeof name, "medusa.%d.%s.weight", i, parts[k]);
			add(p, name, k == 3 ? ffn : dim,
				k == 0 || k == 4 ? 0
				: k == 3         ? dim
								 : ffn,
				k == 4 ? 0.1f : 1);
		}
	if (strcmp(o->kind, "medusa"))
		add(p, "output_norm.weight", dim, 0, 0.1f);
	for (int32_t i = 0; o->drop && i < p->n; i++)
		if (!strcmp(p->tensor[i].name, o->drop))
			p->tensor[i] = p->tensor[--p->n];
	for (int32_t i = 0; i < p->n; i++)
		if (p->tensor[i].rows) {
			p->tensor[i].rows += (uint64_t)o->extra_rows;
			break;
		}
}

static bool has(const struct tiny_draft_options *o, const char *key)
{
	return !o->drop || strcmp(o->drop, key);
}

/* Every other id, then on to the end. */
static void put_ids(struct bytes *b, const struct tiny_draft_options *o, int32_t vocab)
{
	gguf_put_kv_array(b, "cutaway.draft.ids", 5, (uint64_t)o->n_ids);
	for (int32_t i = 0; i < o->n_ids; i++) {
		int32_t left = o->n_ids - i, id = 2 * i;

		if (vocab - id < left)
			id = vocab - left;
		bytes_u32(b, (uint32_t)(o->bad_id && left == 1 ? o->bad_id : id));
	}
}

static void put_keys(
	struct bytes *b, const struct tiny_options *t, const struct tiny_draft_options *o)
{
	if (has(o, "architecture"))
		gguf_put_kv_text(b, "general.architecture", "cutaway-draft");
	if (has(o, "kind"))
		gguf_put_kv_text(b, "cutaway.draft.kind", o->kind);
	if (has(o, "dim"))
		gguf_put_kv_u32(b, "cutaway.draft.dim", (uint32_t)(o->dim ? o->dim : t->dim));
	if (has(o, "vocab"))
		gguf_put_kv_u32(b, "cutaway.draft.vocab", (uint32_t)(o->vocab ? o->vocab : t->vocab));
	if (has(o, "vocab_hash"))
		gguf_put_kv_text(b, "cutaway.draft.vocab_hash", o->hash);
	if (o->n_ids)
		put_ids(b, o, t->vocab);
	if (o->n_lower)
		gguf_put_kv_array(b, "cutaway.draft.lower", 5, (uint64_t)o->n_lower);
	for (int32_t i = 0; i < o->n_lower; i++)
		bytes_u32(b, (uint32_t)o->lower[i]);
	if (has(o, "layers"))
		gguf_put_kv_u32(b, "cutaway.draft.layers", (uint32_t)o->layers);
	if (has(o, "heads"))
		gguf_put_kv_u32(b, "cutaway.draft.heads", (uint32_t)o->heads);
}

static uint64_t count_keys(const struct tiny_draft_options *o)
{
	static const char *const keys[] = { "architecture", "kind", "dim", "vocab", "vocab_hash",
		"layers", "heads" };
	uint64_t n = (o->n_ids > 0) + (o->n_lower > 0);

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		n += has(o, keys[i]);
	return n;
}

static enum k_type type_of(const struct plan *p, int32_t i, const struct tiny_draft_options *o)
{
	return p->tensor[i].rows ? o->type : K_F32;
}

static float random_value(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (float)(int32_t)(*s >> 33) * 0x1p-30f - 1;
}

static void put_data(struct bytes *b, const struct plan *p, const struct tiny_draft_options *o)
{
	uint64_t state = o->seed;
	float x[256];

	for (int32_t i = 0; i < p->n; i++) {
		uint64_t n = p->tensor[i].cols * (p->tensor[i].rows ? p->tensor[i].rows : 1);
		int32_t block = k_types[type_of(p, i, o)].block;

		for (uint64_t at = 0; at < n; at += (uint64_t)block) {
			for (int32_t k = 0; k < block; k++)
				x[k] = p->tensor[i].rows ? 0.2f * random_value(&state)
										 : p->tensor[i].mean * (1 + 0.1f * random_value(&state));
			tiny_put_block(b, type_of(p, i, o), x);
		}
		bytes_pad(b, ALIGN);
	}
}

static void make(struct bytes *b, const struct tiny_options *t, const struct tiny_draft_options *o)
{
	struct plan p = { .n = 0 };
	uint64_t offset = 0;

	plan_tensors(&p, t, o);
	gguf_put_header(b, 3, (uint64_t)p.n, count_keys(o));
	put_keys(b, t, o);
	for (int32_t i = 0; i < p.n; i++) {
		const struct k_type_info *f = &k_types[type_of(&p, i, o)];
		uint64_t dim[2] = { p.tensor[i].cols, p.tensor[i].rows };

		gguf_put_tensor(b, p.tensor[i].name, dim[1] ? 2 : 1, dim, (uint32_t)f->gguf_id, offset);
		offset += dim[0] * (dim[1] ? dim[1] : 1) / (uint64_t)f->block * (uint64_t)f->block_bytes;
		offset = (offset + ALIGN - 1) / ALIGN * ALIGN;
	}
	bytes_pad(b, ALIGN);
	put_data(b, &p, o);
}

char *tiny_draft_temp(
	const struct tiny_options *target, const struct tiny_draft_options *o, struct err *e)
{
	const char *dir = getenv("TMPDIR");
	struct bytes b = { 0 };
	char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/tiny-draft-XXXXXX.gguf", dir && *dir ? dir : "/tmp") < 0)
		abort();
	make(&b, target, o);
	fd = mkstemps(path, 5);
	if (fd < 0 || write(fd, b.data, b.size) != (ssize_t)b.size) {
		err_set(e, ERR_IO, "cannot make %s", path);
		free(path);
		path = NULL;
	}
	if (fd >= 0)
		close(fd);
	free(b.data);
	return path;
}
