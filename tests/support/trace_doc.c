/* See trace_doc.h. */
#include "tests/support/trace_doc.h"

#include "trace/schema.h"

const struct trace_query trace_queries[] = {
	{ "How fast was it?",
		"SELECT sum(prefill_rows) AS prompt_rows, sum(tokens) AS tokens, sum(ns) / 1e9 AS "
		"seconds,\n"
		"       sum(tokens) FILTER (WHERE prefill_rows = 0) * 1e9 /\n"
		"       sum(ns) FILTER (WHERE prefill_rows = 0) AS decode_tokens_per_s\n"
		"FROM step;" },
	{ "Which steps were slow, and in which stage?",
		"SELECT step, round(ms, 2) AS ms, round(times_median, 1) AS times_median, rows, "
		"longest_stage\n"
		"FROM slow_steps LIMIT 10;" },
	{ "Where did the time go, and was it memory or arithmetic that bound it?",
		"SELECT stage, round(ms) AS ms, round(share, 3) AS share, round(gb_per_s, 1) AS gb_per_s,\n"
		"       round(ops_per_byte, 1) AS ops_per_byte\n"
		"FROM stage_times;" },
	{ "Where was the model least sure?",
		"SELECT request, pos, text, round(p, 3) AS p, round(entropy, 2) AS bits\n"
		"FROM tokens WHERE is_end IS NOT 1 ORDER BY entropy DESC LIMIT 20;" },
	{ "What else could have come there? (The race: the smallest arrival won.)",
		"SELECT rank, text, round(logit, 2) AS logit, round(tempered_p, 4) AS tempered_p, arrival, "
		"cut, drawn\n"
		"FROM candidates WHERE seq = (SELECT seq FROM token ORDER BY entropy DESC LIMIT 1);" },
	{ "Did speculation pay?",
		"SELECT a.*, (SELECT round(1.0 * sum(tokens) / sum(decode_rows), 2) FROM step\n"
		"             WHERE draft_rows > 0) AS tokens_a_row_with_drafts\n"
		"FROM acceptance a;" },
	{ "What did the prefix cache save, and why not more?",
		"SELECT reason, count(*) AS prompts, sum(asked) AS tokens, sum(hit) AS cached,\n"
		"       round(1.0 * sum(hit) / sum(asked), 3) AS rate\n"
		"FROM prefix_hits GROUP BY reason ORDER BY prompts DESC;" },
	{ "What is the story of the busiest KV page?",
		"SELECT page, round(t_ms, 1) AS t_ms, step, action, request, block, refs\n"
		"FROM page_history\n"
		"WHERE page = (SELECT page FROM page GROUP BY page ORDER BY count(*) DESC LIMIT 1);" },
	{ "How much attention goes to the first page, by layer, and how much of it is near zero?",
		"SELECT p.layer, round(avg(p.share) FILTER (WHERE p.page_of_sequence = 0), 3) AS "
		"first_page,\n"
		"       round((SELECT avg(z.share) FROM near_zero z WHERE z.layer = p.layer\n"
		"              AND z.seq > (SELECT max(seq) - 1000 FROM attention)), 3) AS near_zero\n"
		"FROM attention_pages p WHERE p.seq > (SELECT max(seq) - 1000 FROM attention)\n"
		"GROUP BY p.layer;" },
	{ "What memory did paging save, at its peak?",
		"SELECT step, running, pages_used, pages_shared, tail_waste_bytes, reserve_waste_bytes\n"
		"FROM step ORDER BY reserve_waste_bytes DESC LIMIT 1;" },
	{ NULL, NULL },
};

static const char introduction[] =
	"# The recording\n"
	"\n"
	"This file is made from the table of events in `event/event.h` (`build/tests/test_trace_doc "
	"--write`).\n"
	"\n"
	"A recording is one SQLite file. Every event of the session is one row, in the table named as "
	"its\n"
	"kind. `seq` numbers the events of a session over all tables, from 1; `t_ns` is the time since "
	"the\n"
	"session began. The rows of a step come before the row of `step` that closes it, so they are "
	"those\n"
	"whose `seq` lies between the `seq` of two steps. What a column does not know is NULL.\n"
	"\n"
	"The file explains itself: `.schema token` shows every column with its meaning, the table "
	"`doc` has\n"
	"the same as rows, and the table `code` the names of coded values.\n"
	"\n"
	"While a session is recorded, and after a crash, the newest rows are in `FILE-wal` beside the "
	"file;\n"
	"SQLite reads both as one. Rows are at most about 100 ms late. A session that ended in order "
	"is one\n"
	"file, with indexes, and its last row is in `closed`. It holds all that was said: only its "
	"owner may\n"
	"read it (mode 0600), unless the file was there, empty and with another mode, before it was "
	"begun.\n"
	"\n"
	"What is in the file after an accident:\n"
	"\n"
	"- **The program is killed** (also with SIGKILL): all events up to some moment, at most about "
	"100 ms\n"
	"  ago. `journal_mode` is WAL, and a transaction ends every 95 ms.\n"
	"- **The power goes off**: the same, because each transaction is synced after its commit\n"
	"  (`fdatasync` of the WAL, by the thread that writes, so that nothing waits for it). Where a "
	"sync is\n"
	"  slow it is done for a tenth of the time: lost is then up to ten times what one takes. "
	"`synchronous`\n"
	"  is NORMAL: a checkpoint syncs the WAL before it writes to the file, and the file before the "
	"WAL\n"
	"  begins anew. Before the first sync the file may be missing, empty or damaged; nothing is in "
	"it then.\n"
	"  The disk must keep what it says it has synced, and tear nothing smaller than a sector.\n"
	"- **The disk is full or fails**: all events up to there; the session goes on without the "
	"recording,\n"
	"  and says so.\n"
	"- **The file is deleted, moved or renamed**: the same, and what was moved is whole where it "
	"is.\n"
	"\n"
	"`tests/unit/trace/test_kill.c`, `tests/unit/trace/test_power.c` (a simulated disk), "
	"`tests/unit/trace/test_disk.c` and\n"
	"`tests/program/test_safe_files.py` hold it to that.\n"
	"\n"
	"## How to open it\n"
	"\n"
	"    sqlite3 -readonly -box FILE 'SELECT * FROM requests'      # also while it is being "
	"recorded\n"
	"    datasette FILE                                            # in a browser\n"
	"\n"
	"    import pandas, sqlite3                                    # as a data frame\n"
	"    db = sqlite3.connect('file:FILE?mode=ro', uri=True)\n"
	"    steps = pandas.read_sql('SELECT * FROM steps', db, index_col='step')\n"
	"\n"
	"Open it read-only while a session is recorded: before SQLite 3.51.3, two connections that "
	"write or\n"
	"checkpoint at once can damage a WAL. SQLite 3.37 or newer is needed (STRICT tables).\n"
	"\n"
	"## Packed columns\n"
	"\n"
	"Where a row has many values they are one blob, little-endian; the column says how. The views\n"
	"`candidates`, `sampler_stages`, `kernel_stages`, `attention_pages`, `near_zero` and "
	"`prompt_tokens`\n"
	"unpack them in SQL. In Python:\n"
	"\n"
	"```python\n"
	"import sqlite3, struct, sys\n"
	"\n"
	"db = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n"
	"\n"
	"# token.candidates: u32 id, f32 logit, f32 p, f32 arrival, u32 cut\n"
	"for pos, blob in db.execute('SELECT pos, candidates FROM token WHERE candidates NOT NULL'):\n"
	"    for id, logit, p, arrival, cut in struct.iter_unpack('<IfffI', blob):\n"
	"        print('candidate', pos, id, round(logit, 4), round(p, 4), cut)\n"
	"\n"
	"# token.stages: u32 tokens left, f32 mass left, f32 value of the drawn token\n"
	"for pos, blob in db.execute('SELECT pos, stages FROM token WHERE stages NOT NULL'):\n"
	"    for left, mass, value in struct.iter_unpack('<Iff', blob):\n"
	"        print('stage', pos, left, round(mass, 4), round(value, 4))\n"
	"\n"
	"# time.stages: 3 bytes with the sizes n, b, o; then each u8 stage, n bytes ns, b bytes bytes, "
	"o bytes operations\n"
	"name = dict(db.execute(\"SELECT value, name FROM code WHERE list = 'stage'\"))\n"
	"for step, blob in db.execute('SELECT step, stages FROM time WHERE stages NOT NULL'):\n"
	"    n, b, o = blob[:3]\n"
	"    for at in range(3, len(blob), 1 + n + b + o):\n"
	"        numbers = (blob[at + 1:at + 1 + n], blob[at + 1 + n:at + 1 + n + b], blob[at + 1 + n "
	"+ b:at + 1 + n + b + o])\n"
	"        ns, moved, ops = (int.from_bytes(x, 'little') for x in numbers)\n"
	"        print('kernels', step, name.get(blob[at]), ns, moved, ops)\n"
	"\n"
	"# attention.share: u8 [layers][pages], share = (v / 255)^2; near_zero: u16 [layers]\n"
	"for pos, pages, blob, zero in db.execute('SELECT pos, pages, share, near_zero FROM "
	"attention'):\n"
	"    for layer in range(len(blob) // pages):\n"
	"        row = [(v / 255) ** 2 for v in blob[layer * pages:(layer + 1) * pages]]\n"
	"        print('attention', pos, layer, round(row[0], 4),\n"
	"              round(struct.unpack_from('<H', zero, 2 * layer)[0] / 65535, 4))\n"
	"\n"
	"# request.prompt: u32 token ids; vocab.bytes: UTF-8, perhaps part of a character\n"
	"text = dict(db.execute('SELECT id, bytes FROM vocab'))\n"
	"for request, blob in db.execute('SELECT request, prompt FROM request WHERE prompt NOT "
	"NULL'):\n"
	"    ids = [id for id, in struct.iter_unpack('<I', blob)]\n"
	"    print('prompt', request, b''.join(text.get(id, b'?') for id in "
	"ids).decode(errors='replace'))\n"
	"```\n"
	"\n"
	"In SQL, the byte number i (from 0) of a blob b is\n"
	"\n"
	"```sql\n"
	"16 * instr('123456789ABCDEF', substr(hex(substr(b, i + 1, 1)), 1, 1))\n"
	"   + instr('123456789ABCDEF', substr(hex(substr(b, i + 1, 1)), 2, 1))\n"
	"```\n"
	"\n"
	"`hash` is a signed 64-bit integer; `printf('%016x', hash)` shows it as it is shown "
	"elsewhere.\n"
	"\n"
	"## Latency\n"
	"\n"
	"The view `latency` has these by request, the table `finish` most of them; screens and exports "
	"show the same.\n"
	"\n"
	"- **queue**: from the arrival of a request until it first has a slot. A pause of the engine "
	"counts, here and\n"
	"  in all that follows.\n"
	"- **TTFT**: from its arrival to its first token.\n"
	"- **ITL** (inter-token latency): between two consecutive tokens of a request, those that it "
	"ended with (not\n"
	"  what was rewound, nor tokens that the user put there). A step with speculation may give "
	"several tokens:\n"
	"  they come together, so the ones after the first have 0. A median of 0 says that at least "
	"half of the tokens came\n"
	"  with another; what a token costs on average is TPOT.\n"
	"- **TPOT** (time per output token): (e2e - TTFT) / (n - 1) of n tokens.\n"
	"- **e2e**: from its arrival to its end.\n"
	"\n"
	"Percentiles are by nearest rank: the least value that at least p percent do not exceed. Those "
	"of a request\n"
	"are exact. Those of a session on a screen are of all requests so far but given ones (score, "
	"verify) and\n"
	"branches' copies; e2e of those that ended by themselves. They are counted in buckets of 1/32 "
	"of a\n"
	"doubling, so they are within 1.6 % (`base/histogram.h`).\n"
	"\n";

static void add_queries(sqlite3_str *s)
{
	sqlite3_str_appendall(s, "## Ten queries worth asking\n\n");
	for (const struct trace_query *q = trace_queries; q->question; q++)
		sqlite3_str_appendf(s, "%s\n\n```sql\n%s\n```\n\n", q->question, q->sql);
}

static void add_views(sqlite3_str *s)
{
	sqlite3_str_appendall(s,
		"## Views\n\nThey have readable columns; `.schema VIEW` shows how each is made.\n\n"
		"| view | what it shows |\n| --- | --- |\n");
	for (const struct schema_view *v = schema_views; v->name; v++)
		sqlite3_str_appendf(s, "| `%s` | %s |\n", v->name, v->doc);
	sqlite3_str_appendall(s, "\n");
}

static void add_tables(sqlite3_str *s)
{
	static const char *const type[] = { "integer", "real", "text", "blob" };

	sqlite3_str_appendall(s,
		"## Tables\n\nEach has `seq` (integer, its key) and `t_ns` (integer, ns) before these "
		"columns. A unit in italics is a code list.\n\n");
	for (int k = 0; k < EV_N_KINDS; k++) {
		const struct ev_info *info = &ev_info[k];

		sqlite3_str_appendf(s,
			"### %s\n\n%s\n\n| column | type | unit | meaning |\n"
			"| --- | --- | --- | --- |\n",
			info->name, info->doc);
		for (int i = 0; i < info->n_fields; i++) {
			const struct ev_field *f = &info->fields[i];
			const char *mark = *ev_code_name(f->unit, 0) != '?' ? "*" : "";

			sqlite3_str_appendf(s, "| `%s` | %s | %s%s%s | %s |\n", f->name, type[f->type], mark,
				f->unit, mark, f->doc);
		}
		sqlite3_str_appendall(s, "\n");
	}
}

static void add_codes(sqlite3_str *s)
{
	const char *list = "";

	sqlite3_str_appendall(
		s, "## Code lists\n\nAlso in the table `code` (list, value, name, doc).\n");
	for (const struct ev_code *c = ev_codes; c->list; c++) {
		if (sqlite3_stricmp(c->list, list))
			sqlite3_str_appendf(
				s, "\n### %s\n\n| value | name | meaning |\n| --- | --- | --- |\n", c->list);
		list = c->list;
		sqlite3_str_appendf(s, "| %d | %s | %s |\n", c->value, c->name, c->doc);
	}
}

static void add_indexes(sqlite3_str *s)
{
	sqlite3_str_appendall(s,
		"\n## Indexes\n\nMade when a session ends in order; until then they would cost every "
		"row.\n\n| for | made by |\n| --- | --- |\n");
	for (const struct schema_index *i = schema_indexes; i->sql; i++) {
		char *sql = schema_sql(i->sql);

		sqlite3_str_appendf(s, "| %s | `%s` |\n", i->why, sql);
		sqlite3_free(sql);
	}
}

char *trace_doc(void)
{
	sqlite3_str *s = sqlite3_str_new(NULL);

	sqlite3_str_appendall(s, introduction);
	add_queries(s);
	add_views(s);
	add_tables(s);
	add_codes(s);
	add_indexes(s);
	return sqlite3_str_finish(s);
}
