/* Part of the table of events: what another server tells (sessions/attach). See event_table.h. */
#ifndef CUTAWAY_EVENT_ATTACHED_H
#define CUTAWAY_EVENT_ATTACHED_H

#define EV_FIELDS_attached(I, R, T, B)                                                             \
	T(url, "", "the server's root: its address without a user or a key")                           \
	T(server, "", "what it is, by how it answers: llama-server, vllm, sglang, cutaway, openai")    \
	T(version, "", "of it; absent: it does not tell")                                              \
	T(model, "", "the model's name there")                                                         \
	T(p, "", "what its probabilities are: before or after temperature, or unknown")                \
	I(slots, "", "requests that it can run at once; absent: it does not tell")                     \
	I(ctx, "", "longest sequence of a request, tokens; absent: it does not tell")                  \
	I(pages, "", "KV pages of its pool; absent: it does not tell")                                 \
	I(page_size, "", "tokens of one; absent: it does not tell")                                    \
	I(poll_ns, "ns", "from asking for its figures to asking again")

/* What a server says of itself; counters are those of all its clients since it started. */
#define EV_FIELDS_polled(I, R, T, B)                                                               \
	I(step, "", "step that it belongs to")                                                         \
	I(running, "", "requests that run")                                                            \
	I(waiting, "", "requests that wait")                                                           \
	R(kv_used, "x", "share of the KV cache in use; of several engines the largest")                \
	I(kv_tokens, "", "tokens in the KV cache")                                                     \
	I(prompt_tokens, "", "counter: tokens of prompts")                                             \
	I(generated, "", "counter: tokens generated")                                                  \
	I(asked, "", "counter: tokens looked up in the prefix cache")                                  \
	I(hit, "", "counter: tokens found there")                                                      \
	I(preempted, "", "counter: requests that gave up their place and began anew")                  \
	T(error, "", "why it did not answer; absent: it did")

#define EV_FIELDS_slot(I, R, T, B)                                                                 \
	I(step, "", "step that it belongs to")                                                         \
	I(slot, "", "number of the slot")                                                              \
	I(busy, "flag", "1: it works on a request")                                                    \
	I(task, "", "the server's own number of that request, or of the last one")                     \
	I(ctx, "", "tokens that it has room for")                                                      \
	I(tokens, "", "tokens that it holds, prompt and answer")                                       \
	I(generated, "", "of the answer")

#endif
