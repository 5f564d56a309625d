/* vocab_ids MODEL [INP]: a line of ids for each text of a file of texts that llama.cpp's
 * vocabularies are tested with (ggml-vocab-*.gguf.inp); control tokens in a text are text. Without
 * INP: says whether the vocabulary opens. For tests/program/test_vocab.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/tokenizer.h"

static const char between[] = "\n__ggml_vocab_test__\n";

static int print_text(const struct tokenizer *t, const char *text, size_t size, struct err *e)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	int rc = tokenizer_encode(t, text, size, false, &ids, &n, &cap, e);

	for (size_t i = 0; i < n && !rc; i++)
		printf(" %d", ids[i]);
	puts("");
	free(ids);
	return rc;
}

static int print_all(const struct tokenizer *t, const char *path, struct err *e)
{
	static char text[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
	char *at = text, *end;

	if (f)
		fclose(f);
	text[size] = '\0';
	for (; (end = strstr(at, between)); at = end + sizeof between - 1)
		if (print_text(t, at, (size_t)(end - at), e))
			return -1;
	return print_text(t, at, strlen(at), e);
}

int main(int argc, char **argv)
{
	struct tokenizer *t = NULL;
	struct gguf *g = NULL;
	struct err e = { 0 };
	int rc = argc < 2 || gguf_open(&g, argv[1], &e) || tokenizer_open(&t, g, &e) ||
			 (argc > 2 && print_all(t, argv[2], &e));

	if (rc)
		fprintf(stderr, "%s\n", argc < 2 ? "vocab_ids MODEL [INP]" : e.text);
	tokenizer_close(t);
	gguf_close(g);
	return rc;
}
