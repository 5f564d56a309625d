/* The file of `chat --commands`: reads its lines without blocking. Thread: the UI's. */
#pragma once

#include "base/err.h"

struct script;

/* A file, or a pipe that somebody writes to, now or later. A terminal is refused: its input belongs
 * to the prompt. */
int script_open(struct script **s, const char *path, struct err *e);
void script_close(struct script *s);   /* NULL is fine */
int script_fd(const struct script *s); /* readable: there may be a line */
/* 1: a line, malloc'd, without its end. 0: none yet. -1: there are no more; with the error if
 * reading failed. */
int script_line(struct script *s, char **line, struct err *e);
