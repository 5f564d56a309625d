/* Fibers: threads of which one runs at a time and that hand over by name. Each has a stack of its
 * own with a guard page below; stacks are kept and used again. Switching saves what the ABI says
 * that a call keeps, and no more: nanoseconds.
 *
 * Thread: fibers belong to the thread that started them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

enum { FIBER_STACK = 64 << 10, FIBER_GUARD = 4 << 10 };

struct fiber {
#if defined(__x86_64__) || defined(__aarch64__)
	void *sp; /* of a fiber that does not run */
#else
	ucontext_t context;
#endif
	unsigned char *stack; /* [FIBER_GUARD + FIBER_STACK] */
};

/* Memory for the stacks of n fibers, n growing from call to call; false: none left. */
bool fiber_stacks(struct fiber *fibers, int n);
/* The fiber begins in entry(arg) when it is first switched to; entry never returns. */
void fiber_start(struct fiber *f, void (*entry)(void *arg), void *arg);
void fiber_switch(struct fiber *from, struct fiber *to);
