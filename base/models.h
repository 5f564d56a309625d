/* Model files where they are fetched to: models/ beside the program, where `make install` would
 * look, in the current folder, under XDG data; and the small ones of demos/models/family. Reads the
 * folders, never the files. Thread: any; of models_name(), the main one. */
#pragma once

#include "base/err.h"

/* Path of the model that a word names: a file that is there; else one of those folders' whose name
 * is or, as the only one, begins like it, in any case ("gemma"). A word that names nothing is
 * returned as it is: opening it says why. ERR_USAGE: several names begin so. *path is malloc'd. */
int models_find(const char *what, char **path, struct err *e);
/* Path of the one that a word names in those folders, where no file here has that name: opening it
 * opens nothing of a stranger's choosing. NULL: it names none, or several. malloc'd. */
char *models_own(const char *word);
/* Name i of the files there, for completion; NULL: there are no more. Valid until models_name(0) is
 * asked, which reads the folders again. */
const char *models_name(int i);
