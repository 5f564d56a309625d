/* cutaway cache: the packed weights that are kept. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "engine/model/packed_cache.h"

struct sum {
	uint64_t bytes;
	int n;
};

/* The header of a file is untrusted text. */
static void print_clean(const char *text, int width)
{
	char *clean = text_clean(text, strlen(text), false, NULL);

	printf("%-*s  ", width, clean ? clean : "");
	free(clean);
}

static void print_file(void *arg, const struct packed_file *f)
{
	struct sum *sum = arg;
	time_t used = (time_t)f->used;
	char when[32] = "";
	struct tm local;

	if (localtime_r(&used, &local))
		strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
	printf("%10.1f MB  used %-16s  ", (double)f->bytes / 1e6, when);
	print_clean(*f->name ? f->name : "(damaged: the next start deletes it)", 0);
	print_clean(f->layout, 0);
	printf("%.16s\n", f->sha256);
	sum->bytes += f->bytes;
	sum->n++;
}

static int list(const char *folder, struct err *e)
{
	struct sum sum = { 0 };

	if (packed_cache_list(folder, print_file, &sum, e))
		return -1;
	printf("%10.1f MB  in %d file%s under %s\n", (double)sum.bytes / 1e6, sum.n,
		sum.n == 1 ? "" : "s", folder);
	return 0;
}

static int clear(const char *folder, struct err *e)
{
	uint64_t bytes;
	int n, status = packed_cache_clear(folder, &n, &bytes, e);

	printf("%d file%s deleted, %.1f MB\n", n, n == 1 ? "" : "s", (double)bytes / 1e6);
	return status;
}

static int cache_verb(const struct cli *c, struct err *e)
{
	char *folder = NULL;
	int status;

	if (c->n_operands && strcmp(c->operand[0], "clear"))
		return err_set(e, ERR_USAGE,
			"cache %s: there is only `cutaway cache` and `cutaway cache clear`", c->operand[0]);
	if (packed_cache_folder(&folder, e))
		return -1;
	status = c->n_operands ? clear(folder, e) : list(folder, e);
	free(folder);
	return out_flush(e) ? -1 : status;
}

const struct verb verb_cache = {
	.name = "cache",
	.operands = "[clear]",
	.summary = "the packed weights that are kept for faster starts",
	.doc =
		"Lists the files of the cache of packed weights: model, layout, size, last use. A file is "
		"written by chat and run for a model whose packing takes longer than a second, or by "
		"--packed-cache on for any; together they have at most 32 GiB, and what was used longest "
		"ago goes first. `cutaway cache clear` deletes them all.",
	.example = "cutaway cache clear",
	.takes = "",
	.max_operands = 1,
	.run = cache_verb,
	.completes = "clear",
};
