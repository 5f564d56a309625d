/* See fiber.h. */
#include "tests/cuda/shim/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool fiber_stacks(struct fiber *fibers, int n)
{
	static unsigned char **stacks; /* all that there ever were */
	static int n_stacks;

	if (n > n_stacks) {
		unsigned char **grown = realloc(stacks, (size_t)n * sizeof *grown);

		if (!grown)
			return false;
		stacks = grown;
	}
	for (; n_stacks < n; n_stacks++) {
		unsigned char *p = mmap(NULL, FIBER_GUARD + FIBER_STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return false;
		if (mprotect(p, FIBER_GUARD, PROT_NONE)) {
			munmap(p, FIBER_GUARD + FIBER_STACK);
			return false;
		}
		stacks[n_stacks] = p;
	}
	for (int i = 0; i < n; i++)
		fibers[i].stack = stacks[i];
	return true;
}

#if defined(__x86_64__)

/* A fiber that does not run has its callee-saved registers on its stack, and above them the address
 * to return to. The floating-point environment is the same for all and never saved. */
__asm__(".text\n"
		".p2align 4\n"
		".type shim_fiber_swap, @function\n"
		"shim_fiber_swap:\n"
		"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq "
		"%r15\n"
		"	movq %rsp, (%rdi)\n"
		"	movq %rsi, %rsp\n"
		"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n	popq %rbp\n"
		"	ret\n"
		".size shim_fiber_swap, . - shim_fiber_swap\n"
		".type shim_fiber_begin, @function\n"
		"shim_fiber_begin:\n" /* as fiber_start() laid it out: entry in rbx, arg in r12 */
		"	movq %r12, %rdi\n"
		"	xorl %ebp, %ebp\n"
		"	callq *%rbx\n"
		"	ud2\n"
		".size shim_fiber_begin, . - shim_fiber_begin\n");

enum { SAVED = 6, AT_ENTRY = 4, AT_ARG = 3 }; /* r15 r14 r13 r12 rbx rbp, then the address */

#elif defined(__aarch64__)

__asm__(".text\n"
		".p2align 4\n"
		".type shim_fiber_swap, @function\n"
		"shim_fiber_swap:\n"
		"	sub sp, sp, #160\n"
		"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n	stp x23, x24, [sp, #32]\n"
		"	stp x25, x26, [sp, #48]\n	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
		"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n	stp d12, d13, [sp, #128]\n"
		"	stp d14, d15, [sp, #144]\n"
		"	mov x9, sp\n"
		"	str x9, [x0]\n"
		"	mov sp, x1\n"
		"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n	ldp x23, x24, [sp, #32]\n"
		"	ldp x25, x26, [sp, #48]\n	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
		"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n	ldp d12, d13, [sp, #128]\n"
		"	ldp d14, d15, [sp, #144]\n"
		"	add sp, sp, #160\n"
		"	ret\n"
		".size shim_fiber_swap, . - shim_fiber_swap\n"
		".type shim_fiber_begin, @function\n"
		"shim_fiber_begin:\n" /* entry in x19, arg in x20 */
		"	mov x0, x20\n"
		"	mov x29, xzr\n"
		"	blr x19\n"
		"	brk #1\n"
		".size shim_fiber_begin, . - shim_fiber_begin\n");

enum { SAVED = 20, AT_ENTRY = 0, AT_ARG = 1, AT_RETURN = 11 };

#endif

#if defined(__x86_64__) || defined(__aarch64__)

extern void shim_fiber_swap(void **from, void *to);
extern void shim_fiber_begin(void);

void fiber_start(struct fiber *f, void (*entry)(void *arg), void *arg)
{
	uintptr_t *sp = (uintptr_t *)(void *)(f->stack + FIBER_GUARD + FIBER_STACK);

#ifdef __x86_64__
	/* 16-aligned at the call in shim_fiber_begin, as after any `ret` */
	sp -= 2;
	*--sp = (uintptr_t)shim_fiber_begin;
#endif
	sp -= SAVED;
	memset(sp, 0, SAVED * sizeof *sp);
	sp[AT_ENTRY] = (uintptr_t)entry;
	sp[AT_ARG] = (uintptr_t)arg;
#ifdef __aarch64__
	sp[AT_RETURN] = (uintptr_t)shim_fiber_begin;
#endif
	f->sp = sp;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
	shim_fiber_swap(&from->sp, to->sp);
}

#else

static void begin(unsigned a, unsigned b, unsigned c, unsigned d)
{
	void (*entry)(void *) = (void (*)(void *))((uintptr_t)a << 16 << 16 | b);

	entry((void *)((uintptr_t)c << 16 << 16 | d));
}

void fiber_start(struct fiber *f, void (*entry)(void *arg), void *arg)
{
	const uint64_t e = (uintptr_t)entry, a = (uintptr_t)arg;

	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack + FIBER_GUARD;
	f->context.uc_stack.ss_size = FIBER_STACK;
	f->context.uc_link = NULL;
	makecontext(&f->context, (void (*)(void))begin, 4, (unsigned)(e >> 32), (unsigned)e,
		(unsigned)(a >> 32), (unsigned)a);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
	swapcontext(&from->context, &to->context);
}

#endif
