/* Presets: settings under a name, a file of lines "NAME VALUE" in presets/ under XDG data. In a
 * value \n is a line's end, \t a tab and \\ a backslash. Thread: any that does not change the
 * environment. */
#pragma once

#include <stdio.h>

#include "base/err.h"

/* Its file, malloc'd; ERR_USAGE for a name that a file could not have, or that hides. */
int preset_path(const char *name, char **path, struct err *e);
/* Name i of those there are, in order, malloc'd; NULL: there are no more. */
char *preset_name(int i);

/* Calls fn for each setting until it returns other than 0, which is returned; -1 with ERR_IO for a
 * file that cannot be read. Texts live as long as the call. */
int preset_read(const char *name,
	int (*fn)(void *arg, const char *name, const char *value, struct err *e), void *arg,
	struct err *e);
void preset_put(FILE *out, const char *name, const char *value);
