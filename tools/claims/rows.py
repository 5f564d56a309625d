"""The table: a row for each technique and claim of five texts on inference, and the rule that answers it.

Text 0 is on inference tricks, 1 on techniques that approximate or preserve the output, 2 on optimizing networks for inference, 3 on
large transformer models, 4 a lecture on inference after CS336; row 2.5 is claim 5 of text 2.

A row without `measure` says which technique is missing, or why nothing here can answer it (`untestable`). `says` is filled with the
numbers of the measurement; `holds` is the claim as a condition on them. Where it is false the verdict is `but`, the mechanism; unless
`where` = (condition, words) says under what it does hold. `lacks` names the part of a row that is not measured yet."""
from dataclasses import dataclass
from typing import Callable, Optional

from costs import cost
from drafts import (beside, chain, drafter, drafters, files, guessed_and_rejected, itself, lengths, overlap, repeating, same_law, search,
                    softness, trees, unseen, window)
from family import (deeper, delays, experts, family, full_layers, groups as family_groups, later, own_heads, potential, reach, relu,
                    score_in_eight, seeds, shipped)
from lab import Numbers, merge
from mended import mended_ahead
from memory import (activations, best_of, cache_default, cache_formats, certificate, declared, denoising, document, e4m3, few_pages, lossy, needle,
                    no_cache, other_model, page_sizes, passages, patterns, prefix, refined, reordered, sampled, scored, told_apart, window_pages,
                    windows)
from prices import connections, outliers, pruned, rounded, skips, smoothed, zeros, zeros_together
from quants import (apart, fewer_bits, granularity, kept, opened, salient, second_order, split, thinned, three_bits,
                    weight_only)
from ranks import handed, networked, pipeline, sequence, tensor
from steps import (beyond, cuda_modes, depths, formats, groups, heads as kv_heads, intensities, kept as kept_pages, load, loads, memory_sheet, on_gpu, paged, pause,
                   pools, predictions, prompts_together, replicas, roofs, row_costs, sequences, shapes, sizes, spans, static_batches,
                   swept, threads, ways)
from traffic import (apart as phases_apart, budgets, classes, contiguous, engines, lengths_of_load, padded, pauses, rates, routed, served,
                     served_ratios, static_arrivals)
from unrounded import by_tensor, eights, formats as from_16, laws, methods, pairs
from trained import best_of as loop, conversions, heads, ladder, places, repairs, sweep


@dataclass
class Row:
    number: str
    claim: str
    measure: Optional[Callable] = None
    says: str = ""
    holds: Optional[Callable] = None
    but: str = ""
    where: Optional[tuple] = None
    lacks: str = ""
    missing: str = ""
    untestable: str = ""
    gpu: bool = False


ROWS = [
    # Text 0
    Row("0.1", "Caching K and V is the most important trick; those of the prompt are the same in every iteration.",
        lambda: merge(no_cache(), others=Numbers(batch=loads().gain, bits=formats().decode16, guesses=drafters().best.speed.median)),
        "{tokens} tokens: equal hashes without the cache: {equal}; {rows} rows and {pairs} pairs with it, {rows_off} and "
        "{pairs_off} without ({more_rows:.0f} and {more_pairs:.0f} times); a token {ms:.1f} ms with, {ms_off:.1f} ms "
        "without, {slower:.1f} times. Beside it 16 sequences at once gain {others.batch:.2f}, 4 bits for 16 {others.bits:.2f}, the best "
        "drafter {others.guesses:.2f} times", lambda m: m.equal and m.more_rows > 10 and m.slower > 1.5 * max(vars(m.others).values()),
        "without it a token costs only {slower:.2f} times as much, and another trick gives as much"),
    Row("0.2", "With the cache a step has one query row: (B, 1, d) against cached K and V.",
        lambda: merge(shapes(), of=load(8)),
        "{prompt_rows} rows in {prompt_steps} step of the prompt, then {rows} a step, of 8 sequences together {of.each} of each; a step reads "
        "{read_token:,.0f} B more for each token before it, K and V by formula {kv_formula:,}; Q, K, V products {qkv_prompt:.0f} operations a "
        "byte in the prompt, {qkv_decode:.2f} when decoding",
        lambda m: m.rows == 1 and m.of.each == 1 and m.read_token == m.kv_formula and m.qkv_prompt > m.qkv_decode,
        "a decode step had {rows} rows, {of.each} of a sequence"),
    Row("0.3", "With the cache, sampling is no longer quadratic in the length, and long contexts stay fast.",
        depths,
        "a token takes {at[64].ms:.1f} ms at {at[64].tokens} tokens, {at[1024].ms:.1f} at {at[1024].tokens}, {at[4096].ms:.1f} at "
        "{at[4096].tokens}, {at[8000].ms:.1f} at {at[8000].tokens}; attention is {at[64].attention_share:.0%} and {at[8000].attention_share:.0%} "
        "of it",
        lambda m: m.slower < 1.25,
        "each token attends to all before it, so a run stays quadratic in pairs: {slower:.1f} times the time at 8,000 tokens",
        where=(lambda m: m.at[1024].ms.median < 1.5 * m.at[64].ms.median and
               m.at[8000].attention_ops / m.at[1024].attention_ops < 1.1 * m.at[8000].tokens / m.at[1024].tokens,
               "about {at[1024].tokens:,} tokens ({at[1024].ms.median:.1f} ms for {at[64].ms.median:.1f}); the operations of attention for a "
               "token grow with the length, so a run stays quadratic in pairs, and at {at[4096].tokens:,} tokens one takes "
               "{at[4096].ms.median:.1f} ms")),
    Row("0.4", "The KV cache is state and costs memory, worst on consumer cards.",
        lambda: merge(shapes(), few_pages(), memory_sheet()),
        "{kv_token:,.0f} B a token; {kv_full_mb:.1f} MB for one sequence of {ctx:,} tokens, beside {weights_mb:.1f} MB of weights; where pages "
        "lack, {few.recomputed} rows are computed again; by formula 80 GB hold {fits:,} sequences of 4,096 tokens, a consumer card's 24 GB "
        "{fits_small:,}",
        lambda m: m.kv_full_mb > 0.25 * m.weights_mb and m.few.recomputed > 0 and m.fits_small < 0.5 * m.fits,
        "it is small beside the weights, or is not missed"),
    Row("0.5", "Speculation needs excess compute, as a local single user has it.",
        lambda: merge(roofs(), row_costs(), full=loads().cost[32] / loads().cost[16]),
        "decoding uses {decode.ops:.0%} of the 8-bit multiply-adds; for one sequence 2 rows cost {at[2]:.2f} times 1 row and 4 rows {at[4]:.2f}; "
        "with 16 sequences twice the rows cost {full:.2f} times as much",
        lambda m: m.decode.ops < 0.5 and m.at[4].median < 2.5 and m.at[2].median < 0.8 * m.full,
        "no arithmetic is idle here, or a full batch has as much left"),
    Row("0.6", "A batch takes as long as one sequence.",
        lambda: merge(loads(), on_gpu(), rows=row_costs()),
        "a step of 2, 4, 8, 16, 32 sequences takes {cost[2]:.2f}, {cost[4]:.2f}, {cost[8]:.2f}, {cost[16]:.2f}, {cost[32]:.2f} times one of 1; "
        "rows of one sequence: 2 {rows.at[2]:.2f}, 4 {rows.at[4]:.2f}, 16 {rows.at[16]:.2f}; on a GPU ({gpu}) 16 and 64 sequences {gpu16:.1f} "
        "and {gpu64:.1f}",
        lambda m: m.cost[32] < 1.2,
        "a sequence more is not free: 2 take {cost[2]:.2f}, 32 {cost[32]:.1f} times as long as 1, though {rows.flat} rows of one sequence cost "
        "nearly what 1 does",
        where=(lambda m: max(m.cost[2], m.cost[4]) < 1.1,
               "up to 4 sequences: 32 take {cost[32]:.1f} times as long as 1")),
    Row("0.7", "Beam search lives off cheap batches.", lambda: search("--beam", "4"),
        "beam of 4: a step of {rows:.1f} rows in the mean takes {cost:.2f} times one of 1, {speed:.2f} times the tokens a second of one "
        "sample; {saved:.0%} of pages saved by sharing",
        lambda m: m.rows > 2 and m.cost.median < 0.7 * m.rows, "a step of {rows:.1f} rows costs {cost.median:.2f} times one of 1"),
    Row("0.7b", "So does Monte-Carlo tree search.", lambda: search("--mcts", "16,3,8"),
        "16 simulations: a step of {rows:.1f} rows in the mean takes {cost:.2f} times one of 1, {speed:.2f} times the tokens a second of one "
        "sample; {saved:.0%} of pages saved by sharing",
        lambda m: m.rows > 2 and m.cost.median < 0.7 * m.rows, "a step of {rows:.1f} rows costs {cost.median:.2f} times one of 1"),
    Row("0.8", "Speed and parameter count are directly proportional.", lambda: merge(sizes(), on_gpu(), roof=roofs()),
        "135M {at[135M].ms:.1f}, 360M {at[360M].ms:.1f}, 1B {at[1B].ms:.1f} ms a token (Q4_1); bytes 1B to 135M "
        "{bytes:.2f}, time {time:.2f}; on a GPU ({gpu}) 135M {gpu_ms[135M]:.2f}, 1B {gpu_ms[1B-Q4_1]:.2f}, 8B {gpu_ms[8B-Q4_1]:.2f} ms",
        lambda m: 0.9 < m.time / m.bytes < 1.1 and 0.9 < m.gpu_time / m.gpu_bytes < 1.1,
        "what does not grow with the weights (attention, barriers, the draw) has a share that shrinks with the size",
        where=(lambda m: 0.9 < m.time / m.bytes < 1.1 and m.roof.decode.bytes > 0.5 and m.gpu_time < 0.9 * m.gpu_bytes,
               "a processor whose reads bound each token ({roof.decode.bytes:.0%} of them); on the GPU 8B has {gpu_bytes:.0f} times the bytes of "
               "135M and takes {gpu_time:.1f} times as long (docs/performance.md says why)")),
    Row("0.9", "Decoding is autoregressive: N tokens are N inferences.",
        lambda: merge(shapes(), ahead=drafter("ngram:4")),
        "{tokens} tokens after the first in {steps} steps; with n-grams of the text as guesses {ahead.tokens:.2f} tokens a step, {ahead.equal} "
        "of {ahead.n} answers equal",
        lambda m: m.tokens == m.steps and m.ahead.tokens < 1.05,
        "steps gave other numbers of tokens",
        where=(lambda m: m.tokens == m.steps and m.ahead.equal == m.ahead.n,
               "plain decoding: with guesses a step gives {ahead.tokens:.2f} of the same tokens")),
    Row("0.10", "Two models run in parallel; the big one in the background while guesses compound (arXiv:2211.17192).",
        beside,
        "a draft model on one of two cores and the model on the other: {one:.2f} times the same in turns on one core, {two:.2f} in turns "
        "on both, {plain:.2f} plain decoding on both; {used:.0%} of the blocks drafted ahead were used; {equal} of {n} answers equal plain "
        "decoding", lambda m: m.two.median > 1,
        "a block is used where two guesses and the model's draw all come as assumed, and a guess is right {a:.0%} of the time; the core "
        "serves the model more"),
    Row("0.11", "All guesses are evaluated in parallel; only the small model is sequential.",
        lambda: merge(drafter("eagle"), row_costs(), one=drafter("eagle:1,1,1"), four=drafter("eagle:4,4,1")),
        "{nodes:.1f} guesses a verify step, all rows of one step of the model; 4 rows cost {at[4]:.2f} times 1; the drafter takes "
        "{one.guess_ms:.2f} ms for one guess and {four.guess_ms:.2f} for four, one after the other",
        lambda m: m.nodes > 1 and m.at[4].median < 3 and m.four.guess_ms > 2 * m.one.guess_ms,
        "4 rows cost nearly 4 steps, or four guesses take the drafter no longer than one"),
    Row("0.12", "The draft finds better solutions that the large model might have missed.", drafters,
        "{equal} of {answers} greedy answers under 6 drafters equal plain decoding, token by token and hash by hash; of those that do not "
        "the model finds {better} likelier",
        lambda m: m.better > 0,
        "a guess is kept only if the model itself would have drawn it, so no draft changes the text"),
    Row("0.13", "Both models must be in memory on one node, which adds complexity.",
        lambda: merge(files(), free=drafter("ngram:4")),
        "EAGLE {at[eagle]:.1f} MB, Medusa {at[medusa]:.1f} MB, draft model {at[draft]:.1f} MB beside {model:.1f} MB; keys and values of their "
        "own {kv[eagle]:,}, {kv[medusa]:,}, {kv[draft]:,} B a token beside {kv_model:,.0f}, at {ctx:,} tokens {full[eagle]:.1f}, "
        "{full[medusa]:.1f}, {full[draft]:.1f} MB beside {full_model:.1f} MB; n-grams of the text, no second model, give "
        "{free.tokens_of[chat]:.2f} tokens a step on chats, {free.tokens_of[edit]:.2f} on edits",
        lambda m: m.most > 0.1 and max(m.free.tokens_of.values()) < 1.05,
        "n-grams need no second model and give {free.tokens_of[chat]:.2f} tokens a step on chats",
        where=(lambda m: m.free.tokens_of["chat"] < 1.05,
               "drafters that are networks: both are in memory, the second, of one or two layers, with at most {most:.1%} of the first, cache and "
               "all; n-grams need none, and give {free.tokens_of[edit]:.2f} tokens a step on edits. Two nodes and complexity are not measured")),
    Row("0.14", "Two models have to be trained.", lambda: drafter("ngram:4"),
        "n-grams of the text, trained on nothing: chat {tokens_of[chat]:.2f}, code {tokens_of[code]:.2f}, edits {tokens_of[edit]:.2f} tokens a step",
        lambda m: max(m.tokens_of.values()) < 1.05,
        "prompt lookup needs no second model; the trained drafters took 12 to 51 minutes (docs/training.md)",
        where=(lambda m: min(m.tokens_of.values()) < 1.05,
               "text that does not repeat: what n-grams, trained on nothing, give chats is {tokens_of[chat]:.2f} tokens a step, edits "
               "{tokens_of[edit]:.2f}")),
    Row("0.15", "The gain is limited by the drafter's accuracy: if the small model could predict the text, it alone "
                "would do.", lambda: merge(chain(3), itself=itself()),
        "acceptance {a:.2f} of 3 guesses: E = (1-a^4)/(1-a) = {formula:.2f} tokens a step, measured {tokens:.2f}; the "
        "model drafting for itself: {itself.rejected} rejected of {itself.accepted}",
        lambda m: abs(m.formula / m.tokens - 1) < 0.15 and m.itself.rejected == 0,
        "tokens a step do not follow from acceptance"),
    Row("0.16", "Speculative decoding doubles speed; 2x to 3x (arXiv:2211.17192).", drafters,
        "EAGLE chat {at[eagle].kind[chat]:.2f}, code {at[eagle].kind[code]:.2f}; draft model chat "
        "{at[draft].kind[chat]:.2f}; n-grams chat {at[ngram:4].kind[chat]:.2f}, edits {at[ngram:4].kind[edit]:.2f} times "
        "plain decoding", lambda m: m.best.speed.median >= 2,
        "rows cost arithmetic on a CPU; the fastest over all texts is {best.name} with {best.speed:.2f}",
        where=(lambda m: m.peak.most.median >= 2,
               "texts of one kind: {peak.name} on {peak.fastest}")),
    Row("0.17", "N-grams made by the model itself can take the place of a draft model (lookahead, arXiv:2402.02057).",
        lambda: merge(drafter("lookahead"), window(), model=drafter("draft")),
        "{own} n-grams of its own in the pool, {text} of the text; of {kept} first guesses kept {alone} are not in the text before after the "
        "same token; chat {tokens_of[chat]:.2f}, edits {tokens_of[edit]:.2f}, code {tokens_of[code]:.2f} tokens a step, by the draft model "
        "{model.tokens_of[chat]:.2f}, {model.tokens_of[edit]:.2f}, {model.tokens_of[code]:.2f}",
        lambda m: m.alone > 0.5 * m.kept and all(m.tokens_of[kind] > 0.95 * m.model.tokens_of[kind] for kind in m.tokens_of),
        "its own n-grams gave {alone} of {kept} kept guesses, the text all others; on chats both give {tokens_of[chat]:.2f} tokens a step, the "
        "draft model {model.tokens_of[chat]:.2f}",
        where=(lambda m: m.alone > 0.5 * m.kept and m.tokens_of["edit"] > m.model.tokens_of["edit"],
               "edits, whose text repeats; on chats its pool gives {tokens_of[chat]:.2f} tokens a step, the draft model "
               "{model.tokens_of[chat]:.2f}")),
    Row("0.18", "Jacobi decoding has no downside: at worst it devolves into greedy decoding (arXiv:2305.10427).",
        lambda: drafter("jacobi"),
        "{tokens:.2f} tokens a step, {speed:.2f} times plain decoding; {equal} of {n} answers equal",
        lambda m: m.speed.median >= 1, "its guesses are rows of each step, and rows cost arithmetic"),
    Row("0.19", "Lookahead speeds up dramatically at minimal cost, since coming text resembles written text "
                "(arXiv:2402.02057).", lambda: merge(drafter("lookahead"), seen=overlap()),
        "chat {kind[chat]:.2f}, edits {kind[edit]:.2f}, code {kind[code]:.2f} times plain; share of tokens that repeat a "
        "3-gram: {seen.at[chat]:.0%}, {seen.at[edit]:.0%}, {seen.at[code]:.0%}",
        lambda m: min((k.median for k in m.kind.values())) > 1.2,
        "where few 3-grams repeat, its window costs more rows than it saves steps",
        where=(lambda m: m.most.median > 1.2,
               "text that repeats itself ({fastest})")),
    Row("0.20", "Attention is a softmax over all positions, and most of its values are tiny.",
        depths,
        "{at[64].near_zero:.0%} of values below 1/1000 at {at[64].tokens} tokens, {at[1024].near_zero:.0%} at {at[1024].tokens}",
        lambda m: min(m.at[64].near_zero, m.at[1024].near_zero) > 0.5,
        "most are not",
        where=(lambda m: m.at[1024].near_zero > 0.5,
               "about {at[1024].tokens:,} tokens, where uniform values would all be near 1/1000; of {at[64].tokens} tokens "
               "{at[64].near_zero:.0%} are so small")),
    Row("0.21", "Up to 97 % of attention's output is near zero.",
        lambda: merge(depths(), zeros=zeros()),
        "softmax weights below 1/1000: {at[64].near_zero:.0%} at {at[64].tokens} tokens, {at[1024].near_zero:.0%} at {at[1024].tokens}, "
        "{at[8000].near_zero:.0%} at {at[8000].tokens}; of attention's output below 1/10, 1/100, 1/1000 of its largest value: "
        "{zeros.output[0]:.0%}, {zeros.output[1]:.1%}, {zeros.output[2]:.2%}",
        lambda m: m.zeros.output[2] > 0.9,
        "the weights are; the output is an average of value vectors",
        where=(lambda m: m.at[1024].near_zero > 0.9,
               "softmax weights alone, of about {at[1024].tokens:,} tokens, where uniform ones would all be near 1/1000 (of {at[8000].tokens:,} "
               "most must be below); the output is an average of value vectors, of which few are small")),
    Row("0.22", "After ReLU, too, many activations of the feed-forward are zero.", lambda: merge(zeros(), relu=relu()),
        "of a small model with ReLU {relu.zero:.0%} of the inner values are exactly 0; without their columns the last matrix takes "
        "{relu.read:.2f} of the bytes and {relu.ms:.2f} times as long, equal bits: {relu.equal}; of SwiGLU's inner values in SmolLM2 "
        "{inner[0]:.0%} are below 1/10 of their row's largest, {inner[1]:.0%} below 1/100, {inner[2]:.0%} below 1/1000",
        lambda m: m.relu.zero > 0.5 and m.relu.equal, "most stay above 0", lacks="a large model with ReLU"),
    Row("0.23", "Structured (2:4) weight sparsity can be used.", lambda: merge(pruned("--pattern", "2:4"), thinned()),
        "by Wanda, not trained further: KL {kl:.2f}, perplexity {lossy:.1f} for {exact:.1f}; the layers' matrices take {dense_mb:.0f} "
        "MB as F16 and {pattern_mb:.0f} as 2:4; a step without half of the zeros takes {packed.one_times:.2f} times as long as with "
        "all, of 16 rows {packed.many_times:.2f}, equal bits: {equal}", lambda m: m.kl < 0.1, "half of each four weights are too many "
        "without training afterwards", lacks="sparse tensor cores"),
    Row("0.23b", "It is open how much sparsity systems can use at all.", lambda: merge(skips(), thinned()),
        "reading the last matrix by rows {rows_ms:.2f} ms a token, all of it by columns {all_columns_ms:.2f} ms; {table}; of weights "
        "pruned 2:4 half are read and multiplied, in {packed.one_times:.2f} of the time, of 16 rows {packed.many_times:.2f}",
        lambda m: m.faster, "a column is a few lines of memory that no processor guesses: none is faster than all rows at a KL below "
        "0.1, and the zeros of 2:4, which are faster, cost more (0.23)", lacks="a GPU"),
    Row("0.24", "Weights of zero activations need not be read; mainstream software does not do it.",
        lambda: merge(skips(), relu=relu()),
        "of a small model with ReLU {relu.zero:.0%} of the inner values are 0: without their columns {relu.read:.2f} of the last matrix's bytes "
        "are read in {relu.ms:.2f} times the time, equal bits: {relu.equal}. In SmolLM2, whose values are only small, {rows.down_mb:.1f} MB of "
        "the last matrix a token; {table}. Other software is not measured",
        lambda m: m.relu.equal and m.relu.zero > 0.25 and m.relu.read < 0.75,
        "bits differ, or nearly as much is read"),
    Row("0.25", "Sparsity is random over tokens, so batches cannot use it.",
        lambda: merge(zeros(), batch=zeros_together(8)),
        "inner values of at least 1/100 of the largest: {kept:.0%}; of those of two neighbouring tokens {overlap:.0%} are both's, "
        "by chance {chance:.0%}; at 1/20 a token keeps {batch.one:.0%}, {batch.rows} of a step together {batch.any:.0%}, by chance "
        "{batch.free:.0%}",
        lambda m: m.overlap < m.chance + 0.1 and m.batch.any > 0.9, "the same ones matter again",
        where=(lambda m: m.batch.any > m.batch.one + 0.5 * (m.batch.free - m.batch.one),
               "a batch that can use little: one token leaves out {batch.gone:.0%}, {batch.rows} together {batch.all_gone:.0%}, and by chance it "
               "would be {batch.free_gone:.0%}")),
    Row("0.26", "GPTQ quantises 175B in 4 GPU hours to 3 or 4 bits at negligible loss (arXiv:2210.17323).",
        lambda: merge(second_order(), small=methods(), ladder=ladder()),
        "from 16 bits, a model of 689 thousand parameters, groups of 32: perplexity {small.rtn3.ppl:.1f} to the nearest, {small.gptq3.ppl:.1f} "
        "by GPTQ in 3 bits, {small.rtn4.ppl:.1f} and {small.gptq4.ppl:.1f} in 4 (source {small.gptq3.source:.1f}); of 135M, which was in Q4_1, "
        "groups of 128: {rtn3.ppl:.1f}, {gptq3.ppl:.1f}; {rtn4.ppl:.1f}, {gptq4.ppl:.1f} (source {rtn3.source:.1f}); that took GPTQ "
        "{gptq3.minutes:.1f} minutes in 3 bits. Of one family, {ladder.sizes}, GPTQ costs the smallest {ladder.gptq_3[0]:.3f} and the largest "
        "{ladder.gptq_3[4]:.3f} nats a token in 3 bits, {ladder.gptq_4[0]:.3f} and {ladder.gptq_4[4]:.3f} in 4",
        lambda m: m.small.gptq3.ppl < 1.05 * m.small.gptq3.source,
        "GPTQ loses {small.gptq3.kl:.2f} nats a token at 3 bits, where the nearest loses {small.rtn3.kl:.2f}",
        where=(lambda m: m.small.gptq4.ppl < 1.05 * m.small.gptq4.source and max(m.ladder.gptq_4) < 0.05,
               "4 bits, from a source of 16: {small.gptq4.kl:.3f} nats a token, of models of up to 8 million parameters; the hours for 175 "
               "billion are not measured")),
    Row("0.27", "k-bit laws: N weights at b bits equal 2N at b/2, with no penalty down to 4 bits (arXiv:2212.09720).",
        lambda: merge(fewer_bits(), laws=laws(), ladder=ladder()),
        "from 16 bits, groups of 32, two sizes of one family: perplexity {laws.large[16]:.1f}, {laws.large[8]:.1f}, {laws.large[5]:.1f}, "
        "{laws.large[4]:.1f}, {laws.large[3]:.1f}, {laws.large[2]:.1f} in 16, 8, 5, 4, 3, 2 bits; a {laws.times:.1f}th of the parameters "
        "{laws.small[16]:.1f}, {laws.small[8]:.1f}, {laws.small[5]:.1f}, {laws.small[4]:.1f}, {laws.small[3]:.1f}, {laws.small[2]:.1f}; in "
        "as many bits as the small one's 16 the large one has {laws.bits}: {laws.at_bits:.1f}. SmolLM2 from Q4_1 {at[8].ppl:.1f}, "
        "{at[5].ppl:.1f}, {at[4].ppl:.1f}, {at[3].ppl:.1f} in 8, 5, 4, 3 (source {source:.1f}). Of one family, {ladder.sizes}: perplexity in 4 "
        "bits, of that in 8: {ladder.said[4]} times; in 3: {ladder.said[3]}. The next size, about twice the weights, in 4 bits, of this one in 8: "
        "{ladder.halves[8]}; in 3, of this one in 6: {ladder.halves[6]}",
        lambda m: max(m.ladder.half[8]) < 1.02 and m.laws.large[4] < 1.02 * m.laws.large[16],
        "fewer bits of a larger model cost more than the larger model gives",
        where=(lambda m: max(m.ladder.half[8]) < 1.02 and min(m.ladder.half[6]) > 1.02 and m.laws.large[5] < 1.02 * m.laws.large[16],
               "twice the weights in 4 bits for 8, which is as good within 2 % or better; not 3 for 6. Without a penalty are 5 bits, not 4")),
    Row("0.28", "Quantised weights are 4 times smaller without a significant drop.", lambda: Numbers(small=from_16()),
        "a small model in 16 bits has perplexity {small.q4.source:.2f}: Q8_0 {small.q8.smaller:.2f} times smaller, {small.q8.ppl:.2f}; 4 bits by "
        "GPTQ in groups of 128 {small.gptq.less:.2f} times, {small.gptq.ppl:.2f}; Q4_0, to the nearest, {small.q4.smaller:.2f} times, "
        "{small.q4.ppl:.2f}. Of 32 bits the first are {small.q8.less32:.2f} and {small.gptq.less32:.2f} times smaller",
        lambda m: m.small.gptq.less > 3.7 and m.small.gptq.ppl < 1.02 * m.small.gptq.source,
        "of 16 bits 4 are {small.gptq.less:.2f} times smaller, and by the best method cost {small.gptq.kl:.3f} nats a token; what costs nothing "
        "that counts is {small.q8.smaller:.2f} times smaller",
        where=(lambda m: m.small.q8.less32 > 3.7 and m.small.q8.ppl < 1.02 * m.small.q8.source,
               "weights of 32 bits: 8 are {small.q8.less32:.2f} times smaller at perplexity {small.q8.ppl:.2f}; of 16 bits, as models are "
               "published, 4 by GPTQ cost {small.gptq.kl:.3f} nats a token, perplexity {small.gptq.ppl:.2f}")),
    Row("0.29", "Speed is bits processed: N times fewer bits, N times faster.",
        formats,
        "F16 to Q4_0: {bytes16:.2f} times fewer bytes, decoding {decode16:.2f} times faster; prompts: Q8_0 {prompt16:.2f} times F16 with "
        "{bytes8:.2f} times fewer bytes, Q4_0 {prompt:.2f} times Q8_0",
        lambda m: m.decode16 > 0.85 * m.bytes16 and m.prompt16 > 0.95 * m.bytes8,
        "decoding is {decode16:.2f} times faster for {bytes16:.2f} times fewer bytes, and prompts are bound by arithmetic: Q8_0 "
        "{prompt16:.2f} times F16",
        where=(lambda m: m.decode16 > 0.85 * m.bytes16,
               "decoding, which reads weights; prompts are bound by arithmetic, so that 8 bits for 16 make them {prompt16:.2f} times as fast")),
    Row("0.30", "FP8 is the lowest native float and strictly better than INT8; it is the lowest for production.", rounded,
        "KL of activations, weights the same: e4m3 {at[e4m3].kl:.3f}, e5m2 {at[e5m2].kl:.3f}; int8 {block:.3f} with a scale for 32 "
        "values, {token:.3f} for a token, {tensor:.3f} for a tensor", lambda m: m.e4m3 < m.block,
        "3 bits of mantissa are fewer than 7: only with one scale for a whole tensor does int8 lose to it",
        lacks="native FP8 products, on a GPU that has them"),
    Row("0.31", "The literature is of models below the state of the art, and hobbyists are misled by it.",
        untestable="it is an opinion on a literature; this page measures what it names"),
    # Text 1
    Row("1.1", "Weights are 32-bit by default, and 8- or 4-bit integers when quantised.",
        lambda: merge(formats(), trained=heads(), files=shipped()),
        "a number in training has {trained.each[0]:.1f} bytes, in the file that it writes {files.bits:.0f} bits; with their scales {bits_of[Q8_0]:.2f} bits a weight in Q8_0, {bits_of[Q4_0]:.2f} "
        "in Q4_0: F32 {at[F32].mb:.0f}, F16 {at[F16].mb:.0f}, Q8_0 {at[Q8_0].mb:.0f}, Q4_1 {at[Q4_1].mb:.0f}, Q4_0 {at[Q4_0].mb:.0f} MB a token; "
        "{at[F32].ms:.1f}, {at[F16].ms:.1f}, {at[Q8_0].ms:.1f}, {at[Q4_1].ms:.1f}, {at[Q4_0].ms:.1f} ms",
        lambda m: abs(m.trained.each[0] - 4) < 0.1 and m.files.bits > 31 and 8 <= m.bits_of["Q8_0"] < 9 and 4 <= m.bits_of["Q4_0"] < 5,
        "training has {trained.each[0]:.1f} bytes a number, or scales take a bit of a weight or more",
        where=(lambda m: abs(m.trained.each[0] - 4) < 0.1 and 8 <= m.bits_of["Q8_0"] < 9 and 4 <= m.bits_of["Q4_0"] < 5,
               "training, and quantised files as said; what it writes has {files.bits:.0f} bits here, and what others publish is not "
               "measured")),
    Row("1.2", "Quantisation-aware training is more resilient than quantisation after training.", repairs,
        "a small Llama, KL at 4, 3, 2 bits: nearest {kl[rtn-4]:.3f}, {kl[rtn-3]:.3f}, {kl[rtn-2]:.3f}; GPTQ {kl[gptq-4]:.3f}, "
        "{kl[gptq-3]:.3f}, {kl[gptq-2]:.3f}; trained with the rounding {kl[qat-4]:.3f}, {kl[qat-3]:.3f}, {kl[qat-2]:.3f}",
        lambda m: all(m.high[f"qat-{b}"] < m.low[f"gptq-{b}"] for b in (2, 3, 4)), "GPTQ does as well without training",
        where=(lambda m: all(m.high[f"qat-{b}"] < m.low[f"gptq-{b}"] for b in (2, 3)), "3 bits and fewer; at 4 GPTQ does as well")),
    Row("1.3", "Precision of weights and of activations are chosen apart.",
        lambda: merge(rounded(), weights=fewer_bits()),
        "the same 4-bit weights: perplexity {f32:.2f} with activations in 32 bits, {at[bf16].lossy:.2f} in bf16, {at[int8-block].lossy:.2f}, "
        "{at[int8-token].lossy:.2f} and {tensor_ppl:.2f} in 8 bits by block, token and tensor; the same activations (8 bits by block), another "
        "text: {weights.source:.1f} with the file's weights, {weights.at[8].ppl:.1f} with these rounded to 8 bits, {weights.at[3].ppl:.1f} to 3",
        lambda m: abs(m.block_more) < 0.02 and m.tensor_ppl > 1.02 * m.f32 and m.weights.at[8].ppl < 1.02 * m.weights.source < m.weights.at[3].ppl,
        "the choice makes no difference"),
    Row("1.4", "Granularity: scales by tensor, channel or group are a choice.",
        granularity, "4 bits: perplexity {at[tensor].ppl:.1f} with a scale a tensor, {at[row].ppl:.1f} a row, {at[128].ppl:.1f} "
        "a group of 128, {at[32].ppl:.1f} of 32 (source {source:.1f}), in {at[tensor].bits:.2f}, {at[row].bits:.2f}, "
        "{at[128].bits:.2f} and {at[32].bits:.2f} bits a weight", lambda m: m.spread > 2,
        "the choice changes little: {spread:.1f} times the divergence"),
    Row("1.5", "Quantisation makes larger models fit.",
        lambda: merge(formats(), laws=laws()),
        "the same shape: {at[F32].mb:.0f} MB in F32, {at[Q4_0].mb:.0f} MB in Q4_0: {smaller:.1f} times. In no more bits than a small model has "
        "in 16 a weight, one of {laws.times:.1f} times the parameters has {laws.bits} a weight: perplexity {laws.at_bits:.1f} for "
        "{laws.small[16]:.1f}",
        lambda m: m.smaller > 4 and m.laws.at_bits < m.laws.small[16],
        "it is only {smaller:.1f} times smaller, or the larger model in fewer bits is worse"),
    Row("1.6", "It makes communication within and across chips less, a major part of latency.",
        lambda: merge(tensor(), net=networked(), inside=formats()),
        "two ranks send {q8.kb:.0f} kB a token where products read 8 bits, {f32.kb:.0f} in f32, to the same bits ({equal}); {f16.kb:.0f} with "
        "what layers add in f16, which is lossy; over 1 gbit and 50 us a token takes {linked.step_ms:.1f} ms, {q8.step_ms:.1f} between threads; "
        "over a network of 100 Mbit/s and 1 ms {net.real:.0f} ms between processes, where the count says {net.linked:.0f}, to the same bits: "
        "{net.same}; from memory a token reads {inside.bytes16:.2f} times fewer bytes in Q4_0 than in F16, and is {inside.decode16:.2f} times as "
        "fast",
        lambda m: m.equal and m.net.same and m.q8.kb < 0.75 * m.f32.kb and m.lossy and m.linked.step_ms > 2 * m.q8.step_ms and m.inside.decode16 > 1.5,
        "8 bits save less than a quarter, or what travels takes little of the time"),
    Row("1.7", "Low precision has faster native arithmetic.",
        lambda: merge(formats(), roofs()),
        "multiply-adds a second with all operands in registers: {integers:.0f} G of 8-bit integers, {floats:.0f} G of 32-bit floats, by the "
        "same vector units; a whole prompt with 8-bit products (Q8_0) is {prompt16:.2f} times as fast as with floats (F16 weights, decoded)",
        lambda m: m.integers > 1.2 * m.floats and m.prompt16 > 1.2,
        "{integers:.0f} G of 8-bit multiply-adds a second beside {floats:.0f} G of floats make a prompt {prompt16:.2f} times as fast"),
    Row("1.8", "8 bits made MobileNet twice as fast for 2 % of accuracy (arXiv:1712.05877).",
        lambda: merge(formats(), act=activations(), small=from_16(), task=score_in_eight()),
        "Q8_0 against F32: prompts, bound by arithmetic as images are, {prompt8:.2f} times, decoding {decode8:.2f}; 8-bit activations cost {act.more:+.1%} perplexity; weights from 16 bits to 8: "
        "perplexity {small.q8.source:.2f} to {small.q8.ppl:.2f}; recall of 32 pairs {task.at[f32]:.1%} with activations of 32 bits, "
        "{task.at[int8-block]:.1%} and {task.at[int8-token]:.1%} in 8, by blocks and by tokens",
        lambda m: m.prompt8 > 1.8 and m.act.more < 0.02 and m.task.least > m.task.at["f32"] - 0.02 and
        m.small.q8.ppl < 1.02 * m.small.q8.source, "prompts are {prompt8:.2f} times as fast",
        where=(lambda m: m.decode8 > 2 and m.act.more < 0.02 and m.task.least > m.task.at["f32"] - 0.02 and
               m.small.q8.ppl < 1.02 * m.small.q8.source,
               "decoding, bound by bytes, {decode8:.2f} times; a prompt, bound by arithmetic as MobileNet's images are, is {prompt8:.2f} times "
               "as fast. There is no model of images here")),
    Row("1.9", "Distillation: a student of a larger teacher beats one trained on the same data alone.", sweep,
        "a student with a fifth of the parameters, from scratch, the same text: perplexity of text held out {alone[0]:.2f} and "
        "{alone[1]:.2f} (two seeds) by labels alone, {taught[0]:.2f} and {taught[1]:.2f} with the teacher's distribution, too",
        lambda m: max(m.taught) < min(m.alone), "the labels teach as much"),
    Row("1.10", "Data can be distilled: synthetic text of the teacher trains the student, and bad data harms.",
        untestable="a training takes an hour; measured once: first guesses 40.8 % to 59.3 % with questions like people's "
                   "(docs/training.md)"),
    Row("1.11", "Logits teach more than sampled text does.", repairs,
        "a pruned Llama (KL {kl[layers]:.3f}) repaired by as many tokens of its teacher's text: KL {kl[teacher-labels]:.3f} by the "
        "tokens alone, {kl[teacher-soft]:.3f} by the distributions at them",
        lambda m: m.high["teacher-soft"] < m.low["teacher-labels"], "a token drawn says as much as the distribution"),
    Row("1.12", "On-policy distillation: the student writes, the teacher grades.", repairs,
        "a pruned Llama (KL {kl[layers]:.3f}) after as many steps on its own text: KL {kl[own-forward]:.3f} by the divergence from "
        "the teacher, {kl[own-reverse]:.3f} by the reverse; on the given text {kl[full]:.3f} and {kl[corpus-reverse]:.3f}. What they write "
        "by themselves the teacher judges, nats a token: {judged[own-forward]:.2f}, {judged[own-reverse]:.2f}; {judged[full]:.2f}, "
        "{judged[corpus-reverse]:.2f}; its own {judged[teacher]:.2f}",
        lambda m: min(m.kl["own-forward"], m.kl["own-reverse"]) < min(m.kl["full"], m.kl["corpus-reverse"]) or
        min(m.judged["own-forward"], m.judged["own-reverse"]) < min(m.judged["full"], m.judged["corpus-reverse"]),
        "neither is better than on the given text: the direction of the divergence decides, not who wrote"),
    Row("1.13", "Attention is quadratic in length.",
        depths,
        "operations of attention in a prompt grow with length to the power {power:.2f} from {at[1024].tokens} to {at[8000].tokens} tokens, its "
        "time from {at[1024].prompt_attention_ms:,.0f} to {at[8000].prompt_attention_ms:,.0f} ms; a token of the prompt takes "
        "{prompt_slower:.1f} times as long",
        lambda m: 1.8 < m.power < 2.2 and
        0.5 < m.at[8000].prompt_attention_ms / m.at[1024].prompt_attention_ms / (m.at[8000].tokens / m.at[1024].tokens)**2 < 2,
        "they grow otherwise"),
    Row("1.14", "FlashAttention is exact and IO-aware: tiles in fast memory, fused (arXiv:2205.14135).", ways,
        "a prompt of {at[flash].tokens} tokens: attention moves {at[flash].prompt_attention_mb:,.0f} MB in "
        "{at[flash].prompt_attention_ms:,.0f} ms; with all scores of a layer in memory {at[matrix].prompt_attention_mb:,.0f} MB in "
        "{at[matrix].prompt_attention_ms:,.0f} ms; the same logits: {same}",
        lambda m: m.same and m.faster > 1 and m.at["flash"].prompt_attention_mb < m.at["matrix"].prompt_attention_mb,
        "tiles are {faster:.2f} times as fast; the same logits: {same}"),
    Row("1.15", "Prefix caching improves latency and cost: prefill is the slowest part.",
        lambda: merge(prefix(), price=cost(), times=cost().one.seconds / cost().prompt.seconds),
        "{tokens} tokens: first token after {cold:.0f} ms, again after {hit:.1f} ms; {found} tokens found: {faster:.0f} times; a million tokens "
        "take the machine {price.prompt.seconds:,.0f} s as prompts, {price.one.seconds:,.0f} s as answers one after the other",
        lambda m: m.faster.median > 3 and m.price.prompt.seconds > m.price.one.seconds,
        "the cache saves little",
        where=(lambda m: m.faster.median > 3,
               "prompts that come again, of more than {times:.1f} times as many tokens as the answer: a token of an answer takes so much longer")),
    Row("1.16", "Q cannot be cached: only K and V can.",
        lambda: merge(shapes(), whole=no_cache()),
        "a step reads {read_token:,.0f} B more for each token before it, which is K and V alone: 2·2·K·H·L = {kv_formula:,}; Q of a token would "
        "be {q_token:,} more; {kv_token:,.0f} B a token are kept, and logits equal those of all computed anew: {whole.equal}",
        lambda m: m.read_token == m.kv_formula == m.kv_token and m.whole.equal,
        "more than K and V is read, or they do not suffice"),
    Row("1.17", "Many questions about one document: the document is computed once.", document,
        "ten questions: first token after {first:.0f} ms, then {others:.0f} ms; {share:.0%} of the later prompts found",
        lambda m: m.share > 0.8, "only {share:.0%} was found"),
    Row("1.18", "The application must say what is stable; the LLM cannot decide.", lambda: merge(document(), held=declared()),
        "nothing was declared, and {hit} of {asked} tokens of nine prompts were found; with other prompts in between, which need the "
        "pages: {held.automatic.rows:,} rows of ten prompts computed undeclared, {held.declared.rows:,} declared, for "
        "{held.declared.pinned} pages pinned", lambda m: m.share < 0.5,
        "whole pages are matched token by token, which finds the stable part itself",
        where=(lambda m: m.held.saved > 2, "memory that others need, too: a declaration buys that the pages stay; what is stable is found "
               "without one")),
    Row("1.19", "Prefill is compute-bound, decoding memory-bound.",
        roofs,
        "decoding: {decode.bytes:.0%} of reads, {decode.ops:.0%} of 8-bit multiply-adds; prompt: {prompt.bytes:.0%} and {prompt.ops:.0%}; "
        "{decode.a_byte:.1f} and {prompt.a_byte:.0f} operations a byte, where the ridge is {ridge:.0f}",
        lambda m: m.decode.a_byte < m.ridge < m.prompt.a_byte and m.decode.bytes > 0.5 and m.prompt.ops > 0.5,
        "the roofs say otherwise",
        where=(lambda m: m.decode.a_byte < m.ridge < m.prompt.a_byte and m.decode.bytes > 0.5 and m.prompt.ops > m.prompt.bytes,
               "operations a byte, which the ridge parts; a prompt reaches {prompt.ops:.0%} of the multiply-adds, so that more than these bounds "
               "it")),
    Row("1.20", "Decoding is inherently serial; its spare compute cannot be used naively.",
        lambda: merge(drafter("jacobi"), roof=roofs(), shape=shapes(), eagle=drafter("eagle")),
        "{shape.tokens} tokens in {shape.steps} steps that use {roof.decode.ops:.0%} of the multiply-adds; Jacobi: {nodes:.1f} rows more a step, "
        "{tokens:.2f} tokens a step, {speed:.2f} times plain; EAGLE, trained to guess, {eagle.tokens:.2f}",
        lambda m: m.shape.steps == m.shape.tokens and m.roof.decode.ops < 0.5 and m.tokens < 1.2 < m.eagle.tokens and m.speed.median < 1,
        "naive guesses give {tokens:.2f} tokens a step, or no compute is spare"),
    Row("1.21", "A drafter guesses 4 ahead; prefixes of 1 to 4 are checked at once, and the longest right one wins.",
        lengths,
        "of {steps} steps with 4 guesses, 0 to 4 were kept in {kept[0]}, {kept[1]}, {kept[2]}, {kept[3]}, {kept[4]}; in {other} other than "
        "the guesses up to the first that plain decoding has not",
        lambda m: m.steps > 0 and sum((m.kept[n] for n in (2, 3, 4))) > 0 and m.other == 0, "{other} steps kept others"),
    Row("1.22", "Example: 3 guesses of 1 ms and one check of 10 ms give 3 tokens in 13 ms, though the last is wrong.",
        guessed_and_rejected,
        "2 of 3 guesses kept: guessing {at[2].guess:.1f} ms, checking {at[2].verify:.1f} ms, {at[2].tokens:.1f} tokens, {at[2].gain:.2f} times "
        "plain decoding ({plain:.1f} ms a token); none kept: {at[0].gain:.2f} times",
        lambda m: m.at[2].tokens > 2.9 and m.at[2].gain > 2,
        "three guesses and their check take up to {ratio:.1f} times a plain step",
        where=(lambda m: m.at[2].tokens > 2.9 and m.at[2].gain > 1,
               "a smaller gain: the example's 13 ms stand against 30, and here the check takes {at[2].verify:.1f} ms, a plain step {plain:.1f}")),
    Row("1.23", "Batching decode uses the spare compute.",
        loads,
        "1, 4, 16, 32 sequences: {at[1].tok_s:.0f}, {at[4].tok_s:.0f}, {at[16].tok_s:.0f}, {at[32].tok_s:.0f} tok/s in full steps",
        lambda m: m.at[16].tok_s > 2 * m.at[1].tok_s,
        "16 sequences give {at[16].tok_s:.0f} tok/s for {at[1].tok_s:.0f} of one"),
    Row("1.23b", "Cost is a metric beside quality and latency: batching makes a token cheaper.", cost,
        "seconds of the machine for a million tokens: one sequence {one.seconds:,.0f}, 8 at once {eight.seconds:,.0f}, prompts "
        "{prompt.seconds:,.0f}; at a price of 1.00 an hour a million costs {one.hours:.2f}, {eight.hours:.2f}, {prompt.hours:.2f}. A token "
        "of an answer comes every {one.ms:.1f} ms alone, {eight.ms:.1f} ms with 7 others; {equal} of {answers} answers are equal; {energy}",
        lambda m: m.cheaper > 1.5 and m.equal == m.answers,
        "8 at once are {cheaper:.2f} times cheaper, {equal} of {answers} answers equal"),
    Row("1.24", "Memory limits the batch.", lambda: merge(few_pages(), memory_sheet()),
        "16 requests on 8 slots and {wide.peak_pages} pages: {wide.steps} steps; on 24: {few.preemptions} preemptions, "
        "{few.recomputed} rows recomputed, {few.steps} steps; by formula 80 GB hold {fits:,} sequences of 4,096 tokens",
        lambda m: m.few.preemptions > 0 and m.few.steps > m.wide.steps, "24 pages were enough"),
    Row("1.24b", "What is compute-bound is parallelised over instances.",
        threads,
        "2 threads against 1: a prompt of 512 {prompt[512]:.2f}, decoding after it {decode[512]:.2f} times as fast",
        lambda m: m.prompt[512].median > m.decode[512].median,
        "prompts gain no more from a second thread than decoding", lacks="more than one machine"),
    Row("1.25", "Sequence parallelism: parts of the input on several devices.", sequence,
        "a prompt of 1,500 tokens on two ranks of a thread: equal bits {equal}, {two.kb:.0f} kB sent a row (keys and values of it are "
        "{page_kb:.0f}), the busier computes {busiest:.0%}; {alone:.2f} times the time of one rank of a thread, {slower:.2f} of one of two. "
        "The ranks are threads of one process", lambda m: m.equal and m.two.kb < 1.5 * m.page_kb and m.busiest < 0.65 and m.alone.median < 0.8,
        "more is sent than keys and values, or one rank does nearly all"),
    Row("1.26", "Pipeline parallelism: layers on several devices.",
        pipeline,
        "stages of {layers[0]} and {layers[1]} layers, {one.weights[0]:.0f} and {one.weights[1]:.0f} MB of weights: equal bits {equal}, "
        "{one.kb:.1f} kB a token; one request leaves {one.bubble:.0%} of the ranks' time idle, eight in micro-batches {many.bubble:.0%}. The "
        "ranks are threads of one process",
        lambda m: m.equal and max(m.one.weights) < 0.65 * sum(m.one.weights) and m.many.bubble < 0.9 * m.one.bubble,
        "more requests fill no bubble, or one rank holds nearly all"),
    Row("1.27", "Tensor parallelism: a layer on several devices.", tensor,
        "2 and 3 ranks give the hashes of one: {equal}; each of two reads {q8.weights[0]:.0f} and {q8.weights[1]:.0f} MB of weights a token; "
        "{q8.exchanges:.0f} exchanges, {slower:.2f} times the time of one rank with as many threads. The ranks are threads of one process",
        lambda m: m.equal and max(m.q8.weights) < 0.6 * sum(m.q8.weights), "hashes differ, or a rank holds nearly all"),
    # Text 2
    Row("2.1", "Prefill computes the whole input in parallel and uses the hardware well.",
        lambda: merge(roofs(), of=shapes()),
        "{of.prompt_rows} rows of a prompt in {of.prompt_steps} step; a prompt of 512 reaches {prompt.ops:.0%} of the 8-bit multiply-adds, "
        "decoding {decode.ops:.0%}",
        lambda m: m.of.prompt_steps == 1 and m.prompt.ops > 0.5,
        "of the multiply-adds {prompt.ops:.0%} are used",
        where=(lambda m: m.of.prompt_steps == 1 and m.prompt.ops > 2 * m.decode.ops,
               "a comparison with decoding, of which it is {prompt.ops:.0%} to {decode.ops:.0%}")),
    Row("2.2", "Output is sequential with low use of the hardware, until an end token or the length.",
        lambda: merge(roofs(), model=shapes(), own=static_batches()),
        "{decode.ops:.0%} of multiply-adds and {decode.bytes:.0%} of reads; {model.tokens} tokens in {model.steps} steps; of 24 answers "
        "{own.by_end} ended by the end token, {own.by_length} at 192 tokens",
        lambda m: m.decode.ops < 0.5 and m.decode.bytes < 0.5 and m.model.steps == m.model.tokens and m.own.by_end > 0 and m.own.by_length > 0 and
        m.own.by_end + m.own.by_length == 24,
        "arithmetic is used well, or answers end otherwise",
        where=(lambda m: m.decode.ops < 0.5 and m.model.steps == m.model.tokens and m.own.by_end > 0 and m.own.by_length > 0 and
               m.own.by_end + m.own.by_length == 24,
               "arithmetic: of reads {decode.bytes:.0%} are used")),
    Row("2.3", "With keys and values kept, only the new token is computed.",
        lambda: merge(no_cache(), prompt=shapes().prompt_rows),
        "{tokens} tokens after a prompt of {prompt}: {rows} rows with the cache, {rows_off} without; equal hashes: {equal}",
        lambda m: m.rows == m.prompt + m.tokens - 1 and m.rows_off > 10 * m.rows and m.equal,
        "{rows} rows are not those of the prompt and one a token"),
    Row("2.4", "The first token takes longer, since the cache is empty.",
        lambda: merge(depths(), hit=prefix()),
        "first token after {at[64].prompt_ms:.0f} ms at {at[64].tokens} tokens, {at[1024].prompt_ms:,.0f} at {at[1024].tokens}; the next after "
        "{at[64].ms:.1f} and {at[1024].ms:.1f} ms; of {hit.tokens} tokens, of which the prefix cache has {hit.found}, after {hit.hit:.1f} ms, "
        "{hit.cold:.0f} with an empty one",
        lambda m: all(m.at[n].prompt_ms > 3 * m.at[n].ms.median for n in (64, 1024)) and m.hit.hit.median < 0.1 * m.hit.cold.median,
        "it takes no longer than the next, or as long with the prompt in the cache: {hit.hit:.1f} ms for {hit.cold:.0f}"),
    Row("2.5", "The cache has 2·2·B·S·L·E bytes at 16 bits.", shapes,
        "formula {kv_heads_all:,.0f} B a token, counted {kv_token:,.0f}", lambda m: m.kv_heads_all == m.kv_token,
        "the formula is of one K and V per query head; with groups it is N/K = {over:.0f} times too large"),
    Row("2.6", "Lengths vary, which makes batching hard.", lambda: merge(lengths_of_load(), own=static_batches()),
        "24 questions: answers of {own.ended[0]}, {own.ended[1]}, {own.ended[2]} tokens at the first decile, the median and the last (192 at "
        "most), which keep {own.busy_static:.0%} of the slots of static batches of 8 busy. 4,000 chats whose lengths are drawn with published "
        "means: answers of {answers[0]}, {answers[1]}, {answers[2]} tokens at the first decile, the median and the last ({below:.0%} "
        "below 32; {histogram}), prompts of {prompts[0]}, {prompts[1]}, {prompts[2]}; {padding:.0%} of batches of 8 padded to rectangles "
        "would be empty", lambda m: m.padding > 0.2 and m.own.ended[2] > 2 * m.own.ended[0] and m.own.busy_static < 0.8,
        "rectangles of 8 are nearly full: {padding:.0%} is padding"),
    Row("2.7", "Static batching waits for the longest answer and uses the hardware little.",
        lambda: merge(static_batches(), load=static_arrivals()),
        "24 requests, 8 slots: {steps_static} steps in three batches that wait, {busy_static:.0%} of slots busy, {rate_static:.0f} tok/s; "
        "{steps} steps, {busy:.0%} and {rate:.0f} tok/s as they end. Chats, 3 a second, by counted time: first token after "
        "{load.static.ttft_p50_s:.2f} s (p99 {load.static.ttft_p99_s:.1f} s) and {load.static.queue_mean:.1f} waiting under the policy static, "
        "{load.flow.ttft_p50_s:.3f} s ({load.flow.ttft_p99_s:.1f} s) and {load.flow.queue_mean:.1f} by the step",
        lambda m: m.steps_static > 1.2 * m.steps and m.rate > 1.2 * m.rate_static and m.load.static.ttft_p50_s > 2 * m.load.flow.ttft_p50_s,
        "waiting for the longest costs nothing",
        where=(lambda m: m.steps_static > 1.2 * m.steps and m.load.static.ttft_p50_s > 2 * m.load.flow.ttft_p50_s,
               "slots as the hardware: {busy_static:.0%} of them are busy for {busy:.0%}; a step of fewer rows is shorter here, so in time "
               "static batches give {rate_static:.0f} tok/s for {rate:.0f}")),
    Row("2.8", "Continuous batching replaces what has ended and keeps use high.",
        lambda: merge(load(4), own=static_batches()),
        "4 slots, 16 requests of {lengths[0]} to {lengths[15]} tokens: {busy:.0%} of slots busy while others wait. 8 slots, 24 questions, "
        "answers of {own.ended[0]}, {own.ended[1]}, {own.ended[2]} tokens at the first decile, the median and the last: over all steps "
        "{own.busy:.0%} busy, {own.busy_static:.0%} where batches wait for their longest",
        lambda m: m.busy > 0.9 and m.own.busy > 1.2 * m.own.busy_static,
        "slots stood idle: {own.busy:.0%} are busy, {own.busy_static:.0%} where batches wait"),
    Row("2.9", "Generation must pause for the prefill of others.",
        lambda: merge(pauses(), chunked=pause(128), whole=pause(0)),
        "{chunked.both} steps had rows of a prompt and new tokens; longest wait for a token {chunked.longest:.0f} ms in "
        "chunks of 128, {whole.longest:,.0f} ms with whole prompts, usually {chunked.usual:.0f} ms. Chats and edits by counted time: "
        "p99 of gaps {first.itl_p99_s:.3f} s and the longest {first.itl_max_s:.1f} s where prompts pause all, {mixed.itl_p99_s:.3f} s and "
        "{mixed.itl_max_s:.2f} s mixed; first token after {first.ttft_p50_s:.2f} s and {mixed.ttft_p50_s:.2f} s",
        lambda m: m.chunked.both == 0 or m.mixed.itl_max_s >= m.first.itl_max_s,
        "rows of a prompt ride in the same steps as new tokens: chunks bound the wait, and a pause is one policy of several"),
    Row("2.10", "waiting_served_ratio decides how many may wait before the running ones are paused.",
        served_ratios,
        "32 questions, 8 slots, ratio: pauses of running ones, the most that ran and the fewest that joined for each. {joined}. Chats, 3 a "
        "second: p50 and p99 of the first token, p99 of gaps. {table}. With max_waiting_tokens 20, at ratio 4: {limited[3].ttft_p50_s:.2f} s "
        "and {limited[3].ttft_p99_s:.1f} s, {limited[3].itl_p99_s:.3f} s",
        lambda m: m.obeyed and m.later and m.full,
        "fewer joined than the ratio asks for, or the first token comes as soon at any ratio",
        where=(lambda m: m.obeyed and m.later,
               "as many of those that wait as slots are free for: of 8 slots a ratio of 1 pauses at most 4 that run, and 2 and 4 paused none of "
               "these, however many waited")),
    Row("2.10b", "The ratio limits the queue: at 2.0 two may wait for each that runs, at 1.0 one, below that fewer.",
        served_ratios,
        "the longest queue at 0.3, 1, 2, 4: {longest}; at 8 chats a second, more than 8 slots can serve: {crowd}",
        lambda m: m.limits,
        "it says when the running ones are paused for those that wait, and refuses nobody"),
    Row("2.11", "Plain decoding is memory-bound with idle compute.", roofs,
        "{decode.bytes:.0%} of reads, {decode.ops:.0%} of multiply-adds",
        lambda m: m.decode.bytes > 0.5 and m.decode.ops < 0.5, "neither roof is near"),
    Row("2.12", "A small model proposes several completions; the large one takes the best or corrects.",
        trees,
        "EAGLE, {nodes:.1f} guesses a step: at {several} of {places} places more than one; {kept} were kept, {second} of them not the "
        "likeliest of their place; {corrected} tokens are the model's where none was right; {equal} of {n} answers equal plain decoding",
        lambda m: m.equal == m.n and m.several > 0.1 * m.places and m.second > 0 and m.corrected > 0,
        "answers differ, or there is one completion to take"),
    Row("2.12b", "Each step gives at least one valid token.",
        lengths,
        "{decoded} steps under a draft model, {steps} of them with four guesses, gave {least} to {most} tokens each; {valid} of {tokens} are "
        "those of plain decoding",
        lambda m: m.least >= 1 and m.valid == m.tokens,
        "a step gave none, or another than plain decoding"),
    Row("2.13", "A smaller model of the same family can draft off the shelf.",
        lambda: merge(pairs(), ladder=ladder()),
        "140 thousand parameters draft for 689 thousand, both trained on the same stories: {alone.tokens:.2f} tokens a step, {alone.first:.0%} "
        "of first guesses kept; {alone.equal} of {alone.n} answers equal; {alone.speed:.2f} times plain. Of one family of {ladder.sizes} the "
        "smallest's first guesses are kept by the others: {ladder.guessed}",
        lambda m: m.alone.tokens > 1.2 and m.alone.equal == m.alone.n and m.alone.speed > 1,
        "its guesses are not kept",
        where=(lambda m: m.alone.tokens > 1.2 and m.alone.equal == m.alone.n,
               "what is kept, not time: four passes of a fifth of the parameters and a step of five rows make it {alone.speed:.2f} times plain "
               "decoding")),
    Row("2.14", "n-grams of the prompt give 2x to 4x at unchanged quality where output repeats input.",
        repeating,
        "speed, by kind of text: {table}; {equal} of {n} answers equal",
        lambda m: m.equal == m.n and min(k.median for name, k in m.kind.items() if name not in ("chat", "code")) >= 2,
        "the best kind is {best}: {tokens:.2f} tokens a step, but {most:.2f} times the speed, since rows cost arithmetic on a CPU; in others "
        "this model repeats too little: at most {other:.2f} tokens a step",
        where=(lambda m: m.equal == m.n and m.most.median >= 2,
               "{best} alone: {most:.2f} times")),
    Row("2.15", "A small network on the frozen large one can draft.", drafters,
        "EAGLE {at[eagle].tokens:.2f}, Medusa {at[medusa].tokens:.2f} tokens a step; {at[eagle].speed:.2f} and "
        "{at[medusa].speed:.2f} times plain", lambda m: m.at["eagle"].tokens > 1.2, "its guesses are not kept"),
    Row("2.16", "Drafter and model can be trained together.", heads,
        "Medusa's heads on a model of 689 thousand parameters, {alone.steps:.0f} steps: alone {alone.tokens_a_step:.3f} tokens a step, a "
        "first guess kept in {alone.first_kept:.1%} of them; with the model, whose goal is the text, {together.tokens_a_step:.3f}, "
        "{together.first_kept:.1%}; whose goal is what it was, {kept.tokens_a_step:.3f}, {kept.first_kept:.1%}",
        lambda m: m.kept.tokens_a_step > 0.99 * m.alone.tokens_a_step and m.kept.perplexity < 1.02 * m.alone.perplexity,
        "the heads or the model are worse for it: {kept.tokens_a_step:.3f} tokens a step for {alone.tokens_a_step:.3f}, perplexity "
        "{kept.perplexity:.2f} for {alone.perplexity:.2f}"),
    Row("2.17", "Medusa: further heads, checked at once (arXiv:2401.10774).", lambda: drafter("medusa"),
        "{tokens:.2f} tokens a step; chat {kind[chat]:.2f}, code {kind[code]:.2f} times plain; {equal} of {n} equal",
        lambda m: m.tokens > 1.2 and m.equal == m.n, "its heads gave {tokens:.2f} tokens a step"),
    Row("2.18", "Medusa-1 trains on 60k samples in 5 hours on one A100, the model frozen (QLoRA).",
        untestable="a training takes longer than this table; ours: 5,499 chats, 12 minutes, one thread (docs/training.md)"),
    Row("2.19", "Medusa-2 trains the heads with the model.",
        heads,
        "the model trained with its heads goes {together.kl:.3f} nats a token from what it was where the text is its goal (perplexity "
        "{alone.perplexity:.2f} to {together.perplexity:.2f}), {kept.kl:.3f} where it is to stay what it was ({kept.perplexity:.2f}); tokens a "
        "step {alone.tokens_a_step:.3f} with the heads alone, {together.tokens_a_step:.3f} and {kept.tokens_a_step:.3f} so; {alone.seconds:.0f}, "
        "{together.seconds:.0f}, {kept.seconds:.0f} s of processor time",
        lambda m: m.together.tokens_a_step > 1.05 * m.alone.tokens_a_step and m.together.perplexity < 1.02 * m.alone.perplexity,
        "of one training each no difference under 5 % can be told, or the model is worse: with what the model was as its goal "
        "{kept.tokens_a_step:.3f} tokens a step for {alone.tokens_a_step:.3f} of heads alone, perplexity {kept.perplexity:.2f} for "
        "{alone.perplexity:.2f}",
        where=(lambda m: m.kept.tokens_a_step > 1.05 * m.alone.tokens_a_step and m.kept.perplexity < 1.02 * m.alone.perplexity,
               "what the model was as its goal: {kept.tokens_a_step:.3f} tokens a step for {alone.tokens_a_step:.3f}, one training each, in "
               "{kept.seconds:.0f} s for {alone.seconds:.0f}; with the text as its goal the heads guess no better")),
    Row("2.20", "Continuous batching gave 23x throughput and a lower p50 (Anyscale).",
        lambda: merge(engines(), here=static_batches()),
        "1,000 prompts of 512 tokens at prices predicted of an A100 and 13 B weights, tok/s and end to end p50, p99: one at a time "
        "{one.tokens_s:.0f}, {one.e2e_p50_s:.0f} s, {one.e2e_p99_s:.0f} s; static batches of 8 {static.tokens_s:.0f}, {static.e2e_p50_s:.0f} s, "
        "{static.e2e_p99_s:.0f} s; 8 slots by the step {flow.tokens_s:.0f}, {flow.e2e_p50_s:.0f} s, {flow.e2e_p99_s:.0f} s; as many as pages "
        "hold {paged.tokens_s:.0f}, {paged.e2e_p50_s:.0f} s, {paged.e2e_p99_s:.0f} s (no prompt shares a beginning). Here, 24 questions: one at "
        "a time {here.naive:.0f}, static {here.rate_static:.0f}, continuous {here.rate:.0f} tok/s",
        lambda m: m.over_static > 20 and m.lower,
        "scheduling and pages give {over_static:.1f} times static batches of the same engine and {over_one:.1f} times one at a time, at a lower "
        "p50; the 23 are beside another program, which is not measured; on a CPU a row of a batch is not free: {here.gain:.1f} times"),
    # Text 3
    Row("3.1", "Two phases; matrix-vector products can be parallel, too, and long inputs gain.", threads,
        "2 threads against 1, after about 16, 64, 512, 2,048 tokens: prompt {prompt[16]:.2f}, {prompt[64]:.2f}, {prompt[512]:.2f}, "
        "{prompt[2048]:.2f}, decoding {decode[16]:.2f}, {decode[64]:.2f}, {decode[512]:.2f}, {decode[2048]:.2f} times",
        lambda m: min(x.median for x in m.decode.values()) > 1 and m.prompt[2048].median > m.prompt[16].median and
        m.prompt[512].median > m.decode[512].median, "a second thread does not help, or long prompts gain no more than short ones"),
    Row("3.2", "A server has a queue scheduler and an engine with dynamic batches.",
        lambda: merge(load(4), web=served(), by=classes(), own=static_batches()),
        "16 requests, 4 slots: first token after {waited:.0f} ms; {busy:.0%} of slots busy; 24 questions on 8 slots {own.steps} steps, "
        "{own.steps_static} in batches that wait. Over HTTP, 8 users on 4 slots: {web.answered} of {web.requests} answered, up to "
        "{web.waiting:.0f} without a first token. More chats and batch work than there is room for, by counted time: chats get their first token "
        "after {by.fcfs.chat:.1f} s first come, first served and {by.priority.chat:.2f} s by priority (batch {by.fcfs.batch:.1f} s and "
        "{by.priority.batch:.1f} s)",
        lambda m: m.own.steps_static > 1.2 * m.own.steps and m.web.answered == m.web.requests and m.web.waiting > 0 and
        m.by.priority.chat < 0.5 * m.by.fcfs.chat,
        "batches that change save no steps, answers failed, nobody waited, or priorities changed nothing"),
    Row("3.3", "Prefill and decode are optimised separately.", lambda: merge(phases_apart(), real=handed()),
        "simulated, four A100s: first token p50 and gap p99 {both.ttft_p50_s:.3f} s and {both.itl_p99_s:.3f} s in chunks of 128 on all, "
        "{fast.ttft_p50_s:.3f} s and {fast.itl_p99_s:.3f} s with two for prompts and two for answers; within 1 s and 50 ms "
        "{both.within:.0%} in chunks, apart {fast.within:.0%} over links of 300 GB/s, {middle.within:.0%} over 100, {slow.within:.0%} over 25. Two cores, 16 requests: "
        "gap p99 {real.together.itl_p99_s:.3f} s in chunks of 128 on both, {real.apart.itl_p99_s:.3f} s with one for prompts",
        lambda m: m.fast.ttft_p50_s < m.both.ttft_p50_s and m.fast.itl_p99_s < m.both.itl_p99_s and m.middle.within >= m.both.within,
        "chunks give both as well",
        where=(lambda m: m.fast.ttft_p50_s < m.both.ttft_p50_s and m.fast.itl_p99_s < m.both.itl_p99_s,
               "medians of first tokens and p99 of gaps as the aim; of requests within both targets chunks on all have more, since pages "
               "take time on a link"), lacks="more than two cores for the real ones"),
    Row("3.4", "The cache has B·L·(d/N)·K·2·2·S bytes.", sequences,
        "{n} sequences of {tokens:,} tokens together: formula {formula:,} B, pages taken {held:,} B, {over:.1f} tokens of a page of "
        "{page} more a sequence", lambda m: 0 <= m.over < m.page, "pages hold otherwise"),
    Row("3.5", "Very long contexts strain storage and compute.", lambda: merge(depths(), deep=beyond()),
        "{at[8000].tokens} tokens: {held:.0f} MB of cache, {at[8000].attention_share:.0%} of a token's time is "
        "attention, {slower:.1f} times that at 64. A third of the layers with random weights, {deep.weights:.0f} MB: "
        "{deep.at[1024].tokens:,}, {deep.at[8000].tokens:,}, {deep.at[16000].tokens:,} tokens take {deep.at[1024].mb:.0f}, "
        "{deep.at[8000].mb:.0f}, {deep.at[16000].mb:.0f} MB, and the next one {deep.at[1024].ms:.1f}, {deep.at[8000].ms:.1f}, {deep.at[16000].ms:.1f} ms, of which "
        "attention {deep.at[1024].share:.0%}, {deep.at[8000].share:.0%}, {deep.at[16000].share:.0%}; of its operations "
        "{deep.at[1024].ops:.0%}, {deep.at[8000].ops:.0%}, {deep.at[16000].ops:.0%}; the prompts {deep.at[1024].seconds:.1f}, "
        "{deep.at[8000].seconds:.1f}, {deep.at[16000].seconds:.1f} s",
        lambda m: m.slower > 1.5 and m.deep.at[16000].mb > m.deep.weights and m.deep.at[16000].ops > 0.5,
        "8,000 tokens take {slower:.1f} times as long as 64, and at 16,000 cache or attention stay below weights or the rest"),
    Row("3.5b", "Computation is heavy in both prefill and decode.",
        roofs,
        "decoding uses {decode.ops:.0%} of the multiply-adds, the prompt {prompt.ops:.0%}",
        lambda m: m.decode.ops > 0.5 and m.prompt.ops > 0.5,
        "decoding waits for bytes ({decode.bytes:.0%} of reads) and its arithmetic idles; the prompt uses {prompt.ops:.0%} of the multiply-adds "
        "(row 4.7b)"),
    Row("3.6", "The KV cache of many queries has to be managed.",
        lambda: merge(passages(), page_sizes(), pool=few_pages()),
        "8 requests with room for the longest: {reserved:,.0f} MB stand unused, {waste[16]:.1f} MB with pages of 16; 16 requests on 8 slots and "
        "24 pages: {pool.few.preemptions} preemptions, {pool.few.recomputed} rows recomputed; 12 requests on one passage: {shared} pages read by "
        "several at once, {hit} of {asked} prompt tokens found",
        lambda m: m.reserved > 10 * m.waste[16] and m.pool.few.preemptions > 0 and m.hit > 0.3 * m.asked,
        "room for the longest wastes little, all fit in few pages, or nothing is shared"),
    Row("3.7", "Weight-only quantisation: faster load, less memory and bandwidth.", opened,
        "Q4_0 against F16: {bytes16:.2f} times fewer bytes, decoding {decode16:.2f} times as fast with activations in 8 bits; with "
        "them in 16 a step takes {w4a16.one_times:.2f} times as long as F16's, of 16 rows {w4a16.many_times:.2f}; to open and say a "
        "token {opens4:.2f} s for {opens16:.2f}", lambda m: m.bytes16 > 2 and m.opens4 < m.opens16,
        "{bytes16:.2f} times fewer bytes are opened in {opens4:.2f} s for {opens16:.2f}"),
    Row("3.8", "Quantised activations compress more, but outliers amplify their error.",
        lambda: merge(rounded(), out=smoothed(), sent=tensor()),
        "two ranks send {sent.f32.kb:.0f} kB a token with activations in 32 bits and {sent.q8.kb:.0f} with 8 (the rest is what layers add, in "
        "32). KL in 8 bits {block:.3f} by blocks of 32, {token:.3f} by token, {tensor:.3f} by tensor; the largest channel is {out.worst:,.0f} "
        "times the median one (layer {out.layer}, {out.stage}); where SmoothQuant has moved outliers into the weights, {out.smoothed:.0f} times, "
        "KL by token is {out.after[int8-token].kl:.4f} for {out.before[int8-token].kl:.4f}, by tensor {out.after[int8-tensor].kl:.3f} for "
        "{out.before[int8-tensor].kl:.3f}",
        lambda m: m.sent.f32.kb > 1.3 * m.sent.q8.kb and m.tensor > 10 * m.block and
        m.out.after["int8-token"].kl < 0.8 * m.out.before["int8-token"].kl,
        "a block of 32 keeps an outlier from the rest"),
    Row("3.9", "Weight-only is the better balance.",
        weight_only, "KL between activations in 8 bits and as computed {kl:.4f}, in f16 {kl16:.4f}; a step of one row takes W4A8 "
        "{w4a8.one:.1f} ms, W4A32 {w4a32.one_times:.2f} times as long, W4A16 {w4a16.one_times:.2f}; of 16 rows {w4a8.many:.1f} ms, "
        "{w4a32.many_times:.2f} and {w4a16.many_times:.2f}",
        lambda m: m.kl > 0.02 or m.w4a32.one_times.high < 1.1 and m.w4a32.many_times.high < 1.1,
        "activations in 8 bits cost a KL of {kl:.4f}, and with floats a step takes {w4a32.one_times.median:.1f} times as long, of 16 "
        "rows {w4a32.many_times.median:.1f} times"),
    Row("3.10", "FP8 is an alternative (Transformer Engine).", missing="FP8 products, on a GPU that has them"),
    Row("3.11", "Post-training quantisation needs no training, is cheap, smaller and faster.",
        lambda: merge(formats(), small=from_16(), gptq=second_order()),
        "a model of 689 thousand parameters from 16 bits to Q8_0: {small.q8.seconds:.1f} s, {small.q8.smaller:.2f} times smaller, KL "
        "{small.q8.kl:.5f}; 135M to 4 bits by GPTQ with a sample of text: {gptq.gptq4.minutes:.1f} minutes; random weights of its shape in Q8_0 "
        "decode {decode8:.1f} times as fast as in F32",
        lambda m: m.small.q8.seconds < 60 and m.gptq.gptq4.minutes < 10 and m.small.q8.smaller > 1.8 and m.small.q8.kl < 0.01 and m.decode8 > 1.5,
        "it takes long, or what it makes is no smaller, no faster, or worse"),
    Row("3.11b", "Quantisation-aware training is better and more complex (arXiv:1712.05877).", repairs,
        "KL at 4, 3, 2 bits by GPTQ, from 8,192 tokens, {kl[gptq-4]:.3f}, {kl[gptq-3]:.3f}, {kl[gptq-2]:.3f}; by training with the rounding, "
        "from {tokens[qat-2]:,.0f} tokens and the teacher in {seconds[qat-2]:.0f} s of processor time, {kl[qat-4]:.3f}, {kl[qat-3]:.3f}, "
        "{kl[qat-2]:.3f}; by the tokens without the teacher, 2 bits, {kl[qat-2-labels]:.3f}",
        lambda m: m.tokens["qat-2"] > 8192 and all(m.high[f"qat-{b}"] < m.low[f"gptq-{b}"] for b in (2, 3, 4)), "GPTQ does as well",
        where=(lambda m: all(m.high[f"qat-{b}"] < m.low[f"gptq-{b}"] for b in (2, 3)), "3 bits and fewer; at 4 GPTQ does as well")),
    Row("3.12", "SmoothQuant moves activation outliers, which grow with model size, into weights (arXiv:2211.10438).",
        lambda: merge(smoothed(), ladder=ladder()),
        "largest over median channel, median of the layers: q, k, v {qkv:.1f}, out {out:.1f}, gate and up {gate_up:.1f}, down "
        "{down:.1f}; worst {worst:,.0f}, {smoothed:.0f} after smoothing with alpha 0.5; it is milder in {milder:.0%} of the "
        "{inputs} inputs. Activations of 8 bits, KL before and after: a scale a tensor {before[int8-tensor].kl:.3f}, "
        "{after[int8-tensor].kl:.3f}, a scale a token {before[int8-token].kl:.4f}, {after[int8-token].kl:.4f}; perplexity "
        "{before[int8-tensor].lossy:.1f}, {after[int8-tensor].lossy:.1f}, {before[int8-token].lossy:.2f}, {after[int8-token].lossy:.2f}, "
        "exact {after[f32].exact:.2f}; of 32 bits {before[f32].kl:.4f}, {after[f32].kl:.4f}. Of one family, {ladder.sizes}: largest over "
        "median channel {ladder.said[worst]}, KL of a scale a tensor {ladder.said[int8_tensor]}, a token {ladder.said[int8_token]}",
        lambda m: m.ladder.grows > 1.1 and m.milder > 0.8 and all(m.after[x].kl < 0.9 * m.before[x].kl for x in ("int8-tensor", "int8-token")),
        "it takes less than a tenth off the divergence with a scale a tensor or with one a token",
        where=(lambda m: any(m.after[x].kl < 0.9 * m.before[x].kl for x in ("int8-tensor", "int8-token")),
               "one granularity of the activations' scales alone")),
    Row("3.13", "AWQ (arXiv:2306.00978).",
        lambda: merge(salient(), small=methods(), ladder=ladder(), out=outliers()),
        "with a zero point, 3 bits: of 135M, which was in Q4_1, KL {rtn3.kl:.3f} to the nearest, {awq3.kl:.3f} by AWQ; from 16 bits, a model of "
        "689 thousand parameters {small.rtn3.kl:.3f} and {small.awq3.kl:.3f}; of one family, {ladder.sizes}: {ladder.said[rtn_3]} and "
        "{ladder.said[awq_3]}",
        lambda m: m.awq3.kl < m.rtn3.kl and m.small.awq3.kl < m.small.rtn3.kl and
        all(a < r for a, r in zip(m.ladder.awq_3, m.ladder.rtn_3)),
        "factors of columns win nothing here",
        where=(lambda m: m.awq3.kl < 0.9 * m.rtn3.kl and m.ladder.awq_most < 0.05 and m.out.qkv > 2 * max(m.ladder.qkv),
               "135M, whose largest channel before Q, K, V is {out.qkv:.1f} times the median one; of the family, where it is {ladder.said[qkv]} "
               "times, it is worse in {ladder.awq_lost} of 5 sizes and wins {ladder.awq_most:.0%} at most")),
    Row("3.14", "Distillation: soft targets at high temperature and labels of low weight (arXiv:1503.02531).", sweep,
        "perplexity of a small student after 1,500 steps by temperature 1, 2, 4: {at[t1-labels0-seed1]:.2f}, {at[t2-labels0-seed1]:.2f}, "
        "{at[t4-labels0-seed1]:.2f} without labels, {at[t1-labels0.1-seed1]:.2f}, {at[t2-labels0.1-seed1]:.2f}, "
        "{at[t4-labels0.1-seed1]:.2f} with a tenth of them; at temperature 1 {at[t1-labels0.5-seed1]:.2f} with half, "
        "{at[t1-labels1-seed1]:.2f} with labels alone; another seed differs by up to {noise:.2f}",
        lambda m: m.best.temperature > 1 and m.best.labels < 0.5,
        "a high temperature makes all logits alike the goal, those of tokens that never come, too "
        "(the best has {best.temperature:.0f}, with {best.labels:g} of labels)",
        where=(lambda m: m.at["t1-labels0.1-seed1"] < m.at["t1-labels0-seed1"] - m.noise and
               m.at["t2-labels0.1-seed1"] > m.at["t1-labels0.1-seed1"] + m.noise,
               "labels beside the soft targets, of which the best that was tried has {best.labels:g}; a higher temperature costs perplexity, not "
               "divergence from the teacher (KL {kl[t2-labels0.1-seed1]:.3f} at 2, {kl[t1-labels0.1-seed1]:.3f} at 1)")),
    Row("3.15", "A higher temperature softens the distribution.", softness,
        "tokens that make up 90 % of the same position: T 0.5 {low:,}, T 1 {one:,}, T 2 {high:,}",
        lambda m: m.low < m.one < m.high, "it does not"),
    Row("3.16", "Pruning removes unnecessary connections.", connections,
        "a tenth of the weights by Wanda: KL {tenth.kl:.3f}; half: {half.kl:.2f}, perplexity {half.lossy:.1f} for {half.exact:.1f}; by "
        "magnitude: {tenth_plain.kl:.3f} and {plain.kl:.2f}, {plain.lossy:.0f}", lambda m: m.half.kl < 0.1, "half is too much",
        where=(lambda m: m.tenth.kl < 0.02 and m.tenth_plain.kl > 1.5 * m.tenth.kl and m.plain.kl > 2 * m.half.kl,
               "a tenth, chosen by inputs: by magnitude alone it costs {tenth_plain.kl:.3f} for {tenth.kl:.3f}; of a half many are needed")),
    Row("3.17", "MQA (one K and V head) is too aggressive and degrades (arXiv:1911.02150).", family_groups,
        "models of equal size, text and steps: loss {at[multi-head].loss:.3f} with 4 heads of K and V, {at[grouped].loss:.3f} with 2, "
        "{at[single].loss:.3f} with 1 ({doubt} {noise:.3f}); of 32 pairs two layers recall {at[multi-head].pairs[32]:.0%} after at most 2,400 "
        "steps with 2 heads of K and V, {at[single].pairs[32]:.0%} with 1", lambda m: m.degrades > m.noise or m.forgets > 0.05,
        "what one head saves makes the feed-forward wider, and of equal size the loss moves by {degrades:+.3f}, recall by "
        "{forgets:.0%}", lacks="models large enough for the paper's loss"),
    Row("3.17b", "GQA trades size for quality; Llama 3 uses it (arXiv:2305.13245).",
        lambda: merge(shapes(), family=family_groups()),
        "K, V bytes a token: {kv_heads_all:,.0f} with {n_heads} heads, {kv_token:,.0f} with {n_kv_heads}, {kv_one_head:,.0f} with 1; small "
        "models of equal size: {family.at[multi-head].token:,}, {family.at[grouped].token:,}, {family.at[single].token:,} B at a loss of "
        "{family.at[multi-head].loss:.3f}, {family.at[grouped].loss:.3f}, {family.at[single].loss:.3f}",
        lambda m: m.kv_one_head < m.kv_token < m.kv_heads_all and m.family.dearer["grouped"] > 2 * m.family.error["grouped"],
        "grouped heads save nothing",
        where=(lambda m: m.kv_one_head < m.kv_token < m.kv_heads_all,
               "size; of quality no price can be told with {family.seeds} seeds of models of a million parameters of equal size: loss "
               "{family.dearer[grouped]:+.3f} ± {family.error[grouped]:.3f} with half of the heads, {family.dearer[single]:+.3f} ± "
               "{family.error[single]:.3f} with one. Llama 3 is not here")),
    Row("3.18", "Mixture of experts: a router chooses the experts of each token.", experts,
        "2 of 4 experts: {read:,.0f} B of them read a decoded token of {whole:,} B, the most loaded has {busiest:.2f} times its share; loss "
        "{at[experts].loss:.3f}, of a dense model with as many parameters {at[multi-head].loss:.3f}",
        lambda m: m.read < 0.51 * m.whole and m.least > 0, "an expert is never chosen, or all are read", lacks="a real model"),
    Row("3.19", "PagedAttention: a page table for fragmented memory (arXiv:2309.06180).", paged,
        "{apart} of {pairs} pages do not follow the one before them in memory; {tokens} tokens in batches of 1, 4, 8, "
        "16: all hashes equal: {equal}", lambda m: m.equal and m.apart > 0,
        "bits depend on the pages, or pages were not apart"),
    Row("3.20", "StreamingLLM: a window keeps its quality with attention sinks (arXiv:2309.17453).",
        windows,
        "perplexity {full:.1f} in full, {window:.1f} with a window of 128; with 4 sinks and 124 {stream:.1f} with positions in the cache, as the "
        "paper has them, {sinks:.1f} with those of the text",
        lambda m: m.stream < 1.05 * m.full,
        "{lost:.0%} of what the window loses is left with sinks",
        where=(lambda m: m.lost < 0.2,
               "all but {lost:.0%} of what a window alone loses, of a text of 1,100 tokens; against all before it a perplexity of {stream:.1f} for "
               "{full:.1f} is a loss")),
    Row("3.21", "The context phase is mostly IO; tiling in fast memory makes it 4 times as fast (arXiv:2205.14135).",
        lambda: merge(depths(), ways=ways(), roofs=roofs()),
        "attention is {at[1024].prompt_attention:.0%} of a prompt of {at[1024].tokens} tokens, {at[8000].prompt_attention:.0%} of "
        "{at[8000].tokens}; in tiles it is {ways.faster:.2f} times as fast as with all scores in memory, of {ways.at[flash].tokens} tokens; with "
        "all scores in memory it moves {ways.at[matrix].prompt_attention_mb:,.0f} MB in {ways.at[matrix].prompt_attention_ms:,.0f} ms, where "
        "plain reads are {roofs.reads:.0f} GB/s",
        lambda m: m.ways.at["matrix"].prompt_attention_mb / m.ways.at["matrix"].prompt_attention_ms > 0.5 * m.roofs.reads and
        m.ways.faster >= 4,
        "memory moves far less than it could even without tiles, or tiles win less: {ways.faster:.2f} times"),
    Row("3.21b", "FlashAttention-2 and -3: more parallel, asynchronous, low precision (arXiv:2307.08691, 2407.08608).",
        cache_formats,
        "keys and values in e4m3: perplexity {at[e4m3].ppl:.2f}, {at[f16].ppl:.2f} in f16; {at[e4m3].kv:,} and "
        "{at[f16].kv:,} B a token", lambda m: m.at["e4m3"].ppl < 1.05 * m.at["f16"].ppl,
        "8-bit keys and values cost too much", lacks="low-precision products, asynchrony"),
    Row("3.21c", "The optimised computation is the same.", lambda: merge(certificate(), batches=paged(), other=reordered()),
        "certificate: {cases} cases over {axes} axes equal: {equal}; {batches.tokens} tokens in batches of 1, 4, 8, 16 "
        "equal: {batches.equal}. The same kernels free to sum in another order and to fuse a product with a sum: log-probabilities of {other.scored} tokens differ by "
        "{other.mean:.1g} in the mean, {other.most:.1g} at most; {other.same} of {other.answers} greedy answers of 64 tokens are the same",
        lambda m: m.equal and m.batches.equal, "bits differ"),
    Row("3.22", "Speculative decoding: 2X to 3X over T5X with identical outputs (arXiv:2211.17192).", mended_ahead,
        "a T5 of {numbers:,} parameters that mends damaged passages ({model.exact} of {model.n} as they were, of the damaged {itself.exact}; {model.endless} never end; "
        "{model.loss:.3f} nats a token): {equal} of {n} answers equal; drafted by a T5 of {few:,}: {small.tokens:.2f} tokens a step, {small.right:.0%} "
        "of guesses kept, {small.passes:.2f} times fewer passes, speed {small.speed:.2f}; by n-grams of its input {grams.tokens:.2f}, {grams.right:.0%}, "
        "{grams.passes:.2f} times fewer, {grams.speed:.2f}", lambda m: m.equal == m.n and m.best.speed.median >= 2,
        "{equal} of {n} outputs are identical, and a step of five rows of so small a model costs much more than one of one row: {fewest.name} makes {fewest.passes:.2f} times "
        "fewer passes, but {best.name} is the fastest, {best.speed:.2f} times"),
    # Text 4
    Row("4.1", "Arithmetic intensity above FLOP/s / bandwidth: compute-limited; below: memory-limited.",
        lambda: merge(roofs(), by=loads()),
        "ridge {ridge:.0f} operations a byte ({reads:.0f} GB/s, {integers:.0f} G multiply-adds/s); decoding {decode.a_byte:.1f}, prompt "
        "{prompt.a_byte:.0f}; gate and up have {by.at[2].gate:.0f}, {by.at[16].gate:.0f}, {by.at[32].gate:.0f} at 2, 16, 32 sequences, whose "
        "steps take {by.cost[2]:.2f}, {by.cost[16]:.2f}, {by.cost[32]:.2f} times one of 1",
        lambda m: m.decode.a_byte < m.ridge < m.prompt.a_byte and m.by.at[2].gate < m.ridge < m.by.at[16].gate and
        m.by.cost[2] < 1.5 and m.by.cost[32] > 1.6 * m.by.cost[16],
        "below the ridge a row costs as much as the first, or above it twice the rows do not take twice the time"),
    Row("4.2", "At batch 1 intensity is 1: DxF values read, 2DF operations.",
        lambda: merge(shapes(), half=intensities()),
        "gate and up products: {gate_decode:.2f} operations a byte, with 16 bits a weight {half.at[1]:.3f}",
        lambda m: 0.95 < m.gate_decode < 1.05,
        "quantised weights have fewer bytes, and with 16 bits it is {half.at[1]:.2f}",
        where=(lambda m: 0.95 < m.half.at[1] < 1.05,
               "16 bits a weight: {half.at[1]:.3f}; quantised weights have fewer bytes")),
    Row("4.3", "Naive sampling is O(T^3).",
        no_cache,
        "{tokens} tokens: {rows_off} rows and {pairs_off:,} query-key pairs without the cache, {rows} and {pairs:,} with it; pairs of a token "
        "grow with the length to the power {power:.2f} without it, {power_kept:.2f} with it, and those of all tokens to one more",
        lambda m: 1.9 < m.power < 2.1 and m.power_kept < 1.1,
        "pairs of a token grow to the power {power:.2f}"),
    Row("4.4", "The cache holds K and V for B sequences, S tokens, L layers, K heads of H.", lambda: merge(shapes(), kv_heads(), kept_pages()),
        "{n_layers} layers, {n_kv_heads} heads of {head_dim}: {kv_formula:,} B a token, allocated {kv_token:,.0f}; with other heads: "
        "{others}. Pages of sequences: {counted}; as many as the formula's, in whole pages: {equal}",
        lambda m: m.kv_formula == m.kv_token and m.others_equal and m.equal, "allocated otherwise"),
    Row("4.5", "The MLP has B·T rows: many in a prompt, one when decoding.",
        lambda: merge(shapes(), of=load(8)),
        "a prompt of {n_prompt} tokens: {prompt_rows} rows in {prompt_steps} step; {rows} a step when decoding, {of.most_rows} with 8 sequences",
        lambda m: m.prompt_rows == m.n_prompt and m.prompt_steps == 1 and m.rows == 1 and m.of.most_rows == 8,
        "steps have other rows than B·T"),
    Row("4.6", "MLP intensity is B: it needs concurrent requests.",
        lambda: merge(loads(), half=intensities()),
        "gate and up with 16 bits a weight: {half.at[1]:.2f}, {half.at[4]:.2f}, {half.at[16]:.1f} operations a byte at 1, 4, 16 sequences; of "
        "this file {at[1].gate:.1f}, {at[4].gate:.1f}, {at[16].gate:.1f}, at 32 {at[32].gate:.1f}",
        lambda m: all(abs(x / n - 1) < 0.1 for n, x in m.half.at.items()) and m.at[16].gate > 10 * m.at[1].gate,
        "it is not B"),
    Row("4.7", "Attention's intensity is 1 at any batch and cannot be improved.",
        lambda: merge(loads(), full=own_heads(), shape=shapes()),
        "{at[1].attention:.2f}, {at[4].attention:.2f}, {at[16].attention:.2f} operations a byte at 1, 4, 16 sequences, {shape.over:.0f} heads to "
        "each K and V; of a model whose heads have their own, some 600 tokens deep, {full[1]:.2f} at 1 and {full[16]:.2f} at 16",
        lambda m: abs(m.at[1].attention - 1) < 0.1 and abs(m.at[16].attention / m.at[1].attention - 1) < 0.1,
        "the batch changes it",
        where=(lambda m: abs(m.at[16].attention / m.at[1].attention - 1) < 0.1 and all(abs(x - 1) < 0.1 for x in m.full.values()),
               "any batch, and a model whose heads have their own K and V; with {shape.over:.0f} heads to each it is {at[1].attention:.2f}")),
    Row("4.7b", "Prefill is compute-limited, generation memory-limited.",
        roofs,
        "decoding: {decode.bytes:.0%} of reads, {decode.ops:.0%} of multiply-adds; prompt {prompt.bytes:.0%}, {prompt.ops:.0%}",
        lambda m: m.decode.bytes > 0.5 and m.prompt.ops > 0.5,
        "the roofs say otherwise",
        where=(lambda m: m.decode.bytes > 0.5 and m.decode.bytes > m.decode.ops and m.prompt.ops > 2 * m.prompt.bytes,
               "generation; a prompt is nearer to the roof of arithmetic ({prompt.ops:.0%}) than to that of reads ({prompt.bytes:.0%}), and at "
               "neither")),
    Row("4.8", "Memory = B·kv + parameters; kv = S·K·H·L·2·2.", lambda: merge(shapes(), memory_sheet()),
        "kv by formula {kv_formula:,}, counted {kv_token:,.0f} B a token; weights {weights_mb:.2f} MB; with 8 requests of "
        "{deep} tokens {formula_mb:.1f} by formula, {counted_mb:.1f} MB counted",
        lambda m: m.kv_formula == m.kv_token and m.apart < 0.1 and abs(m.formula_mb - m.weights_mb - 8 * m.deep * m.kv_formula / 1e6) < 0.1, "pages are not full: {apart:.0%} more is held"),
    Row("4.9", "Latency = memory / bandwidth; throughput = B / latency.", predictions,
        "by bytes ({reads:.0f} GB/s) {by[1]:.1f} ms at batch 1, by operations ({integers:.0f} G multiply-adds/s) {work[1]:.1f}, measured "
        "{at[1].ms:.1f}; at 32 {by[32]:.1f} and {work[32]:.1f}, measured {at[32].ms:.1f}", lambda m: m.at[1].ms.median < 1.5 * m.by[1] and m.at[32].ms.median < 1.5 * m.by[32],
        "of a step of one sequence bytes explain {by[1]:.1f} ms of {at[1].ms.median:.1f}; of 32 they explain {by[32]:.1f} of "
        "{at[32].ms.median:.1f}, and operations at their peak rate {work[32]:.1f}",
        where=(lambda m: m.at[1].ms.median < 1.5 * m.by[1],
               "one sequence: of 32 bytes explain {by[32]:.1f} ms of {at[32].ms.median:.1f}, operations at their peak rate {work[32]:.1f}")),
    Row("4.10", "Latency against throughput: small batches for one, large for the other.", lambda: merge(loads(), curve=rates()),
        "1 sequence {at[1].ms:.1f} ms a token, {at[1].tok_s:.0f} tok/s; 32: {at[32].ms:.1f} ms, {at[32].tok_s:.0f} tok/s. Chats by counted "
        "time, by rate: {curve.curve}; knee at {curve.knee:g}",
        lambda m: m.at[32].ms.median > m.at[1].ms.median and m.at[32].tok_s > m.at[1].tok_s, "there is no trade"),
    Row("4.11", "M replicas: the same latency, M times the throughput.", lambda: merge(replicas(), fleet=routed()),
        "two processes of one thread: {gain:.2f} times the tokens a second of one alone, {against:.2f} times those of "
        "one process with two threads. Simulated, four with more chats than they can serve: {fleet.capacity:.2f} times the tokens a second of "
        "one; with four times the chats that one can serve p50 of whole answers {fleet.by[prefix].e2e_p50_s:.2f} s for "
        "{fleet.one.e2e_p50_s:.2f}, p99 of the first token {fleet.by[round-robin].ttft_p99_s:.2f} s in turn, {fleet.by[least-loaded].ttft_p99_s:.2f} s to "
        "the least loaded, {fleet.by[prefix].ttft_p99_s:.2f} s by prefix, {fleet.one.ttft_p99_s:.2f} s of one; of prompts cached "
        "{fleet.by[round-robin].cached:.0%}, {fleet.by[least-loaded].cached:.0%}, {fleet.by[prefix].cached:.0%}, {fleet.one.cached:.0%}",
        lambda m: m.gain.median > 1.9, "replicas of one machine share its memory's bandwidth, {gain.median:.2f} times of two; with a memory each (simulated) four "
        "give {fleet.capacity:.2f} times",
        where=(lambda m: m.fleet.capacity > 3.9 and m.fleet.by["prefix"].e2e_p50_s < 1.1 * m.fleet.one.e2e_p50_s,
               "a memory each and a router that keeps shared beginnings together (simulated); two of one machine give {gain.median:.2f} "
               "times")),
    Row("4.12", "Model and cache can be sharded, which is harder.",
        tensor,
        "two ranks hold {q8.weights[0]:.0f} and {q8.weights[1]:.0f} MB of the products' weights and {q8.pages[0]:.0f} and {q8.pages[1]:.0f} kB "
        "of each page of the cache, to the same bits: {equal}; for it {q8.exchanges:.0f} exchanges and {q8.kb:.0f} kB are sent a token, which "
        "takes {q8.step_ms:.1f} ms between threads and {linked.step_ms:.1f} over a link slowed to 1 gbit and 50 us",
        lambda m: m.equal and max(m.q8.weights) < 0.7 * sum(m.q8.weights) and max(m.q8.pages) < 0.7 * sum(m.q8.pages) and
        m.linked.step_ms > 1.5 * m.q8.step_ms,
        "a rank holds nearly all, or a link costs nothing"),
    Row("4.13", "Time to first token wants small prefill batches, decoding large ones.",
        lambda: merge(chunked=pause(128), whole=pause(0), few=prompts_together(256), many=prompts_together(2048), load=loads(),
                      rows=budgets()),
        "8 prompts at once: first token after {few.ttft:.0f} ms on average with {few.most} rows a step, {many.ttft:.0f} with "
        "{many.most}; decoding 16 at once gives {load.gain:.2f} times the tokens of one; a prompt of 1,500 tokens makes others "
        "wait {chunked.longest:.0f} ms in chunks of 128, {whole.longest:,.0f} whole. Chats and edits by counted time, steps of at most 64, "
        "256, 2048 rows: first token p50 {rows.small.ttft_p50_s:.2f} s, {rows.middle.ttft_p50_s:.2f} s, {rows.large.ttft_p50_s:.2f} s; gap p99 "
        "{rows.small.itl_p99_s:.3f} s, {rows.middle.itl_p99_s:.3f} s, {rows.large.itl_p99_s:.3f} s, the longest "
        "{rows.small.itl_max_s:.3f} s, {rows.middle.itl_max_s:.3f} s, {rows.large.itl_max_s:.3f} s",
        lambda m: m.few.ttft < m.many.ttft and m.load.gain > 1 and m.chunked.longest < m.whole.longest,
        "prompts are no sooner answered in smaller batches"),
    Row("4.14", "GQA is much faster up to 8 groups.",
        lambda: merge(groups(), swept=swept()),
        "four layers of random weights, 1,024 wide, {at[16].deep:,} tokens deep, 16 heads: attention with 1, 2, 4, 8, 16 K, V heads {at[1].attention_ms:.2f}, {at[2].attention_ms:.2f}, "
        "{at[4].attention_ms:.2f}, {at[8].attention_ms:.2f}, {at[16].attention_ms:.2f} ms a token; 16 heads against 2: {attention:.2f} times, "
        "the whole token {step[2]:.2f} times, against 8 {step[8]:.2f} (at least {least[2]:.2f} and {least[8]:.2f}). By sequences and depth the whole token's time, and in parentheses the bytes of a step, of 16 heads against "
        "2: {swept.table}",
        lambda m: m.swept.everywhere and m.least[8] > 1.5,
        "it is a gain in attention alone, and a whole token 4,096 deep is not 1.5 times as fast",
        where=(lambda m: m.swept.deep and m.at[16].attention_ms > 1.5 * max(m.at[n].attention_ms for n in (1, 2, 4, 8)),
               "{swept.fast}: there the whole token is surely over 1.5 times as fast with 2 groups as with 16; with 8 it is {step[8]:.2f} times "
               "as fast, and attention alone takes {at[8].attention_ms:.2f} ms for {at[16].attention_ms:.2f}")),
    Row("4.15", "GQA lets batches grow.", lambda: merge(shapes(), pools=pools()),
        "the same pool holds {over:.0f} times the requests that it would with {n_heads} K, V heads. 16 requests of 256 tokens at once, 16 "
        "heads, a pool of {pools.few.mb:.1f} MB: with 16 K, V heads {pools.many.running} run at once, {pools.many.mean:.1f} in the mean, "
        "{pools.many.preempted} preempted, {pools.many.steps} steps, {pools.many.tok_s:.0f} tok/s; with 2 {pools.few.running}, "
        "{pools.few.mean:.1f}, {pools.few.preempted}, {pools.few.steps} and {pools.few.tok_s:.0f}",
        lambda m: m.kv_heads_all > 1.5 * m.kv_token and m.pools.grown > 1.5 and m.pools.steps > 1.5,
        "with 2 the pool runs {pools.grown:.1f} times as many, in {pools.steps:.1f} times fewer steps"),
    Row("4.16", "MLA: 16,384 values to a latent of 512 and 64 for RoPE (arXiv:2405.04434).",
        lambda: merge(family("latent", "single"), deeper("latent", "multi-head")),
        "small models of equal size: {at[latent].token:,} B a token, {at[multi-head].token:,} with all heads' K and V; loss "
        "{at[latent].loss:.3f} and {at[multi-head].loss:.3f} (1 head of K and V: {at[single].token:,} B, {at[single].loss:.3f}); 8,192 deep a "
        "token takes {far[latent]:.2f} and {far[multi-head]:.2f} ms",
        lambda m: m.at["latent"].token < m.at["single"].token and m.at["latent"].loss < m.at["multi-head"].loss + m.noise,
        "a latent takes as much as a head of K and V",
        where=(lambda m: m.at["latent"].token < m.at["single"].token,
               "memory, {at[latent].token:,} for {at[multi-head].token:,} B a token; it costs {at[latent].loss:.3f} for "
               "{at[multi-head].loss:.3f} nats")),
    Row("4.17", "Cross-layer attention improves the Pareto front (arXiv:2405.12981).",
        lambda: merge(family("shared", "grouped"), later=later("one-global", "one-global-shared")),
        "{at[shared].token:,} B a token with K and V shared by two layers, {at[grouped].token:,} with half of the heads: loss "
        "{at[shared].loss:.3f} and {at[grouped].loss:.3f}, {at[multi-head].loss:.3f} with all ({doubt} {noise:.3f}); of 32 pairs, after at most "
        "2,400 steps, {at[shared].pairs[32]:.0%} recalled by two layers that share, {at[multi-head].pairs[32]:.0%} by two that do not. With "
        "windows, on a tenth of the tokens, {later.fixed[one-global-shared]:,} B a request shared and {later.fixed[one-global]:,} not: loss "
        "{later.loss[one-global-shared]:.3f} and {later.loss[one-global]:.3f}",
        lambda m: m.at["shared"].loss < m.at["grouped"].loss - m.noise,
        "as many bytes saved by grouping heads do not cost more: loss {at[grouped].loss:.3f} for {at[shared].loss:.3f}. With windows, layers that "
        "share lose nothing that one seed can tell; grouped heads were not trained beside them"),
    Row("4.18", "Local attention: the cache is independent of length, and accuracy can suffer.",
        lambda: merge(windows(), pages=window_pages(), needle=needle()),
        "after some 500 and 1,000 tokens a request reads {pages.full_half} and {pages.full} pages in full, {pages.window_half} and "
        "{pages.window} with a window of 128; perplexity {full:.1f} and {window:.1f}",
        lambda m: abs(m.pages.window - m.pages.window_half) <= 1 and m.pages.full > 1.5 * m.pages.full_half and m.window > m.full,
        "its pages grow with the text, or it costs nothing"),
    Row("4.18c", "The reach of local attention grows linearly with the number of layers.",
        lambda: merge(two=reach("recall-window"), eight=reach("window")),
        "a changed token changes the logits, to the bit, up to {two.far} tokens on in {two.layers} layers of windows of {two.window} "
        "(the masks allow {two.most}), {eight.far} in {eight.layers} of {eight.window} ({eight.most})",
        lambda m: all(0.9 <= x.share <= 1 for x in (m.two, m.eight)), "it is less than the sum of the windows"),
    Row("4.18b", "Longformer, Sparse Transformer, Mistral 7B: patterns of sight (arXiv:2004.05150, 1904.10509, 2310.06825).",
        lambda: merge(other_model("gemma3"), family("window"), patterns=patterns()),
        "a tiny Gemma 3: {groups[0].layers} layers see {groups[0].window} positions, {groups[1].layers} all; of small models of equal size, text "
        "and steps one whose layers all see 32 positions has a loss of {at[window].loss:.3f}, full attention {at[multi-head].loss:.3f} ({doubt} "
        "{noise:.3f}); SmolLM2 forced into patterns it was not trained on: perplexity {patterns.full:.1f} in full, dilated "
        "{patterns.dilated:.1f}, strided {patterns.strided:.1f}, fixed {patterns.fixed:.1f}, by keys {patterns.top:.1f}; of the cache they read "
        "{patterns.read[dilated]:.0%}, {patterns.read[strided]:.0%}, {patterns.read[fixed]:.0%}, {patterns.read[top]:.0%}",
        lambda m: m.at["window"].loss < m.at["multi-head"].loss + m.noise and
        max(m.patterns.dilated, m.patterns.strided, m.patterns.fixed) < 1.2 * m.patterns.full,
        "trained with a window it loses",
        where=(lambda m: m.at["window"].loss < m.at["multi-head"].loss + m.noise,
               "a window that was trained, on stories of 256 tokens; forced on a model that was not trained so, dilated, strided and fixed patterns "
               "make perplexity {patterns.dilated:.0f}, {patterns.strided:.0f}, {patterns.fixed:.0f} of {patterns.full:.0f}")),
    Row("4.19", "Hybrid: local layers with one global of 6 (character.ai).",
        lambda: merge(other_model("gemma3"), family("one-global", "window"), deeper("one-global", "window", "multi-head"),
                      later=later("one-global", "one-global-shared")),
        "a tiny Gemma 3: {groups[0].layers} window and {groups[1].layers} full layers; pages of a request from {early} to {late} over {steps} "
        "steps; small models of equal size: loss {at[one-global].loss:.3f} where one of 8 layers, the sixth, sees all, {at[window].loss:.3f} "
        "with windows of 32 alone, {at[multi-head].loss:.3f} with full attention alone; of 32 pairs two layers recall "
        "{at[one-global].pairs[32]:.0%}, {at[window].pairs[32]:.0%}, {at[multi-head].pairs[32]:.0%}; {at[one-global].token:,} and "
        "{at[multi-head].token:,} B a token; 8,192 deep {far[one-global]:.2f}, {far[window]:.2f}, {far[multi-head]:.2f} ms; on a tenth of the "
        "tokens, where neighbours share keys and values (CLA), {later.loss[one-global-shared]:.3f}, else {later.loss[one-global]:.3f}; "
        "{later.token[one-global-shared]:,} B a token",
        lambda m: len(m.groups) == 2 and m.at["one-global"].loss < m.at["multi-head"].loss + m.noise and
        m.at["one-global"].pairs[32] > m.at["window"].pairs[32] + 0.1 and m.at["one-global"].token < m.at["multi-head"].token / 4,
        "its loss is higher, it recalls no more than windows, or it keeps as much as full attention"),
    Row("4.20", "S4: good at synthetic long context, bad at associative recall (arXiv:2111.00396).",
        lambda: merge(family("mamba2", "s4d"), late=delays("s4d")),
        "two layers: S4D says a sign again after 16, 64, 256, 1,024 dots in {late[16]:.0%}, {late[64]:.0%}, {late[256]:.0%}, {late[1024]:.0%}; "
        "pairs recalled of 4, 8, 16, 32 (MQAR): {at[s4d].pairs[4]:.0%}, {at[s4d].pairs[8]:.0%}, {at[s4d].pairs[16]:.0%}, "
        "{at[s4d].pairs[32]:.0%}; Mamba-2 {at[mamba2].pairs[4]:.0%}, {at[mamba2].pairs[8]:.0%}, {at[mamba2].pairs[16]:.0%}, "
        "{at[mamba2].pairs[32]:.0%}; attention {at[multi-head].pairs[4]:.0%}, {at[multi-head].pairs[8]:.0%}, {at[multi-head].pairs[16]:.0%}, "
        "{at[multi-head].pairs[32]:.0%}; loss of stories {at[s4d].loss:.3f}, {at[mamba2].loss:.3f}, {at[multi-head].loss:.3f}",
        lambda m: min(m.late.values()) > 0.9 and m.at["s4d"].pairs[8] < m.at["multi-head"].pairs[8] - 0.1,
        "it recalls as well, or forgets a sign within 256 dots",
        where=(lambda m: min(m.late[n] for n in (16, 64, 256)) > 0.9 and m.at["s4d"].pairs[8] < m.at["multi-head"].pairs[8] - 0.1,
               "up to 256 dots; after 1,024, which it was trained on, too, {late[1024]:.0%} come again")),
    Row("4.21", "Mamba: input-dependent state, matches transformers at 1B (arXiv:2312.00752).",
        lambda: merge(family("mamba2"), tiny=other_model("mamba"), first=seeds("mamba1")[0]),
        "a tiny Mamba: {tiny.early} pages of state after 5 tokens, {tiny.late} after {tiny.steps}; small models of equal size, text and "
        "steps: loss {at[mamba2].loss:.3f} of Mamba-2, {at[multi-head].loss:.3f} of attention; of 32 pairs {at[mamba2].pairs[32]:.0%} and "
        "{at[multi-head].pairs[32]:.0%} recalled; loss {first:.3f} of Mamba's first form",
        lambda m: m.at["mamba2"].loss < m.at["multi-head"].loss + m.noise, "its loss is higher", lacks="1B"),
    Row("4.22", "Jamba: one attention layer of 8, with experts (arXiv:2403.19887).",
        lambda: merge(family("jamba", "mamba2"), deeper("jamba", "multi-head"), later=later("mamba2", "jamba-experts", "multi-head")),
        "Mamba-2 with one attention layer of 8: loss {at[jamba].loss:.3f}, {at[mamba2].loss:.3f} without it, {at[multi-head].loss:.3f} of "
        "attention alone; {at[jamba].token:,} and {at[multi-head].token:,} B a token; 8,192 deep {far[jamba]:.2f} and {far[multi-head]:.2f} ms; "
        "of 32 pairs, one layer of two: {at[jamba].pairs[32]:.0%}, without it {at[mamba2].pairs[32]:.0%}; on a tenth of the tokens, with 4 "
        "experts of which each token uses 2, {later.loss[jamba-experts]:.3f}, Mamba-2 alone {later.loss[mamba2]:.3f}, attention alone "
        "{later.loss[multi-head]:.3f}",
        lambda m: m.at["jamba"].loss < m.at["multi-head"].loss + m.noise and m.at["jamba"].pairs[32] > m.at["mamba2"].pairs[32] + 0.1 and
        m.later.loss["jamba-experts"] < m.later.loss["multi-head"] + m.noise,
        "its loss is higher than attention's, or it recalls no more than Mamba-2",
        where=(lambda m: m.at["jamba"].loss < m.at["multi-head"].loss + m.noise and m.at["jamba"].pairs[32] > m.at["mamba2"].pairs[32] + 0.1,
               "the mixers without experts; with them, on a tenth of the tokens, the loss is {later.loss[jamba-experts]:.3f}, attention's "
               "{later.loss[multi-head]:.3f}")),
    Row("4.23", "BASED: linear and local attention (arXiv:2402.18668).", lambda: family("based", "window", "mamba2"),
        "linear attention (Taylor) and windows of 32 by turns: loss {at[based].loss:.3f}, windows alone {at[window].loss:.3f}, attention "
        "{at[multi-head].loss:.3f}; a request keeps {at[based].fixed:,} B whatever its length; of 32 pairs {at[based].pairs[32]:.0%} recalled, "
        "{at[window].pairs[32]:.0%} by windows, {at[mamba2].pairs[32]:.0%} by Mamba-2",
        lambda m: m.at["based"].pairs[32] > m.at["mamba2"].pairs[32] and m.at["based"].loss < m.at["multi-head"].loss + m.noise,
        "it recalls less than Mamba-2, or its loss is higher"),
    Row("4.24", "MiniMax-01: linear and full attention, 456B (arXiv:2501.08313).",
        lambda: merge(family("based"), tiny=other_model("minimax"), later=later("lightning", "multi-head")),
        "a tiny MiniMax-01 of random weights: {tiny.groups[0].layers} and {tiny.groups[1].layers} layers in two kinds of memory; trained, linear "
        "attention and windows: loss {at[based].loss:.3f}, full attention {at[multi-head].loss:.3f}; on a tenth of the tokens lightning attention with "
        "one full layer of 8 {later.loss[lightning]:.3f}, full attention {later.loss[multi-head]:.3f}",
        lambda m: len(m.tiny.groups) == 2 and m.at["based"].loss < m.at["multi-head"].loss + m.noise, "its loss is higher",
        lacks="456B"),
    Row("4.24b", "Serious models still need some full attention.", full_layers,
        "of 4, 16, 64, 256 pairs recalled without full attention: windows {many[window][4]:.0%}, {many[window][16]:.0%}, "
        "{many[window][64]:.0%}, {many[window][256]:.0%}, Mamba-2 {many[mamba2][4]:.0%}, {many[mamba2][16]:.0%}, {many[mamba2][64]:.0%}, "
        "{many[mamba2][256]:.0%}, linear and windows {many[based][4]:.0%}, {many[based][16]:.0%}, {many[based][64]:.0%}, "
        "{many[based][256]:.0%}; with one full layer of two: beside a window {many[one-global][256]:.0%} of 256, beside Mamba-2 "
        "{many[jamba][256]:.0%}; both full {many[multi-head][256]:.0%}. States have {kept[mamba2].fixed:,} and {kept[based].fixed:,} B, "
        "a full layer {kept[jamba].token} B a token. Loss of stories of 256 tokens: {at[window].loss:.3f}, {at[mamba2].loss:.3f}, "
        "{at[based].loss:.3f}; {at[one-global].loss:.3f}, {at[jamba].loss:.3f}; full alone {at[multi-head].loss:.3f}",
        lambda m: m.needs > 0.1 and m.text > m.noise, "recall without it is as good",
        where=(lambda m: m.needs > 0.1,
               "recall of 256 pairs by models of two layers; of stories of 256 tokens the loss without is {text:+.3f}, {doubt} {noise:.3f}")),
    Row("4.25", "An O(T) cache becomes an O(1) state.",
        lambda: merge(mamba=other_model("mamba"), attention=other_model("mixtral")),
        "pages from 5 to {mamba.steps} tokens: state {mamba.early} to {mamba.late}, cache {attention.early} to {attention.late}; at most in the "
        "first half of them and in the second: state {mamba.halves[0]} and {mamba.halves[1]}, cache {attention.halves[0]} and "
        "{attention.halves[1]}",
        lambda m: m.mamba.halves[1] == m.mamba.halves[0] and m.attention.halves[1] > m.attention.halves[0],
        "the state grows as the cache does"),
    Row("4.26", "Diffusion language models refine all tokens at once (arXiv:2205.14217).",
        lambda: merge(denoising(), trained=refined()),
        "the first step proposes for {first} of {tokens} positions, and {back} of 63 neighbours are fixed from right to left; {tokens} tokens in "
        "{steps[4]}, {steps[16]}, {steps[64]} steps are {rows[4]}, {rows[16]}, {rows[64]} rows; a causal model with a KV cache computes "
        "{causal}. 64 tokens of a story by a trained one (twice the parameters, ten times the steps) in 4, 16, 64 steps: {trained.nats[4]:.2f}, "
        "{trained.nats[16]:.2f}, {trained.nats[64]:.2f} nats a token to the causal model of its family, whose own are {trained.nats[causal]:.2f}",
        lambda m: m.first == m.tokens == 64 and m.back > 0 and m.trained.nats[16] < m.trained.nats["causal"] + 0.1,
        "a step does not see all positions, or its text is worse than the causal model's in as many steps as tokens, too",
        where=(lambda m: m.first == m.tokens == 64 and m.back > 0 and m.trained.nats[64] < m.trained.nats["causal"] + 0.1,
               "a step for each token, as many as the causal model has: in 16 steps, which fix 4 at once, it is {trained.nats[16]:.2f} nats a "
               "token for {trained.nats[causal]:.2f}")),
    Row("4.27", "Less precision, less latency.", lambda: merge(formats(), live=weight_only()),
        "a token takes {at[F32].ms:.1f} ms in F32, {at[F16].ms:.1f} in F16, {at[Q8_0].ms:.1f} in Q8_0, {at[Q4_0].ms:.1f} in Q4_0; with 4-bit "
        "weights and activations of 16 bits {live.w4a16.one_times:.2f} times as long as with 8, of 32 {live.w4a32.one_times:.2f}",
        lambda m: m.falls and m.live.w4a16.one_times.high < m.live.w4a32.one_times.low,
        "fewer bits are no faster",
        where=(lambda m: m.falls and m.live.w4a32.one_times.low > 1,
               "weights, when decoding, and activations of 8 bits; of 16 they take {live.w4a16.one_times.median:.2f} times as long as of 8, of 32 "
               "{live.w4a32.one_times.median:.2f}, since this processor has no products of 16 bits")),
    Row("4.28", "Quantisation-aware training does not scale up.", repairs,
        "a step with rounding takes {rounding:.2f} times one without; 3 bits by {tokens[qat-3]:,.0f} tokens: KL {kl[gptq-3]:.3f} to "
        "{kl[qat-3]:.3f}", lambda m: m.rounding > 2,
        "rounding is little beside the products: it costs what training costs", lacks="the tokens that larger models need"),
    Row("4.29", "Post-training quantisation: sample data give scale and zero point by layer or tensor.",
        lambda: merge(rounded(), out=outliers(), weights=by_tensor()),
        "weights in 8 bits, from 16, by tensor: KL {weights.zero.kl:.5f} with scale and zero point, {weights.scale.kl:.5f} with the scale alone; "
        "activations in 8 bits with one scale a tensor (without zero point), from the shipped prompts: KL {tensor:.3f}, perplexity "
        "{tensor_ppl:.2f} against {f32:.2f}; with a scale of its own for each token {token:.3f}",
        lambda m: m.weights.zero.kl < 0.01 and m.tensor < 0.05,
        "8 bits of a tensor are too few even for weights",
        where=(lambda m: m.weights.zero.kl < 0.01,
               "weights; of activations one outlier of the sample takes the steps of all others: the largest channel is {out.worst:,.0f} times "
               "the median one (layer {out.layer}, {out.stage})")),
    Row("4.30", "fp32 has 4 bytes and is for training; bf16 with 2 is the default.",
        lambda: merge(cache_default(), low=rounded(), train=heads(), small=from_16()),
        "each weight that a training moves has {train.each[0]:.1f} bytes; perplexity with weights in bf16, from F16, {small.bf16.ppl:.2f} for "
        "{small.bf16.source:.2f}; with activations in bf16 {low.at[bf16].lossy:.2f} for {low.f32:.2f}; the default of the cache here is {cache}",
        lambda m: m.train.each[0] > 3.9 and m.cache == "bf16" and m.small.bf16.ppl < 1.01 * m.small.bf16.source and
        abs(m.low.at["bf16"].lossy / m.low.f32 - 1) < 0.01,
        "the training has fewer than 4 bytes, or bf16 costs more than 1 % of perplexity",
        where=(lambda m: m.train.each[0] > 3.9 and m.small.bf16.ppl < 1.01 * m.small.bf16.source and
               abs(m.low.at["bf16"].lossy / m.low.f32 - 1) < 0.01,
               "training with 4 bytes, and inference that loses less than 1 % of perplexity in bf16; the default here is {cache}, and that of "
               "published models is not measured")),
    Row("4.30b", "Training keeps optimizer states in fp32, so it needs far more memory than inference.", heads,
        "a number that is trained has {each[0]:.1f} bytes of weight, {each[1]:.1f} of gradient and {each[2]:.1f} of the optimizer's (AdamW): "
        "{all:.1f} bytes where inference in 16 bits has 2; what the layers keep for the gradients comes on top",
        lambda m: m.all > 6 * 2 and m.each[2] > 7.9, "it keeps no more than {all:.1f} bytes"),
    Row("4.31", "fp8 (e4m3) has 1 byte and ends at 240 on an H100.",
        lambda: merge(e4m3(), weights=eights()),
        "{at[e4m3].kv:,} B a token of the cache, {at[f16].kv:,} in f16; weights rounded to it: the largest is {ratio:,.0f} times the smallest, "
        "which is 2⁻⁹, so it ends at {greatest:.0f}; as format of the cache: perplexity {at[e4m3].ppl:.2f} against {at[f16].ppl:.2f}; of "
        "weights, a scale a row, from 16 bits: KL {weights.fp8.kl:.5f}, in integers of 8 bits {weights.int8.kl:.5f}",
        lambda m: 2 * m.at["e4m3"].kv == m.at["f16"].kv and m.greatest == 240,
        "e4m3 as this program rounds to it (arXiv:2209.05433, without infinities) has a byte and ends at {greatest:.0f}; with infinities, as in "
        "IEEE formats, it would end at 240. An H100's own conversion was not asked"),
    Row("4.32", "int8 is less accurate and cheaper than fp8, for inference only.", rounded,
        "activations: int8 by blocks KL {block:.3f}, e4m3 {e4m3:.3f}", lambda m: m.block > m.e4m3,
        "a scale for each 32 values gives 7 bits where e4m3 has 3", where=(lambda m: m.tensor > m.e4m3,
        "one scale for a whole tensor ({tensor:.3f})"), lacks="its cost on a GPU"),
    Row("4.32b", "int4, half a byte: cheaper, even less accurate.", lambda: merge(formats(), small=from_16()),
        "Q4_0 {at[Q4_0].mb:.1f}, Q8_0 {at[Q8_0].mb:.1f} MB and {at[Q4_0].ms:.1f}, {at[Q8_0].ms:.1f} ms a token; from 16 bits KL "
        "{small.q4.kl:.4f} and {small.q8.kl:.4f}",
        lambda m: m.at["Q8_0"].mb / m.at["Q4_0"].mb > 1.7 and m.at["Q4_0"].ms.median < m.at["Q8_0"].ms.median and
        m.small.q4.kl > 2 * m.small.q8.kl, "it is no smaller or faster, or as accurate"),
    Row("4.33", "LLM.int8(): outliers go in fp16; 15 to 23 % slower (arXiv:2208.07339).",
        lambda: merge(apart(), live=split()), "8 bits with a scale a row: KL {row.kl:.4f}; with {apart.apart:.1%} of the weights, those "
        "of channels that pass 6, in 16 bits: {apart.kl:.4f}, in {apart.bits:.2f} bits a weight. At run time, Q8_0: KL "
        "{live.kl[int8-token]:.4f} with a scale a token, {live.kl[llm.int8]:.4f} with values beyond 6 as floats; a step takes "
        "{live.split.one_times:.2f} times as long as F16's (all in integers {live.int8.one_times:.2f}), of 16 rows "
        "{live.split.many_times:.2f} ({live.int8.many_times:.2f})", lambda m: m.apart.kl < 0.9 * m.row.kl and
        1.1 < m.live.split.many_times.median < 1.3, "half the bytes win more than the split costs, or its time cannot be told here",
        where=(lambda m: m.live.kl["llm.int8"] < 0.9 * m.live.kl["int8-token"] and m.live.split.many_times.low > 1.02 * m.live.int8.many_times.high,
        "accuracy; of 16 rows it takes {live.split.many_times:.2f} times F16's time, and integers alone {live.int8.many_times:.2f}")),
    Row("4.34", "AWQ: 0.1 to 1 % of weights matter, by activations; 3 bits 4x smaller, 3.2x faster (arXiv:2306.00978).",
        lambda: merge(salient(), three_bits(), some=kept()), "with a zero point, groups of 128: perplexity in 3 bits {rtn3.ppl:.1f} to "
        "the nearest, {awq3.ppl:.1f} by AWQ (source {rtn3.source:.1f}), in {awq3.bits:.2f} bits a weight; in 4 bits {rtn4.ppl:.1f} and "
        "{awq4.ppl:.1f}; with 0.1 and 1 % of the columns, of the largest inputs, in 16 bits, the others in 3 {some.at[0.001].ppl:.1f} "
        "and {some.at[0.01].ppl:.1f}, in {some.at[0.01].bits:.2f} bits. Q3_K {smaller[Q3_K]:.2f} times smaller than F16, a step of "
        "415M weights {faster[q3].one:.2f} times as fast, with activations of 16 bits {faster[q3a16].one:.2f}, of 16 rows "
        "{faster[q3].many:.2f} and {faster[q3a16].many:.2f}; Q4_K {smaller[Q4_K]:.2f} times smaller, {faster[q4].one:.2f} times as "
        "fast, of 16 rows {faster[q4].many:.2f}",
        lambda m: m.awq3.ppl < 0.8 * m.rtn3.ppl and m.some.at["0.01"].ppl < 0.8 * m.rtn3.ppl and m.smaller["Q3_K"] > 4 and
        m.faster["q3"].one.median > 2.5,
        "1 % of the columns in 16 bits leaves perplexity {some.at[0.01].ppl:.1f}, AWQ {awq3.ppl:.1f}; 3 bits are "
        "{smaller[Q3_K]:.2f} times smaller and {faster[q3].one:.2f} times as fast",
        where=(lambda m: m.awq3.ppl < 0.8 * m.rtn3.ppl, "AWQ's factors: of the columns more than 1 % matter here"),
        lacks="a GPU"),
    Row("4.35", "Pruning by importance on 1,024 samples: layers, heads, widths; distil back (arXiv:2407.14679).",
        lambda: merge(repairs(), pairs=places()),
        "KL of a small Llama, pruned and repaired by 92,160 tokens: 2 of 6 layers {kl[layers]:.3f}, {kl[full]:.3f}; a third of the heads "
        "{kl[heads]:.3f}, {kl[heads-full]:.3f}; half of the channels {kl[channels]:.3f}, {kl[channels-full]:.3f}; 2:4 zeros "
        "{kl[zeros]:.3f}, {kl[zeros-full]:.3f}. Of {pairs.n} pairs of layers the measure of influence takes number {pairs.place[0]} by the "
        "damage ({pairs.least[0]:.3f} to {pairs.most[0]:.2f}) and number {pairs.place[1]} once repaired ({pairs.least[1]:.3f} to {pairs.most[1]:.2f})",
        lambda m: all(m.high[b] < m.low[a] for a, b in (("layers", "full"), ("heads", "heads-full"), ("channels", "channels-full"),
                                                        ("zeros", "zeros-full"))) and max(m.pairs.place) <= m.pairs.n // 5,
        "the repair gives nothing back",
        where=(lambda m: all(m.high[b] < m.low[a] for a, b in (("layers", "full"), ("heads", "heads-full"), ("channels", "channels-full"),
                                                               ("zeros", "zeros-full"))),
               "what distilling gives back; of {pairs.n} pairs of layers importance takes number {pairs.place[0]}, and number {pairs.place[1]} once "
               "repaired, and heads and channels have no control")),
    Row("4.36", "A prefill gives the probabilities of a whole text at once.", scored,
        "{tokens} tokens that {steps} steps drew one by one, scored in one pass: their probabilities are apart by at most {apart:.1g} of them (the "
        "recording keeps 32 bits); perplexity of the text {ppl:.2f}", lambda m: m.steps > 90 and m.apart < 1e-6, "they are others"),
    Row("4.37", "Modified rejection keeps the distribution exactly, at least one token a step (arXiv:2211.17192, "
                "2302.01318).", same_law,
        "2,000 answers each way, {rejected} guesses rejected: chi-square {chi:.0f} at {free} degrees of freedom (limit "
        "{limit:.0f}); least tokens of a step {least}", lambda m: m.chi < m.limit and m.least >= 1,
        "the distributions differ"),
    Row("4.38", "Pairs: 70B with 8B, 8B with 1B; distil the draft.",
        lambda: merge(drafter("draft"), pair=pairs()),
        "a distilled draft model of 2 layers: {tokens:.2f} tokens a step, {speed:.2f} times plain; a pair of whole models, a fifth of the "
        "parameters: {pair.alone.tokens:.2f} tokens a step as its text taught it, {pair.taught.tokens:.2f} distilled from the large one, "
        "{pair.taught.speed:.2f} times plain",
        lambda m: m.tokens > 1.1 and m.pair.taught.tokens > 1.05 * m.pair.alone.tokens and m.pair.taught.speed > 1,
        "distillation makes {pair.alone.tokens:.2f} tokens a step of a whole model {pair.taught.tokens:.2f}, and its passes cost more than they "
        "save; a distilled draft of two layers of 135M gives {tokens:.2f}, {speed:.2f} times plain. Pairs of billions are not measured",
        where=(lambda m: m.tokens > 1.1 and m.speed.low > 1,
               "a draft model of two layers that was distilled, for 135M; of a whole model a fifth as large distillation makes {pair.alone.tokens:.2f} "
               "tokens a step {pair.taught.tokens:.2f}, and its passes cost more than they save: {pair.taught.speed:.2f} times plain")),
    Row("4.39", "Medusa gives tokens in parallel (arXiv:2401.10774).", lambda: drafter("medusa"),
        "{tokens:.2f} tokens a step, {speed:.2f} times plain", lambda m: m.tokens > 1.2, "it does not"),
    Row("4.39b", "EAGLE uses high-level features of the target (arXiv:2401.15077).", lambda: merge(unseen(), plain=drafter("draft")),
        "{seen:.2f} tokens a step in chains of three; with the matrix that reads the features made 0 {blind:.2f}; a draft model of two "
        "layers that was distilled and reads none {plain.tokens:.2f}",
        lambda m: m.seen > 1.2 * m.blind and m.seen > 1.1 * m.plain.tokens, "without the features it guesses as well"),
    Row("4.39c", "There is room for innovation on the draft model.", lambda: merge(chain(3), by=drafters()),
        "EAGLE, the best of three trained drafters (draft model {by.at[draft].tokens:.2f} tokens a step, Medusa {by.at[medusa].tokens:.2f}), "
        "in chains of three: {tokens:.2f} of the 4 that an ideal drafter would give, {a:.0%} of its guesses right",
        lambda m: m.tokens < 0.75 * 4 and m.by.at["eagle"].tokens > 1.1 * max(m.by.at[n].tokens for n in ("draft", "medusa")),
        "{tokens:.2f} of 4 is near what can be had"),
    Row("4.40", "Checking is faster than generating.", row_costs, "4 rows cost {at[4]:.2f}, 8 rows {at[8]:.2f} times 1 row",
        lambda m: m.at[4].median < 4 and m.at[8].median < 8, "rows cost as much as steps"),
    Row("4.41", "Live traffic arrives over time; waiting for a batch is bad for the early ones.",
        lambda: merge(static_arrivals(), by=classes()),
        "Poisson arrivals, chats, counted time: of each eight that come one a second the first would wait {fill:.1f} s for the last, "
        "{fill_3:.1f} s at three a second; one a second get their first token after {few_static.ttft_p50_s:.3f} s where they wait for a batch to "
        "end, {few.ttft_p50_s:.3f} s by the step (p99 {few_static.ttft_p99_s:.2f} s, {few.ttft_p99_s:.2f} s). Overloaded by an application's "
        "prompts, chats wait {by.fcfs.chat:.1f} s first come, first served and {by.fair.chat:.1f} s by fair share (the others "
        "{by.fcfs.batch:.1f} s, {by.fair.batch:.1f} s)",
        lambda m: m.later > 1.2 and m.fill > 10 * m.few.ttft_p50_s and m.fill_3 > 10 * m.flow.ttft_p50_s,
        "who comes early waits no longer"),
    Row("4.42", "Shared prefixes, ragged lengths and padding make batches inefficient.",
        lambda: merge(passages(), load=load(8), held=sequences(), rect=padded()),
        "{load.rows} rows computed for {held.tokens:,} tokens in batches that padding would have made {load.padded}; {hit} of {asked} prompt "
        "tokens of a shared passage not computed again. 2,000 questions and tasks that arrive: {rect.padding:.0%} of rectangles of 8 would be "
        "padding, {rect.cached:.0%} of prompt tokens were found",
        lambda m: m.load.rows > 1.05 * m.held.tokens or m.hit < 0.2 * m.asked,
        "rows of all requests are packed into one matrix without padding, and what is cached is not computed again",
        where=(lambda m: m.load.padded > 1.2 * m.load.rows and m.rect.padding > 0.2,
               "batches that are rectangles, {rect.padding:.0%} of which would be padding: rows packed into one matrix are as many as tokens, "
               "and what is cached is not computed again")),
    Row("4.43", "Orca: schedule step by step, not request by request.",
        lambda: merge(load(4), by=static_batches()),
        "{busy:.0%} of slots busy while others wait; 24 requests on 8 slots: {by.steps} steps and {by.busy:.0%} of slots busy by the step, "
        "{by.steps_static} and {by.busy_static:.0%} by the batch of requests",
        lambda m: m.busy > 0.9 and m.by.steps < 0.9 * m.by.steps_static,
        "slots stood idle, or batches of requests take no more steps"),
    Row("4.44", "Selective batching: rows of all in the products, attention apart.", loads,
        "gate and up {at[16].gate:.1f} operations a byte at 16 sequences, {at[1].gate:.1f} at 1; attention "
        "{at[16].attention:.1f} and {at[1].attention:.1f}",
        lambda m: m.at[16].gate > 8 * m.at[1].gate and m.at[16].attention < 2 * m.at[1].attention, "both are batched alike"),
    Row("4.45", "Reserving the longest length is wasteful.",
        lambda: merge(page_sizes(), chats=lengths_of_load()),
        "of a context reserved for each of 4,000 chats of published lengths {chats.filled:.0%} would hold tokens, of pages {chats.in_pages:.0%}; "
        "8 requests of 32 new tokens at most: {reserved:,.0f} MB would stand reserved and unused, {waste[16]:.1f} MB with pages of 16",
        lambda m: m.chats.filled < 0.5 < 0.9 < m.chats.in_pages and m.reserved > 10 * m.waste[16],
        "most of it is used, or pages waste as much"),
    Row("4.46", "Internal fragmentation: far fewer tokens than reserved.",
        lambda: merge(page_sizes(), chats=lengths_of_load()),
        "of 8,192 tokens reserved for each of 4,000 chats of published lengths {chats.filled:.1%} would hold tokens, of 2,048 {chats.filled_2k:.1%}; "
        "unused room at most with pages "
        "of 16, 64, 256 tokens, of 8 requests: {waste[16]:.1f}, {waste[64]:.1f}, {waste[256]:.1f} MB",
        lambda m: max(m.chats.filled, m.chats.filled_2k) < 0.2,
        "{chats.filled:.0%} of what is reserved holds tokens",
        where=(lambda m: m.chats.filled < 0.2, "8,192 tokens reserved for each; of 2,048 {chats.filled_2k:.0%} would hold tokens")),
    Row("4.46b", "External fragmentation: holes between contiguous sections.", contiguous,
        "{requests:,} chats of published lengths by counted time, in contiguous sections of their prompt and answer, first fit: of a room of "
        "{rooms[0]:,}, {rooms[1]:,}, {rooms[2]:,} tokens {share[0]:.1%}, {share[1]:.1%}, {share[2]:.1%} find no hole when they come though enough "
        "is free, in the mean {free[0]:.2f}, {free[1]:.2f}, {free[2]:.2f} times what they need",
        lambda m: max(m.share) > 0.05, "of a room that is nearly full hardly one is refused for holes: {share[0]:.1%}"),
    Row("4.47", "Non-contiguous blocks, as in operating systems.", paged,
        "{apart} of {pairs} pages do not follow the one before them in memory; hashes equal: {equal}",
        lambda m: m.equal and m.apart > 0, "pages were not apart, or bits depend on them"),
    Row("4.47b", "A shared system prompt is stored once.",
        passages,
        "12 requests with one beginning, three at a time: its pages were taken {stored:.0f} times, {again} of them by requests that came later; "
        "{shared} pages read by several at once; {hit} of {asked} prompt tokens found",
        lambda m: m.stored == 1 and m.shared > 0,
        "later requests store it again, too",
        where=(lambda m: m.again == 0 and m.shared > 0,
               "requests that come when one has computed it: the first, which came at once, stored it {stored:.0f} times")),
    Row("4.47c", "Many samples of one prompt share it (the paper saves 6 to 10 %, arXiv:2309.06180).", lambda: merge(sampled(), chat=best_of()),
        "2, 4, 6 samples of {prompt} tokens, 58 each: {saved[2]:.0%}, {saved[4]:.0%}, {saved[6]:.0%} of the pages of all steps saved, in the last "
        "tenth of the steps {end[2]:.0%}, {end[4]:.0%}, {end[6]:.0%}; 8 of a chat's, 40 at most: {chat.saved:.0%}",
        lambda m: 0.05 < m.saved[2] < m.saved[4] < m.saved[6] < 0.12, "they save {saved[2]:.0%} to {saved[6]:.0%}",
        where=(lambda m: 0.05 < m.saved[2] < m.saved[4] < m.saved[6] and m.end[6] > 0,
               "a prompt of {prompt} tokens, with more saved than in the paper, {saved[2]:.0%} to {saved[6]:.0%}: steps at the beginning hold little "
               "but the prompt, those of the last tenth save {end[2]:.0%} to {end[6]:.0%}")),
    Row("4.47d", "Copy on write, by block.", best_of, "{copies} pages copied by 8 samples of one prompt",
        lambda m: 0 < m.copies <= 8, "copies: {copies}"),
    Row("4.48", "Fused block read and attention: fewer launches.", cuda_modes,
        "decoding {launches:.0f} tok/s with a launch for each kernel, {graph:.0f} with one for all",
        lambda m: m.graph > m.launches, "launches cost nothing", gpu=True),
    Row("4.49", "FlashDecoding splits the context over blocks.",
        spans,
        "4,096 tokens deep attention of a token takes {many:.2f} times as long where threads do not share the spans of a head, of 9 heads on two "
        "threads; {single:.2f} times of a model with one head", lambda m: m.many.low > 1.1,
        "shared spans are no faster: {many.median:.2f} times",
        where=(lambda m: m.single.low > 1.1,
               "fewer heads than threads: {single.median:.2f} times as fast with one head; 9 heads keep two threads busy without, "
               "{many.median:.2f} times")),
    Row("4.50", "CUDA graphs take launch overhead away.", cuda_modes,
        "decoding {launches:.0f} tok/s as launches, {graph:.0f} as a graph",
        lambda m: m.graph > m.launches, "a graph is no faster", gpu=True),
    Row("4.51", "Inference also serves evaluation and reinforcement learning.",
        lambda: merge(loads(), loop=loop()),
        "16 answers, {at[16].tokens} tokens: at once {at[16].whole:.0f} tok/s, {gain:.2f} times one after the other. A loop of "
        "{loop.last.round:.0f} rounds (192 answers by the engine, SmolLM2 as judge, training on the best of each 4): mean log-probability by the "
        "judge {loop.first.reward:.2f} to {loop.last.reward:.2f}, KL {loop.last.kl:.2f} from the beginning, perplexity of stories held out "
        "{loop.first.perplexity:.1f} to {loop.last.perplexity:.1f}; a round took {loop.first.sampling_s:.0f} s of sampling, "
        "{loop.first.judging_s:.0f} of judging, {loop.first.training_s:.0f} of training",
        lambda m: m.gain > 1.5 and m.loop.risen > 0.1 and m.loop.first.sampling_s + m.loop.first.judging_s > m.loop.first.training_s,
        "many answers at once are hardly faster, nothing is learned, or training takes more time than inference"),
    Row("4.52", "Recipes: train from scratch, or change an architecture and distil.",
        lambda: merge(conversions(), member=family("jamba").at),
        "multi-head attention (loss {loss[multi-head]:.3f}) changed and distilled for {steps} steps: Mamba-2 in 7 of 8 layers, which take "
        "over {taken[jamba-copied]:.0%} of the parameters, {loss[jamba-copied]:.3f}, from nothing {loss[jamba-nothing]:.3f}, by the text "
        "alone {loss[jamba-hard]:.3f}; windows and linear attention in turn {loss[based-copied]:.3f}, from nothing {loss[based-nothing]:.3f}",
        lambda m: m.wins > 0.05 and m.loss["jamba-copied"] < m.member["jamba"].loss, "a beginning from nothing learns as much in as many steps",
        where=(lambda m: m.wins > 0.05,
               "{steps} steps of distilling (one seed), against the same without the weights; trained from scratch by the text, with all the steps "
               "of its family, Mamba-2 with one layer of attention has a loss of {member[jamba].loss:.3f}")),
    Row("4.52b", "New architectures have huge potential.", potential,
        "of {n} small models whose mixers are not attention alone (Mamba-2, Based, Jamba), of equal size, text and steps, these have a "
        "lower loss than multi-head attention ({at[multi-head].loss:.3f}, {doubt} {noise:.3f}), a smaller memory at 8,192 tokens, and "
        "recall as much of 32 pairs: {better}; with less recall: {forget}",
        lambda m: m.some > 0, "none of {n} is better in all three", lacks="larger models: rows 4.16 to 4.26 are of a million parameters"),
    Row("4.53", "Lossy and lossless techniques must be told apart, and checked.",
        lambda: merge(certificate(), lossy=lossy(), each=told_apart()),
        "certificate: {cases} cases equal: {equal}; a cache in e4m3 instead of f16: {lossy.equal} of {lossy.pairs} texts "
        "equal, perplexity of the f16 texts {lossy.f16:.4f} and {lossy.e4m3:.4f}; KL of a token to its exact twin, mean and largest of "
        "{each.n}: {each.table}; settings that pass for lossless though they are not: {each.silent}; of {each.exact} exact settings with "
        "a KL above 0 or other hashes: {each.wrong}",
        lambda m: m.equal and m.lossy.f16 != m.lossy.e4m3 and m.each.all_told and m.each.all_exact,
        "they are not told apart: without a price {each.silent}, with one though exact {each.wrong}"),
    Row("4.54", "Sources: the scaling book, CS336.", untestable="sources make no claim; the lesson roofline-and-batch leads to them"),
]
