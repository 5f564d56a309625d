/* For tests: a VFS of SQLite that remembers every write, truncation, sync and change of the
 * directory, and makes of them what a disk may hold after the power went off at any moment.
 *
 * The model of the disk: what was synced is there. Of what was not, any sector of 512 bytes may be
 * there or be the old one, in any order; one that was never written before may hold anything; the
 * length of a file is old, new or between. Entries of a directory are there once the directory was
 * synced; those after that come and go in order. A sector that was there once does not break, and
 * memory that processes share is lost, or anything.
 *
 * As in SQLite's own test of this ("How SQLite is tested", 3.3; src/test6.c). Thread: one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From here to power_end SQLite's files go through it. -1: no memory. */
int power_begin(void);
void power_end(void);
void power_forget(void); /* frees what was remembered */

/* From now on each sync fails. */
void power_fail_syncs(void);

/* Notes what must survive from here on; power_cut returns the newest such number. */
void power_promise(int64_t what);

size_t power_n_ops(void);
/* Whether the operation made something durable, or is of the main file: where it is worth to look
 * closely. */
bool power_is_turn(size_t op);
/* Writes into a folder the files as they may be when the power goes off behind the first n_ops
 * operations. */
int64_t power_cut(size_t n_ops, uint64_t seed, const char *folder);
