/* The one table of all events: their columns and units. See event.h, which says what the columns
 * are and makes everything of this. To add an event, add its EV_FIELDS_x and one line to EV_TABLE.
 */
#ifndef CUTAWAY_EVENT_TABLE_H
#define CUTAWAY_EVENT_TABLE_H

#include "event/event_attached.h"
#include "event/event_traffic.h"
#include "event/event_watched.h"

#define EV_FIELDS_session(I, R, T, B)                                                              \
	I(unix_ns, "ns", "wall clock at the start, since 1970 UTC")                                    \
	T(version, "", "version of cutaway")                                                           \
	T(build, "", "compiler and flags")                                                             \
	I(arith, "", "version of the arithmetic (docs/arithmetic.md)")                                 \
	T(backend, "", "ref, cpu or cuda")                                                             \
	T(isa, "", "instruction set the kernels use; of a device its architecture")                    \
	T(device, "", "name of the device; absent on a CPU")                                           \
	I(threads, "", "threads of the kernel pool")                                                   \
	T(model_path, "", "file the weights came from")                                                \
	T(model_name, "", "name for people, from the file and its type")                               \
	T(model_sha256, "", "of the whole file, hex; absent if not computed")                          \
	I(model_bytes, "bytes", "size of the file")                                                    \
	I(weight_bytes, "bytes", "weights that one decoded token reads, counted from their layout")    \
	I(n_layers, "", "layers")                                                                      \
	I(n_heads, "", "query heads")                                                                  \
	I(n_kv_heads, "", "key-value heads")                                                           \
	I(head_dim, "", "dimensions of a head")                                                        \
	I(dim, "", "width of the residual stream")                                                     \
	I(vocab, "", "number of token ids")                                                            \
	I(ctx, "", "longest sequence, tokens")                                                         \
	I(slots, "", "requests that can run at once")                                                  \
	I(pages, "", "pages of all memory groups")                                                     \
	I(page_size, "", "tokens a page")                                                              \
	I(page_bytes, "bytes", "memory of one KV page, all layers")                                    \
	R(read_bandwidth, "bytes/s",                                                                   \
		"plain reads of this machine, measured at the start; absent if not")                       \
	I(params, "", "weights of the model, each counted once; absent if there is no model")          \
	I(memory_bytes, "bytes", "of this machine; absent on a device")

#define EV_FIELDS_memory(I, R, T, B)                                                               \
	I(memory, "", "number of the group, from 0")                                                   \
	I(kind, "memory_kind", "what its layers keep")                                                 \
	I(layers, "", "layers of the group")                                                           \
	I(window, "", "window, recent: positions that a row sees; else absent")                        \
	I(pages, "", "pages of its pool")                                                              \
	I(page_size, "", "tokens a page")                                                              \
	I(page_bytes, "bytes", "memory of one page, all layers of the group")                          \
	I(latent, "flag", "1: a layer keeps one vector for a position, which all heads read")

#define EV_FIELDS_product(I, R, T, B)                                                              \
	I(stage, "stage", "kernel stage that it is part of")                                           \
	T(format, "", "format of the weights, as GGUF names it")                                       \
	I(inputs, "", "width of what each multiplies")                                                 \
	I(outputs, "", "width of what it gives")                                                       \
	I(n, "", "matrices of this kind that a row goes through, in all layers")                       \
	I(bytes, "bytes", "of them, packed; read once a step, with each_row once a row")               \
	I(row_bytes, "bytes", "activations that they read and write for a row")                        \
	I(each_row, "flag", "1: experts, of which each row reads its own")

#define EV_FIELDS_roof(I, R, T, B)                                                                 \
	R(reads, "bytes/s", "plain reads of memory: the fastest of several passes")                    \
	R(least, "bytes/s", "the slowest of them")                                                     \
	R(ints, "ops/s", "8-bit multiply-adds, each two operations; absent: not measured")             \
	R(floats, "ops/s", "the same of 32-bit floats")

#define EV_FIELDS_outliers(I, R, T, B)                                                             \
	I(nth, "", "of the inputs of one measurement, from 0")                                         \
	I(layer, "", "layer")                                                                          \
	I(stage, "stage", "of the product that reads them")                                            \
	I(channels, "", "how many there are")                                                          \
	R(largest, "", "largest magnitude of any channel over the calibration text")                   \
	R(median, "", "of the channels' largest magnitudes")                                           \
	R(smoothed, "x",                                                                               \
		"largest over median after SmoothQuant with alpha 0.5; largest / median before")           \
	I(above_six, "", "channels above 6, which LLM.int8() computes apart")                          \
	B(top, "", "u32 channel, f32 magnitude: the largest, at most 8")

#define EV_FIELDS_importance(I, R, T, B)                                                           \
	I(nth, "", "of the layers of one measurement, from 0")                                         \
	I(layer, "", "layer")                                                                          \
	R(influence, "",                                                                               \
		"1 less the cosine between what enters the layer and what leaves it, mean over the text")  \
	B(heads, "",                                                                                   \
		"f32 for each query head: its share of the squares that the heads add to the stream")      \
	I(channels, "", "inner channels of the feed-forward; 0: it has another kind")                  \
	B(least, "",                                                                                   \
		"16 f32: share of the squares that channels add, of the least 1/16 of them, 2/16 ...")

#define EV_FIELDS_setting(I, R, T, B)                                                              \
	T(name, "", "as on the command line, without dashes")                                          \
	T(value, "", "its new value")

#define EV_FIELDS_vocab(I, R, T, B)                                                                \
	I(id, "",                                                                                      \
		"token id; logged when the id first occurs in this session; from 524,288 on: not the "     \
		"model's, but of a text that another server told without one")                             \
	B(bytes, "", "what the token decodes to; part of a UTF-8 character is possible")               \
	I(special, "flag", "1: a control token, shown as a name and never sent to a terminal")

#define EV_FIELDS_request(I, R, T, B)                                                              \
	I(request, "", "number of the request, from 1")                                                \
	I(kind, "request_kind", "where it came from")                                                  \
	I(parent, "", "request it was forked from")                                                    \
	I(sample, "", "sample number: keys the draws, with seed and position")                         \
	T(text, "", "what the user typed, or the first words of the prompt")                           \
	B(prompt, "", "u32 token ids; of a client's request that is refused at once, the first 64")    \
	I(n_prompt, "", "tokens of the prompt")                                                        \
	I(max_tokens, "", "limit of generated tokens")                                                 \
	R(temperature, "", "0: greedy")                                                                \
	I(top_k, "", "0: off")                                                                         \
	R(top_p, "p", "1: off")                                                                        \
	R(min_p, "p", "0: off")                                                                        \
	R(repeat_penalty, "", "1: off")                                                                \
	R(frequency_penalty, "", "0: off")                                                             \
	R(presence_penalty, "", "0: off")                                                              \
	I(penalty_window, "", "tokens that the penalties look back on")                                \
	I(seed, "", "key of the draws: 64 bits, of which those from 2^63 on are negative here")        \
	T(stop, "", "stop strings, JSON array; absent if none")                                        \
	T(spec, "", "drafter and its arguments, or off")                                               \
	T(user, "", "whose it is: the policy fair shares out by it; absent: nobody's")                 \
	I(priority, "", "class: the policy priority takes the lower first")                            \
	I(deadline, "",                                                                                \
		"steps from its arrival to when it should end: for the policy deadline; 0: none")          \
	B(logit_bias, "", "8 bytes each, by id: u32 token id, f32 added to its logit; absent: none")   \
	I(top, "",                                                                                     \
		"tokens of greatest logit that its rows tell, at least: see candidates; 0: the usual 8")   \
	I(input, "", "tokens of its prompt that an encoder reads; absent: there is none")

#define EV_FIELDS_admit(I, R, T, B)                                                                \
	I(request, "", "request that leaves the queue")                                                \
	I(slot, "", "slot it takes")                                                                   \
	I(waited_ns, "ns", "time in the queue")                                                        \
	I(readmitted, "flag", "1: it had been preempted and is recomputed")                            \
	I(rank, "", "by the policy; of those that may enter the least does")

#define EV_FIELDS_lookup(I, R, T, B)                                                               \
	I(request, "", "request whose prompt was looked up in the prefix cache")                       \
	I(asked, "", "tokens of the prompt")                                                           \
	I(hit, "", "tokens found")                                                                     \
	I(hit_pages, "", "pages shared")                                                               \
	I(reason, "prefix", "why the match ended there")                                               \
	I(nearest, "", "request that wrote the cached page nearest to a match")                        \
	I(diverge_pos, "", "position where the nearest cached sequence parts from the prompt")         \
	I(expected, "", "token id cached there")                                                       \
	I(got, "", "token id of the prompt there")                                                     \
	I(pin, "", "the pin that kept most of what was found; absent: none did")                       \
	I(pinned, "", "of the tokens found, those that pins kept")

#define EV_FIELDS_page(I, R, T, B)                                                                                 \
	I(page, "", "number of the page; those of memory group 0 come first, then those of group 1 …")                 \
	I(action, "page_action", "what happened")                                                                      \
	I(request, "", "request it happened for")                                                                      \
	I(block, "", "index of the page in the request's block table")                                                 \
	I(refs, "", "requests that read the page afterwards")                                                          \
	I(cached, "flag", "1: the prefix cache keeps it")                                                              \
	I(other, "",                                                                                                   \
		"copy: the page it was copied from; evict: idle steps; none: a setting emptied it; pin or unpin: the pin") \
	I(memory, "", "memory group that the page is of: see the table memory")

#define EV_FIELDS_cancel(I, R, T, B) I(request, "", "request the user stopped")

#define EV_FIELDS_rewind(I, R, T, B)                                                               \
	I(request, "", "request that went back")                                                       \
	I(had, "", "tokens it had, prompt and all")                                                    \
	I(kept, "", "tokens it kept; what follows is drawn anew")                                      \
	I(forced, "", "token id that the user put after them; absent if none")                         \
	I(pages, "", "pages it let go of")                                                             \
	I(recompute, "", "rows that must be computed before the next draw")

#define EV_FIELDS_fork(I, R, T, B)                                                                 \
	I(request, "", "new request")                                                                  \
	I(parent, "", "request whose first `pos` tokens it begins with")                               \
	I(pos, "", "position from which it goes its own way")                                          \
	I(forced, "", "token id that the user put at `pos`; absent if none")

#define EV_FIELDS_trim(I, R, T, B)                                                                 \
	I(request, "", "request that begins a conversation without its oldest turns")                  \
	I(tokens, "", "tokens dropped from the conversation")                                          \
	I(turns, "", "turns dropped")

#define EV_FIELDS_batch(I, R, T, B)                                                                \
	I(step, "", "step")                                                                            \
	I(request, "", "member of the step's batch")                                                   \
	I(slot, "", "its slot")                                                                        \
	I(work, "work", "what was done for it")                                                        \
	I(pos, "", "position of its first row")                                                        \
	I(rows, "", "rows it had in the step")

#define EV_FIELDS_token(I, R, T, B)                                                                  \
	I(step, "", "step that computed it")                                                             \
	I(request, "", "request it belongs to")                                                          \
	I(pos, "", "position of the token")                                                              \
	I(id, "", "token id; text in `vocab`")                                                           \
	R(p, "p", "its probability before penalties, temperature and cuts")                              \
	R(p_draw, "p", "its probability in the draw, after all of them")                                 \
	R(entropy, "bits", "of the distribution before penalties, temperature and cuts")                 \
	I(hash, "", "64-bit hash of its row of logits (signed)")                                         \
	I(source, "source", "plain, or how a draft came into it")                                        \
	I(survivors, "", "tokens that took part in the draw")                                            \
	B(candidates, "",                                                                                \
		"20 bytes each, by rank: u32 id, f32 logit, f32 p after penalties and temperature, before "  \
		"the cuts, f32 arrival in the race (NaN if cut), u32 cut (code list cut); after the usual "  \
		"8 those that `top` of its request adds, by logit and without arrival. The 8th is the "      \
		"drawn token where `rank` is above 8")                                                       \
	B(stages, "",                                                                                    \
		"12 bytes each, in order penalties, temperature, top-k, top-p, min-p: u32 tokens left, f32 " \
		"mass left of what came in, f32 value of the drawn token after it (logit, then p); a "       \
		"sixth where its request has logit bias, which applies before them")                         \
	I(is_end, "flag", "1: it ended the turn and is not shown")                                       \
	I(rows, "",                                                                                      \
		"rows computed for its request since the token before; absent if it was not drawn")          \
	I(pairs, "",                                                                                     \
		"query-key pairs of those rows: of one head, in a layer without a window of its own")        \
	I(ns, "ns", "since the token before of its request, or since that arrived")                      \
	I(rank, "",                                                                                      \
		"its place among all tokens by logit after bias and penalties, from 1: equal ones by id; "   \
		"absent: not known")

#define EV_FIELDS_score(I, R, T, B)                                                                \
	I(request, "", "request")                                                                      \
	I(pos, "", "position of the token")                                                            \
	I(id, "", "token id")                                                                          \
	R(logp, "nats", "log-probability given the tokens before it")                                  \
	I(hash, "", "hash of the row of logits that its log-probability is from (signed)")             \
	B(candidates, "",                                                                              \
		"as in `token`: the `top` of its request, by logit, and the token; absent: none asked for")

#define EV_FIELDS_price(I, R, T, B)                                                                \
	I(step, "", "step that computed it")                                                           \
	I(request, "", "request")                                                                      \
	I(pos, "", "position of the token")                                                            \
	I(id, "", "token id")                                                                          \
	R(kl, "nats",                                                                                  \
		"Kullback-Leibler divergence of the lossy row from the exact one, before penalties, "      \
		"temperature and cuts: sum of p log(p / q), p exact")                                      \
	R(logp, "nats", "log-probability of the token in the lossy row")                               \
	R(exact_logp, "nats", "in the exact row")                                                      \
	I(rank, "", "rank of the token in the exact row; 1: its most probable")                        \
	I(best, "", "most probable token id of the lossy row")                                         \
	I(exact_best, "", "of the exact row")                                                          \
	I(hash, "", "64-bit hash of the exact row (signed)")

#define EV_FIELDS_draft(I, R, T, B)                                                                       \
	I(step, "", "step that verified it")                                                                  \
	I(request, "", "request")                                                                             \
	I(pos, "", "position the draft is for")                                                               \
	I(nth, "", "number of the node in the draft, from 1")                                                 \
	T(drafter, "", "who guessed")                                                                         \
	I(id, "", "drafted token id")                                                                         \
	I(rule, "rule", "how it was verified")                                                                \
	I(verdict, "verdict", "what came of it")                                                              \
	R(q, "p", "probability the drafter gave it")                                                          \
	R(p, "p", "probability the target gave it in the draw")                                               \
	R(arrival, "", "race: its arrival; rejection: the random number")                                     \
	I(winner, "", "token id that won the draw")                                                           \
	R(winner_arrival, "", "race: the winner's arrival; rejection: the threshold p/q")                     \
	I(parent, "", "number of the parent node; 0: the newest token. In a chain nth - 1")                   \
	I(top, "",                                                                                            \
		"token id that is the most probable after it by the target; computed whether it was kept or not") \
	I(depth, "", "tokens ahead of the newest token: 1 follows it")                                        \
	I(other, "verdict",                                                                                   \
		"what the other rule would have said of it, with the same tokens before; absent: cannot be said") \
	R(other_arrival, "", "arrival, as the other rule has it")                                             \
	R(other_winner_arrival, "", "winner_arrival, as the other rule has it")

#define EV_FIELDS_window(I, R, T, B)                                                                                                   \
	I(step, "", "step that computed it")                                                                                               \
	I(request, "", "request")                                                                                                          \
	T(drafter, "", "whose window it is")                                                                                               \
	I(pos, "",                                                                                                                         \
		"position of its first column's first level; each further column and level is one further on")                                 \
	I(levels, "", "levels of guesses, the oldest first")                                                                               \
	I(columns, "", "columns of each")                                                                                                  \
	B(cells, "", "i32 [levels][columns]: token ids guessed")                                                                           \
	B(next, "",                                                                                                                        \
		"i32 [columns]: token ids that the target predicts after the last level, which the next window begins with; -1: not computed") \
	I(gram, "", "tokens of an n-gram of its pool")                                                                                     \
	B(entered, "", "i32 [][gram]: n-grams that were new to the pool in this step, at most 16")                                         \
	I(own, "", "of them made by the window, which come first; the others are the text's")                                              \
	I(pool, "", "n-grams in the pool then")

#define EV_FIELDS_cost(I, R, T, B)                                                                 \
	I(rows, "", "rows of the step")                                                                \
	I(depth, "", "positions of the cache before them")                                             \
	I(ns, "ns", "time of its kernels, the fastest of `runs`")                                      \
	I(runs, "", "runs")

#define EV_FIELDS_shadow(I, R, T, B)                                                                                             \
	I(step, "", "step after which it was reported")                                                                              \
	T(drafter, "", "drafter and its arguments; off: plain decoding")                                                             \
	I(used, "flag", "1: it is the one that is switched on")                                                                      \
	I(steps, "",                                                                                                                 \
		"virtual steps so far: it guessed, and the text has settled what would have been kept")                                  \
	I(tokens, "", "tokens that those would have given")                                                                          \
	I(nodes, "", "tokens guessed in them")                                                                                       \
	I(propose_ns, "ns", "time it took to guess, all together")                                                                   \
	I(learn_ns, "ns", "time it took to take in what decode steps computed, all together")                                        \
	B(judged, "", "u32 each, by tokens ahead: guesses after a path that was right so far")                                       \
	B(accepted, "", "u32 each: of them, right")                                                                                  \
	R(lately, "", "tokens a virtual step: exponentially decayed average, half-life 128 tokens")                                  \
	I(best_nodes, "",                                                                                                            \
		"so many nodes of its guesses are worth verifying, by the same average; 0: none")                                        \
	R(predicted, "tok/s",                                                                                                        \
		"predicted speed of a request if it were switched on: from its guesses and its cost, decayed likewise, and from `cost`") \
	R(measured, "tok/s",                                                                                                         \
		"measured speed of requests while it was on, decayed likewise, without the time of drafters that guess unused")

#define EV_FIELDS_choice(I, R, T, B)                                                               \
	I(step, "", "step before which `auto` chose another drafter")                                  \
	T(drafter, "", "what it uses from now on; off: plain decoding")                                \
	I(nodes, "", "tokens it lets it guess at most")                                                \
	T(before, "", "what it used until now")                                                        \
	R(speed, "x", "predicted against plain decoding")                                              \
	R(speed_before, "x", "the same of what it used until now")

#define EV_FIELDS_attention(I, R, T, B)                                                                 \
	I(step, "", "step")                                                                                 \
	I(request, "", "request")                                                                           \
	I(pos, "", "position of the query")                                                                 \
	I(pages, "", "pages it saw")                                                                        \
	B(share, "",                                                                                        \
		"u8 [layers][pages], mean of all heads: share = (v / 255)^2, so that small shares are seen")    \
	R(threshold, "p", "attention values below it count as near zero")                                   \
	B(near_zero, "", "u16 [layers]: share of all values of all heads below it, in 1/65535")             \
	B(read, "",                                                                                         \
		"u8 [pages]: share of the page's keys that the row read, over all layers and heads, in 1/255; " \
		"absent: it read all of them")

#define EV_FIELDS_head(I, R, T, B)                                                                 \
	I(step, "", "step")                                                                            \
	I(request, "", "request")                                                                      \
	I(layer, "", "layer chosen by the viewer")                                                     \
	I(head, "", "head chosen by the viewer")                                                       \
	B(share, "", "u8 [pages]: share = (v / 255)^2")

#define EV_FIELDS_time(I, R, T, B)                                                                                            \
	I(step, "", "step")                                                                                                       \
	B(stages, "",                                                                                                             \
		"of every kernel stage that ran: stage (code list stage), ns wall time of its kernels, bytes read and written, "      \
		"arithmetic operations (both counted from shapes). In the file: 3 bytes with the sizes n, b, o of the numbers, then " \
		"1 + n + b + o bytes each. (As an event: four u64 each)")

#define EV_FIELDS_step(I, R, T, B)                                                                                       \
	I(step, "", "number of the step, from 1")                                                                            \
	I(ns, "ns", "wall time: plan, compute, draw")                                                                        \
	I(kernel_ns, "ns", "of that, kernels of the model itself")                                                           \
	I(drafters_ns, "ns",                                                                                                 \
		"of that, drafters, in use or in the shadow: guessing, and taking in what was computed; "                        \
		"no part of kernel_ns, though some compute")                                                                     \
	I(run_delay_ns, "ns",                                                                                                \
		"longest that a thread of the kernels was ready and had no processor, because the system gave it "               \
		"to others, since the step before that says so; absent: not asked after this step, or the system does not tell") \
	I(rows, "", "rows computed")                                                                                         \
	I(prefill_rows, "", "of them for prompts")                                                                           \
	I(decode_rows, "", "of them newest tokens")                                                                          \
	I(draft_rows, "", "of them drafted tokens")                                                                          \
	I(tokens, "", "tokens generated")                                                                                    \
	I(accepted, "", "drafted tokens accepted")                                                                           \
	I(rejected, "", "drafted tokens rejected")                                                                           \
	I(running, "", "requests in slots")                                                                                  \
	I(waiting, "", "requests in the queue")                                                                              \
	I(pages_used, "", "pages read by a request")                                                                         \
	I(pages_cached, "", "pages kept by the prefix cache alone")                                                          \
	I(pages_shared, "", "pages read by more than one request")                                                           \
	I(evicted, "", "pages evicted in this step")                                                                         \
	I(tail_waste_bytes, "bytes", "unused room in the last pages of running requests")                                    \
	I(reserve_waste_bytes, "bytes",                                                                                      \
		"what reserving the longest sequence for each running request would leave unused")                               \
	I(bytes, "bytes", "all kernels: read and written, counted from shapes")                                              \
	I(ops, "ops", "all kernels: arithmetic operations, counted from shapes")                                             \
	I(twin_rows, "", "rows that the exact twin computed; absent: there is none")                                         \
	I(twin_ns, "ns", "time of its kernels: part of ns, not of kernel_ns")                                                \
	I(twin_bytes, "bytes", "its kernels: read and written, counted from shapes")                                         \
	I(twin_ops, "ops", "its kernels: arithmetic operations, counted from shapes")                                        \
	I(kv_bytes, "bytes",                                                                                                 \
		"keys and values that attention read: of each request what any of its rows reads")                               \
	I(kv_whole_bytes, "bytes",                                                                                           \
		"what it would have read if rows saw all that their layers let them see")                                        \
	I(hold, "hold", "why its plan left requests in the queue; absent: it left none")                                     \
	I(hold_first, "", "pages, sibling: the request that was first in order")                                             \
	I(pages_pinned, "", "pages kept by pins, read or not")

#define EV_FIELDS_finish(I, R, T, B)                                                               \
	I(request, "", "request")                                                                      \
	I(step, "", "last step it took part in")                                                       \
	I(reason, "finish", "why it ended")                                                            \
	I(generated, "", "tokens generated")                                                           \
	I(first_token_ns, "ns", "from its arrival to its first token")                                 \
	I(total_ns, "ns", "from its arrival to its end")                                               \
	I(hit, "", "tokens of its prompt that came from the prefix cache")                             \
	T(why, "", "more, in words and numbers: the stop string, what did not fit")                    \
	I(queue_ns, "ns", "from its arrival until it first left the queue; absent: it never did")      \
	I(itl_p50_ns, "ns",                                                                            \
		"inter-token latency of its tokens after the first, median by nearest rank, exact")        \
	I(itl_p99_ns, "ns", "the same, 99th percentile")                                               \
	I(prompt, "", "tokens of its prompt as another server counts them; absent: see `request`")

#define EV_FIELDS_search(I, R, T, B)                                                               \
	I(step, "", "step")                                                                            \
	I(search, "", "number of the search, from 1")                                                  \
	I(action, "search_action", "what happened")                                                    \
	I(request, "", "request of the branch")                                                        \
	I(node, "", "node of the search's tree")                                                       \
	I(parent, "", "node that it goes on from; absent: the root")                                   \
	I(tokens, "", "tokens after the prompt; begin: of the prompt")                                 \
	I(visits, "", "mcts: simulations that passed through it")                                      \
	R(logp, "nats", "log-probability of those tokens")                                             \
	R(score, "", "of an answer; mcts: mean value of the node")                                     \
	T(method, "", "begin: the search and its arguments; stopped: why")                             \
	T(judge, "", "begin: the command that gives the scores; absent: log-probabilities do")

#define EV_FIELDS_sharing(I, R, T, B)                                                              \
	I(step, "", "step")                                                                            \
	I(search, "", "search")                                                                        \
	I(members, "", "its running branches")                                                         \
	I(pages, "", "KV pages they read, each counted once")                                          \
	I(unshared, "", "pages they would need if none were shared")

#define EV_FIELDS_lesson(I, R, T, B)                                                               \
	I(action, "lesson_action", "what happened")                                                    \
	T(name, "", "of the lesson")                                                                   \
	T(text, "", "begin: the whole of it, Markdown")                                                \
	I(part, "", "parts of the text that are shown, from its beginning")                            \
	T(reader, "", "name that the reader gave; absent: none")

#define EV_FIELDS_answer(I, R, T, B)                                                               \
	T(lesson, "", "name of the lesson")                                                            \
	I(part, "", "number of the part that asks, from 0")                                            \
	I(ask, "ask", "what it asks")                                                                  \
	T(question, "", "in words")                                                                    \
	T(said, "", "the reader's prediction; absent: none")                                           \
	R(value, "", "the same as a number, where a number is asked")                                  \
	T(found, "", "what was measured; failed: why not")                                             \
	R(measured, "", "the same as a number")                                                        \
	R(tolerance, "x", "right within this share of what was measured")                              \
	I(verdict, "answer_verdict", "what comes of it")

#define EV_FIELDS_closed(I, R, T, B)                                                               \
	I(steps, "", "steps of the session; the session ended in order")

/* EVENT(kind and SQL table, what a row is) */
#define EV_TABLE(EVENT)                                                                                                                                           \
	EVENT(session, "the session: machine, model, and sizes. One row")                                                                                             \
	EVENT(memory,                                                                                                                                                 \
		"a memory group: layers that keep the same kind of thing for a sequence, in pages of their own. Told at the start, and again when the page size changes") \
	EVENT(product,                                                                                                                                                \
		"matrix products of one kernel stage, weight format and width; told at the start")                                                                        \
	EVENT(roof,                                                                                                                                                   \
		"a reading of what this machine can do, by the threads and instructions of the session")                                                                  \
	EVENT(outliers, "channels of what a product reads, by their largest magnitudes")                                                                              \
	EVENT(importance, "how much a layer, its heads and its channels do, over the shipped prompts")                                                                \
	EVENT(setting, "a setting given at the start or changed later")                                                                                               \
	EVENT(vocab, "text of a token id, at its first use")                                                                                                          \
	EVENT(request, "a request arrives: all its inputs")                                                                                                           \
	EVENT(admit, "a request leaves the queue for a slot")                                                                                                         \
	EVENT(lookup, "a prompt is looked up in the prefix cache")                                                                                                    \
	EVENT(page, "a KV page changes hands")                                                                                                                        \
	EVENT(pin, "a declared prefix: asked for, kept, refused, ended")                                                                                              \
	EVENT(preempt, "pages ran out and a request gave up its own")                                                                                                 \
	EVENT(queue,                                                                                                                                                  \
		"who waits, in the policy's order: told by the plan of a step when a request came or left since it was told last")                                        \
	EVENT(cancel, "the user stopped a request")                                                                                                                   \
	EVENT(rewind, "a running request went back to an earlier token")                                                                                              \
	EVENT(fork, "a request continues another from a position of its own")                                                                                         \
	EVENT(trim, "the context was full and old turns were dropped")                                                                                                \
	EVENT(batch, "membership of a request in the batch of a step")                                                                                                \
	EVENT(token, "a token was generated")                                                                                                                         \
	EVENT(score, "log-probability of a given token")                                                                                                              \
	EVENT(price, "a token by its exact twin: what the lossy settings cost at it")                                                                                 \
	EVENT(draft, "a drafted token was verified")                                                                                                                  \
	EVENT(window, "state of a Jacobi or lookahead window in a step")                                                                                              \
	EVENT(                                                                                                                                                        \
		denoise, "a step of a diffusion model: what it proposed for its masks, and what it fixed")                                                                \
	EVENT(cost, "what a step of so many rows takes on this machine, measured by dummy steps")                                                                     \
	EVENT(shadow, "what a drafter that guesses without being used would have reached so far")                                                                     \
	EVENT(choice, "the drafter `auto` chose another one")                                                                                                         \
	EVENT(attention,                                                                                                                                              \
		"where a row looked, by layer and page: every `attention-every` tokens of a request")                                                                     \
	EVENT(sparsity, "how many values of an observed row are near zero, by layer")                                                                                 \
	EVENT(head, "the same for one head")                                                                                                                          \
	EVENT(experts, "which experts a row used, by layer, while `watch-layers` is on")                                                                              \
	EVENT(state, "what recurrent layers keep and forget, at a row, while `watch-layers` is on")                                                                   \
	EVENT(time, "time, bytes and operations of the kernel stages in a step")                                                                                      \
	EVENT(step, "a step ends")                                                                                                                                    \
	EVENT(finish, "a request ends")                                                                                                                               \
	EVENT(search, "a search: its tree, its answers")                                                                                                              \
	EVENT(sharing, "pages that the branches of a search share, after each step")                                                                                  \
	EVENT(lesson, "a reader goes on in a lesson")                                                                                                                 \
	EVENT(answer, "a lesson asked: what was predicted, and what was measured")                                                                                    \
	EVENT(attached,                                                                                                                                               \
		"the answers are those of another server. At the start, where they are; steps are then what arrived together")                                            \
	EVENT(polled, "what another server says of itself, when that changed")                                                                                        \
	EVENT(slot, "a slot of another server, when it changed")                                                                                                      \
	EVENT(closed, "the session ends in order; absent after a crash")

#endif
