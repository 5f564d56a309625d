/* mktiny: writes a tiny random model, so that tests need no download. See tiny.h. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tiny.h"

static const char usage[] =
	"usage: mktiny [options] OUT.gguf\n"
	"  --seed N --dim N --layers N --heads N --kv-heads N --ffn N --vocab N --ctx N\n"
	"  --type T         of the matrices (default Q4_1); --types lists them all, and what --dim "
	"and\n"
	"                   --ffn must then be multiples of\n"
	"  --embd-type T    of the embedding (default Q8_0)\n"
	"  --tied 0|1       0: a separate output matrix (default 1)\n"
	"  --repeat         a tensor's first million numbers over and over: large files in seconds\n"
	"  --bias           biases on Q, K and V\n"
	"  --arch NAME      llama (default), qwen2\n"
	"  --tokenizer T    bpe (byte-level, default), spm (SentencePiece; template zephyr), gemma4\n"
	"  --pre NAME       of bpe: smollm (default), llama-bpe, qwen2, gpt-2 …\n"
	"  --key NAME=N     further metadata, a number, true or false; may be repeated\n"
	"  --template NAME  chatml (default), zephyr, llama2, none, or a file's path\n";

static const struct option options[] = {
	{ "seed", 1, NULL, 's' },
	{ "dim", 1, NULL, 'd' },
	{ "layers", 1, NULL, 'l' },
	{ "heads", 1, NULL, 'h' },
	{ "kv-heads", 1, NULL, 'k' },
	{ "ffn", 1, NULL, 'f' },
	{ "vocab", 1, NULL, 'v' },
	{ "ctx", 1, NULL, 'c' },
	{ "type", 1, NULL, 't' },
	{ "tied", 1, NULL, 'T' },
	{ "embd-type", 1, NULL, 'e' },
	{ "bias", 0, NULL, 'b' },
	{ "repeat", 0, NULL, 'r' },
	{ "types", 0, NULL, 'L' },
	{ "arch", 1, NULL, 'a' },
	{ "pre", 1, NULL, 'p' },
	{ "template", 1, NULL, 'm' },
	{ "tokenizer", 1, NULL, 'z' },
	{ "key", 1, NULL, 'K' },
	{ NULL, 0, NULL, 0 },
};

/* Of a file, kept till the end. */
static const char *text_of(const char *path)
{
	static char text[1 << 20];
	FILE *f = fopen(path, "r");
	const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

	text[n] = '\0';
	if (f)
		fclose(f);
	return text;
}

static bool set_number(struct tiny_options *o, int key, const char *text)
{
	char *end;
	long v = strtol(text, &end, 10);
	int32_t *field = key == 'd'   ? &o->dim
					 : key == 'l' ? &o->layers
					 : key == 'h' ? &o->heads
					 : key == 'k' ? &o->kv_heads
					 : key == 'f' ? &o->ffn
					 : key == 'v' ? &o->vocab
					 : key == 'c' ? &o->ctx
								  : NULL;

	if (!*text || *end || v < 0 || v > INT32_MAX)
		return false;
	if (key == 's')
		o->seed = (uint64_t)v;
	else if (key == 'T')
		o->tied = v != 0;
	else if (field)
		*field = (int32_t)v;
	return field || key == 's' || key == 'T';
}

static bool add_key(struct tiny_options *o, char *text)
{
	char *is = strchr(text, '=');
	int n = 0;

	while (n < TINY_KEYS && o->key[n].name)
		n++;
	if (!is || n == TINY_KEYS)
		return false;
	*is++ = '\0';
	o->key[n] = (struct tiny_key){ .name = text,
		.value = !strcmp(is, "true") ? 1 : (uint32_t)strtoul(is, NULL, 10),
		.flag = !strcmp(is, "true") || !strcmp(is, "false") };
	return true;
}

static int list_types(void)
{
#define X(name, id, n, ...) printf("%s %d\n", #name, n < 32 ? 32 : n);
	K_TYPES(X)
#undef X
	return 0;
}

int main(int argc, char **argv)
{
	struct tiny_options o = TINY_DEFAULTS;
	const char *chat = NULL;
	struct err e = { 0 };
	int key;
	bool ok = true;

	while (ok && (key = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (key == 'L')
			return list_types();
		if (key == 't')
			o.type = tiny_type(optarg);
		else if (key == 'e')
			o.embd_type = tiny_type(optarg);
		else if (key == 'b')
			o.bias = true;
		else if (key == 'r')
			o.repeat = true;
		else if (key == 'a')
			o.arch = optarg;
		else if (key == 'p')
			o.pre = optarg;
		else if (key == 'm')
			chat = strchr(optarg, '/') ? text_of(optarg) : optarg;
		else if (key == 'z')
			o.tokenizer = optarg;
		else if (key == 'K')
			ok = add_key(&o, optarg);
		else
			ok = key != '?' && set_number(&o, key, optarg);
	}
	o.chat = chat ? chat : !strcmp(o.tokenizer, "spm") ? "zephyr" : o.chat;
	if (!ok || optind + 1 != argc) {
		fputs(usage, stderr);
		return ERR_USAGE;
	}
	if (tiny_write(&o, argv[optind], &e)) {
		fprintf(stderr, "mktiny: %s\n", e.text);
		return (int)e.code;
	}
	return 0;
}
