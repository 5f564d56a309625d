/* The file of a recorded session, and what lies beside it when its session was killed (-wal …): may
 * it be changed, move it, delete it. Thread: any. */
#pragma once

#include "sessions/history/listed.h"

/* What is being written stays, and so does a file that is no recording, unless it lies where only
 * recordings do: ERR_USAGE, ERR_INPUT. what: "name", "delete", for the error. *l: what it is. */
int session_file_ours(const char *path, const char *what, struct listed *l, struct err *e);
/* A new name never replaces a file: ERR_IO. */
int session_file_move(const char *from, const char *to, struct err *e);
int session_file_delete(const char *path, struct err *e);
