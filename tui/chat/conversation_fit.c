/* The prompt of a conversation's next turn, and what the end of the context will do to it, seen
 * before. See conversation.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ids.h"
#include "engine/text/fit.h"
#include "tui/chat/conversation_impl.h"

/* The ids of all turns and a new one, or of those that fit. */
static int prompt_of(const struct conversation *c, const char *text, size_t size, size_t most,
	int32_t **ids, size_t *n, struct conversation_prompt *out, struct err *e)
{
	const bool has = template_takes(c->of.c, c->system);
	struct chat_message *m = calloc((size_t)c->n_turns * 2 + 2, sizeof *m);
	struct chat_input all = c->of;
	struct fit_left left;
	int rc;

	if (!m)
		return err_set(e, ERR_MEMORY, "no memory for the conversation");
	all.message = m;
	all.open = true;
	if (has)
		m[all.n++] =
			(struct chat_message){ .role = "system", .text = c->system, .size = strlen(c->system) };
	for (int i = 0; i < c->n_turns; i++) {
		const struct turn *t = &c->turn[i];

		m[all.n++] =
			(struct chat_message){ .role = "user", .text = t->text, .size = strlen(t->text) };
		m[all.n++] = (struct chat_message){
			.role = "assistant", .ids = t->answer, .n_ids = t->n_answer, .after_text = t->after_text
		};
	}
	m[all.n++] = (struct chat_message){ .role = "user", .text = text, .size = size };
	rc = fit_ids(&all, most, c->ids, c->n, ids, n, &left, e);
	free(m);
	out->trimmed_turns = (int32_t)left.turns;
	out->trimmed_tokens = (int32_t)left.tokens;
	out->same = rc ? 0 : ids_common(c->ids, (int64_t)c->n, *ids, (int64_t)*n);
	out->moved = (int32_t)c->n - out->trimmed_tokens - out->same;
	out->moved = out->trimmed_turns && out->moved > 0 ? out->moved : 0;
	return rc;
}

int conv_fitting(const struct conversation *c, const char *text, size_t size, int32_t room,
	bool drop, int32_t **ids, size_t *n, struct conversation_prompt *out, struct err *e)
{
	const size_t most = (size_t)(c->ctx - room);

	if (prompt_of(c, text, size, drop ? most : SIZE_MAX, ids, n, out, e) < 0)
		return -1;
	if (*n <= most)
		return 0;
	if (out->trimmed_turns == c->n_turns && *n > (size_t)c->ctx)
		return err_set(
			e, ERR_USAGE, "the text is %zu tokens long, the context holds %d", *n, c->ctx);
	return err_set(e, ERR_USAGE,
		"the context is full: the conversation and this text are %zu of %d tokens, and %d are kept "
		"for the answer; /new begins anew, /overflow drop leaves out the oldest turns",
		*n, c->ctx, room);
}

/* The conversation as the next turn finds it: with the chosen answer, which stays where it is. */
static int as_closed(const struct conversation *c, struct conversation *as, struct err *e)
{
	const struct answer *a = c->open && c->n_answers ? &c->answer[c->chosen] : NULL;
	const size_t more = a ? (size_t)a->n : 0;

	*as = (struct conversation){
		.of = c->of, .system = c->system, .ctx = c->ctx, .n = c->n, .n_turns = c->n_turns
	};
	as->ids = malloc((c->n + more + 1) * sizeof *as->ids);
	as->turn = malloc(((size_t)c->n_turns + 1) * sizeof *as->turn);
	if (!as->ids || !as->turn)
		return err_set(e, ERR_MEMORY, "no memory for the conversation");
	memcpy(as->ids, c->ids, c->n * sizeof *as->ids);
	memcpy(as->turn, c->turn, (size_t)c->n_turns * sizeof *as->turn);
	if (c->open && !more) {
		as->n_turns--;
	} else if (c->open) {
		conv_measure(c, a, &as->turn[c->n_turns - 1]);
		as->turn[c->n_turns - 1].answer = a->ids;
		memcpy(as->ids + c->n, a->ids, more * sizeof *as->ids);
		as->n += more;
	}
	return 0;
}

int conversation_ahead(struct conversation *c, int32_t room, bool drop,
	struct conversation_prompt *out, int32_t *left, struct err *e)
{
	const size_t most = (size_t)(c->ctx - room);
	struct conversation as;
	int32_t *ids = NULL;
	size_t n;
	int rc;

	memset(out, 0, sizeof *out);
	if (!c->n_turns || conversation_busy(c))
		return -1;
	rc = as_closed(c, &as, e);
	if (!rc)
		rc = prompt_of(&as, "", 0, drop ? most : SIZE_MAX, &ids, &n, out, e);
	if (!rc)
		*left = (int32_t)most - (int32_t)n - out->trimmed_tokens;
	free(ids);
	free(as.ids);
	free(as.turn);
	return rc;
}

/* --- the texts of a conversation --- */

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
