/* The lessons of demos/lessons, embedded, so that an installed program needs no data folder. A
 * lesson is its file and its line here. See lesson_files.c. */
#include "sessions/lesson/lesson_shipped.h"

#define LESSONS(X)                                                                                 \
	X(tokens, "tokens-and-sampling")                                                               \
	X(kv_cache, "kv-cache")                                                                        \
	X(prefill, "prefill-and-decode")                                                               \
	X(roofline, "roofline-and-batch")                                                              \
	X(paging, "paging")                                                                            \
	X(continuous, "continuous-batching")                                                           \
	X(gap, "longest-gap")                                                                          \
	X(knee, "the-knee")                                                                            \
	X(prefix, "prefix-caching")                                                                    \
	X(declared, "declared-prefixes")                                                               \
	X(guessing, "guessing-ahead")                                                                  \
	X(trees, "trees-and-trained-drafters")                                                         \
	X(jacobi, "jacobi-and-lookahead")                                                              \
	X(search, "search")                                                                            \
	X(attention, "attention")                                                                      \
	X(scores, "scores-in-memory")                                                                  \
	X(row_sees, "what-a-row-sees")                                                                 \
	X(price, "price")                                                                              \
	X(fewer_bits, "fewer-bits")                                                                    \
	X(outliers, "outliers")                                                                        \
	X(pruning, "pruning")                                                                          \
	X(near_zero, "near-zero")                                                                      \
	X(kv_bits, "kv-bits")                                                                          \
	X(equal_bits, "equal-bits")                                                                    \
	X(side_by_side, "side-by-side")                                                                \
	X(recording, "reading-a-recording")                                                            \
	X(going_back, "going-back")                                                                    \
	X(latent, "grouped-and-latent-attention")                                                      \
	X(hybrids, "windows-and-hybrids")                                                              \
	X(experts, "experts")                                                                          \
	X(recall, "states-and-recall")                                                                 \
	X(diffusion, "diffusion")

#define X(id, name)                                                                                \
	__asm__(".section .rodata\n"                                                                   \
			".global lesson_" #id "\n"                                                             \
			"lesson_" #id ":\n"                                                                    \
			".incbin \"demos/lessons/" name ".md\"\n"                                              \
			".byte 0\n"                                                                            \
			".previous\n");                                                                        \
	extern const char lesson_##id[];
LESSONS(X)
#undef X

const struct lesson_file lessons_shipped[] = {
#define X(id, name) { name, lesson_##id },
	LESSONS(X)
#undef X
		{ 0 },
};
