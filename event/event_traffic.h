/* Part of the table of events: who waits, who gives up pages, and what is pinned. See
 * event_table.h. */
#ifndef CUTAWAY_EVENT_TRAFFIC_H
#define CUTAWAY_EVENT_TRAFFIC_H

#define EV_FIELDS_pin(I, R, T, B)                                                                        \
	I(pin, "", "number of the pin: of the request that asked for it first")                              \
	I(action, "pin_action", "what happened")                                                             \
	I(request, "", "request that asks, or computes it; absent: none")                                    \
	I(asked, "", "tokens that it declared stable")                                                       \
	I(tokens, "", "of them, those in whole pages: what is kept")                                         \
	I(pages, "",                                                                                         \
		"asked, refused: pages that it adds to what pins keep; an end: pages that may be evicted again") \
	I(bytes, "bytes", "of these pages")                                                                  \
	I(ttl_ns, "ns", "time to live, from asked or renewed on; absent: until it is removed")               \
	I(prompts, "", "prompts that began with it so far")                                                  \
	I(given, "", "tokens that it gave them so far")                                                      \
	T(why, "", "refused: the numbers")

#define EV_FIELDS_queue(I, R, T, B)                                                                \
	I(step, "", "step whose plan left them waiting")                                               \
	I(waiting, "", "requests in the queue")                                                        \
	B(order, "",                                                                                   \
		"16 bytes each, at most 32, who is next by the policy first: i64 request, i64 rank; "      \
		"a greatest rank stands for none (deadline: it has no deadline)")

#define EV_FIELDS_preempt(I, R, T, B)                                                              \
	I(request, "", "request that lost its pages and waits again")                                  \
	I(pages, "", "pages it gave up")                                                               \
	I(tokens, "", "tokens to recompute, at most")                                                  \
	I(favour, "", "request that needed a page")                                                    \
	I(rank, "", "by the policy; of those that may lose their pages the greatest does")

#endif
