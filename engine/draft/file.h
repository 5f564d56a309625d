/* Files that drafters read: how they are found and checked, and what they borrow of the target's
 * own file.
 *
 * A file is not trusted: its metadata is checked against the target before it is used. Thread: the
 * engine's. */
#pragma once

#include "engine/draft/draft.h"
#include "engine/model/gguf.h"

enum { DRAFT_PATH = 1024 };

/* Reads what follows "name:": "FILE,4,8", "FILE", "4,8" or NULL. FILE does not begin with a digit;
 * without one it is `name`. A FILE with a slash or ending in .gguf is a path; any other is
 * NAME.gguf in one of $CUTAWAY_MODELS, demos/models here, demos/models beside the program,
 * ../share/cutaway/models from the program, or a model of base/models.h. *numbers is what is left
 * of args, or NULL. */
int draft_find_file(
	const char *name, const char *args, char path[DRAFT_PATH], const char **numbers, struct err *e);

/* Opens a file of architecture "cutaway-draft" of this kind, or any if NULL, whose target must be
 * env's: width, size of the vocabulary, hash of its strings. */
int draft_open_file(struct gguf **g, const char *path, const char *kind,
	const struct draft_env *env, struct err *e);
bool draft_is_drafter(const struct gguf *g, const char *kind);
/* The trimmed vocabulary of the file, malloc'd, ascending, in range; NULL and *n = vocab: all of
 * it. */
int draft_read_ids(const struct gguf *g, int32_t vocab, int32_t **ids, int32_t *n, struct err *e);

/* An array of at most `most` numbers, ascending from 0 and below `below`; *n = 0: it is not
 * there. */
int draft_read_list(const struct gguf *g, const char *key, int32_t most, int32_t below,
	int32_t *out, int32_t *n, struct err *e);

/* Checks that both have the same strings for the same ids. The error names the first that
 * differs. */
int draft_same_vocab(const struct gguf *drafter, const struct gguf *target, struct err *e);
/* XXH64 over each string of the vocabulary and a 0 byte after it, as 16 digits. */
int draft_vocab_hash(const struct gguf *g, char hex[17], struct err *e);

/* The output matrix of the target, or the rows `ids` of it, packed. */
struct draft_head {
	struct k_ctx *kernels;
	struct k_matrix matrix;
	int32_t *ids; /* [n] true id of each row; NULL: its number */
	int32_t n;
	void *data; /* its own memory, if rows were gathered */
};
/* Takes ids. */
int draft_open_head(
	struct draft_head *h, const struct draft_env *env, int32_t *ids, int32_t n, struct err *e);
void draft_close_head(struct draft_head *h);
static inline int32_t draft_true_id(const struct draft_head *h, int32_t row)
{
	return h->ids ? h->ids[row] : row;
}
