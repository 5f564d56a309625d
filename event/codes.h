/* Code lists of the events: what the small integers of a column mean. To add a value, add its line;
 * the enum, the log's table `code` and docs/trace.md are made from it. A value that a recording may
 * have never changes its meaning. */
#ifndef CUTAWAY_EVENT_CODES_H
#define CUTAWAY_EVENT_CODES_H

/* Value, name in the log's own table `code`, meaning. */
#define EV_CODES_request_kind(X)                                                                   \
	X(0, chat, "a turn of the conversation")                                                       \
	X(1, fork, "one of several continuations of the same prompt")                                  \
	X(2, load, "background request from the shipped prompts")                                      \
	X(3, run, "single request from the command line")                                              \
	X(4, score, "log-probabilities of a given text")                                               \
	X(5, verify,                                                                                   \
		"a recorded sequence computed again: its tokens are given, its draws are made anew")       \
	X(6, search, "a branch of a search")                                                           \
	X(7, served, "a client of `cutaway serve`")                                                    \
	X(8, pin, "a prefix to pin: it is computed, and nothing is drawn")
#define EV_CODES_work(X)                                                                           \
	X(0, prefill, "rows of the prompt (or of a preempted request, recomputed)")                    \
	X(1, decode, "one row: the newest token")                                                      \
	X(2, verify, "the newest token and drafted tokens that follow it")                             \
	X(3, denoise, "a whole prompt and canvas of a diffusion model")
#define EV_CODES_schedule(X)                                                                       \
	X(0, confidence, "the greatest probabilities of the drawn tokens")                             \
	X(1, entropy, "the least entropies of their rows")                                             \
	X(2, threshold, "probabilities above denoise-above, and the greatest in any case")
#define EV_CODES_finish(X)                                                                         \
	X(0, end, "the model ended its turn")                                                          \
	X(1, length, "the token limit of the request")                                                 \
	X(2, stop, "a stop string")                                                                    \
	X(3, context, "the context is full")                                                           \
	X(4, cancelled, "stopped by the user")                                                         \
	X(5, refused, "can never fit: see the numbers in `why`")                                       \
	X(6, failed, "the arithmetic gave a NaN")                                                      \
	X(7, dropped, "a branch of a search: others were better")                                      \
	X(8, ended,                                                                                    \
		"another server ended it: the end of the turn or a stop string, it does not say which")    \
	X(9, lost, "another server refused it, went away or made no sense: see `why`")
#define EV_CODES_page_action(X)                                                                    \
	X(0, alloc, "taken from the free list")                                                        \
	X(1, share, "one more request reads it")                                                       \
	X(2, copy, "copied before a write, because another request reads it")                          \
	X(3, release, "one request less reads it")                                                     \
	X(4, cache, "full and registered in the prefix cache")                                         \
	X(5, evict, "dropped from the prefix cache, least recently used")                              \
	X(6, free, "back on the free list")                                                            \
	X(7, unseen, "one request less reads it: out of sight of all rows that it may still compute")  \
	X(8, pin, "a pin keeps it in the prefix cache: it is not evicted")                             \
	X(9, unpin, "no pin keeps it any more")
#define EV_CODES_pin_action(X)                                                                              \
	X(0, asked,                                                                                             \
		"a request declared the beginning of its prompt stable; what is cached of it is kept from here on") \
	X(1, kept, "all its pages are computed and kept")                                                       \
	X(2, renewed, "asked for again: its time begins anew")                                                  \
	X(3, refused, "`why` has the numbers")                                                                  \
	X(4, expired, "its time is over")                                                                       \
	X(5, removed, "by the user")                                                                            \
	X(6, cleared, "a setting emptied the prefix cache")                                                     \
	X(7, unfinished, "the request that computed it ended before all its pages were")
#define EV_CODES_memory_kind(X)                                                                    \
	X(0, paged, "keys and values of all positions")                                                \
	X(1, window, "keys and values of the last positions; pages out of sight go back")              \
	X(2, recurrent, "one state of a fixed size; a page is the state at the end of its positions")  \
	X(3, recent, "the last positions of another group in f16, beside its codes")                   \
	X(4, kept, "which groups of 16 positions each head keeps, and what attention they got")
#define EV_CODES_hold(X)                                                                           \
	X(0, slot, "every slot was taken")                                                             \
	X(1, policy, "the policy was not open")                                                        \
	X(2, pages, "the first in order lacked pages")                                                 \
	X(3, sibling, "the first in order let another compute the prompt that they share")
#define EV_CODES_sparse(X)                                                                         \
	X(0, output_1, "of what attention gives: values below a tenth of the row's largest")           \
	X(1, output_2, "the same, below a hundredth")                                                  \
	X(2, output_3, "below a thousandth")                                                           \
	X(3, output_4, "below a ten-thousandth")                                                       \
	X(4, inner_1, "of the feed-forward's inner values: those below a tenth of the row's largest")  \
	X(5, inner_2, "the same, below a hundredth")                                                   \
	X(6, inner_3, "below a thousandth")                                                            \
	X(7, inner_4, "below a ten-thousandth")                                                        \
	X(8, kept, "of the inner values: those of at least `mark` of the row's largest")               \
	X(9, overlap, "of these and those of the row `since` tokens before: those of both, of all")    \
	X(10, together, "of the inner values: those that any of the `rows` keeps")
#define EV_CODES_prefix(X)                                                                         \
	X(0, hit, "all whole pages of the prompt were found (the last token is always computed)")      \
	X(1, empty, "nothing cached begins like this prompt")                                          \
	X(2, diverged, "a cached sequence parts from the prompt at `diverge_pos`")                     \
	X(3, evicted, "the next page had been cached and was evicted")                                 \
	X(4, tail, "the cached sequence ends before the prompt does")                                  \
	X(5, off, "the prefix cache is off")                                                           \
	X(6, untold, "another server does not tell")                                                   \
	X(7, thinned, "known further than a snapshot of its states is kept")
#define EV_CODES_source(X)                                                                                   \
	X(0, plain, "drawn with no draft")                                                                       \
	X(1, accepted, "drafted, and the draft was kept")                                                        \
	X(2, corrected, "drawn where a draft was rejected")                                                      \
	X(3, bonus, "drawn after a fully accepted draft")                                                        \
	X(4, forced, "not drawn: put there by the user")                                                         \
	X(5, chosen, "not drawn: a search went on with it")                                                      \
	X(6, taken,                                                                                              \
		"of the best answer of a search: computed in its branches, and emitted again as the conversation's") \
	X(7, recorded,                                                                                           \
		"of the session that this one continues (setting `continues`): computed there, and emitted again")   \
	X(8, told, "drawn by another server")                                                                    \
	X(9, piece, "not a token, but a piece of a stream: another server did not tell its tokens")              \
	X(10, carried,                                                                                           \
		"of an answer of another model, whose text stands in this one's tokens (`/model`): never computed")
#define EV_CODES_verdict(X)                                                                        \
	X(0, accepted, "kept")                                                                         \
	X(1, rejected, "lost the draw")                                                                \
	X(2, unread, "discarded: follows a rejected token")
#define EV_CODES_rule(X)                                                                           \
	X(0, race, "accepted if it wins the target's own keyed draw")                                  \
	X(1, rejection, "modified rejection sampling (Leviathan et al. 2023, Chen et al. 2023)")
#define EV_CODES_cut(X)                                                                            \
	X(0, kept, "took part in the draw")                                                            \
	X(1, top_k, "cut by top-k")                                                                    \
	X(2, top_p, "cut by top-p")                                                                    \
	X(3, min_p, "cut by min-p")                                                                    \
	X(4, greedy, "temperature 0: only the first counts")                                           \
	X(5, untold, "another server does not tell whether it took part")
#define EV_CODES_stage(X)                                                                          \
	X(0, embed, "reads the rows of the embedding")                                                 \
	X(1, norm, "root-mean-square norms, and rounding to 8 bits")                                   \
	X(2, qkv, "projections into the mixer: query, key and value")                                  \
	X(3, rope, "rotary positions; appends K and V to the cache")                                   \
	X(4, attention, "scores, softmax and weighted sum over the cached pages")                      \
	X(5, out, "output projection of the mixer")                                                    \
	X(6, gate_up, "the two expanding matrices of the feed-forward")                                \
	X(7, act, "the gate's activation times up, and rounding to 8 bits")                            \
	X(8, down, "the contracting matrix of the feed-forward")                                       \
	X(9, head, "logits: the output matrix over the whole vocabulary")                              \
	X(10, stats, "hash, maximum, mass and entropy of the logits")                                  \
	X(11, scan, "causal convolution and selective scan: a recurrent layer's memory")               \
	X(12, route, "a token's experts: their scores, the choice, the sum of what they gave")

#define EV_CODES_search_action(X)                                                                  \
	X(0, begin, "the search begins")                                                               \
	X(1, node, "a new branch")                                                                     \
	X(2, visit, "a node was visited again, or is gone on from")                                    \
	X(3, answer, "a branch ended: its answer and score")                                           \
	X(4, drop, "a branch was given up")                                                            \
	X(5, won, "the search is over: the best answer")                                               \
	X(6, stopped, "it was cancelled or failed: `method` says why; what it found by then counts")
#define EV_CODES_lesson_action(X)                                                                  \
	X(0, begin, "its text is shown from the beginning")                                            \
	X(1, go_on, "the text up to `part` is shown")                                                  \
	X(2, end, "its end was reached, or the reader left it")
#define EV_CODES_ask(X)                                                                            \
	X(0, predict, "the reader was asked for a number or a word before a run")                      \
	X(1, check, "what the lesson says must hold after a run")
#define EV_CODES_answer_verdict(X)                                                                 \
	X(0, open, "nothing was measured yet")                                                         \
	X(1, right, "the prediction is within its tolerance; the check holds")                         \
	X(2, wrong, "it is not; it does not hold")                                                     \
	X(3, failed, "the query could not be answered: `found` says why")                              \
	X(4, shown, "measured, and nothing had been predicted")

#define EV_CODE_LISTS(X)                                                                           \
	X(request_kind)                                                                                \
	X(work)                                                                                        \
	X(schedule)                                                                                    \
	X(finish)                                                                                      \
	X(page_action)                                                                                 \
	X(prefix)                                                                                      \
	X(source)                                                                                      \
	X(verdict)                                                                                     \
	X(rule)                                                                                        \
	X(sparse)                                                                                      \
	X(cut)                                                                                         \
	X(stage)                                                                                       \
	X(search_action) X(memory_kind) X(lesson_action) X(ask) X(answer_verdict) X(hold) X(pin_action)

#define EV_X_ENUM(list) enum ev_code_##list{ EV_CODES_##list(EV_X_##list) EV_N_##list };
#define EV_X_request_kind(v, n, d) EV_REQUEST_KIND_##n = v,
#define EV_X_work(v, n, d) EV_WORK_##n = v,
#define EV_X_schedule(v, n, d) EV_SCHEDULE_##n = v,
#define EV_X_finish(v, n, d) EV_FINISH_##n = v,
#define EV_X_page_action(v, n, d) EV_PAGE_##n = v,
#define EV_X_prefix(v, n, d) EV_PREFIX_##n = v,
#define EV_X_source(v, n, d) EV_SOURCE_##n = v,
#define EV_X_verdict(v, n, d) EV_VERDICT_##n = v,
#define EV_X_rule(v, n, d) EV_RULE_##n = v,
#define EV_X_cut(v, n, d) EV_CUT_##n = v,
#define EV_X_hold(v, n, d) EV_HOLD_##n = v,
#define EV_X_stage(v, n, d) EV_STAGE_##n = v,
#define EV_X_search_action(v, n, d) EV_SEARCH_##n = v,
#define EV_X_sparse(v, n, d) EV_SPARSE_##n = v,
#define EV_X_memory_kind(v, n, d) EV_MEMORY_KIND_##n = v,
#define EV_X_lesson_action(v, n, d) EV_LESSON_##n = v,
#define EV_X_ask(v, n, d) EV_ASK_##n = v,
#define EV_X_pin_action(v, n, d) EV_PIN_##n = v,
#define EV_X_answer_verdict(v, n, d) EV_ANSWER_##n = v,
EV_CODE_LISTS(EV_X_ENUM)

#endif
