/* See bench_prompts.h. */
#include "sessions/bench_prompts.h"

#include <stdio.h>
#include <string.h>

__asm__(".section .rodata\n"
		".global kinds_file\n"
		"kinds_file:\n"
		".incbin \"demos/kinds.txt\"\n"
		".byte 0\n"
		".previous\n");
extern const char kinds_file[];

static int kind_of(struct bench_prompts *p, const char *name, size_t size)
{
	for (int i = 0; i < p->n_kinds; i++)
		if (strlen(p->kind[i]) == size && !memcmp(p->kind[i], name, size))
			return i;
	if (p->n_kinds == BENCH_KINDS)
		return -1;
	snprintf(p->kind[p->n_kinds], sizeof p->kind[0], "%.*s", (int)size, name);
	return p->n_kinds++;
}

static void add(struct bench_prompts *p, int kind, const char *text, size_t size)
{
	while (size && text[size - 1] == '\n')
		size--;
	if (kind >= 0 && size && p->n < BENCH_PROMPTS)
		p->prompt[p->n++] = (struct bench_prompt){ text, size, kind };
}

/* "[kind]" begins a kind, "#" a comment, a blank line ends a prompt. */
void bench_prompts_read(struct bench_prompts *p)
{
	int kind = -1;

	memset(p, 0, sizeof *p);
	for (const char *at = kinds_file; *at;) {
		size_t line = strcspn(at, "\n");
		const char *end = strstr(at, "\n\n");

		if (*at == '#' || *at == '\n') {
			at += line + (at[line] == '\n');
		} else if (*at == '[') {
			kind = kind_of(p, at + 1, strcspn(at, "]") - 1);
			at += line + (at[line] == '\n');
		} else {
			add(p, kind, at, end ? (size_t)(end - at) : strlen(at));
			at = end ? end + 1 : at + strlen(at);
		}
	}
}

void bench_prompts_mix(struct bench_prompts *p)
{
	struct bench_prompts was = *p;
	int next[BENCH_KINDS] = { 0 };

	for (int n = 0, kind = 0; n < p->n; kind = (kind + 1) % p->n_kinds) {
		int i = next[kind];

		while (i < was.n && was.prompt[i].kind != kind)
			i++;
		next[kind] = i + 1;
		if (i < was.n)
			p->prompt[n++] = was.prompt[i];
	}
}

int bench_prompt_encode(const struct bench_prompt *p, const struct engine *engine, int32_t **ids, size_t *n,
						struct err *e)
{
	const struct engine_info *info = engine_info(engine);
	const struct tokenizer *t = engine_tokenizer(engine);
	size_t cap = 0;

	*ids = NULL;
	*n = 0;
	return template_begin(info->chat, t, info->default_system, ids, n, &cap, e) ||
				   template_user(info->chat, t, p->text, p->size, ids, n, &cap, e)
			   ? -1
			   : 0;
}
