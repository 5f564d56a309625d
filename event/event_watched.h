/* Columns of the events of what layers did at a row: sparsity, experts and state; and of a
 * diffusion model's steps. Part of event_table.h. */
#ifndef CUTAWAY_EVENT_WATCHED_H
#define CUTAWAY_EVENT_WATCHED_H

#define EV_FIELDS_sparsity(I, R, T, B)                                                             \
	I(step, "", "step")                                                                            \
	I(request, "", "request")                                                                      \
	I(pos, "", "position of the row")                                                              \
	I(since, "", "tokens since the row before of this request that was counted")                   \
	I(rows, "", "rows of the step that were counted, of this and of other requests")               \
	R(mark, "", "share of the row's largest inner value from which one is kept")                   \
	B(share, "",                                                                                   \
		"u16 [layers][11]: shares in 1/65534 by the codes of `sparse`; 65535: the layer has none")

#define EV_FIELDS_experts(I, R, T, B)                                                              \
	I(step, "", "step")                                                                            \
	I(request, "", "request")                                                                      \
	I(pos, "", "position of the row")                                                              \
	I(rows, "", "rows of this request that were counted so far, this one the last")                \
	I(experts, "", "of a layer; the most where layers differ")                                     \
	I(used, "", "of them a row uses so many; likewise")                                            \
	I(read, "bytes", "weights of the experts that a row uses, of all layers")                      \
	I(whole, "bytes", "weights of all experts of all layers")                                      \
	B(chosen, "",                                                                                  \
		"u8 [layers][experts]: share of the row's weights, in 1/255, at least 1; 0: not used")     \
	B(load, "", "u16 [layers][experts]: share of the counted rows that used it, in 1/65535")       \
	B(lately, "", "likewise, of the last rows: a decayed average, half-life 16 rows")              \
	B(entropy, "",                                                                                 \
		"f32 [layers]: of the router's probabilities of all experts, bits; NaN: it has none")

#define EV_FIELDS_state(I, R, T, B)                                                                      \
	I(step, "", "step")                                                                                  \
	I(request, "", "request")                                                                            \
	I(pos, "", "position of the row")                                                                    \
	B(heads, "", "u32 [layers]: heads or channels that decay by themselves; 0: none")                    \
	B(taps, "", "u32 [layers]: positions that the layer's convolution reads; 0: it has none")            \
	B(half_life, "",                                                                                     \
		"f32 [layers][16] in tokens: by this row's decay of each head, or of a channel's slowest part; " \
		"ascending, at 16 evenly spaced ranks; infinite: it keeps all; NaN: there are none")             \
	B(norm, "", "f32 [layers]: length of the state after the row as a vector; NaN: not known")           \
	B(past, "",                                                                                          \
		"f32 [up to 64][2]: of this row and those before, the newest last: length of all states, "       \
		"median over the layers of their median half-life")

#define EV_FIELDS_denoise(I, R, T, B)                                                              \
	I(step, "", "step that computed it")                                                           \
	I(request, "", "request")                                                                      \
	I(nth, "", "of the answer's steps, from 1")                                                    \
	I(pos, "", "first position of the answer")                                                     \
	I(tokens, "", "positions of the answer, all masks at first")                                   \
	I(block_pos, "", "first position of the block under work that was a mask")                     \
	I(block_end, "", "position after the block")                                                   \
	I(fixed, "", "masks that it made tokens")                                                      \
	I(masked, "", "masks that are left in the answer")                                             \
	I(schedule, "schedule", "why these were fixed and not others")                                 \
	I(steps, "", "setting denoise-steps of the request")                                           \
	I(block, "", "setting denoise-block")                                                          \
	R(above, "p", "setting denoise-above")                                                         \
	B(cells, "",                                                                                   \
		"the masks of the block, by position, 20 bytes each, little-endian: u32 pos, u32 id "      \
		"(proposed), f32 p, f32 entropy (bits, of the row), u32 fixed (0, 1)")

#endif
