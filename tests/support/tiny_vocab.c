/* The vocabularies of tiny models: trained on a sample, as byte-level BPE, as SentencePiece or as
 * BPE over the pieces of the latter. See tiny.h. */
#include "tests/support/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SPECIAL 3
#define N_FIRST TINY_MIN_VOCAB /* N_SPECIAL + 256: what comes before the first merge */

static const char *const special_names[2][N_SPECIAL] = {
	{ "<|endoftext|>", "<|im_start|>", "<|im_end|>" },
	{ "<unk>", "<s>", "</s>" },
};

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

static const struct chat {
	const char *name, *jinja; /* jinja NULL: the file has none */
} chats[] = {
	{ "none", NULL },
	{ "chatml",
		"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
		"'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
		"Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
		"message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
		"'<|im_start|>assistant\n' }}{% endif %}" },
	{ "zephyr",
		"{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
		"message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
		"{{ '<|system|>\n' + message['content'] + eos_token }}\n"
		"{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + "
		"eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
		"{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}" },
	{ "llama2",
		"{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + "
		"message['content'].strip() + ' [/INST]' }}{% elif message['role'] == 'system' %}"
		"{{ '<<SYS>>\n' + message['content'] + '\n<</SYS>>\n\n' }}{% else %}"
		"{{ ' '  + message['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}" },
};

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
			*best = (struct pair){ ids[i], ids[i + 1] };
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

/* A pair of bytes that no text needs; when these are used up, such a pair, of which the first has
 * id `first`, and another such byte. */
static struct pair spare_pair(int32_t spare, int32_t first)
{
	const int32_t right = N_SPECIAL + 0x80 + spare % 128;

	return (struct pair){
		spare < 16384 ? N_SPECIAL + 0x80 + spare / 128 : first + (spare - 16384) / 128, right
	};
}

/* n merges; when the sample has no more to give, spare ones. */
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
			merge[i] = spare_pair(spare, N_FIRST + i - spare);
		spare += !more;
	}
}

/* --- byte-level BPE --- */

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
		bytes_put(b, &(char){ (char)c }, 1);
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

static void put_bpe_vocabulary(struct bytes *b, int32_t vocab)
{
	int32_t n_merges = vocab - N_FIRST;
	struct pair *merge = calloc((size_t)n_merges + 1, sizeof *merge);
	struct bytes text = { 0 };

	if (!merge)
		abort();
	train(merge, n_merges);
	gguf_put_kv_array(b, "tokenizer.ggml.tokens", 8, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++) {
		text.size = 0;
		if (id < N_SPECIAL)
			bytes_put(&text, special_names[0][id], strlen(special_names[0][id]));
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

/* --- SentencePiece --- */

/* After the bytes: the characters from space to tilde, then what the merges make of them. */
#define N_CHARS 95

static void put_piece(struct bytes *b, const struct pair *merge, int32_t id)
{
	char c = (char)(id - N_SPECIAL);

	if (id >= N_FIRST) {
		put_piece(b, merge, merge[id - N_FIRST].left);
		put_piece(b, merge, merge[id - N_FIRST].right);
	} else if (c == ' ') {
		bytes_put(b, "\xe2\x96\x81", 3);
	} else {
		bytes_put(b, &c, 1);
	}
}

/* Text and type of token id; n_merges merges are of the sample, what is after them is unused. */
static uint32_t name_piece(struct bytes *b, const struct pair *merge, int32_t n_merges, int32_t id)
{
	char name[16];

	if (id < N_SPECIAL) {
		bytes_put(b, special_names[1][id], strlen(special_names[1][id]));
		return id ? 3 : 2;
	}
	if (id >= N_FIRST && id < N_FIRST + N_CHARS + n_merges) {
		put_piece(b, merge, id < N_FIRST + N_CHARS ? N_SPECIAL + ' ' + id - N_FIRST : id - N_CHARS);
		return 1;
	}
	snprintf(name, sizeof name, id < N_FIRST ? "<0x%02X>" : "[PAD%d]",
		id < N_FIRST ? id - N_SPECIAL : id);
	bytes_put(b, name, strlen(name));
	return id < N_FIRST ? 6 : 5;
}

/* Merge k makes the token after the characters and the k pieces before it. */
static void put_piece_merges(struct bytes *b, const struct pair *merge, int32_t n)
{
	struct bytes text = { 0 };

	gguf_put_kv_array(b, "tokenizer.ggml.merges", 8, (uint64_t)n);
	for (int32_t i = 0; i < n; i++) {
		text.size = 0;
		put_piece(&text, merge, merge[i].left);
		bytes_put(&text, " ", 1);
		put_piece(&text, merge, merge[i].right);
		gguf_put_string(b, (char *)text.data, text.size);
	}
	bytes_free(&text);
}

static void put_spm_vocabulary(struct bytes *b, int32_t vocab, bool merges)
{
	int32_t room = vocab > N_FIRST + N_CHARS ? vocab - N_FIRST - N_CHARS : 0, n = 0;
	struct pair *merge = calloc((size_t)room + 1, sizeof *merge);
	uint32_t *type = calloc((size_t)vocab, sizeof *type);
	struct bytes text = { 0 };

	if (!merge || !type)
		abort();
	train(merge, room);
	while (n < room && merge[n].left != N_SPECIAL + 0x80) /* the sample has no more to give */
		n++;
	gguf_put_kv_array(b, "tokenizer.ggml.tokens", 8, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++) {
		text.size = 0;
		type[id] = name_piece(&text, merge, n, id);
		gguf_put_string(b, (char *)text.data, text.size);
	}
	gguf_put_kv_array(b, "tokenizer.ggml.scores", 6, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++) {
		float score = id < N_FIRST + N_CHARS ? 0.0f : (float)(N_FIRST + N_CHARS - id);

		bytes_put(b, &score, sizeof score);
	}
	gguf_put_kv_array(b, "tokenizer.ggml.token_type", 5, (uint64_t)vocab);
	for (int32_t id = 0; id < vocab; id++)
		bytes_u32(b, type[id]);
	if (merges)
		put_piece_merges(b, merge, n);
	free(merge);
	free(type);
	bytes_free(&text);
}

/* --- the keys of the file --- */

/* NULL: the file has none. False: there is no template of that name. */
static bool find_chat(const char *name, const char **jinja)
{
	*jinja = name;
	for (size_t i = 0; i < sizeof chats / sizeof *chats; i++)
		if (!strcmp(chats[i].name, name)) {
			*jinja = chats[i].jinja;
			return true;
		}
	return strchr(name, '{') != NULL;
}

static bool is_gemma4(const struct tiny_options *o)
{
	return !strcmp(o->tokenizer, "gemma4");
}

static bool is_spm(const struct tiny_options *o)
{
	return !strcmp(o->tokenizer, "spm") || is_gemma4(o);
}

int tiny_check_tokenizer(const struct tiny_options *o, struct err *e)
{
	const char *jinja;

	if (!is_spm(o) && strcmp(o->tokenizer, "bpe"))
		return err_set(e, ERR_USAGE, "tokenizer must be bpe, spm or gemma4");
	if (!find_chat(o->chat, &jinja))
		return err_set(e, ERR_USAGE, "template must be chatml, zephyr, llama2 or none");
	return 0;
}

uint64_t tiny_n_tokenizer_kv(const struct tiny_options *o)
{
	const char *jinja;

	find_chat(o->chat, &jinja);
	return 8 + is_gemma4(o) + (jinja ? 1 : 0);
}

void tiny_put_tokenizer(struct bytes *b, const struct tiny_options *o)
{
	const char *jinja;

	find_chat(o->chat, &jinja);
	gguf_put_kv_text(b, "tokenizer.ggml.model",
		is_gemma4(o) ? "gemma4"
		: is_spm(o)  ? "llama"
					 : "gpt2");
	if (is_spm(o))
		gguf_put_kv_bool(b, "tokenizer.ggml.add_space_prefix", o->space_prefix);
	else
		gguf_put_kv_text(b, "tokenizer.ggml.pre", o->pre);
	gguf_put_kv_u32(b, "tokenizer.ggml.bos_token_id", 1);
	gguf_put_kv_u32(b, "tokenizer.ggml.eos_token_id", 2);
	gguf_put_kv_bool(b, "tokenizer.ggml.add_bos_token", is_spm(o));
	if (is_spm(o))
		put_spm_vocabulary(b, o->vocab, is_gemma4(o));
	else
		put_bpe_vocabulary(b, o->vocab);
	if (jinja)
		gguf_put_kv_text(b, "tokenizer.chat_template", jinja);
}
