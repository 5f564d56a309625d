/* The prompt of a conversation's next turn, and what the end of the context will do to it, seen
 * before. See conversation.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ids.h"
#include "engine/text/fit.h"
#include "tui/chat/conversation_impl.h"

struct answer *conv_answer(struct conversation *c)
{
	if (c->n_answers && c->answer[c->chosen].n)
		return &c->answer[c->chosen];
	for (int i = c->n_answers; i-- > 0;)
		if (c->answer[i].n)
			return &c->answer[i];
	return c->kept.n ? &c->kept : NULL;
}

int conv_follow(struct conversation *c, struct followed *f, struct err *e)
{
	const struct answer *a = conv_answer(c);
	const struct turn *t = c->turn;
	const size_t n = t ? (size_t)t->n : 0, more = a ? (size_t)a->n : 0;

	*f = (struct followed){ .ids = malloc((n + more + 1) * sizeof *f->ids), .n = n + more };
	if (c->lost)
		return err_set(e, ERR_MEMORY, "the last answer did not fit the memory: /new begins anew");
	if (!f->ids)
		return err_no_memory(e, "the conversation's tokens");
	if (!t)
		return 0;
	memcpy(f->ids, t->ids, n * sizeof *f->ids);
	f->turn = a ? c->turn : t->before;
	f->n_turns = t->n_turns - !a;
	f->said = t->said;
	if (a) {
		memcpy(f->ids + n, a->ids, more * sizeof *f->ids);
		f->said = (struct said){ .ids = f->ids + n,
			.n = more - tokenizer_is_end(c->of.t, a->ids[more - 1]),
			.after_text = n && !tokenizer_is_special(c->of.t, t->ids[n - 1]) };
	}
	return 0;
}

/* The ids of all turns and a new one, or of those that fit. */
static int prompt_of(const struct conversation *c, const struct followed *f, const char *text,
	size_t size, size_t most, int32_t **ids, size_t *n, struct conversation_prompt *out,
	struct err *e)
{
	struct chat_message *m = calloc((size_t)f->n_turns * 2 + 2, sizeof *m);
	struct chat_input all = c->of;
	const struct turn *t = f->turn;
	struct said said = f->said;
	struct fit_left left;
	int rc;

	if (!m)
		return err_no_memory(e, "the conversation");
	all.message = m;
	all.open = true;
	if (template_takes(c->of.c, c->system))
		m[all.n++] =
			(struct chat_message){ .role = "system", .text = c->system, .size = strlen(c->system) };
	for (int i = f->n_turns; i-- > 0; t = t->before) {
		struct chat_message *at = m + all.n + 2 * i;

		at[0] = (struct chat_message){ .role = "user", .text = t->text, .size = strlen(t->text) };
		at[1] = (struct chat_message){
			.role = "assistant", .ids = said.ids, .n_ids = said.n, .after_text = said.after_text
		};
		said = t->said;
	}
	all.n += 2 * (size_t)f->n_turns;
	m[all.n++] = (struct chat_message){ .role = "user", .text = text, .size = size };
	rc = fit_ids(&all, most, f->ids, f->n, ids, n, &left, e);
	free(m);
	out->trimmed_turns = (int32_t)left.turns;
	out->trimmed_tokens = (int32_t)left.tokens;
	out->same = rc ? 0 : ids_common(f->ids, (int64_t)f->n, *ids, (int64_t)*n);
	out->moved = (int32_t)f->n - out->trimmed_tokens - out->same;
	out->moved = out->trimmed_turns && out->moved > 0 ? out->moved : 0;
	return rc;
}

int conv_fitting(const struct conversation *c, const struct followed *f, const char *text,
	size_t size, int32_t room, bool drop, int32_t **ids, size_t *n, struct conversation_prompt *out,
	struct err *e)
{
	const size_t most = (size_t)(c->ctx - room);

	if (prompt_of(c, f, text, size, drop ? most : SIZE_MAX, ids, n, out, e) < 0)
		return -1;
	if (*n <= most)
		return 0;
	if (out->trimmed_turns == f->n_turns && *n > (size_t)c->ctx)
		return err_set(
			e, ERR_USAGE, "the text is %zu tokens long, the context holds %d", *n, c->ctx);
	return err_set(e, ERR_USAGE,
		"the context is full: the conversation and this text are %zu of %d tokens, and %d are kept "
		"for the answer; /new begins anew, /overflow drop leaves out the oldest turns",
		*n, c->ctx, room);
}

int conversation_ahead(struct conversation *c, int32_t room, bool drop,
	struct conversation_prompt *out, int32_t *left, struct err *e)
{
	const size_t most = (size_t)(c->ctx - room);
	struct followed f;
	int32_t *ids = NULL;
	size_t n;
	int rc;

	memset(out, 0, sizeof *out);
	if (!c->turn || conversation_busy(c))
		return -1;
	rc = conv_follow(c, &f, e);
	if (!rc)
		rc = prompt_of(c, &f, "", 0, drop ? most : SIZE_MAX, &ids, &n, out, e);
	if (!rc)
		*left = (int32_t)most - (int32_t)n - out->trimmed_tokens;
	free(ids);
	free(f.ids);
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

static int n_turns(const struct conversation *c)
{
	return c->turn ? c->turn->n_turns : 0;
}

/* Turn i, and the answer to it. The lock is held. */
static const struct turn *turn_at(struct conversation *c, int i, struct said *said)
{
	const struct answer *a = conv_answer(c);
	const struct turn *t = c->turn;

	*said = (struct said){ .ids = a ? a->ids : NULL, .n = a ? (size_t)a->n : 0 };
	for (int at = t->n_turns - 1; at > i; at--, t = t->before)
		*said = t->said;
	return t;
}

int conversation_turn(struct conversation *c, int i, char **text, char **answer, size_t *size)
{
	const bool is = i < n_turns(c);
	FILE *f = is ? open_memstream(answer, size) : NULL;
	struct said said;

	if (!f)
		return is ? -1 : 0;
	pthread_mutex_lock(&c->lock);
	*text = strdup(turn_at(c, i, &said)->text);
	write_ids(f, c->of.t, said.ids, said.n);
	pthread_mutex_unlock(&c->lock);
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
	struct said said;
	int failed;

	if (!f)
		return err_set(e, ERR_IO, errno == EEXIST ? "%s exists already: %s" : "%s: %s", path,
			errno == EEXIST ? "choose another name" : strerror(errno));
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < n_turns(c); i++) {
		fprintf(f, "you: %s\n\nai: ", turn_at(c, i, &said)->text);
		write_ids(f, c->of.t, said.ids, said.n);
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
