/* See tui.h: the shipped prompts. */
#include "tui/app/tui.h"

#include <stdlib.h>
#include <string.h>

#include "base/prompts.h"

struct found {
	const char *line, *passage;
	size_t size, passage_size;
};

/* Walks the file: finds prompt number `wanted` if there is one, and returns how many there are. */
static int load_walk(int wanted, struct found *out)
{
	const char *passage = NULL;
	size_t passage_size = 0;
	int n = 0;

	for (const char *line = shipped_prompts; *line;) {
		size_t size = strcspn(line, "\n");

		if (!size) {
			passage = NULL;
			passage_size = 0;
		} else if (size > 2 && line[0] == '>') {
			passage = line + 2;
			passage_size = size - 2;
		} else if (line[0] != '#' && n++ == wanted) {
			*out = (struct found){ line, passage, size, passage_size };
		}
		line += size + (line[size] == '\n');
	}
	return n;
}

int load_n_prompts(void)
{
	struct found unused;

	return load_walk(-1, &unused);
}

char *load_prompt(int i, const char **label)
{
	struct found f = { 0 };
	char *text;

	load_walk(i % load_n_prompts(), &f);
	text = malloc(f.passage_size + f.size + 2);
	if (!text)
		return NULL;
	if (f.passage)
		memcpy(text, f.passage, f.passage_size);
	if (f.passage)
		text[f.passage_size++] = ' ';
	memcpy(text + f.passage_size, f.line, f.size);
	text[f.passage_size + f.size] = '\0';
	*label = text + f.passage_size;
	return text;
}
