/* A file layer under a recording's connection that writes a transaction to the WAL in one piece. SQLite makes two system
 * calls for each of its pages, a dozen pages a commit: about half of what writing costs the processor.
 *
 * Invariants: (1) what follows on what was written just before is held back, and written at the latest by the call that
 * brings the last page of a transaction, whose result is that of the whole; only then does SQLite tell readers of it. (2)
 * Every other call finds the file as it would be without this layer. All else is the default VFS's.
 *
 * Thread: the connection's. */
#ifndef CUTAWAY_TRACE_WAL_FILE_H
#define CUTAWAY_TRACE_WAL_FILE_H

struct wal_layer;

/* Over the VFS that is the default now. NULL: no memory. Closed after its connections. */
struct wal_layer *wal_layer_open(void);
void wal_layer_close(struct wal_layer *layer);
/* To open a connection by. */
const char *wal_layer_name(const struct wal_layer *layer);

#endif
