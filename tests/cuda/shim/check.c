/* See check.h. A record of an access is one number: time << 24 | thread's number in the launch << 4
 * | kind. Times only grow, over all launches, so what an earlier launch left is told by its time
 * and nothing is ever cleared. */
#include "tests/cuda/shim/check.h"

#ifdef SHIM_CHECKED

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NOWHERE, UNWRITTEN, WRITTEN, UNDER_WAY, SPLIT = 0x80 }; /* states of a byte */
enum { PLAIN = 8, ATOMIC = 9 };                                /* kinds of a record; 0: none */
enum { N_READERS = 4 };

struct cell {
	uint64_t writer, reader[N_READERS];
	uint32_t writer_at, reader_at[N_READERS]; /* distance of the code from that of the library */
};

static unsigned char *state; /* [SHIM_ARENA_BYTES] */
static struct cell *cells;   /* [SHIM_ARENA_BYTES] touched where something was accessed */
static uintptr_t code;       /* where the library begins */
static uintptr_t constants[8][2];
static int n_constants;

/* Up to which time a thread knows the accesses of each thread of the launch: of those before it. */
typedef uint64_t *vector;

static uint64_t top;    /* no thread has had a later time */
static uint64_t before; /* what is not later was in an earlier launch */
static uint64_t ended;  /* and in one that has ended whether or not a thread followed */
static bool *followed;  /* [n_numbers] cu_follow() */
static bool met;        /* the host was there since the last launch */
static int n_numbers;   /* threads of the launch */
static uint64_t *now;   /* [n_numbers] */
static uint64_t *in_warp, *in_block; /* [n_numbers] time that warp and block know of a thread */
/* [n_blocks], [n_warps], [n_numbers]; NULL: nothing */
static vector *of_block, *of_warp, *of_thread;
static uint64_t *since; /* [n_blocks] shared memory: what is not later is another block's */

/* ---- vectors, and the words they travel through ---- */

struct word {
	const void *p;
	vector known;
	uint64_t version;
};
static struct word *words; /* [cap_words] open addressing */
static size_t n_words, cap_words;
struct acquired {
	const void *p;
	uint64_t version;
};
static struct acquired *acquired; /* [n_numbers] the last that it took, to spin for nothing */

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void join(vector *to, const uint64_t *from)
{
	if (!from)
		return;
	if (!*to)
		*to = must(calloc((size_t)n_numbers, sizeof **to));
	for (int i = 0; i < n_numbers; i++)
		(*to)[i] = (*to)[i] > from[i] ? (*to)[i] : from[i];
}

static struct word *find_word(const void *p)
{
	size_t i;

	if (2 * (n_words + 1) > cap_words) {
		struct word *old = words;
		const size_t n = cap_words;

		cap_words = n ? 2 * n : 256;
		words = must(calloc(cap_words, sizeof *words));
		n_words = 0;
		for (i = 0; i < n; i++)
			if (old[i].p)
				*find_word(old[i].p) = old[i];
		free(old);
	}
	for (i = ((uintptr_t)p >> 2) * 0x9e3779b97f4a7c15u % cap_words; words[i].p && words[i].p != p;)
		i = (i + 1) % cap_words;
	n_words += !words[i].p;
	words[i].p = p;
	return &words[i];
}

static int warp_number(const struct warp *w)
{
	return w->block->index * w->block->n_warps + w->number;
}

static void acquire(const struct thread *t, const void *p)
{
	const struct word *w = find_word(p);
	struct acquired *last = &acquired[t->number];

	if (!w->known || (last->p == p && last->version == w->version))
		return;
	join(&of_thread[t->number], w->known);
	*last = (struct acquired){ p, w->version };
}

static void raise_to(uint64_t *known, const uint64_t *times, int first, int n)
{
	for (int i = first; i < first + n; i++)
		known[i] = known[i] > times[i] ? known[i] : times[i];
}

static void release(const struct thread *t, const void *p)
{
	struct word *w = find_word(p);
	const struct block *b = t->block;

	if (!w->known)
		w->known = must(calloc((size_t)n_numbers, sizeof *w->known));
	join(&w->known, of_block[b->index]);
	join(&w->known, of_warp[warp_number(t->warp)]);
	join(&w->known, of_thread[t->number]);
	raise_to(w->known, in_block, b->thread[0].number, shim_launch_now.n_threads);
	raise_to(w->known, in_warp, t->warp->thread[0].number, t->warp->n);
	w->known[t->number] = ++now[t->number];
	top = top > now[t->number] ? top : now[t->number];
	w->version++;
}

/* ---- barriers ---- */

static void forget(vector *v, int n)
{
	for (int i = 0; v && i < n; i++)
		free(v[i]);
	free(v);
}

static void *fresh(size_t n, size_t size)
{
	return must(calloc(n, size));
}

void check_launch(bool early)
{
	static int n_blocks, n_warps;

	forget(of_block, n_blocks);
	forget(of_warp, n_warps);
	forget(of_thread, n_numbers);
	for (size_t i = 0; i < cap_words; i++)
		free(words[i].known);
	free(followed), free(words), free(now), free(in_warp), free(in_block), free(acquired),
		free(since);
	words = NULL;
	n_words = cap_words = 0;
	ended = early && !met ? before : top;
	before = top;
	met = false;
	n_blocks = shim_launch_now.n_blocks;
	n_numbers = n_blocks * shim_launch_now.n_threads;
	n_warps = n_blocks * ((shim_launch_now.n_threads + SHIM_WARP - 1) / SHIM_WARP);
	of_block = fresh((size_t)n_blocks, sizeof *of_block);
	of_warp = fresh((size_t)n_warps, sizeof *of_warp);
	of_thread = fresh((size_t)n_numbers, sizeof *of_thread);
	followed = fresh((size_t)n_numbers, sizeof *followed);
	now = fresh((size_t)n_numbers, sizeof *now);
	in_warp = fresh((size_t)n_numbers, sizeof *in_warp);
	in_block = fresh((size_t)n_numbers, sizeof *in_block);
	acquired = fresh((size_t)n_numbers, sizeof *acquired);
	since = fresh((size_t)n_blocks, sizeof *since);
}

void check_block_starts(struct block *b)
{
	const int first = b->index * shim_launch_now.n_threads;

	since[b->index] = top++;
	for (int i = 0; i < shim_launch_now.n_threads; i++)
		now[first + i] = top;
	memset(state + (b->shared - shim_arena), UNWRITTEN, shim_launch_now.shared_bytes);
	memset(state + (b->shared - shim_arena) + shim_launch_now.shared_bytes, NOWHERE,
		SHIM_SHARED_STRIDE - shim_launch_now.shared_bytes);
}

static void move(vector *to, vector *from)
{
	join(to, *from);
	free(*from);
	*from = NULL;
}

void check_block_met(struct block *b)
{
	for (int i = 0; i < shim_launch_now.n_threads; i++) {
		const int n = b->thread[i].number;

		in_warp[n] = in_block[n] = ++now[n];
		top = top > now[n] ? top : now[n];
		if (of_thread[n])
			move(&of_block[b->index], &of_thread[n]);
	}
	for (int i = 0; i < b->n_warps; i++)
		move(&of_block[b->index], &of_warp[warp_number(&b->warp[i])]);
}

void check_warp_met(struct warp *w)
{
	for (int i = 0; i < w->n; i++) {
		const int n = w->thread[i].number;

		in_warp[n] = ++now[n];
		top = top > now[n] ? top : now[n];
		if (of_thread[n])
			move(&of_warp[warp_number(w)], &of_thread[n]);
	}
}

/* ---- what is said ---- */

static void say_code(uintptr_t at)
{
	char command[512], line[256];
	Dl_info info;
	FILE *f;

	if (!dladdr((void *)at, &info))
		return;
	snprintf(command, sizeof command, "addr2line -s -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname,
		(size_t)(at - (uintptr_t)info.dli_fbase - 1));
	f = popen(command, "r");
	for (int i = 0; f && i < 4 && fgets(line, sizeof line, f); i++) {
		line[strcspn(line, "\n ")] = '\0';
		shim_say("%s%s", i ? " < " : " at ", line);
	}
	if (f)
		pclose(f);
}

static void say_thread(int number)
{
	shim_say("block %d, thread %d", number / shim_launch_now.n_threads,
		number % shim_launch_now.n_threads);
}

static void say_memory(const unsigned char *p)
{
	size_t bytes;
	ptrdiff_t at;

	if (p >= shim_arena && p < shim_arena + SHIM_SHARED_AREA)
		shim_say("shared memory of %zu bytes + %zu", shim_launch_now.shared_bytes,
			(size_t)(p - shim_arena) % SHIM_SHARED_STRIDE);
	else if (p >= shim_arena && p < shim_arena + SHIM_ARENA_BYTES && shim_find(p, &bytes, &at))
		shim_say("an allocation of %zu bytes %+td", bytes, at);
	else
		shim_say("%p, which is not the device's", (const void *)p);
}

static void say_access(const char *what, const char *access, const unsigned char *p, uintptr_t at)
{
	shim_say("%s: kernel %s, ", what, shim_launch_now.kernel->name);
	say_thread(shim_self->number);
	shim_say(" %s ", access);
	say_memory(p);
	say_code(at);
	shim_say("\n");
}

/* Both sides of a race; they are told apart by where they are. */
static void say_race(const char *access, const unsigned char *p, uintptr_t at, uint64_t record,
	const char *access_before, uint32_t at_before)
{
	const int other = record >> 4 & 0xfffff, own = shim_self->number, n = shim_launch_now.n_threads;
	const char *who = record >> 24 <= before           ? "a race with the kernel in front"
					  : other / n != own / n           ? "a race between blocks"
					  : other % n / 32 != own % n / 32 ? "a race between warps"
													   : "a race between lanes";

	say_access(who, access, p, at);
	shim_say("not ordered with: ");
	say_thread(other);
	shim_say(" %s", access_before);
	say_code(code + at_before);
	shim_say("\n");
}

/* ---- accesses ---- */

static bool knows(const struct thread *t, uint64_t record)
{
	const uint64_t time = record >> 24;
	const int other = record >> 4 & 0xfffff, of_block_first = t->number - t->index;
	const uint64_t *v;

	if (other == t->number)
		return true;
	if ((unsigned)(other - of_block_first) < (unsigned)shim_launch_now.n_threads) {
		const bool same_warp = (other - of_block_first) / SHIM_WARP == t->warp->number;

		if (time < (same_warp ? in_warp : in_block)[other])
			return true;
	}
	return ((v = of_block[t->block->index]) && time < v[other]) ||
		   ((v = of_thread[t->number]) && time < v[other]) ||
		   ((v = of_warp[warp_number(t->warp)]) && time < v[other]);
}

/* What shared memory holds of a block that had the slot before counts for nothing. */
static bool is_old(const struct thread *t, const unsigned char *p, uint64_t record)
{
	return p < shim_arena + SHIM_SHARED_AREA && record >> 24 <= since[t->block->index];
}

static inline bool races(
	const struct thread *t, const unsigned char *p, uint64_t record, uint64_t mine)
{
	if (record >> 24 <= before)
		return record >> 24 > ended && !followed[t->number] && p >= shim_arena + SHIM_SHARED_AREA;
	return record >> 24 > before && (record & mine & 15) != ATOMIC && !knows(t, record) &&
		   !is_old(t, p, record);
}

/* Keeps a reader; two are kept of blocks of even number and two of odd. Who goes is the same
 * thread, else the same warp, else the earlier one. */
static void note_reader(const struct thread *t, struct cell *c, uint64_t mine, uint32_t at)
{
	const int first = t->block->index % 2 * 2;
	uint64_t *r = c->reader + first;
	int victim = r[1] >> 24 < r[0] >> 24;

	if (((r[0] ^ mine) & 0xfffff0) == 0 || r[0] >> 24 <= before)
		victim = 0;
	else if (((r[1] ^ mine) & 0xfffff0) == 0 || r[1] >> 24 <= before)
		victim = 1;
	else if (((r[0] ^ mine) & 0xfffe00) == 0)
		victim = 0;
	else if (((r[1] ^ mine) & 0xfffe00) == 0)
		victim = 1;
	/* a plain read stays where the same thread's atomic one comes: it is the stricter */
	if ((r[victim] & 15) == PLAIN && (mine & 15) == ATOMIC && r[victim] >> 4 == mine >> 4)
		return;
	r[victim] = mine;
	c->reader_at[first + victim] = at;
}

static const unsigned char *of_own_block(const struct thread *t, const unsigned char *p)
{
	return p >= shim_arena + SHIM_SHARED_AREA ||
				   (size_t)(p - shim_arena) / SHIM_SHARED_STRIDE == (size_t)t->block->slot
			   ? p
			   : NULL;
}

static bool is_constant(const unsigned char *p, size_t bytes)
{
	for (int i = 0; i < n_constants; i++)
		if ((uintptr_t)p >= constants[i][0] && (uintptr_t)p + bytes <= constants[i][1])
			return true;
	return false;
}

__attribute__((noinline, noreturn)) static void stop_access(
	const char *what, const char *access, const unsigned char *p, uintptr_t at)
{
	say_access(what, access, p, at);
	shim_stop();
}

/* Is it device memory or the block's shared memory? False: the thread's own stack or a constant. */
static bool is_devices(
	const struct thread *t, const unsigned char *p, size_t bytes, bool write, uintptr_t at)
{
	const char *access = write ? "writes" : "reads";
	const unsigned char *stack = t->fiber.stack;

	if (p >= stack && p < stack + FIBER_GUARD + FIBER_STACK)
		return false;
	if (p < shim_arena || p + bytes > shim_arena + SHIM_ARENA_BYTES) {
		if (!write && is_constant(p, bytes))
			return false;
		stop_access("not device memory", access, p, at);
	}
	if (!of_own_block(t, p))
		stop_access("shared memory of another block", access, p, at);
	return true;
}

static void read_cell(
	const struct thread *t, const unsigned char *p, int s, uint64_t mine, uintptr_t at)
{
	struct cell *c = &cells[p - shim_arena];

	if (s != WRITTEN)
		stop_access(s == NOWHERE     ? "out of bounds"
					: s == UNDER_WAY ? "a copy under way is read"
									 : "nobody wrote what is read",
			"reads", p, at);
	if (races(t, p, c->writer, mine)) {
		say_race("reads", p, at, c->writer, "wrote", c->writer_at);
		shim_stop();
	}
	note_reader(t, c, mine, (uint32_t)(at - code));
}

static void write_cell(
	const struct thread *t, const unsigned char *p, int s, uint64_t mine, uintptr_t at)
{
	struct cell *c = &cells[p - shim_arena];

	if (s == NOWHERE || s == UNDER_WAY)
		stop_access(
			s == NOWHERE ? "out of bounds" : "a copy under way is written", "writes", p, at);
	if (races(t, p, c->writer, mine)) {
		say_race("writes", p, at, c->writer, "wrote", c->writer_at);
		shim_stop();
	}
	for (int k = 0; k < N_READERS; k++)
		if (races(t, p, c->reader[k], mine)) {
			say_race("writes", p, at, c->reader[k], "read", c->reader_at[k]);
			shim_stop();
		}
	memset(c->reader, 0, sizeof c->reader);
	c->writer = mine;
	c->writer_at = (uint32_t)(at - code);
}

/* From now on each byte of the word at p has a cell of its own. */
static void split(const unsigned char *p)
{
	unsigned char *s = state + (p - shim_arena);
	struct cell *c = &cells[p - shim_arena];

	if (s[0] & SPLIT)
		return;
	c[1] = c[2] = c[3] = c[0];
	for (int i = 0; i < 4; i++)
		s[i] |= SPLIT;
}

/* Words that were only ever met whole have one cell, that of their first byte. */
static void access_bytes(unsigned char *p, size_t bytes, unsigned kind, bool write, uintptr_t at)
{
	const struct thread *t = shim_self;
	const uint64_t mine = now[t->number] << 24 | (uint64_t)t->number << 4 | kind;

	while (bytes) {
		unsigned char *s = state + (p - shim_arena);
		uint32_t four;
		size_t n = 1;

		memcpy(&four, s, 4);
		if ((uintptr_t)p % 4 == 0 && bytes >= 4 && four == s[0] * 0x01010101u && !(s[0] & SPLIT))
			n = 4;
		else
			split(p - (uintptr_t)p % 4);
		(write ? write_cell : read_cell)(t, p, *s & ~SPLIT, mine, at);
		if (write && (*s & ~SPLIT) != WRITTEN)
			memset(s, WRITTEN | (*s & SPLIT), n);
		p += n;
		bytes -= n;
	}
}

static void loads(const void *p, size_t bytes, uintptr_t at)
{
	if (shim_self && is_devices(shim_self, p, bytes, false, at))
		access_bytes((unsigned char *)(uintptr_t)p, bytes, PLAIN, false, at);
}

static void stores(void *p, size_t bytes, uintptr_t at)
{
	if (shim_self && is_devices(shim_self, p, bytes, true, at))
		access_bytes(p, bytes, PLAIN, true, at);
}

/* ---- what kernels do through the shim's own functions ---- */

#define CALLER ((uintptr_t)__builtin_return_address(0))

void check_copy_asked(struct shim_site *at, void *to, const void *from)
{
	const uintptr_t here = CALLER;
	unsigned char *p = to;

	(void)at;
	loads(from, 16, here);
	if (!is_devices(shim_self, p, 16, true, here) || p >= shim_arena + SHIM_SHARED_AREA)
		stop_access("a copy to what is not shared memory", "writes", p, here);
	access_bytes(p, 16, PLAIN, true, here); /* it may land at any time from now on */
	memset(state + (p - shim_arena), UNDER_WAY, 16);
}

void check_copy_came(struct shim_site *at, void *to)
{
	unsigned char *p = to;

	(void)at;
	memset(state + (p - shim_arena), WRITTEN, 16);
	access_bytes(p, 16, PLAIN, true, CALLER);
}

void check_atomic(struct shim_site *at, void *p, size_t bytes, bool orders)
{
	const uintptr_t here = CALLER;

	(void)at;
	if (!is_devices(shim_self, p, bytes, true, here))
		stop_access("not device memory", "writes", p, here);
	if (orders) /* before the access: it may be what makes it known */
		acquire(shim_self, p);
	access_bytes(p, bytes, ATOMIC, false, here);
	access_bytes(p, bytes, ATOMIC, true, here);
	if (orders)
		release(shim_self, p);
}

void check_atomic_read(struct shim_site *at, const void *p, size_t bytes)
{
	const uintptr_t here = CALLER;

	if (!is_devices(shim_self, p, bytes, false, here))
		return;
	if (!at->left_out)
		acquire(shim_self, p);
	access_bytes((unsigned char *)(uintptr_t)p, bytes, ATOMIC, false, here);
}

void check_anything(void *p, size_t bytes)
{
	unsigned char *s = state + ((unsigned char *)p - shim_arena);

	if (!is_devices(shim_self, p, bytes, true, CALLER))
		return;
	for (size_t i = 0; i < bytes; i++)
		if (s[i] == UNWRITTEN)
			s[i] = WRITTEN;
}

/* ---- the host ---- */

static int note_constants(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		const uintptr_t from = info->dlpi_addr + h->p_vaddr;

		if (h->p_type == PT_LOAD && (uintptr_t)data >= from && (uintptr_t)data < from + h->p_memsz)
			code = info->dlpi_addr;
	}
	if (!code || code != info->dlpi_addr)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && n_constants < 8; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if ((h->p_type == PT_LOAD && !(h->p_flags & PF_W)) || h->p_type == PT_GNU_RELRO) {
			constants[n_constants][0] = code + h->p_vaddr;
			constants[n_constants++][1] = code + h->p_vaddr + h->p_memsz;
		}
	}
	return 1;
}

bool check_open(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	state = mmap(NULL, SHIM_ARENA_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	cells = mmap(NULL, SHIM_ARENA_BYTES * sizeof *cells, PROT_READ | PROT_WRITE, flags, -1, 0);
	dl_iterate_phdr(note_constants, (void *)(uintptr_t)check_open);
	return state != MAP_FAILED && cells != MAP_FAILED;
}

static void set_state(const void *p, size_t bytes, int s)
{
	const unsigned char *q = p;

	if (q >= shim_arena && q < shim_arena + SHIM_ARENA_BYTES)
		memset(state + (q - shim_arena), s, bytes);
}

void check_alloc(void *p, size_t bytes)
{
	set_state(p, bytes, UNWRITTEN);
}

void check_free(void *p, size_t bytes)
{
	set_state(p, bytes, NOWHERE);
}

void check_host_wrote(void *p, size_t bytes)
{
	set_state(p, bytes, WRITTEN);
	met = true;
}

void check_follow(void)
{
	followed[shim_self->number] = true;
}

/* ---- what the compiler calls ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

void __tsan_init(void)
{
}
void __tsan_func_entry(void *caller)
{
	(void)caller;
}
void __tsan_func_exit(void)
{
}

#define ACCESS(bytes)                                                                              \
	void __tsan_read##bytes(void *p)                                                               \
	{                                                                                              \
		loads(p, bytes, CALLER);                                                                   \
	}                                                                                              \
	void __tsan_write##bytes(void *p)                                                              \
	{                                                                                              \
		stores(p, bytes, CALLER);                                                                  \
	}
#define UNALIGNED(bytes)                                                                           \
	void __tsan_unaligned_read##bytes(void *p)                                                     \
	{                                                                                              \
		loads(p, bytes, CALLER);                                                                   \
	}                                                                                              \
	void __tsan_unaligned_write##bytes(void *p)                                                    \
	{                                                                                              \
		stores(p, bytes, CALLER);                                                                  \
	}
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void *p, size_t bytes)
{
	loads(p, bytes, CALLER);
}
void __tsan_write_range(void *p, size_t bytes)
{
	stores(p, bytes, CALLER);
}

/* objcopy gives the kernels these for the C library's, which the compiler does not look into. */
void *check_memcpy(void *to, const void *from, size_t bytes)
{
	loads(from, bytes, CALLER);
	stores(to, bytes, CALLER);
	return memcpy(to, from, bytes);
}
void *check_memmove(void *to, const void *from, size_t bytes)
{
	loads(from, bytes, CALLER);
	stores(to, bytes, CALLER);
	return memmove(to, from, bytes);
}
void *check_memset(void *to, int byte, size_t bytes)
{
	stores(to, bytes, CALLER);
	return memset(to, byte, bytes);
}

/* -fsanitize=alignment,bounds,…: what the compiler finds undefined. Each is given a place first. */
struct place {
	const char *file;
	uint32_t line, column;
};

static void undefined(const struct place *at, const char *what)
{
	if (!shim_self)
		abort();
	shim_say("%s: kernel %s, ", what, shim_launch_now.kernel->name);
	say_thread(shim_self->number);
	shim_say(" at %s:%u\n", at->file, at->line);
	shim_stop();
}

#define UNDEFINED(name, what, ...)                                                                 \
	void __ubsan_handle_##name(void *at, ##__VA_ARGS__)                                            \
	{                                                                                              \
		undefined(at, what);                                                                       \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
UNDEFINED(type_mismatch_v1, "an access that is not aligned", uintptr_t p)
UNDEFINED(out_of_bounds, "an index outside its array", uintptr_t index)
UNDEFINED(shift_out_of_bounds, "a shift by too much", uintptr_t a, uintptr_t b)
UNDEFINED(divrem_overflow, "a division by zero", uintptr_t a, uintptr_t b)
UNDEFINED(add_overflow, "a sum that overflows", uintptr_t a, uintptr_t b)
UNDEFINED(sub_overflow, "a difference that overflows", uintptr_t a, uintptr_t b)
UNDEFINED(mul_overflow, "a product that overflows", uintptr_t a, uintptr_t b)
UNDEFINED(negate_overflow, "a negation that overflows", uintptr_t a)
UNDEFINED(load_invalid_value, "a bool that is neither true nor false", uintptr_t a)
UNDEFINED(pointer_overflow, "a pointer that wraps", uintptr_t a, uintptr_t b)

#endif
