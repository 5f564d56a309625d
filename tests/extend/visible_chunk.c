/* The example of docs/extend.md, "a visibility": chunked attention (Llama 4, Meta 2025): a row sees
 * the positions of its own chunk of C, up to its own. */
#include "engine/visibility/visibility.h"

static int32_t chunk_see(const int32_t *arg, int32_t pos, struct k_range *out)
{
	out[0] = (struct k_range){ pos - pos % arg[0], pos + 1 };
	return 1;
}

static const struct visible_policy visible_chunk = { .name = "chunk",
	.part = { "chunk" },
	.doc = "the positions of its own chunk of C",
	.offer = "chunk:512",
	.n_ranges = 1,
	.see = chunk_see };
