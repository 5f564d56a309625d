/* Settings whose value is a text with a word before it that says what it is, or a file that has it.
 * See settings.h.
 *
 * Values are shared by requests, conversations and lessons that put settings back, and few: they
 * are kept until the program ends, each once. Thread: any. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/with_files.h"
#include "engine/settings/settings.h"

struct kept {
	struct kept *next;
	char text[];
};

bool setting_is_spec(const struct setting *s, const char *value)
{
	for (int i = 0; setting_word(s, i); i++) {
		const char *word = setting_word(s, i);
		const size_t head = strcspn(word, ":");

		if (word[head] ? !strncmp(value, word, head + 1) : !strcmp(value, word))
			return true;
	}
	return false;
}

const char *setting_keep(const char *head, const char *text, size_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept *all;
	const size_t n = strlen(head);
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = all; k; k = k->next)
		if (strlen(k->text) == n + size && !memcmp(k->text, head, n) &&
			!memcmp(k->text + n, text, size))
			break;
	if (!k && (k = malloc(sizeof *k + n + size + 1))) {
		memcpy(k->text, head, n);
		memcpy(k->text + n, text, size);
		k->text[n + size] = 0;
		k->next = all;
		all = k;
	}
	pthread_mutex_unlock(&lock);
	return k ? k->text : NULL;
}

/* A JSON schema is an object or true; all else is a grammar. */
static const char *head_of(const char *text)
{
	text += strspn(text, " \t\r\n");
	return *text == '{' || !strncmp(text, "true", 4) ? "schema:" : "gbnf:";
}

int setting_spec_read(const struct setting *s, const char *value, const char **out, struct err *e)
{
	struct err why = { 0 };
	const char *kept;
	char *text;
	size_t size;

	if (!*value)
		return err_set(e, ERR_USAGE, "%s: %s is needed", s->name, s->arg);
	if (setting_is_spec(s, value)) {
		kept = setting_keep("", value, strlen(value));
	} else {
		text = with_files_read(value, "the file", &size, &why);
		if (!text)
			return err_set(
				e, ERR_USAGE, "%s %.60s: no such kind (%s); %s", s->name, value, s->arg, why.text);
		kept = setting_keep(head_of(text), text, size);
		free(text);
	}
	if (!kept)
		return err_set(e, ERR_MEMORY, "%s: no memory", s->name);
	*out = kept;
	return 0;
}
