/* The texts of a conversation. See conversation.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/chat/conversation_impl.h"

static void write_ids(FILE *f, const struct tokenizer *t, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct gguf_text bytes = i ? tokenizer_bytes(t, ids[i]) : tokenizer_first_bytes(t, ids[i]);

		if (!tokenizer_is_special(t, ids[i]))
			fwrite(bytes.data, 1, bytes.size, f);
	}
}

static void write_answer(FILE *f, struct conversation *c, int i)
{
	const struct answer *a =
		i + 1 == c->n_turns && c->open && c->n_answers ? &c->answer[c->chosen] : NULL;

	write_ids(f, c->of.t, a ? a->ids : c->turn[i].answer, a ? (size_t)a->n : c->turn[i].n_answer);
}

int conversation_turn(struct conversation *c, int i, char **text, char **answer, size_t *size)
{
	bool is = i < c->n_turns;
	FILE *f = is ? open_memstream(answer, size) : NULL;

	if (!f)
		return is ? -1 : 0;
	pthread_mutex_lock(&c->lock);
	write_answer(f, c, i);
	pthread_mutex_unlock(&c->lock);
	*text = strdup(c->turn[i].text);
	if (!fclose(f) && *text)
		return 1;
	free(*answer);
	free(*text);
	return -1;
}

int conversation_save(struct conversation *c, const char *path, struct err *e)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	int failed;

	if (!f)
		return err_set(e, ERR_IO, errno == EEXIST ? "%s exists already: %s" : "%s: %s", path,
			errno == EEXIST ? "choose another name" : strerror(errno));
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->n_turns; i++) {
		fprintf(f, "you: %s\n\nai: ", c->turn[i].text);
		write_answer(f, c, i);
		fprintf(f, "\n\n");
	}
	pthread_mutex_unlock(&c->lock);
	failed = ferror(f);
	if (!fclose(f) && !failed)
		return 0;
	err_set(e, ERR_IO, "%s could not be written: %s", path, strerror(errno));
	unlink(path); /* an incomplete file would prevent the next attempt */
	return -1;
}
