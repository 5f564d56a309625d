/* cutaway cache: the packed weights that are kept. Thread: main's. */
#include "base/listing.h"
#include "base/text.h"
#include "cli/cli.h"
#include "engine/model/packed_cache.h"

struct sum {
	struct listing listing;
	uint64_t bytes;
	int n;
};

static const struct listing_column columns[] = { { "bytes", "size", 11 },
	{ "used_unix", "used", -16 }, { "name", "model", -32 }, { "layout", "layout", -24 },
	{ "sha256", "sha256 of the model", 0 }, { 0 } };

static void list_file(void *arg, const struct packed_file *f)
{
	struct sum *sum = arg;

	listing_as(&sum->listing, "%.1f MB", (double)f->bytes / 1e6);
	listing_int(&sum->listing, (int64_t)f->bytes);
	listing_as_time(&sum->listing, f->used);
	listing_int(&sum->listing, f->used);
	listing_text(&sum->listing, *f->name ? f->name : "(damaged: the next start deletes it)");
	listing_text(&sum->listing, f->layout);
	listing_as(&sum->listing, "%.16s", f->sha256);
	listing_text(&sum->listing, f->sha256);
	sum->bytes += f->bytes;
	sum->n++;
}

static int list(const char *folder, const struct cli *c, struct err *e)
{
	struct sum sum = { 0 };
	struct json j = { 0 };

	if (c->json)
		json_array(&j, NULL);
	if (listing_open(&sum.listing, columns, stdout, c->json ? &j : NULL, c->csv, e) ||
		listing_end(&sum.listing, packed_cache_list(folder, list_file, &sum, e), e))
		return -1;
	if (!c->json)
		printf("%8.1f MB in %d file%s under %s\n", (double)sum.bytes / 1e6, sum.n, plural(sum.n),
			folder);
	return 0;
}

static int clear(const char *folder, struct err *e)
{
	uint64_t bytes;
	int n, status = packed_cache_clear(folder, &n, &bytes, e);

	printf("%d file%s deleted, %.1f MB\n", n, plural(n), (double)bytes / 1e6);
	return status;
}

static int cache_verb(const struct cli *c, struct err *e)
{
	char *folder = NULL;
	int status;

	if (c->n_operands && strcmp(c->operand[0], "clear"))
		return err_set(e, ERR_USAGE,
			"cache %s: there is only `cutaway cache` and `cutaway cache clear`", c->operand[0]);
	if (c->n_operands && (c->json || c->csv))
		return err_set(e, ERR_USAGE, "--json and --csv are of the list, without clear");
	if (packed_cache_folder(&folder, e))
		return -1;
	status = c->n_operands ? clear(folder, e) : list(folder, c, e);
	free(folder);
	return status;
}

const struct verb verb_cache = {
	VERB_BARE(cache, "[clear]", "json|csv"),
	OPERANDS(0, 1, "clear"),
};
