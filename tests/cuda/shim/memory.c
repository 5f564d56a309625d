/* Device memory: one large reservation, so that the checker finds what it knows of a byte by its
 * distance from the start. Room is left around every allocation, for what is out of bounds to hit
 * nothing; freed memory is not used again before COME_AROUND bytes have been. Host memory that is
 * pinned lives here too: a kernel may use it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/shim/check.h"
#include "tests/cuda/shim/device.h"

enum { ROOM = 64 << 10, COME_AROUND = 64 << 20 };

struct allocation {
	unsigned char *p;
	size_t bytes;
};

unsigned char *shim_arena;
static struct allocation *list; /* ascending */
static size_t n_list, cap_list;
static unsigned char *next; /* where the next is looked for */

static bool reserve(void)
{
	if (shim_arena)
		return true;
	shim_arena = mmap(NULL, SHIM_ARENA_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shim_arena == MAP_FAILED) {
		shim_arena = NULL;
		return false;
	}
	next = shim_arena + SHIM_SHARED_AREA + ROOM;
	return check_open();
}

static size_t index_behind(const unsigned char *p) /* first allocation that begins behind p */
{
	size_t lo = 0, hi = n_list;

	while (lo < hi) {
		const size_t mid = (lo + hi) / 2;

		if (list[mid].p > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static unsigned char *round_up(unsigned char *p)
{
	return p + (-(uintptr_t)p & 255);
}

/* First place from `from` on, with room on both sides; *at: where in the list it goes. */
static unsigned char *look_from(unsigned char *from, size_t bytes, size_t *at)
{
	unsigned char *p = round_up(from), *end = shim_arena + SHIM_ARENA_BYTES;
	size_t i = index_behind(p);

	if (i && list[i - 1].p + list[i - 1].bytes + ROOM > p)
		p = round_up(list[i - 1].p + list[i - 1].bytes + ROOM);
	for (;; i++) {
		if (i < n_list ? p <= list[i].p && (size_t)(list[i].p - p) >= bytes + ROOM
					   : p <= end && (size_t)(end - p) >= bytes + ROOM) {
			*at = i;
			return p;
		}
		if (i == n_list)
			return NULL;
		p = round_up(list[i].p + list[i].bytes + ROOM);
	}
}

void *shim_alloc(size_t bytes)
{
	unsigned char *p;
	size_t at;

	if (!reserve() || bytes > SHIM_ARENA_BYTES)
		return NULL;
	if (n_list == cap_list) {
		const size_t cap = cap_list ? 2 * cap_list : 64;
		struct allocation *grown = realloc(list, cap * sizeof *grown);

		if (!grown)
			return NULL;
		list = grown;
		cap_list = cap;
	}
	p = look_from(next, bytes, &at);
	if (!p)
		p = look_from(shim_arena + SHIM_SHARED_AREA + ROOM, bytes, &at);
	if (!p)
		return NULL;
	memmove(list + at + 1, list + at, (n_list++ - at) * sizeof *list);
	list[at] = (struct allocation){ p, bytes };
	next = p + bytes + ROOM;
	if (next - shim_arena > (ptrdiff_t)(SHIM_SHARED_AREA + COME_AROUND))
		next = shim_arena + SHIM_SHARED_AREA + ROOM;
	check_alloc(p, bytes);
	return p;
}

bool shim_free(void *p)
{
	const size_t i = index_behind(p);

	if (!i || list[i - 1].p != p)
		return false;
	check_free(p, list[i - 1].bytes);
	/* whole pages go back to the system; the rest is poison */
	memset(p, 0xdd, list[i - 1].bytes < 4096 ? list[i - 1].bytes : 4096);
	if (list[i - 1].bytes > 8192) {
		unsigned char *whole = (unsigned char *)p + (-(uintptr_t)p & 4095);

		madvise(whole, (list[i - 1].bytes - (size_t)(whole - (unsigned char *)p)) & ~(size_t)4095,
			MADV_DONTNEED);
	}
	memmove(list + i - 1, list + i, (n_list-- - i) * sizeof *list);
	return true;
}

bool shim_find(const void *p, size_t *bytes, ptrdiff_t *at)
{
	const unsigned char *q = p;
	size_t i = index_behind(q);

	if (!n_list)
		return false;
	if (i && (i == n_list || q < list[i - 1].p + list[i - 1].bytes ||
				 q - (list[i - 1].p + list[i - 1].bytes) < list[i].p - q))
		i--;
	*bytes = list[i].bytes;
	*at = q - list[i].p;
	return true;
}

void shim_put(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	check_host_wrote(to, bytes);
}
