/* What a row sees: the policies, one small file each, and the one table of them (table.c).
 *
 * A policy gives the positions that a row at `pos` sees of its own sequence, as ascending ranges
 * that never touch and end at pos + 1. It depends on the position alone, so a position's logits
 * stay a function of the tokens up to it, whatever the batch, pages or chunks. A position that is
 * hidden from a row is hidden from all later rows, so the pages of such positions are released
 * (memory.h).
 *
 * A model's own layers may have windows (Beltagy et al. 2020, "Longformer"; Jiang et al. 2023,
 * "Mistral 7B"): there a row sees the positions that both the layer and the policy of the run
 * allow. A policy that hides positions from a layer is lossy. Thread: any; no state. */
#ifndef CUTAWAY_ENGINE_VISIBILITY_H
#define CUTAWAY_ENGINE_VISIBILITY_H

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
	const char *doc;
	const char *offer; /* what completion offers */
	int32_t n_ranges;  /* the most that `see` writes */
	int32_t (*see)(const int32_t *arg, int32_t pos, struct k_range *out); /* how many it wrote */
};
extern const struct visible_policy visible_full, visible_window, visible_sinks;
extern const struct visible_policy *const visible_policies[]; /* NULL-terminated, full first */

/* A policy with its numbers. All zero: full. */
struct visible {
	const struct visible_policy *policy; /* NULL: full */
	int32_t arg[VISIBLE_ARGS];
};

/* "full", "window:512", "sinks:4+window:512": each number at least 1. ERR_USAGE lists the
 * policies. */
int visible_parse(struct visible *v, const char *spec, struct err *e);
bool visible_same(const struct visible *a, const struct visible *b);
/* What completion offers of the i-th policy; NULL after the last. */
const char *visible_offer(int i);
/* Writes the same text. */
void visible_print(const struct visible *v, char *buf, size_t cap);
/* A layer's own visibility; window 0: full. */
struct visible visible_of_layer(int32_t window);

/* The most ranges that a row has in a layer with this window. */
int32_t visible_n_ranges(const struct visible *v, int32_t window);
/* What a row at pos sees in a layer with this window (0: none): exactly visible_n_ranges() ranges,
 * empty ones last. Returns the number of positions. */
int32_t visible_ranges(const struct visible *v, int32_t window, int32_t pos, struct k_range *out);
/* Whether the policy hides positions from such a layer, in a sequence of at most ctx positions. */
bool visible_is_lossy(const struct visible *v, int32_t window, int32_t ctx);

#endif
