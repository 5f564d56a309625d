/* See profile.h. Times are per token and add up: the stages, what the engine does around its kernels, and the loop
 * around the steps. "above" is a stage's time less that of its roof, the rates of reads being those beside each
 * run. Thread: any; no state. */
#include "sessions/profile.h"

#include "kernels/kernels.h"

static const char *const names[] = {
#define X(name, label, doc) [K_STAGE_##name] = #name,
	K_STAGES(X)
#undef X
};

static const char *const phases[BENCH_N_PHASES] = {
	[BENCH_DECODE] = "decode, one sequence",
	[BENCH_DEEP] = "decode, one sequence, 1,024 tokens deep",
	[BENCH_PREFILL] = "prefill, 512 tokens",
};

static void print_line(const char *name, double us, double wall, FILE *f)
{
	fprintf(f, "%-18s %10.2f %6.1f%%\n", name, us, 100 * us / wall);
}

static void print_stage(const char *name, const struct bench_stage *s, double tokens, double wall,
						const struct bench_report *r, FILE *f)
{
	double us = s->ns / tokens / 1e3, roof = s->roof_ns / tokens / 1e3;
	bool reads = s->bytes / r->read_gb_s.median > s->ops / (2 * r->int_gmac_s.median);
	fprintf(f, "%-18s %10.2f %6.1f%% %9.3f %9.3f %10.2f  %-8s %6.0f%% %10.2f\n", name, us,
			100 * us / wall, s->bytes / tokens / 1e6, s->ops / tokens / 1e6, roof,
			reads ? "reads" : "integers", 100 * roof / us, us - roof);
}

static void print_phase(const struct bench_report *r, const char *name,
						const struct bench_profile *p, FILE *f)
{
	double wall = p->wall_ns / p->tokens / 1e3;
	struct bench_stage all = {0};
	fprintf(f, "\n%s: %.0f tokens in %.0f steps, %.2f us a token\n\n", name, p->tokens, p->steps,
			wall);
	fprintf(f, "%-18s %10s %7s %9s %9s %10s  %-8s %7s %10s\n", "stage", "us a token", "share", "MB",
			"M op", "roof, us", "limit", "of it", "above, us");
	for (int i = 0; i < EV_N_stage; i++) {
		const struct bench_stage *s = &p->stage[i];
		if (!(s->ns > 0))
			continue;
		print_stage(names[i], s, p->tokens, wall, r, f);
		all.ns += s->ns;
		all.bytes += s->bytes;
		all.ops += s->ops;
		all.roof_ns += s->roof_ns;
	}
	print_stage("all stages", &all, p->tokens, wall, r, f);
	print_line("  of which gates", p->gates_ns / p->tokens / 1e3, wall, f);
	print_line("begin, end of walk", (p->kernel_ns - all.ns) / p->tokens / 1e3, wall, f);
	print_line("plan, draw, events", (p->step_ns - p->kernel_ns) / p->tokens / 1e3, wall, f);
	print_line("between steps", (p->wall_ns - p->step_ns) / p->tokens / 1e3, wall, f);
}

void profile_print(const struct bench_report *r, FILE *f)
{
	for (int i = 0; i < BENCH_N_PHASES; i++)
		if (r->profile[i].tokens > 0)
			print_phase(r, phases[i], &r->profile[i], f);
}
