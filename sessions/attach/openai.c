/* Any other server of the OpenAI interface: it tells its tokens and their probabilities, if it
 * gives logprobs, and nothing of itself. */
#include "sessions/attach/attach_impl.h"

const struct attach_server attach_openai = { .name = "openai", .p = "unknown" };
