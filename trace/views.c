/* Views and indexes of a recording. See schema.h.
 *
 * Plain SQL of SQLite 3.37, without its mathematical functions, so that any tool on the file can
 * run them. Packed bytes are read through hex(): instr() of a digit in '123456789ABCDEF' is its
 * value. A float is its mantissa times a power of two from a list with one row an exponent: exact,
 * because it only doubles. */
#include "trace/schema.h"

#define U4(h) "instr('123456789ABCDEF', " h ")"
#define U8(blob, at)                                                                               \
	"(16 * " U4("substr(hex(substr(" blob ", " at ", 1)), 1, 1)") " + " U4(                        \
		"substr(hex(substr(" blob ", " at ", 1)), 2, 1)") ")"
#define U16(blob, at) "(" U8(blob, at) " + 256 * " U8(blob, at " + 1") ")"
#define U32(blob, at) "(" U16(blob, at) " + 65536 * " U16(blob, at " + 2") ")"

/* Faster, for columns with millions of numbers: a byte's value is its index in b, the blob of all
 * bytes. Most upper halves are 0. */
#define BYTES                                                                                      \
	"bytes(b) AS (VALUES (x'"                                                                      \
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"                             \
	"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"                             \
	"404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"                             \
	"606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"                             \
	"808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"                             \
	"a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"                             \
	"c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"                             \
	"e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"                             \
	"'))"
#define BYTE(blob, at) "instr(b, substr(" blob ", " at ", 1))"
/* Decodes a number of w bytes; more than 4 are rare. */
#define DIGIT(k, scale, w, blob, at)                                                               \
	"CASE WHEN " w " > " k " THEN " scale " * (" BYTE(blob, at " + " k) " - 1) ELSE 0 END"
#define NUMBER(w, blob, at)                                                                        \
	"(" BYTE(blob, at) " - 1 + " DIGIT("1", "256", w, blob, at) " + " DIGIT(                       \
		"2", "65536", w, blob, at) " + " DIGIT("3", "16777216", w, blob,                           \
		at) "\n\t\t+ CASE WHEN " w " > 4 THEN " DIGIT("4", "(1 << 32)", w, blob,                   \
		at) " + " DIGIT("5", "(1 << 40)", w, blob, at) " + " DIGIT("6", "(1 << 48)", w, blob,      \
		at) " + " DIGIT("7", "(1 << 56)", w, blob, at) " ELSE 0 END)"

/* A row for each exponent of a 32-bit float and its power of two; 255 (NaN and infinity) has
 * none. */
#define EXPONENTS                                                                                  \
	"exponent(e, scale) AS (SELECT 0, 1.0 / (1 << 50) / (1 << 50) / (1 << 49)\n"                   \
	"\tUNION ALL SELECT e + 1, CASE e WHEN 0 THEN scale ELSE scale * 2 END FROM exponent\n"        \
	"\tWHERE e < 254)"
#define EXPONENT(u) "(" u " / 8388608 % 256)"
#define F32(u, x)                                                                                  \
	"(" u " % 8388608 + CASE " x ".e WHEN 0 THEN 0 ELSE 8388608 END) * " x ".scale"                \
	" * CASE " u " / 2147483648 WHEN 1 THEN -1 ELSE 1 END"
#define COUNT(name, below)                                                                         \
	name "(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM " name " WHERE i + 1 < " below ")"
#define CODE(list, column) "(SELECT name FROM code WHERE list = '" list "' AND value = " column ")"
#define STEP_OF(row) "(SELECT s.step FROM step s WHERE s.seq > " row ".seq ORDER BY s.seq LIMIT 1)"
#define KEPT(row) SCHEMA_KEPT(row, "")

/* A line of SQL is a line here. */
/* clang-format off */
const struct schema_view schema_views[] = {
	{ "tokens",
		"generated tokens with their text and readable columns",
		"SELECT t.seq, t.t_ns / 1e6 AS t_ms, t.step, t.request, t.pos, t.id,\n"
		"\tCAST(v.bytes AS TEXT) AS text, t.p, t.p_draw, t.entropy,\n"
		"\t" CODE("source", "t.source") " AS source, t.survivors, t.is_end,\n"
		"\tprintf('%016x', t.hash) AS hash\n"
		"FROM token t LEFT JOIN vocab v ON v.id = t.id" },
	{ "answers",
		"the text that each request generated",
		"SELECT request, count(*) AS tokens, group_concat(text, '') AS answer\n"
		"FROM (SELECT t.request, CAST(v.bytes AS TEXT) AS text\n"
		"\tFROM token t LEFT JOIN vocab v ON v.id = t.id\n"
		"\tWHERE t.is_end IS NOT 1 AND " KEPT("t") " ORDER BY t.request, t.pos)\n"
		"GROUP BY request" },
	{ "requests",
		"requests from arrival to end",
		"SELECT r.request, " CODE("request_kind", "r.kind") " AS kind, r.parent, r.text,\n"
		"\tcoalesce(r.n_prompt, f.prompt) AS n_prompt, f.hit AS prompt_cached,\n"
		"\tCASE WHEN f.request IS NULL THEN\n" /* it was cut off: its tokens are there */
		"\t\t(SELECT count(*) FROM token t WHERE t.request = r.request AND " KEPT("t") ")\n"
		"\t\tELSE f.generated END AS generated,\n"
		"\t" CODE("finish", "f.reason") " AS finish, f.why,\n"
		"\tr.t_ns / 1e6 AS arrival_ms,\n"
		"\t(SELECT a.waited_ns / 1e6 FROM admit a WHERE a.request = r.request\n"
		"\t\tORDER BY a.seq LIMIT 1) AS waited_ms,\n"
		"\tf.first_token_ns / 1e6 AS first_token_ms, f.total_ns / 1e6 AS total_ms,\n"
		"\tCASE WHEN f.generated > 1 THEN\n"
		"\t\t(f.generated - 1) * 1e9 / nullif(f.total_ns - f.first_token_ns, 0) END AS "
		"tokens_per_s\n"
		"FROM request r LEFT JOIN finish f ON f.request = r.request" },
	{ "latency",
		"latencies of each request, in milliseconds: see Latency. Exact: by nearest rank over the "
		"tokens it ended with",
		"WITH kept AS (SELECT t.request, t.seq, t.pos, t.step, t.source,\n"
		"\t\tcoalesce(t.ns, t.t_ns - lag(t.t_ns) OVER q) AS ns,\n"
		"\t\tlag(t.step) OVER q AS step_before, lag(t.source) OVER q AS source_before\n"
		"\tFROM token t WHERE " KEPT("t") "\n"
		"\tWINDOW q AS (PARTITION BY t.request ORDER BY t.seq)),\n"
		"gap AS (SELECT request, CASE WHEN step = step_before AND source_before <> "
		"{source.forced} THEN 0 ELSE ns END AS ns\n"
		"\tFROM kept WHERE step_before IS NOT NULL AND source NOT IN ({source.forced}, "
		"{source.taken}, {source.recorded}, {source.piece}, {source.carried})),\n"
		"ranked AS (SELECT request, ns, row_number() OVER (PARTITION BY request ORDER BY ns) AS "
		"rank,\n"
		"\tcount(*) OVER (PARTITION BY request) AS n FROM gap)\n"
		"SELECT r.request, f.generated AS tokens,\n"
		"\t(SELECT a.waited_ns / 1e6 FROM admit a WHERE a.request = r.request ORDER BY a.seq "
		"LIMIT 1) AS queue_ms,\n"
		"\tf.first_token_ns / 1e6 AS ttft_ms,\n"
		"\t(SELECT k.ns / 1e6 FROM ranked k WHERE k.request = r.request AND k.rank = (k.n + 1) / "
		"2) AS itl_p50_ms,\n"
		"\t(SELECT k.ns / 1e6 FROM ranked k WHERE k.request = r.request AND k.rank = (99 * k.n + "
		"99) / 100) AS itl_p99_ms,\n"
		"\tCASE WHEN f.generated > 1 THEN\n"
		"\t\t(f.total_ns - f.first_token_ns) / 1e6 / (f.generated - 1) END AS tpot_ms,\n"
		"\tf.total_ns / 1e6 AS e2e_ms\n"
		"FROM request r LEFT JOIN finish f ON f.request = r.request" },
	{ "prices",
		"what the lossy settings cost each answer, by its exact twin; exp(-mean_logp) is the "
		"perplexity of what was drawn",
		"SELECT request, count(*) AS tokens, avg(kl) AS mean_kl, max(kl) AS max_kl,\n"
		"\tsum(best = exact_best) AS best_equal, sum(rank = 1) AS first_rank,\n"
		"\tavg(logp) AS mean_logp, avg(exact_logp) AS exact_mean_logp\n"
		"FROM price p WHERE " KEPT("p") " GROUP BY request" },
	{ "prompt_tokens",
		"the prompt of each request, token by token",
		/* in parts, since each substr() of a column reads all of it */
		"WITH RECURSIVE " COUNT("n", "256") ",\n"
		"part(request, at, ids, rest) AS (\n"
		"\tSELECT request, 0, substr(prompt, 1, 1024), substr(prompt, 1025) FROM request\n"
		"\tUNION ALL SELECT request, at + 256, substr(rest, 1, 1024), substr(rest, 1025)\n"
		"\tFROM part WHERE length(rest) ORDER BY 1, 2)\n"
		"SELECT p.request, p.pos, p.id, CAST(v.bytes AS TEXT) AS text\n"
		"FROM (SELECT q.request, q.at + n.i AS pos, " U32("q.ids", "4 * n.i + 1") " AS id\n"
		"\tFROM part q CROSS JOIN n ON n.i < length(q.ids) / 4) p\n"
		"LEFT JOIN vocab v ON v.id = p.id" },
	{ "candidates",
		"the best tokens before each draw and the drawn one; tempered_p: after penalties and "
		"temperature, before the cuts; arrival is NULL where one was cut, rank where it is not "
		"known",
		"WITH RECURSIVE " COUNT("n", "32") ",\n"
		EXPONENTS "\n"
		"SELECT c.seq, c.step, c.request, c.pos,\n"
		"\tCASE WHEN c.id = c.drawn AND (c.bound OR c.i IN (7, c.n - 1)) THEN c.rank\n"
		"\t\tWHEN c.i < 8 AND NOT c.bound THEN c.i + 1 END AS rank,\n"
		"\tc.id, CAST(v.bytes AS TEXT) AS text,\n"
		"\t" F32("c.logit", "l") " AS logit,\n"
		"\t" F32("c.p", "q") " AS tempered_p,\n"
		"\t" F32("c.arrival", "a") " AS arrival,\n"
		"\t" CODE("cut", "c.cut") " AS cut, c.id = c.drawn AS drawn\n"
		"FROM (SELECT t.seq, t.step, t.request, t.pos, t.id AS drawn, t.rank, n.i, "
		"length(t.candidates) / 20 AS n, coalesce(length(t.stages), 0) > 72 AS bound,\n"
		"\t\t" U32("t.candidates", "20 * n.i + 1") " AS id,\n"
		"\t\t" U32("t.candidates", "20 * n.i + 5") " AS logit,\n"
		"\t\t" U32("t.candidates", "20 * n.i + 9") " AS p,\n"
		"\t\t" U32("t.candidates", "20 * n.i + 13") " AS arrival,\n"
		"\t\t" U32("t.candidates", "20 * n.i + 17") " AS cut\n"
		"\tFROM token t CROSS JOIN n ON n.i < length(t.candidates) / 20) c\n"
		"LEFT JOIN exponent l ON l.e = " EXPONENT("c.logit") "\n"
		"LEFT JOIN exponent q ON q.e = " EXPONENT("c.p") "\n"
		"LEFT JOIN exponent a ON a.e = " EXPONENT("c.arrival") "\n"
		"LEFT JOIN vocab v ON v.id = c.id" },
	{ "sampler_stages",
		"what each stage of the sampler left, token by token",
		"WITH RECURSIVE n(i, stage) AS (VALUES (0, 'penalties'), (1, 'temperature'), (2, "
		"'top_k'),\n"
		"\t(3, 'top_p'), (4, 'min_p'), (5, 'logit_bias'), (6, 'grammar')),\n"
		EXPONENTS "\n"
		"SELECT c.seq, c.step, c.request, c.pos, c.id, c.stage, c.tokens_left,\n"
		"\t" F32("c.mass", "m") " AS mass_left,\n"
		"\t" F32("c.value", "w") " AS value\n"
		"FROM (SELECT t.seq, t.step, t.request, t.pos, t.id, n.i, n.stage,\n"
		"\t\t" U32("t.stages", "12 * n.i + 1") " AS tokens_left,\n"
		"\t\t" U32("t.stages", "12 * n.i + 5") " AS mass,\n"
		"\t\t" U32("t.stages", "12 * n.i + 9") " AS value\n"
		"\tFROM token t CROSS JOIN n ON n.i < length(t.stages) / 12) c\n"
		"LEFT JOIN exponent m ON m.e = " EXPONENT("c.mass") "\n"
		"LEFT JOIN exponent w ON w.e = " EXPONENT("c.value") },
	{ "drafts",
		"drafted tokens with their texts, and their verdicts",
		"SELECT d.seq, d.step, d.request, d.pos, d.nth, d.parent, d.depth, d.drafter, "
		"CAST(v.bytes AS TEXT) AS drafted,\n"
		"\t" CODE("verdict", "d.verdict") " AS verdict, CAST(w.bytes AS TEXT) AS winner,\n"
		"\t" CODE("rule", "d.rule") " AS rule, d.q, d.p, d.arrival, d.winner_arrival,\n"
		"\t" CODE("verdict", "d.other") " AS other_rule_says\n"
		"FROM draft d LEFT JOIN vocab v ON v.id = d.id LEFT JOIN vocab w ON w.id = d.winner" },
	{ "acceptance",
		"how often drafts were accepted, by drafter and tokens ahead: of the positions at which a "
		"guess was verified, " "several for one position being one chance, those at which one was "
		"kept",
		"SELECT drafter, ahead, sum(nodes) AS drafted, sum(verified) AS verified, sum(accepted) AS "
		"accepted,\n"
		"\tround(1.0 * sum(accepted) / nullif(sum(verified), 0), 4) AS rate\n"
		"FROM (SELECT drafter, depth AS ahead, count(*) AS nodes, max(verdict <> "
		"{verdict.discarded}) AS verified,\n"
		"\t\tmax(verdict = {verdict.accepted}) AS accepted FROM draft GROUP BY step, request, "
		"drafter, depth)\n"
		"GROUP BY drafter, ahead" },
	{ "prefix_hits",
		"what of each prompt the prefix cache had, and why the match ended there",
		"SELECT l.request, l.asked, l.hit, l.hit_pages, round(1.0 * l.hit / nullif(l.asked, 0), "
		"4) AS rate,\n"
		"\t" CODE("prefix", "l.reason") " AS reason, l.nearest, l.diverge_pos,\n"
		"\tCAST(e.bytes AS TEXT) AS expected, CAST(g.bytes AS TEXT) AS got\n"
		"FROM lookup l LEFT JOIN vocab e ON e.id = l.expected LEFT JOIN vocab g ON g.id = l.got" },
	{ "page_history",
		"what happened to each KV page, in order",
		"SELECT p.page, p.seq, p.t_ns / 1e6 AS t_ms, " STEP_OF("p") " AS step,\n"
		"\t" CODE("page_action", "p.action") " AS action, p.request, p.block, p.refs, p.cached, "
		"p.other\n"
		"FROM page p ORDER BY p.page, p.seq" },
	{ "steps",
		"steps with rates: operations and bytes are counted, times measured",
		"SELECT s.step, s.seq, s.t_ns / 1e6 AS t_ms, s.ns / 1e6 AS ms, s.kernel_ns / 1e6 AS "
		"kernel_ms,\n"
		"\ts.drafters_ns / 1e6 AS drafters_ms, s.run_delay_ns / 1e6 AS run_delay_ms,\n"
		"\ts.rows, s.prefill_rows, s.decode_rows, s.draft_rows, s.tokens, s.accepted, s.rejected,\n"
		"\ts.running, s.waiting, s.pages_used, s.evicted,\n"
		"\ts.tokens * 1e9 / nullif(s.ns, 0) AS tokens_per_s,\n"
		"\t1.0 * s.bytes / nullif(s.kernel_ns, 0) AS gb_per_s,\n"
		"\t1.0 * s.ops / nullif(s.bytes, 0) AS ops_per_byte,\n"
		"\ts.bytes * 1e9 / nullif(s.kernel_ns, 0) /\n"
		"\t\tcoalesce((SELECT max(CAST(value AS REAL)) * 1e9 FROM setting WHERE name = 'roof' AND "
		"value > '0'),\n"
		"\t\t\t(SELECT read_bandwidth FROM session)) AS of_read_bandwidth\n"
		"FROM step s" },
	{ "kernel_stages",
		"time, bytes and operations of each kernel stage, step by step",
		"WITH RECURSIVE " COUNT("n", "32") ",\n"
		BYTES ",\n"
		"width(seq, step, stages, ns, bytes, ops) AS (SELECT seq, step, stages, "
		"" BYTE("stages", "1") " - 1,\n"
		"\t" BYTE("stages", "2") " - 1, " BYTE("stages", "3") " - 1 FROM bytes CROSS JOIN time)\n"
		"SELECT t.seq, t.step, " CODE("stage", BYTE("t.stages", "t.at") " - 1") " AS stage,\n"
		"\t" NUMBER("t.ns", "t.stages", "t.at + 1") " AS ns,\n"
		"\t" NUMBER("t.bytes", "t.stages", "t.at + 1 + t.ns") " AS bytes,\n"
		"\t" NUMBER("t.ops", "t.stages", "t.at + 1 + t.ns + t.bytes") " AS ops\n"
		"FROM (SELECT w.*, b, 4 + n.i * (1 + w.ns + w.bytes + w.ops) AS at FROM bytes CROSS JOIN "
		"width w\n"
		"\tCROSS JOIN n ON w.ns > 0 AND n.i < (length(w.stages) - 3) / (1 + w.ns + w.bytes + "
		"w.ops)) t" },
	{ "slow_steps",
		"steps, the slowest first, with the stage that took longest",
		"SELECT s.step, s.ms, s.ms / (SELECT ns / 1e6 FROM step ORDER BY ns\n"
		"\t\tLIMIT 1 OFFSET (SELECT count(*) / 2 FROM step)) AS times_median,\n"
		"\ts.kernel_ms, s.drafters_ms, s.rows, s.prefill_rows, s.draft_rows, s.gb_per_s, "
		"s.ops_per_byte,\n"
		"\t(SELECT t.stage FROM kernel_stages t WHERE t.seq < s.seq\n"
		"\t\tAND t.seq > coalesce((SELECT max(b.seq) FROM step b WHERE b.seq < s.seq), 0)\n"
		"\t\tORDER BY t.ns DESC LIMIT 1) AS longest_stage\n"
		"FROM steps s ORDER BY s.ms DESC" },
	{ "stage_times",
		"where the time of the kernels went",
		"SELECT stage, sum(ns) / 1e6 AS ms, 1.0 * sum(ns) / sum(sum(ns)) OVER () AS share,\n"
		"\t1.0 * sum(bytes) / nullif(sum(ns), 0) AS gb_per_s,\n"
		"\t1.0 * sum(ops) / nullif(sum(ns), 0) AS gop_per_s,\n"
		"\t1.0 * sum(ops) / nullif(sum(bytes), 0) AS ops_per_byte\n"
		"FROM kernel_stages GROUP BY stage ORDER BY sum(ns) DESC" },
	{ "attention_pages",
		"share of attention by layer and page, mean of the heads",
		"WITH RECURSIVE " COUNT("n", "8192") "\n"
		"SELECT a.seq, a.step, a.request, a.pos, l.i AS layer, n.i AS page_of_sequence,\n"
		"\t" U8("a.share", "l.i * a.pages + n.i + 1") " * " U8("a.share", "l.i * a.pages + n.i + "
		"1") " / 65025.0 AS share\n"
		"FROM attention a CROSS JOIN n l ON l.i < length(a.share) / a.pages\n"
		"\tCROSS JOIN n ON n.i < a.pages" },
	{ "near_zero",
		"share of attention values below the threshold, by layer",
		"WITH RECURSIVE " COUNT("n", "1024") "\n"
		"SELECT a.seq, a.step, a.request, a.pos, n.i AS layer, a.threshold,\n"
		"\t" U16("a.near_zero", "2 * n.i + 1") " / 65535.0 AS share\n"
		"FROM attention a CROSS JOIN n ON n.i < length(a.near_zero) / 2" },
	{ "near_zero_values",
		"values of an observed row that are near zero, by layer: see codes `sparse`",
		"WITH RECURSIVE " COUNT("l", "1024") ",\n"
		COUNT("k", "11") "\n"
		"SELECT a.seq, a.step, a.request, a.pos, l.i AS layer, " CODE("sparse", "k.i") " AS what, "
		"a.since, a.rows, a.mark,\n"
		"\tnullif(" U16("a.share", "22 * l.i + 2 * k.i + 1") ", 65535) / 65534.0 AS share\n"
		"FROM sparsity a CROSS JOIN l ON l.i < length(a.share) / 22 CROSS JOIN k" },
	{ "expert_use",
		"experts of a watched row, by layer: its weights, and how many of the rows used each",
		"WITH RECURSIVE " COUNT("l", "1024") ",\n"
		COUNT("k", "1024") "\n"
		"SELECT a.seq, a.step, a.request, a.pos, l.i AS layer, k.i AS expert,\n"
		"\t" U8("a.chosen", "a.experts * l.i + k.i + 1") " / 255.0 AS weight,\n"
		"\t" U16("a.load", "2 * (a.experts * l.i + k.i) + 1") " / 65535.0 AS share, a.rows\n"
		"FROM experts a CROSS JOIN l ON l.i < length(a.entropy) / 4 CROSS JOIN k ON k.i < "
		"a.experts" },
	{ "layer_states",
		"recurrent layers of a watched row: half-lives of their heads in tokens (absent: "
		"infinite), and the length of the state",
		"WITH RECURSIVE " COUNT("l", "1024") ",\n"
		EXPONENTS "\n"
		"SELECT c.seq, c.step, c.request, c.pos, c.layer, c.heads, c.taps, "
		"" F32("c.least", "x") " AS shortest,\n"
		"\t" F32("c.middle", "y") " AS median, " F32("c.most", "z") " AS longest, "
		"" F32("c.size", "w") " AS norm\n"
		"FROM (SELECT s.seq, s.step, s.request, s.pos, l.i AS layer, " U32("s.heads", "4 * l.i + "
		"1") " AS heads,\n"
		"\t\t" U32("s.taps", "4 * l.i + 1") " AS taps, " U32("s.half_life", "64 * l.i + 1") " AS "
		"least,\n"
		"\t\t" U32("s.half_life", "64 * l.i + 33") " AS middle, " U32("s.half_life", "64 * l.i + "
		"61") " AS most,\n"
		"\t\t" U32("s.norm", "4 * l.i + 1") " AS size\n"
		"\tFROM state s CROSS JOIN l ON l.i < length(s.heads) / 4) c\n"
		"LEFT JOIN exponent x ON x.e = " EXPONENT("c.least") " LEFT JOIN exponent y ON y.e = "
		"" EXPONENT("c.middle") "\n"
		"LEFT JOIN exponent z ON z.e = " EXPONENT("c.most") " LEFT JOIN exponent w ON w.e = "
		"" EXPONENT("c.size") "\n"
		"WHERE c.heads OR c.taps" },
	{ "pages_read",
		"share of a page's keys that a row read, over all layers and heads, where that is not all",
		"WITH RECURSIVE " COUNT("n", "8192") "\n"
		"SELECT a.seq, a.step, a.request, a.pos, n.i AS page_of_sequence,\n"
		"\t" U8("a.read", "n.i + 1") " / 255.0 AS share\n"
		"FROM attention a CROSS JOIN n ON n.i < length(a.read)" },
	{ "denoised",
		"masks of diffusion models' answers: what each step proposed, and what it fixed",
		"WITH RECURSIVE " COUNT("n", "1024") ",\n"
		EXPONENTS "\n"
		"SELECT c.seq, c.step, c.request, c.nth, c.pos, c.id, CAST(v.bytes AS TEXT) AS text,\n"
		"\t" F32("c.p", "q") " AS p,\n\t" F32("c.entropy", "b") " AS entropy, c.fixed\n"
		"FROM (SELECT d.seq, d.step, d.request, d.nth,\n"
		"\t\t" U32("d.cells", "20 * n.i + 1") " AS pos,\n"
		"\t\t" U32("d.cells", "20 * n.i + 5") " AS id,\n"
		"\t\t" U32("d.cells", "20 * n.i + 9") " AS p,\n"
		"\t\t" U32("d.cells", "20 * n.i + 13") " AS entropy,\n"
		"\t\t" U32("d.cells", "20 * n.i + 17") " AS fixed\n"
		"\tFROM denoise d CROSS JOIN n ON n.i < length(d.cells) / 20) c\n"
		"LEFT JOIN exponent q ON q.e = " EXPONENT("c.p") "\n"
		"LEFT JOIN exponent b ON b.e = " EXPONENT("c.entropy") "\n"
		"LEFT JOIN vocab v ON v.id = c.id" },
	{ "settings",
		"settings as they stand at the end; setting has every change",
		"SELECT name, value, max(seq) AS since_seq FROM setting GROUP BY name" },
	{ NULL, NULL, NULL },
};
/* clang-format on */

const struct schema_index schema_indexes[] = {
	{ "CREATE INDEX step_step ON step(step)", "a step by its number" },
	{ "CREATE INDEX token_place ON token(request, pos)", "a request's tokens in order" },
	{ "CREATE INDEX vocab_id ON vocab(id)", "the text of a token" },
	{ "CREATE INDEX request_request ON request(request)", "a request by its number" },
	{ "CREATE INDEX finish_request ON finish(request)", "how a request ended" },
	{ "CREATE INDEX page_page ON page(page)", "the story of a page" },
	{ "CREATE INDEX page_evicted ON page(seq) WHERE action = {page_action.evict}",
		"marks of evictions" },
	{ "CREATE INDEX draft_rejected ON draft(seq) WHERE verdict = {verdict.rejected}",
		"marks of rejected drafts" },
	{ NULL, NULL },
};
