/* Chat templates: which one a file has. See template.h. */
#include "engine/text/template.h"

#include <pthread.h>

#include "base/text.h"
#include "engine/text/jinja/jinja.h"
#include "engine/text/parts.h"

/* In place of a file's template that cannot be read. */
static const struct chat_template chatml = {
	.name = "chatml",
	.jinja =
		"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
		"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
};
static const struct chat_template plain = {
	.name = "plain",
	.jinja = "{{ bos_token }}{% for m in messages %}"
			 "{{ {'user': 'User: ', 'assistant': 'Assistant: '}.get(m.role, '') + m.content }}"
			 "{{ '\n' if m.role == 'user' else '\n\n' }}{% endfor %}"
			 "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
};
/* Of a model that was never taught to talk: its answer goes on with what the user wrote. */
static const char goes_on[] = "{# a text that goes on #}";
static const struct chat_template going_on = {
	.name = "text",
	.jinja = "{% for m in messages %}{{ m.content }}{% endfor %}",
};

static struct gguf_text file_template(const struct gguf *g)
{
	struct gguf_text text = { "", 0 };
	struct err ignored = { 0 };

	gguf_opt_text(g, "tokenizer.chat_template", &text, &ignored);
	return text;
}

static bool holds(struct gguf_text text, const char *needle)
{
	return memmem(text.data, text.size, needle, strlen(needle));
}

/* ---- the system text of a file's own ---- */

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

/* ---- the template ---- */

/* Whether it can be read and makes something of a first turn. */
static bool renders(const char *jinja, struct err *e)
{
	static const char turn[] = "[{'role': 'user', 'content': 'Hi'}]";
	const struct jinja_options o = { .steps = 500000, .bytes = 8 << 20, .now = 1 };
	struct jinja *j = NULL;
	char *out = NULL;
	size_t size;

	if (!jinja_open(&j, jinja, strlen(jinja), &o, e) &&
		!jinja_set(j, "messages", turn, sizeof turn - 1, e) &&
		!jinja_set(j, "add_generation_prompt", "true", 4, e) &&
		!jinja_set(j, "bos_token", "''", 2, e) && !jinja_set(j, "eos_token", "''", 2, e))
		jinja_render(j, &out, &size, e);
	jinja_close(j);
	free(out);
	return out;
}

struct kept {
	struct chat_template c;
	struct kept *next;
};

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Never freed, and shared by files with the same template, so that it is as constant as ours. */
static const struct chat_template *keep(const struct chat_template *c)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept *all;
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = all; k && !(same(k->c.jinja, c->jinja) && same(k->c.name, c->name) &&
						   same(k->c.note, c->note));)
		k = k->next;
	if (!k && (k = calloc(1, sizeof *k))) {
		*k = (struct kept){ { c->name, strdup(c->jinja),
								c->default_system ? strdup(c->default_system) : NULL,
								c->note ? strdup(c->note) : NULL, c->thought, c->calls, c->tells },
			all };
		all = k;
	}
	pthread_mutex_unlock(&lock);
	return k && k->c.jinja ? &k->c : &plain;
}

/* The nearest of ours, with the reason. */
static struct chat_template instead(struct gguf_text own, const struct err *e, char **note)
{
	struct chat_template c =
		holds(own, "<|im_start|>") && holds(own, "<|im_end|>") ? chatml : plain;
	char *why = own.size ? text_clean(e->text, strlen(e->text), false, NULL) : NULL;

	if (why && asprintf(note, "the file's own template is not followed: %s", why) >= 0)
		c.note = *note;
	free(why);
	return c;
}

const struct chat_template *template_of(const struct gguf *g, int *known)
{
	const struct gguf_text own = file_template(g);
	char *jinja = strndup(own.data, own.size), *note = NULL, *system = NULL;
	const struct chat_template *out;
	struct chat_template c = going_on;
	struct err e = { 0 };

	if (own.size && jinja && renders(jinja, &e))
		c = (struct chat_template){ .name = "jinja", .jinja = jinja };
	else
		c = instead(own, &e, &note);
	if (holds(own, goes_on))
		c = going_on;
	if (holds(own, "<|im_start|>"))
		c.default_system = system = chatml_system(own);
	c.tells = !strstr(c.jinja, "tools");
	c.thought = parts_thought_of(c.jinja);
	c.calls = parts_calls_of(c.jinja);
	out = keep(&c);
	*known = strcmp(out->name, plain.name) != 0;
	free(jinja);
	free(note);
	free(system);
	return out;
}
