/* What a row sees: the policies, one small file each, and the one table of them (table.c).
 *
 * A policy gives the positions that a row at `pos` sees of its own sequence, as ascending ranges
 * that never touch and end at pos + 1. It depends on the position alone, so a position's logits
 * stay a function of the tokens up to it, whatever the batch, pages or chunks. A position that is
 * hidden from a row is hidden from all later rows, so the pages of such positions are released
 * (memory.h).
 *
 * Of the positions that a row sees a policy may let it read only some: teeth of a comb, by
 * position, or groups that are chosen by the row's query and the keys that are stored (rule 18).
 * What a row does not read of those a later one may: their pages stay. Or each head keeps the
 * groups that got most attention so far, and forgets the others (rule 22). All these choices depend
 * on the tokens alone, too. A policy may also give the first positions a query of their own (rule
 * 19).
 *
 * A model's own layers may have windows (Beltagy et al. 2020, "Longformer"; Jiang et al. 2023,
 * "Mistral 7B"): there a row sees the positions that both the layer and the policy of the run
 * allow; such layers read all of it. A policy that hides positions from a layer is lossy. Thread:
 * any; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

enum {
	VISIBLE_ARGS = 2,
	VISIBLE_RANGES = 4 /* the most for one row, of policy and layer together */
};

struct visible_policy {
	const char *name;
	/* names of its numbers: "sinks:4+window:512"; unused: NULL */
	const char *part[VISIBLE_ARGS];
	const char *unit; /* after the first number; NULL: none */
	const char *doc;
	const char *offer; /* what completion offers */
	int32_t n_ranges;  /* the most that `see` writes */
	int32_t (*see)(const int32_t *arg, int32_t pos, struct k_range *out); /* how many it wrote */
	/* What a row reads of what it sees; each NULL: all. Positions of a comb: */
	struct k_stride_mask (*stride_mask)(const int32_t *arg, int32_t pos);
	/* so many groups of 16 positions, at least 3, in layers without a window of their own; rows see
	 * all positions up to their own: */
	int32_t (*groups)(const int32_t *arg, int32_t pos);
	/* the newest, and of the groups of 16 before them those that got most attention so far: how
	 * many of these the rows of a span of 128 read, at least 1; in layers as above. The newest are
	 * those of its own span and the one before. It never falls from span to span. */
	int32_t (*keeps)(const int32_t *arg, int32_t span);
	/* The position by which a row's query is rotated for the first arg[0] positions, at most pos;
	 * NULL: its own, for all. */
	int32_t (*rotated)(const int32_t *arg, int32_t pos);
};
/* The `see` of policies that hide nothing. */
int32_t visible_see_all(const int32_t *arg, int32_t pos, struct k_range *out);
extern const struct visible_policy visible_full, visible_window; /* of layers, in every program */
extern const struct visible_policy *const visible_policies[];    /* NULL-terminated, full first */

/* A policy with its numbers. All zero: full. */
struct visible {
	const struct visible_policy *policy; /* NULL: full */
	int32_t arg[VISIBLE_ARGS];
};

/* "full", "window:512", "sinks:4+window:512": each number at least 1. ERR_USAGE lists the
 * policies. */
int visible_parse(struct visible *v, const char *spec, struct err *e);
/* Positions between which a row's rotations stay, whatever the length of its sequence; 0: of the
 * whole sequence. */
int32_t visible_reach(const struct visible *v);
bool visible_same(const struct visible *a, const struct visible *b);
/* What completion offers of the i-th policy; NULL after the last. */
const char *visible_offer(int i);
/* Writes the same text. */
void visible_print(const struct visible *v, char *buf, size_t cap);

/* The most ranges that a row has in a layer with this window. */
int32_t visible_n_ranges(const struct visible *v, int32_t window);
/* What a row at pos sees in a layer with this window (0: none): exactly visible_n_ranges() ranges,
 * empty ones last. Returns the number of positions. */
int32_t visible_ranges(const struct visible *v, int32_t window, int32_t pos, struct k_range *out);
/* The policy with its functions: full if there is none. */
const struct visible_policy *visible_policy_of(const struct visible *v);
/* Whether rows choose groups, in some layer: then pages need the extents of keys. */
bool visible_picks(const struct visible *v);
/* Whether heads keep groups by their attention: then each layer without a window has a state, with
 * room for the most of them in a sequence of ctx positions; 0: they do not. */
int32_t visible_most_kept(const struct visible *v, int32_t ctx);
/* Rows of one sequence, from pos on, that a step may compute at once: what heads keep changes
 * between two spans. */
int32_t visible_most_rows(const struct visible *v, int32_t pos);
/* Positions that a row at pos reads in a layer with this window. */
int32_t visible_reads(const struct visible *v, int32_t window, int32_t pos);
/* Whether the policy hides positions from such a layer, in a sequence of at most ctx positions. */
bool visible_is_lossy(const struct visible *v, int32_t window, int32_t ctx);
