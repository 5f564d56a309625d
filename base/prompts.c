/* See prompts.h. */
#include "base/prompts.h"

#include "base/embed.h"

EMBED(shipped_prompts, "demos/prompts.txt");
