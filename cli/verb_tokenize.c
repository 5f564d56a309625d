/* cutaway tokenize: standard input to token ids. Thread: main's. */
#include "base/json.h"
#include "base/text.h"
#include "cli/open.h"
#include "cli/out.h"
#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"

static struct tokenize_opts {
	bool plain;
} opts;

static const struct setting tokenize_own[] = {
	OWN(FLAG, tokenize_opts, plain, "plain", "Output",
		"control tokens written in the text are text"),
	{ 0 },
};

static void tell_dropped(const struct tokenizer *t, const char *text, size_t size)
{
	char list[256 * 3 + 1] = "";
	bool seen[256] = { false };
	size_t dropped = 0, used = 0;

	for (size_t i = 0; i < size; i++) {
		const unsigned char byte = (unsigned char)text[i];

		if (!tokenizer_drops(t, byte))
			continue;
		if (!seen[byte])
			used += (size_t)snprintf(list + used, sizeof list - used, " %02x", byte);
		seen[byte] = true;
		dropped++;
	}
	if (dropped)
		out_complain("%zu byte%s left out: this vocabulary has no token for (in hex)%s", dropped,
			plural((int64_t)dropped), list);
}

static int tokenize_verb(const struct cli *c, struct err *e)
{
	struct gguf *g = NULL;
	struct tokenizer *t = NULL;
	char *path = NULL, *text = NULL;
	int32_t *ids = NULL;
	size_t size, n = 0, cap = 0;
	struct json j = { 0 };
	if (!model_find(c, &path, e) && !gguf_open(&g, path, e) && !tokenizer_open(&t, g, e) &&
		!in_read(NULL, &text, &size, e) &&
		!tokenizer_encode(t, text, size, !opts.plain, &ids, &n, &cap, e)) {
		for (size_t i = 0; i < n && !c->json; i++)
			printf("%d\n", ids[i]);
		if (c->json) {
			json_ids(&j, NULL, ids, n);
			json_print(&j, e);
		}
		tell_dropped(t, text, size);
	}
	tokenizer_close(t);
	gguf_close(g);
	free(ids);
	free(text);
	free(path);
	return e->code ? -1 : 0;
}

const struct verb verb_tokenize = {
	VERB(tokenize, "", "model|json"),
};
