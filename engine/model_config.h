/* Reads the configuration and the rotary frequencies of a model from its file. */
#ifndef CUTAWAY_ENGINE_MODEL_CONFIG_H
#define CUTAWAY_ENGINE_MODEL_CONFIG_H

#include "engine/model.h"

/* e must be clear. */
int model_read_config(const struct gguf *g, struct model_config *c, struct err *e);

/* Frequencies [rope_dim / 2] with the scaling that the file names: none, linear (Chen et al. 2023), YaRN
 * (Peng et al. 2023), or one factor a frequency (Llama 3: the tensor rope_freqs.weight). Follows the
 * configuration, never the current length. Sets c->rope_mscale. */
int model_rope_freqs(const struct gguf *g, struct model_config *c, double *freq, struct err *e);

#endif
