/* Chat templates: which one a file has, and the ids of a conversation's parts. See template.h. */
#include "engine/text/template.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/text/template_families.h"
#include "engine/text/template_probe.h"

/* --- which one a file has --- */

static struct gguf_text file_template(const struct gguf *g)
{
	struct gguf_text text = { "", 0 };
	struct err ignored = { 0 };

	gguf_opt_text(g, "tokenizer.chat_template", &text, &ignored);
	return text;
}

/* Copies a piece of a Jinja string literal up to `stop`, which must come before the quote that ends
 * the literal. NULL if it does not, or if the piece is empty; *at is then the end of the
 * literal. */
static char *copy_literal(const char **at, const char *end, char quote, const char *stop)
{
	size_t n_stop = strlen(stop), n = 0;
	const char *from = *at;
	char *out = malloc((size_t)(end - from) + 1);

	while (out && from < end) {
		if ((size_t)(end - from) >= n_stop && !memcmp(from, stop, n_stop) && n) {
			out[n] = '\0';
			return out;
		}
		*at = from;
		if (*from == quote)
			break;
		if (*from == '\\' && from + 1 < end) {
			from++;
			out[n++] = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
		} else {
			out[n++] = *from;
		}
		from++;
	}
	free(out);
	return NULL;
}

/* ChatML templates spell the default out after the opening of the system turn. A literal that was
 * searched in vain is not searched again, or a template with many openings would take quadratic
 * time. */
static char *chatml_system(struct gguf_text text)
{
	static const char opening[] = "<|im_start|>system";
	const char *at = text.data, *end = text.data + text.size;

	while ((at = memmem(at, (size_t)(end - at), opening, sizeof opening - 1))) {
		char quote = at > text.data ? at[-1] : '\0', *found = NULL;

		at += sizeof opening - 1;
		if (quote != '\'' && quote != '"')
			continue;
		if (end - at > 1 && at[0] == '\n')
			at += 1;
		else if (end - at > 2 && at[0] == '\\' && at[1] == 'n')
			at += 2;
		else
			continue;
		found = copy_literal(&at, end, quote, "<|im_end|>");
		if (found)
			return found;
	}
	return NULL;
}

/* Its strings. */
static const char **field(struct chat_template *c, size_t i)
{
	const char **all[] = { &c->name, &c->doc, &c->default_system, &c->bos, &c->system_before,
		&c->system_after, &c->user_before, &c->user_after, &c->answer_before, &c->answer_after,
		&c->end, &c->note, &c->end_before };

	return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static bool same_template(struct chat_template *a, struct chat_template *b)
{
	for (size_t i = 0; field(a, i); i++) {
		const char *x = *field(a, i), *y = *field(b, i);

		if (!x != !y || (x && strcmp(x, y)))
			return false;
	}
	return a->system_in_user == b->system_in_user && a->system_opens == b->system_opens &&
		   a->trim == b->trim;
}

struct kept {
	struct chat_template c;
	struct kept *next;
};

/* A copy with its own strings; NULL: no memory. */
static struct kept *copy_template(const struct chat_template *c)
{
	struct kept *k = malloc(sizeof *k);

	if (!k)
		return NULL;
	*k = (struct kept){ .c = *c };
	for (size_t i = 0; field(&k->c, i); i++) {
		const char **f = field(&k->c, i);

		*f = *f ? strdup(*f) : NULL;
		if (!*f && i != 2 && i < 11) /* those that may be NULL */
			return NULL;
	}
	return k;
}

/* Never freed, and shared by files with the same template, so that what template_of returns is as
 * constant as the families themselves. */
static const struct chat_template *keep_template(struct chat_template *c)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept *all;
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = all; k && !same_template(&k->c, c);)
		k = k->next;
	if (!k && (k = copy_template(c))) {
		k->next = all;
		all = k;
	}
	pthread_mutex_unlock(&lock);
	return k ? &k->c : &template_plain;
}

enum { EOS_BYTES = 64 };

/* The vocabulary's name of the token that ends a text, or "". Returns buf. */
static const char *eos_name(const struct gguf *g, char buf[EOS_BYTES])
{
	const int64_t n = gguf_array_length(g, "tokenizer.ggml.tokens");
	struct gguf_text *all = n > 0 ? malloc((size_t)n * sizeof *all) : NULL;
	struct err ignored = { 0 };
	int64_t eos = -1;

	*buf = '\0';
	gguf_opt_i64(g, "tokenizer.ggml.eos_token_id", &eos, &ignored);
	if (all && eos >= 0 && eos < n &&
		!gguf_array_text(g, "tokenizer.ggml.tokens", all, n, &ignored) &&
		all[eos].size < EOS_BYTES && !memchr(all[eos].data, '\0', all[eos].size)) {
		memcpy(buf, all[eos].data, all[eos].size);
		buf[all[eos].size] = '\0';
	}
	free(all);
	return buf;
}

/* The file's own pieces; if there are none to be had, the family's with the reason. */
static void own_pieces(struct chat_template *c, const struct chat_template *family,
	const struct gguf *g, struct gguf_text text, char *store, char note[600])
{
	struct err e = { 0 };
	char eos[EOS_BYTES];

	*c = *family;
	if (!text.size || !template_probe(c, store, family, text.data, text.size, eos_name(g, eos), &e))
		return;
	snprintf(note, 600, "the file's own template is not followed: %s", e.text);
	*c = *family;
	c->note = note;
}

const struct chat_template *template_of(const struct gguf *g, int *known)
{
	struct gguf_text text = file_template(g);
	struct chat_template family = *template_family(text), c;
	char *system = template_family(text) == &template_chatml ? chatml_system(text) : NULL;
	char *store = malloc(TEMPLATE_STORE), note[600];
	const struct chat_template *out;

	family.default_system = system;
	c = family;
	if (store)
		own_pieces(&c, &family, g, text, store, note);
	out = keep_template(&c);
	*known = strcmp(out->name, template_plain.name) != 0;
	free(store);
	free(system);
	return out;
}

/* --- ids ---
 *
 * A piece's control tokens become ids; all text between two of them, whether of pieces or of the
 * user, is tokenised as one stretch, as it would be if the whole conversation were one text: white
 * space at the boundaries falls into the same words. */

struct writer {
	const struct tokenizer *t;
	int32_t **ids;
	size_t *n, *cap;
	struct err *e;
	char *text; /* not tokenised yet */
	size_t size, text_cap;
	bool failed;
};

static void write_text(struct writer *w, const char *text, size_t size)
{
	if (!ARRAY_ROOM(w->text, w->text_cap, w->size + size)) {
		w->failed = true;
		err_set(w->e, ERR_MEMORY, "no memory for a text of %zu bytes", size);
		return;
	}
	if (size)
		memcpy(w->text + w->size, text, size);
	w->size += size;
}

static void write_flush(struct writer *w)
{
	if (w->failed || !w->size)
		return;
	if (tokenizer_encode(w->t, w->text, w->size, false, w->ids, w->n, w->cap, w->e))
		w->failed = true;
	w->size = 0;
}

static void write_id(struct writer *w, int32_t id)
{
	write_flush(w);
	if (w->failed || id < 0)
		return;
	if (!ARRAY_ROOM(*w->ids, *w->cap, *w->n + 1)) {
		w->failed = true;
		err_set(w->e, ERR_MEMORY, "no memory for %zu token ids", *w->n + 1);
		return;
	}
	(*w->ids)[(*w->n)++] = id;
}

/* Part of a piece without "{bos}" and "{eos}". */
static void write_part(struct writer *w, const char *part, size_t size)
{
	size_t at, used;
	int32_t id;

	while ((id = tokenizer_find_special(w->t, part, size, &at, &used)) >= 0) {
		write_text(w, part, at);
		write_id(w, id);
		part += at + used;
		size -= at + used;
	}
	write_text(w, part, size);
}

static void write_piece(struct writer *w, const char *piece)
{
	const char *brace;

	for (const char *from = piece; (brace = strchr(from, '{')); from = brace + 1) {
		bool bos = !strncmp(brace, "{bos}", 5);

		if (!bos && strncmp(brace, "{eos}", 5))
			continue;
		write_part(w, piece, (size_t)(brace - piece));
		write_id(w, bos ? tokenizer_bos(w->t) : tokenizer_eos(w->t));
		piece = brace + 5;
	}
	write_part(w, piece, strlen(piece));
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void write_message(
	struct writer *w, const struct chat_template *c, const char *text, size_t size)
{
	while (c->trim && size && is_space(text[size - 1]))
		size--;
	while (c->trim && size && is_space(*text)) {
		text++;
		size--;
	}
	write_text(w, text, size);
}

static int write_end(struct writer *w)
{
	write_flush(w);
	free(w->text);
	return w->failed ? -1 : 0;
}

int template_begin(const struct chat_template *c, const struct tokenizer *t, const char *system,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	struct writer w = { .t = t, .ids = ids, .n = n, .cap = cap, .e = e };

	if (!system)
		system = c->default_system;
	if (!strcmp(c->name, template_plain.name) && tokenizer_adds_bos(t))
		write_id(&w, tokenizer_bos(t));
	if (!(system && *system && c->system_opens))
		write_piece(&w, c->bos);
	if (system && *system) {
		write_piece(&w, c->system_before);
		write_message(&w, c, system, strlen(system));
		write_piece(&w, c->system_after);
	}
	return write_end(&w);
}

/* Whether ids hold a system text and nothing after it, so that the user's turn is open already. */
static bool turn_is_open(
	const struct chat_template *c, const struct tokenizer *t, const int32_t *ids, size_t n)
{
	size_t n_bos = tokenizer_bos(t) >= 0 && *c->bos ? 1 : 0;

	if (!c->system_in_user || n <= n_bos)
		return false;
	for (size_t i = 0; i < n; i++)
		if (tokenizer_is_end(t, ids[i]))
			return false;
	return true;
}

int template_user(const struct chat_template *c, const struct tokenizer *t, const char *text,
	size_t size, int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	struct writer w = { .t = t, .ids = ids, .n = n, .cap = cap, .e = e };

	if (!turn_is_open(c, t, *ids, *n))
		write_piece(&w, c->user_before);
	write_message(&w, c, text, size);
	write_piece(&w, c->user_after);
	write_piece(&w, c->answer_before);
	return write_end(&w);
}

int template_close(const struct chat_template *c, const struct tokenizer *t, int32_t **ids,
	size_t *n, size_t *cap, struct err *e)
{
	struct writer w = { .t = t, .ids = ids, .n = n, .cap = cap, .e = e };
	int32_t end = tokenizer_id_of(t, c->end);

	if (!*n || !tokenizer_is_end(t, (*ids)[*n - 1])) {
		write_piece(&w, c->end_before ? c->end_before : "");
		write_id(&w, end >= 0 ? end : tokenizer_eos(t));
	}
	write_piece(&w, c->answer_after);
	return write_end(&w);
}
