/* See prompts.h. The file is embedded in the program, so that an installed cutaway needs no data
 * folder. */
#include "base/prompts.h"

__asm__(".section .rodata\n"
		".global shipped_prompts\n"
		"shipped_prompts:\n"
		".incbin \"demos/prompts.txt\"\n"
		".byte 0\n"
		".previous\n");
