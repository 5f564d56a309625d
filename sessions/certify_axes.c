/* The axes of certify: what their values are, what they mean to the engine, and by what one sees
 * that they were at work. See certify_private.h. Thread: any; no state. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sessions/certify_private.h"

static void add_value(struct axis_values *a, const char *value)
{
	if (a->n < AXIS_VALUES)
		a->value[a->n++] = value;
}

static bool driver_is_named(void)
{
	const char *name = getenv("CUTAWAY_CUDA_DRIVER");

	return name && *name;
}

/* A GPU in each of its ways, if the first one can be used. */
static void add_devices(struct axis_values *a)
{
	struct k_device_info d;

	if (k_devices(&d, 1, NULL) < 1 || *d.unfit)
		return;
	add_value(a, "cuda:persistent");
	if (driver_is_named()) /* the shim, for tests: slow, and one way is to do */
		return;
	add_value(a, "cuda:graph");
	add_value(a, "cuda:launches");
}

/* The best is the base, whatever this machine has. Scalar code, the reference split among threads,
 * is the last; --quick does without it. */
static void fill_kernels(struct axis_values *a)
{
	const char *const *isas = k_isas();
	const char *scalar = NULL;
	for (int i = 0; isas[i]; i++)
		if (i && !strcmp(isas[i], "scalar"))
			scalar = isas[i];
		else
			add_value(a, isas[i]);
	add_value(a, "ref");
	add_devices(a);
	a->n_quick = a->n;
	if (scalar)
		add_value(a, scalar);
}

static void fill_threads(struct axes *axes)
{
	static const char *const threads[] = {"1", "3", "7", "2"};
	struct axis_values *a = &axes->axis[AXIS_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	snprintf(axes->base_threads, sizeof axes->base_threads, "%ld",
			 cores < 1	  ? 1
			 : cores > 64 ? 64
						  : cores);
	add_value(a, axes->base_threads);
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
		if (strcmp(threads[i], axes->base_threads))
			add_value(a, threads[i]);
	a->n_quick = a->n < 3 ? a->n : 3;
}

void axes_fill(struct axes *a)
{
	static const struct axis_values constant[N_AXES] = {
		[AXIS_KERNELS] = {"kernels", 0, 0, {0}},
		[AXIS_THREADS] = {"threads", 0, 0, {0}},
		[AXIS_PAGE_SIZE] = {"page size", 5, 2, {"16", "64", "32", "48", "128"}},
		[AXIS_PAGE_ORDER] = {"page order", 2, 2, {"ascending", "shuffled"}},
		[AXIS_CHUNK] = {"prefill chunk", 5, 2, {"whole", "7", "64", "1", "512"}},
		[AXIS_COMPANY] = {"company", 18, 3, {"0",  "3",	 "17", "1",	 "2",  "4",	 "5",  "6",	 "7",
											 "8",  "9",	 "10", "11", "12", "13", "14", "15", "16"}},
		[AXIS_ROW] = {"row", 6, 2, {"0", "5", "1", "2", "11", "16"}},
		[AXIS_PREFIX] = {"prefix", 2, 2, {"cold", "hit"}},
		[AXIS_PREEMPTION] = {"preemption", 2, 2, {"never", "forced"}},
		[AXIS_DRAFTS] = {"drafts", 9, 2, {"0", "4", "8", "1", "2", "3", "5", "6", "7"}},
		[AXIS_WATCHED] = {"watched", 3, 3, {"no", "attention", "recorded"}},
	};
	memset(a, 0, sizeof *a);
	memcpy(a->axis, constant, sizeof constant);
	fill_kernels(&a->axis[AXIS_KERNELS]);
	fill_threads(a);
}

const char *axes_chosen(const struct certify_plan *p, enum axis a)
{
	return p->axes->axis[a].value[p->choice[a]];
}

int axes_number(const struct certify_plan *p, enum axis a)
{
	return atoi(axes_chosen(p, a));
}

/* "cuda:graph": behind the colon, how it runs; NULL for other kernels. */
static const char *cuda_mode(const char *kernels)
{
	return strncmp(kernels, "cuda:", 5) ? NULL : kernels + 5;
}

bool axes_slow(const struct axes *a, int kernels)
{
	const char *name = a->axis[AXIS_KERNELS].value[kernels];
	return !strcmp(name, "ref") || !strcmp(name, "scalar") || (cuda_mode(name) && driver_is_named());
}

bool axes_agree(const struct axes *axes, int a, int i, int b, int j)
{
	if (a > b)
		return axes_agree(axes, b, j, a, i);
	if (!i || !j)
		return true;
	if (a == AXIS_COMPANY && b == AXIS_ROW) /* those ahead are part of the company */
		return atoi(axes->axis[b].value[j]) <= atoi(axes->axis[a].value[i]);
	/* a pool small enough to preempt has no room for a crowd, and takes two to fill */
	if ((a == AXIS_COMPANY || a == AXIS_ROW) && b == AXIS_PREEMPTION)
		return atoi(axes->axis[a].value[i]) <= 5 &&
			   (a == AXIS_ROW || atoi(axes->axis[a].value[i]) >= 2);
	if (a == AXIS_KERNELS && (b == AXIS_COMPANY || b == AXIS_ROW)) /* a crowd takes them minutes */
		return !axes_slow(axes, i) || atoi(axes->axis[b].value[j]) <= 5;
	/* the short texts of slow kernels end before a large chunk does */
	return !(a == AXIS_KERNELS && b == AXIS_CHUNK && axes_slow(axes, i) &&
			 atoi(axes->axis[b].value[j]) > 7);
}

int axes_company(const struct certify_plan *p, int *ahead)
{
	int n = axes_number(p, AXIS_COMPANY), row = axes_number(p, AXIS_ROW);
	if (n < row)
		n = row;
	if (p->choice[AXIS_PREEMPTION]) {
		n = n < 2 ? 2 : n;
		*ahead = n; /* the youngest is preempted: that must be ours */
	} else {
		*ahead = row;
	}
	return n;
}

/* So many that they need one more page a few steps after our prompt is through. */
int32_t axes_elder_tokens(const struct certify_plan *p)
{
	int32_t size = axes_number(p, AXIS_PAGE_SIZE), chunk = axes_number(p, AXIS_CHUNK);
	int32_t steps = chunk && !p->choice[AXIS_PREFIX] ? (p->work.n_ids + chunk - 1) / chunk : 1;
	int32_t tokens = size - 2 - steps % size;
	return tokens < 1 ? tokens + size : tokens;
}

/* Preemption: room for our prompt and for what is there first, and not for its next pages. */
static int32_t pool(const struct certify_plan *p, int32_t size)
{
	int ahead;
	int company = axes_company(p, &ahead);
	int32_t chunk = axes_number(p, AXIS_CHUNK);
	int32_t steps = chunk && !p->choice[AXIS_PREFIX] ? (p->work.n_ids + chunk - 1) / chunk : 1;
	int32_t whole = (p->work.n_ids + p->work.n_generated + size - 1) / size;
	int32_t elder = (axes_elder_tokens(p) + steps + size) / size;
	int32_t pages = (p->work.n_ids + 3) / size + 1 + company * elder;
	if (!p->choice[AXIS_PREEMPTION])
		return CERTIFY_SLOTS * 640 / size;
	return pages < whole ? whole : pages;
}

struct engine_options axes_options(const struct certify_plan *p)
{
	static const char *const spec[] = {
		"off",		   "ngram:1,1,4", "ngram:2,1,4", "ngram:3,1,4", "ngram:4,1,4",
		"ngram:5,1,4", "ngram:6,1,4", "ngram:7,1,4", "ngram:8,1,4",
	};
	struct engine_options o = ENGINE_DEFAULTS;
	const char *kernels = axes_chosen(p, AXIS_KERNELS);
	bool ref = !strcmp(kernels, "ref");
	o.model = p->model;
	o.cuda_mode = cuda_mode(kernels);
	o.backend = ref ? "ref" : o.cuda_mode ? "cuda" : "cpu";
	o.isa = ref || o.cuda_mode ? NULL : kernels;
	o.threads = axes_number(p, AXIS_THREADS);
	o.page_size = axes_number(p, AXIS_PAGE_SIZE);
	o.prefill_chunk = axes_number(p, AXIS_CHUNK); /* "whole" is 0 */
	o.prefix_cache = p->choice[AXIS_PREFIX] != 0;
	o.spec = spec[axes_number(p, AXIS_DRAFTS)];
	o.slots = CERTIFY_SLOTS;
	o.budget = CERTIFY_BUDGET;
	o.pages = pool(p, o.page_size);
	return o;
}

/* ---- evidence ---- */

__attribute__((format(printf, 3, 4))) static void say(char *seen, size_t cap, const char *form, ...)
{
	size_t n = strlen(seen);
	va_list args;
	if (n && n + 2 < cap)
		n += (size_t)snprintf(seen + n, cap - n, ", ");
	va_start(args, form);
	vsnprintf(seen + n, cap - n, form, args);
	va_end(args);
}

static bool kernels_at_work(const char *value, const struct evidence *ev)
{
	if (cuda_mode(value))
		return !strcmp(ev->backend, "cuda") && !strcmp(ev->isa, cuda_mode(value));
	return !strcmp(value, "ref") ? !strcmp(ev->backend, "ref")
								 : !strcmp(ev->backend, "cpu") && !strcmp(ev->isa, value);
}

bool axes_at_work(const struct certify_plan *p, enum axis a, const struct evidence *ev, char *seen,
				  size_t cap)
{
	int want = axes_number(p, a);
	switch (a) {
	case AXIS_KERNELS:
		return kernels_at_work(axes_chosen(p, a), ev);
	case AXIS_THREADS:
		return ev->threads == want;
	case AXIS_PAGE_SIZE:
		return ev->page_size == want && ev->taken;
	case AXIS_PAGE_ORDER:
		say(seen, cap, "%lld of %lld pages apart", (long long)ev->apart, (long long)ev->taken);
		return ev->apart > 0;
	case AXIS_CHUNK:
		say(seen, cap, "%lld rows at once", (long long)ev->most_rows);
		return ev->most_rows == want;
	case AXIS_COMPANY:
		say(seen, cap, "%lld requests in a step", (long long)ev->most_members);
		return ev->most_members == want + 1;
	case AXIS_ROW:
		say(seen, cap, "%lld rows before ours", (long long)ev->most_before);
		return ev->most_before >= want;
	case AXIS_PREFIX:
		say(seen, cap, "%lld tokens from the cache", (long long)ev->hit);
		return ev->hit > 0;
	case AXIS_PREEMPTION:
		say(seen, cap, "preempted %lld times", (long long)ev->preempted);
		return ev->preempted > 0;
	case AXIS_DRAFTS:
		say(seen, cap, "%lld drafts judged, %lld accepted", (long long)ev->judged,
			(long long)ev->accepted);
		return ev->judged > 0 && ev->most_drafts == want;
	case AXIS_WATCHED:
		say(seen, cap, "%lld looks at attention", (long long)ev->watched);
		if (!strcmp(axes_chosen(p, a), "recorded"))
			say(seen, cap, "%lld events on disk", (long long)ev->recorded);
		return ev->watched > 0 && (strcmp(axes_chosen(p, a), "recorded") || ev->recorded > 0);
	case N_AXES:
		break;
	}
	return false;
}
