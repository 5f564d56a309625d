/* What a sequence remembers, in pages.
 *
 * Layers that keep the same kind of thing for a sequence are a *memory group*: the keys and values
 * of all positions (paged), those of the last positions (window), one state of a fixed size
 * (recurrent). A layer that keeps nothing belongs to none. Each group has a pool of pages of its
 * own (pages.h) and each sequence a block table for each group: entry b of it is the page of
 * positions b * page_size …, or -1 where no row to come will read it. A kind is a few functions
 * of this folder; scheduler, prefix cache, rewind, forks, draft trees and preemption know groups
 * through this header alone.
 *
 * A pool each, not one for all: the pages of groups differ in bytes by a factor of ten, so that one
 * pool would need pages of pages; and a group that is short of pages then takes none from another.
 *
 * What rows read is the kind's to say, and of keys and values the visibility's: what a row does not
 * see no row after it does (visibility.h), so the ranges of the next row are all that rows to come
 * read of what is there. A page that meets none of them goes back: those in front of a window,
 * those between sinks and a window.
 *
 * Thread: the engine's. After open nothing is allocated. */
#pragma once

#include <stddef.h>

#include "engine/memory/pages.h"
#include "engine/visibility/visibility.h"

enum {
	MEMORY_GROUPS = 4, /* most of a model */
	/* rows of one request in a step, at most, where no group keeps all positions */
	MEMORY_ROWS = 128,
	MEMORY_STATE_ROOM = 1 << 30,
};

struct memory_kind;

/* What a group of layers keeps. */
struct memory_spec {
	const struct memory_kind *kind;
	int32_t n_layers;
	struct k_kv kv;     /* of kinds that are no states: heads and their dimensions */
	int32_t window;     /* window, recent: positions that a row sees, its own the last */
	size_t state_bytes; /* recurrent, kept: of all its layers */
	/* where its format is by channel: the group that keeps its last positions in f16; else 0 */
	int32_t recent;
	int32_t kept;      /* where heads keep by attention: the group of what they keep; else 0 */
	int32_t most_kept; /* kept: groups that a head has room for */
};
struct memory_specs {
	struct memory_spec group[MEMORY_GROUPS];
	int32_t n; /* those that layers joined, then those of memory_recent or memory_kept */
	bool keep; /* keys and values stay until their sequence ends, seen or not */
	/* bytes that the pool of recurrent states may have; 0: MEMORY_STATE_ROOM, or what the slots
	 * need */
	int64_t state_room;
};
/* The format of all keys and values. A format by channel adds a group to each that has any, of the
 * last `residual` tokens that rows read in f16; -1 and an error: the groups are too many, and
 * nothing was changed. */
int memory_set_format(struct memory_specs *m, enum k_cache format, int32_t residual, struct err *e);
enum k_cache memory_format(const struct memory_specs *m);
/* Whether pages have the extents of keys, where rows of a layer without a window choose. */
void memory_set_key_ranges(struct memory_specs *m, bool key_ranges);
/* Where rows of a layer without a window keep the groups with most attention: a state beside its
 * keys and values with room for so many; 0: none. -1 and an error: the groups are too many, and
 * nothing was changed. Never with a format by channel. */
int memory_set_kept(struct memory_specs *m, int32_t most, struct err *e);
/* The group that a layer of this spec belongs to, made if it is new. Groups are of one kind, one
 * shape of keys and values and one window; all recurrent layers are one. *index: of the layer in
 * its group; *at: where its state begins in the group's, or NULL. -1 and an error: too many groups.
 */
int memory_join(struct memory_specs *m, const struct memory_spec *layer, int32_t *group,
	int32_t *index, size_t *at, struct err *e);

/* The pages of a group, as kernels are given them. */
struct memory_store {
	struct k_kv kv;       /* of kinds that are no states */
	struct k_state state; /* recurrent, kept */
	bool is_state;
	int32_t recent, kept; /* as in its memory_spec */
	int32_t most_kept;    /* kept: groups of a head there is room for */
};

/* state_room of a setting in MB. */
int64_t memory_room_of(double mb);

/* Without pools and readers: so many pages in each group, for whoever keeps track of them
 * himself. */
int memory_stores_open(struct memory_store *s, const struct memory_specs *specs,
	struct k_ctx *kernels, int32_t page_size, int32_t n_pages, const char *what, struct err *e);
void memory_stores_close(
	struct memory_store *s, const struct memory_specs *specs, struct k_ctx *kernels);
void memory_store_copy(
	const struct memory_store *s, struct k_ctx *kernels, int32_t to, int32_t from);

/* What a row far on in a sequence reads of a group, in blocks and positions. */
struct memory_mask {
	int32_t window; /* newest positions, its own the last; INT32_MAX: all */
	int32_t before; /* blocks of what else it reads */
	int32_t always; /* blocks from the first on that every row reads; INT32_MAX: all */
};

struct memory {
	struct memory_specs spec;
	struct visible visible; /* of the run */
	struct memory_mask mask[MEMORY_GROUPS];
	int32_t page_size; /* positions of a block, of all groups */
	int32_t primary;   /* the group that --pages is of: the first paged one, else the first */
	struct memory_store store[MEMORY_GROUPS];
	struct pages pages[MEMORY_GROUPS];
	int32_t most_rows; /* of one request in a step: their blocks fit every group */
	int32_t n_scratch_used[MEMORY_GROUPS]; /* of pages.n_scratch, in the step that runs */
};

/* What a sequence has. All groups have as many blocks. */
struct memory_table {
	int32_t *page[MEMORY_GROUPS]; /* [n], room for the longest sequence */
	int32_t n;
};

/* n_pages: of the primary group; the others get what so many slots need, and as much again for the
 * prefix cache, but recurrent ones a snapshot for each page of the primary group, within
 * state_room. kernels NULL: pages are only counted, there is nothing in them. */
int memory_open(struct memory *m, struct k_ctx *kernels, const struct memory_specs *specs,
	int32_t page_size, int32_t n_pages, int32_t slots, int32_t n_scratch, struct err *e);
void memory_close(struct memory *m);
/* What rows see from now on; no sequence has pages, and the prefix cache is empty. */
void memory_set_visible(struct memory *m, const struct visible *v);
/* Rows at this position and after it find a page out of sight; INT32_MAX: rows see all. */
int32_t memory_unseen_from(const struct memory *m);
void memory_listen(
	struct memory *m, void (*on_change)(void *arg, const struct page_change *c), void *arg);
/* What times the tokens of f16 the bytes of the primary group's pool hold in its format: 1 or more,
 * for a pool of a wider format keeps its tokens. */
double memory_gain(const struct memory_specs *specs, int32_t page_size);
/* Pages of the primary group where the user does not say: the bytes of a longest sequence in f16,
 * at least four pages of f16 a slot, and no more than can be in use. With room, in bytes, as many
 * of the slots' longest sequences as it holds, if that is more. */
int32_t memory_default_pages(
	const struct memory_specs *specs, int32_t page_size, int32_t ctx, int32_t slots, int64_t room);
/* For a layer that keeps so many floats of state: its group, and where they begin in a page. */
int memory_join_state(
	struct memory_specs *m, size_t floats, int32_t *group, size_t *at, struct err *e);
/* One group of keys and values, for tests and for what counts pages alone. */
struct memory_specs memory_paged_specs(int32_t n_layers, int32_t n_kv_heads, int32_t head_dim);

/* Room for so many blocks of any group; -1 if memory ran out. */
int memory_table_open(struct memory_table *t, int32_t most_blocks);
void memory_table_close(struct memory_table *t);

/* Pages of group g that a sequence of so many tokens has at once when a step computes `rows` of
 * them. Of groups that keep all positions it is all that they will need; of others what they have
 * between two blocks, so that a step in which many enter a new block may still have to preempt. */
int32_t memory_need(const struct memory *m, int32_t g, int32_t tokens, int32_t rows);
/* Pages that the table has in group g, from block `from` on. */
int32_t memory_held(const struct memory_table *t, int32_t g, int32_t from);
/* Free pages, and those that the prefix cache alone keeps and no pin. */
int32_t memory_available(const struct memory *m, int32_t g);
struct memory_use { /* pages, of all groups */
	/* read by a sequence; by several; kept by the prefix cache alone; kept by pins */
	int32_t used, shared, cached, pinned;
};
struct memory_use memory_use(const struct memory *m);
size_t memory_most_pages(const struct memory *m); /* of the largest pool */

/* Pages for positions up to `end`, those from `pos` on fit for writing. -1: done; else the group
 * that has no free page: what was reserved stays, and the caller makes one free and asks again. */
int32_t memory_reserve(
	struct memory *m, struct memory_table *t, int64_t request, int32_t pos, int32_t end);
/* Block b from the prefix cache or another sequence, the next one of t: a page or -1 for each
 * group. */
void memory_share(
	struct memory *m, struct memory_table *t, int64_t request, const int32_t page[MEMORY_GROUPS]);
/* The first n blocks of another sequence. */
void memory_fork(struct memory *m, struct memory_table *t, int64_t request,
	const struct memory_table *from, int32_t n);
/* Pages that no row at pos or after it reads go back. */
void memory_give_back(struct memory *m, struct memory_table *t, int64_t request, int32_t pos);
/* All blocks from `n` on go back, the last first. */
void memory_drop(struct memory *m, struct memory_table *t, int64_t request, int32_t n);

/* The last position, at most `want`, from which a sequence can go on whose positions up to `at` are
 * computed: every group still has what rows from there on read. */
int32_t memory_resume(
	const struct memory *m, const struct memory_table *t, int32_t at, int32_t want);
/* Blocks of group g that rows at pos and after it read, pos's own the last: ranges that ascend and
 * do not meet. Returns how many. */
int32_t memory_read_blocks(
	const struct memory *m, int32_t g, int32_t pos, struct k_range out[VISIBLE_RANGES]);
bool memory_reads_block(const struct memory *m, int32_t g, int32_t pos, int32_t block);
/* Is a page of some group a state, which holds for the end of its positions alone? */
bool memory_has_states(const struct memory_specs *m);

/* ---- steps ---- */

/* All scratch pages are free again. */
void memory_begin_step(struct memory *m);
/* Rows at pos … pos + n - 1 of one sequence, in a group of states: each goes on from the one
 * before, the first from the state in the table, and the state is stored at the end of every block
 * and of the rows. */
void memory_chain(
	int32_t page_size, const int32_t *table, int32_t pos, int32_t n, struct k_state_row *row);

/* ---- kinds ---- */

struct memory_kind {
	const char *name, *doc;
	enum ev_code_memory_kind code;
	/* A page is a state: it holds for the end of its positions, or for the newest of them. Else it
	 * holds for each. */
	bool is_state;
	size_t (*page_bytes)(const struct memory_spec *s, int32_t page_size);
	/* Positions that a row at pos reads, as visible_ranges() does; later rows read no others of
	 * those up to pos. Returns how many ranges, at most VISIBLE_RANGES; the first of them are not
	 * empty. */
	int32_t (*see)(
		const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out);
};
/* Of kinds that keep keys and values for each position. */
size_t memory_keys_bytes(const struct memory_spec *s, int32_t page_size);
int32_t memory_keys_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out);
/* page_bytes and see of kinds that are states. */
size_t memory_state_bytes(const struct memory_spec *s, int32_t page_size);
int32_t memory_state_see(
	const struct memory_spec *s, const struct visible *v, int32_t pos, struct k_range *out);
extern const struct memory_kind memory_paged, memory_window, memory_recent, memory_recurrent,
	memory_kept;
/* The table; ends with NULL. */
extern const struct memory_kind *const memory_kinds[];
/* By the code in the log; NULL: there is none. */
const struct memory_kind *memory_kind_of(int64_t code);
