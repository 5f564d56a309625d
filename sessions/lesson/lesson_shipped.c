/* The lessons of demos/lessons, embedded, so that an installed program needs no data folder. A
 * lesson is its file and its line here, by topic. See lesson_files.c. */
#include "base/embed.h"
#include "sessions/lesson/lesson.h"

#define START "start here"
#define BATCH "many at once"
#define AHEAD "several tokens a step"
#define SIGHT "attention"
#define BITS "fewer bits, fewer weights"
#define PROOF "measuring and going back"
#define RANKS "several machines"
#define MODELS "other models"

#define LESSONS(X)                                                                                 \
	X(START, tokens, "tokens-and-sampling")                                                        \
	X(START, kv_cache, "kv-cache")                                                                 \
	X(START, prefill, "prefill-and-decode")                                                        \
	X(START, grammar, "answers-of-a-form")                                                         \
	X(BATCH, roofline, "roofline-and-batch")                                                       \
	X(BATCH, paging, "paging")                                                                     \
	X(BATCH, continuous, "continuous-batching")                                                    \
	X(BATCH, gap, "longest-gap")                                                                   \
	X(BATCH, short_memory, "memory-short")                                                         \
	X(BATCH, knee, "the-knee")                                                                     \
	X(BATCH, prefix, "prefix-caching")                                                             \
	X(BATCH, declared, "declared-prefixes")                                                        \
	X(BATCH, adapters, "adapters")                                                                 \
	X(AHEAD, guessing, "guessing-ahead")                                                           \
	X(AHEAD, trees, "trees-and-trained-drafters")                                                  \
	X(AHEAD, heads, "heads-together")                                                              \
	X(AHEAD, jacobi, "jacobi-and-lookahead")                                                       \
	X(AHEAD, search, "search")                                                                     \
	X(AHEAD, best_of, "best-of-n")                                                                 \
	X(SIGHT, attention, "attention")                                                               \
	X(SIGHT, scores, "scores-in-memory")                                                           \
	X(SIGHT, row_sees, "what-a-row-sees")                                                          \
	X(BITS, price, "price")                                                                        \
	X(BITS, fewer_bits, "fewer-bits")                                                              \
	X(BITS, rounded_twice, "rounded-twice")                                                        \
	X(BITS, outliers, "outliers")                                                                  \
	X(BITS, pruning, "pruning")                                                                    \
	X(BITS, distillation, "distillation")                                                          \
	X(BITS, near_zero, "near-zero")                                                                \
	X(BITS, exact_zeros, "exact-zeros")                                                            \
	X(BITS, kv_bits, "kv-bits")                                                                    \
	X(PROOF, equal_bits, "equal-bits")                                                             \
	X(PROOF, side_by_side, "side-by-side")                                                         \
	X(PROOF, recording, "reading-a-recording")                                                     \
	X(PROOF, going_back, "going-back")                                                             \
	X(RANKS, ranks, "ranks")                                                                       \
	X(RANKS, pipeline, "pipeline")                                                                 \
	X(RANKS, elsewhere, "prompts-elsewhere")                                                       \
	X(MODELS, latent, "grouped-and-latent-attention")                                              \
	X(MODELS, hybrids, "windows-and-hybrids")                                                      \
	X(MODELS, experts, "experts")                                                                  \
	X(MODELS, recall, "states-and-recall")                                                         \
	X(MODELS, unchosen, "a-state-that-does-not-choose")                                            \
	X(MODELS, conversions, "conversions")                                                          \
	X(MODELS, diffusion, "diffusion")

#define X(topic, id, name) EMBED(lesson_##id, "demos/lessons/" name ".md");
LESSONS(X)
#undef X

const struct lesson_file lessons_shipped[] = {
#define X(topic, id, name) { name, lesson_##id, topic },
	LESSONS(X)
#undef X
		{ 0 },
};
