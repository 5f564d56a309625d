/* Files that are part of the program, so that an installed one needs no data folder. */
#pragma once

/* At file scope: the bytes of a file of the repository, and a NUL after them, as `const char
 * name[]`. The Makefile has a line that makes the object depend on the file. */
#define EMBED(name, path)                                                                          \
	__asm__(".section .rodata\n"                                                                   \
			".global " #name "\n" #name ":\n"                                                      \
			".incbin \"" path "\"\n"                                                               \
			".byte 0\n"                                                                            \
			".previous\n");                                                                        \
	extern const char name[]
