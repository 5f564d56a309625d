/* The ids of a conversation: of the text that the template renders, and of what was computed
 * before. See template.h. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/text/template_private.h"

/* ---- its pieces: texts and control tokens by turns ---- */

struct piece {
	const char *text;
	size_t size;
	int32_t id; /* -1: text */
};

struct pieces {
	char *all; /* the texts lie in it */
	struct piece *piece;
	size_t n, cap;
};

static int add_piece(struct pieces *p, const char *text, size_t size, int32_t id, struct err *e)
{
	if (id < 0 && !size)
		return 0;
	if (!ARRAY_ROOM(p->piece, p->cap, p->n + 1))
		return err_no_memory(e, "the conversation");
	p->piece[p->n++] = (struct piece){ text, size, id };
	return 0;
}

static int cut(struct pieces *p, const struct chat_input *of, size_t size, struct err *e)
{
	char *text = p->all, *end = text + size;
	size_t at, used;
	int32_t id;

	while ((id = template_control(of->t, text, (size_t)(end - text), &at, &used)) >= 0) {
		if (add_piece(p, text, template_reveal(text, at), -1, e) || add_piece(p, NULL, 0, id, e))
			return -1;
		text += at + used;
	}
	return add_piece(p, text, template_reveal(text, (size_t)(end - text)), -1, e);
}

static int pieces_of(struct pieces *p, const struct chat_input *of, struct err *e)
{
	size_t size;

	p->all = template_text(of, &size, e);
	return p->all ? cut(p, of, size, e) : -1;
}

/* ---- what is kept of the ids of before ---- */

struct place {
	size_t piece, at; /* at: bytes into a text */
};

/* Goes over the id, if it says what stands at the place. */
static bool goes_on(
	const struct chat_input *of, const struct pieces *p, struct place *w, int32_t id)
{
	const struct piece *now = w->piece < p->n ? &p->piece[w->piece] : NULL;
	const bool first = !w->at;
	struct gguf_text bytes;

	if (!now)
		return false;
	if (tokenizer_is_special(of->t, id)) {
		if (now->id != id)
			return false;
		*w = (struct place){ w->piece + 1, 0 };
		return true;
	}
	bytes = first ? tokenizer_first_bytes(of->t, id) : tokenizer_bytes(of->t, id);
	if (now->id >= 0 || !bytes.size || bytes.size > now->size - w->at ||
		memcmp(now->text + w->at, bytes.data, bytes.size))
		return false;
	w->at += bytes.size;
	if (w->at == now->size)
		*w = (struct place){ w->piece + 1, 0 };
	return true;
}

/* How many of the kept ids stay; *w: where the text goes on after them. A text that parts within
 * its words is encoded whole, from the control token before it on; where an answer ended, by a
 * token of its own or because it was cut, its ids stay. */
static size_t keep(const struct chat_input *of, const struct pieces *p, const int32_t *kept,
	size_t n, struct place *w)
{
	struct place sound = { 0, 0 };
	size_t i = 0, n_sound = 0;

	*w = sound;
	while (i < n && goes_on(of, p, w, kept[i])) {
		i++;
		if (tokenizer_is_special(of->t, kept[i - 1])) {
			sound = *w;
			n_sound = i;
		}
	}
	if (i == n || tokenizer_is_end(of->t, kept[i]))
		return i;
	*w = sound;
	return n_sound;
}

static int encode(const struct chat_input *of, const struct pieces *p, struct place w,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	for (; w.piece < p->n; w = (struct place){ w.piece + 1, 0 }) {
		const struct piece *now = &p->piece[w.piece];

		if (now->id >= 0 ? tokenizer_append(ids, n, cap, &now->id, 1, e)
						 : tokenizer_encode(
							   of->t, now->text + w.at, now->size - w.at, false, ids, n, cap, e))
			return -1;
	}
	return 0;
}

int template_ids(const struct chat_input *of, const int32_t *kept, size_t n_kept, int32_t **ids,
	size_t *n, size_t *cap, struct err *e)
{
	struct pieces p = { 0 };
	struct place w;
	size_t n_stay;
	int rc = pieces_of(&p, of, e);

	if (!rc) {
		n_stay = keep(of, &p, kept, n_kept, &w);
		rc = tokenizer_append(ids, n, cap, kept, n_stay, e) || encode(of, &p, w, ids, n, cap, e)
				 ? -1
				 : 0;
	}
	free(p.piece);
	free(p.all);
	return rc;
}

bool template_takes(const struct chat_template *c, const char *system)
{
	return system && (*system || c->default_system);
}

int template_first(const struct chat_input *of, const char *system, const char *text, size_t size,
	int32_t **ids, size_t *n, size_t *cap, struct err *e)
{
	const bool has = template_takes(of->c, system);
	const struct chat_message both[] = {
		{ .role = "system", .text = system, .size = has ? strlen(system) : 0 },
		{ .role = "user", .text = text, .size = size },
	};
	struct chat_input one = *of;

	one.message = both + !has;
	one.n = has ? 2 : 1;
	one.open = true;
	return template_ids(&one, NULL, 0, ids, n, cap, e);
}
