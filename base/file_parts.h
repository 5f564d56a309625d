/* Models whose file is in parts, named as gguf-split names them: NAME-00001-of-00003.gguf. By the
 * name of any part all are meant. Thread: any. */
#pragma once

/* How many parts the file's name says there are, and in *no (NULL: unasked) which of them it is,
 * from 0: 1 and 0 for a file that is whole. */
int file_parts(const char *path, int *no);
/* The path of part `no` (from 0) of them; malloc'd, NULL: no memory. */
char *file_part_path(const char *path, int no);
