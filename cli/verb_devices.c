/* cutaway devices: lists what a back end can run on: the processor's instruction sets, and GPUs.
 * Thread: main's. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "kernels/kernels.h"

enum { MOST = 64 };

/* Instruction sets of this processor, best first. */
static void print_cpu(void)
{
	printf("cpu    ");
	for (const char *const *isa = k_isas(); *isa; isa++)
		printf(" %s", *isa);
	printf("\n");
}

static void print_table(const struct k_device_info *d, int n, const char *why)
{
	print_cpu();
	printf("%-5s  %-32s %10s %5s %10s %7s  %s\n", "index", "name", "memory", "SMs", "capability",
		"driver", "usable");
	for (int i = 0; i < n; i++) {
		printf("%5d  %-32s %7.1f GB %5d %8d.%d %4d.%d    %s\n", d[i].index, d[i].name,
			(double)d[i].memory_bytes / 1e9, d[i].processors, d[i].major, d[i].minor,
			d[i].driver / 1000, d[i].driver % 1000 / 10, *d[i].unfit ? "no" : "yes");
		if (*d[i].unfit)
			printf("       %s\n", d[i].unfit);
	}
	if (*why)
		printf("%s\n", why);
	for (int i = 0; i < n; i++)
		if (!*d[i].unfit) {
			printf("all modes give the CPU's bits\n");
			break;
		}
	if (*k_cuda_build())
		printf("this build has CUDA kernels for %s\n", k_cuda_build());
	else
		printf("this build has no CUDA kernels: it was made without nvcc\n");
}

static int print_json(const struct k_device_info *d, int n, const char *why, struct err *e)
{
	struct json j = { 0 };

	json_object(&j, NULL);
	json_text(&j, "build", k_cuda_build());
	json_text(&j, "why", why);
	json_array(&j, "cpu");
	for (int i = 0; k_isas()[i]; i++)
		json_text(&j, NULL, k_isas()[i]);
	json_end(&j);
	json_array(&j, "devices");
	for (int i = 0; i < n; i++) {
		json_object(&j, NULL);
		json_int(&j, "index", d[i].index);
		json_text(&j, "name", d[i].name);
		json_int(&j, "memory_bytes", (int64_t)d[i].memory_bytes);
		json_int(&j, "processors", d[i].processors);
		json_int(&j, "capability", d[i].major * 10 + d[i].minor);
		json_int(&j, "driver", d[i].driver);
		json_bool(&j, "usable", !*d[i].unfit);
		json_text(&j, "why", d[i].unfit);
		json_end(&j);
	}
	return json_print(&j, e);
}

static int devices_verb(const struct cli *c, struct err *e)
{
	struct k_device_info d[MOST];
	struct err why = { 0 };
	int n = k_devices(d, MOST, &why);

	n = n < 0 ? 0 : n;
	if (!c->json)
		print_table(d, n, why.text);
	else if (print_json(d, n, why.text, e))
		return -1;
	return out_flush(e);
}

const struct verb verb_devices = {
	.name = "devices",
	.operands = "",
	.summary = "instruction sets and GPUs, and why one cannot be used",
	.doc =
		"Lists the instruction sets of this processor that there are kernels for, best first "
		"(CUTAWAY_ISA=NAME allows none better than NAME), and the devices of the CUDA driver: "
		"number, name, memory, multiprocessors, compute capability and driver, whether this build "
		"has kernels for it, and if it cannot be used, why. Says for which architectures the build "
		"has kernels. Exit status 0 whether or not there are any.",
	.example = "cutaway devices --json",
	.takes = "json",
	.run = devices_verb,
};
