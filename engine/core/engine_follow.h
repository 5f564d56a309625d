/* A rank other than 0 (engine/ranks/ranks.h): an engine that never plans. It opens the same file
 * with the same settings as rank 0's, and computes its part of each step that rank 0 sends. Thread:
 * one of its own. */
#pragma once

#include "base/err.h"
#include "engine/ranks/transport.h"

/* What it does until rank 0 says that it ends, or is gone. Closes t. */
int engine_follow(struct transport *t, struct err *err);
/* What a process of MPI that is not rank 0 does: all engines of rank 0, until
 * that ends. Thread: main. */
int engine_follow_all(struct err *err);
