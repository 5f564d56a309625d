/* Counts the allocations of a whole suite, by every thread: for one file of it. Under a sanitizer,
 * which has a malloc of its own, nothing can be counted: allocations() is -1. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
static atomic_long n_allocations;

void *malloc(size_t size)
{
	n_allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	n_allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	n_allocations++;
	return __libc_realloc(p, size);
}

static long allocations(void)
{
	return n_allocations;
}
#else
static long allocations(void)
{
	return -1;
}
#endif
