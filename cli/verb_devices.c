/* cutaway devices: lists what a back end can run on: the processor's instruction sets, and GPUs.
 * Thread: main's. */
#include "base/listing.h"
#include "cli/cli.h"
#include "kernels/kernels.h"

enum { MOST = 64 };

static const struct listing_column columns[] = { { "index", "index", 5 }, { "name", "name", -32 },
	{ "memory_bytes", "memory", 10 }, { "processors", "SMs", 5 },
	{ "capability", "capability", 10 }, { "driver", "driver", 7 }, { "usable", "usable", 6 },
	{ "why", "", 0 }, { 0 } };

static void list_device(struct listing *l, const struct k_device_info *d)
{
	listing_int(l, d->index);
	listing_text(l, d->name);
	listing_as(l, "%.1f GB", (double)d->memory_bytes / 1e9);
	listing_int(l, (int64_t)d->memory_bytes);
	listing_int(l, d->processors);
	listing_as(l, "%d.%d", d->major, d->minor);
	listing_int(l, d->major * 10 + d->minor);
	listing_as(l, "%d.%d", d->driver / 1000, d->driver % 1000 / 10);
	listing_int(l, d->driver);
	listing_bool(l, !*d->unfit);
	listing_text(l, d->unfit);
}

static void print_rest(const struct k_device_info *d, int n, const char *why)
{
	bool usable = false;

	for (int i = 0; i < n; i++)
		usable |= !*d[i].unfit;
	if (*why)
		printf("%s\n", why);
	if (usable)
		printf("all modes give the CPU's bits\n");
	if (*k_cuda_build())
		printf("this build has CUDA kernels for %s\n", k_cuda_build());
	else
		printf("this build has no CUDA kernels: it was made without nvcc\n");
}

static void begin_json(struct json *j, const char *why)
{
	json_put(j, "{'build': %s, 'why': %s, 'cpu': [", k_cuda_build(), why);
	for (int i = 0; k_isas()[i]; i++)
		json_text(j, NULL, k_isas()[i]);
	json_end(j);
	json_array(j, "devices");
}

static int devices_verb(const struct cli *c, struct err *e)
{
	struct k_device_info d[MOST];
	struct err why = { 0 };
	int n = k_devices(d, MOST, &why);

	struct listing l;
	struct json j = { 0 };

	n = n < 0 ? 0 : n;
	if (c->json)
		begin_json(&j, why.text);
	for (const char *const *isa = k_isas(); !c->json && *isa; isa++) /* best first */
		printf("%s %s%s", isa == k_isas() ? "cpu    " : "", *isa, isa[1] ? "" : "\n");
	if (listing_open(&l, columns, stdout, c->json ? &j : NULL, c->csv, e))
		return -1;
	for (int i = 0; i < n; i++)
		list_device(&l, &d[i]);
	if (listing_end(&l, 0, e))
		return -1;
	if (!c->json)
		print_rest(d, n, why.text);
	return 0;
}

const struct verb verb_devices = {
	VERB_BARE(devices, "", "json|csv"),
};
