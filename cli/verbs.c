/* The table of verbs and that of exit statuses. */
#include "cli/cli.h"

const struct verb verbs[] = {
	{"chat", "", "chat with a model and watch its insides (the default)",
	 "Opens the terminal program: the conversation beside live views of the next token, the KV "
	 "pages, the "
	 "batch, speculation, the prefix cache, attention, time and the sampler. The session is "
	 "recorded. F1 "
	 "explains whatever is on the screen.",
	 "cutaway chat --temp 0.7 --spec ngram:4", VERB_CHAT, 0, 0, verb_chat, NULL},
	{"run", "[PROMPT]", "one answer on standard output",
	 "Answers PROMPT, or standard input (without its last newline) if it is not given. On a pipe "
	 "the answer's bytes come as "
	 "they are; "
	 "on a terminal control characters are made visible. With --raw the text goes to the model "
	 "without a "
	 "chat template and control tokens written in it are parsed. With --json each generated token "
	 "is a "
	 "line, the one that ends the turn included: pos (of the token), id, text (complete characters "
	 "only, so "
	 "it may be empty), p (softmax before penalties and temperature) and hash (of the row of "
	 "logits it was "
	 "drawn from, 16 hex digits). With --batch the prompts are the lines of a file, and each answer is "
	 "a line of JSON, in the order in which they end: line (from 1), finish (end, length, stop, context "
	 "or refused), prompt and ids (token ids) and text. Line n draws with sample n - 1, so an answer "
	 "depends on its own line alone.",
	 "cutaway run --greedy 'List the first five prime numbers.'", VERB_RUN, 0, 1, verb_run, NULL},
	{"replay", "[FILE]", "play a recording on the same screens, no model needed",
	 "Shows a recorded session as if it ran: play, pause, step both ways, go to a step; without FILE the newest "
	 "recording. With --follow "
	 "it shows one that is being written, from another terminal or by another user whose file may be read, as it grows; End "
	 "goes back to its end. A model is loaded only for a deep look (/lens): the recorded file, where it was "
	 "recorded or where --model says, if its SHA-256 is the recorded one.",
	 "cutaway replay session.db", VERB_REPLAY, 0, 1, verb_replay,
	 "FILE"},
	{"tokenize", "", "standard input to token ids",
	 "Reads standard input byte for byte and writes its token ids, one a line. Control tokens "
	 "written in "
	 "the text are parsed unless --plain is given.",
	 "printf 'Hello' | cutaway tokenize --json", VERB_TOKENIZE, 0, 0, verb_tokenize, NULL},
	{"score", "FILE", "log-probability of each token of a text, perplexity",
	 "Log-probability (natural) of each token of FILE after the first, given those before it, and "
	 "the "
	 "perplexity of the whole. The text must fit the context.",
	 "cutaway score --json text.txt", VERB_SCORE, 1, 1, verb_score,
	 "FILE"},
	{"bench", "", "speed against the limits of this machine",
	 "Measures the engine as it is used, with recording on: medians of several runs. Takes a few "
	 "minutes at "
	 "most.",
	 "cutaway bench --json", VERB_BENCH, 0, 0, verb_bench, NULL},
	{"certify", "[MODEL …]", "the proof that all paths give the same bits",
	 "Computes the same tokens along each axis that must not matter (kernels and instruction sets, "
	 "threads, page size, order of pages, prefill chunks, size of the batch, row in it, "
	 "prefix cache, preemption, drafts, watching and recording), then in mixed cases until every "
	 "pair of values has met or time is up, and compares every id and every hash of logits. What "
	 "had no occasion to matter is said to be idle and does not count. Several models, one of each "
	 "weight format that matters to you, share the time. Exit status 0 only if all are equal.",
	 "cutaway certify --quick", VERB_CERTIFY, 0, CLI_MAX_OPERANDS, verb_certify,
	 "FILE"},
	{"cache", "[clear]", "the packed weights that are kept for faster starts",
	 "Lists the files of the cache of packed weights: model, layout, size, last use. A file is "
	 "written by chat and run for a model whose packing takes longer than a second, or by "
	 "--packed-cache on for any; together they have at most 32 GiB, and what was used longest ago "
	 "goes first. `cutaway cache clear` deletes them all.",
	 "cutaway cache clear", VERB_CACHE, 0, 1, verb_cache,
	 "clear"},
	{"why", "WHAT [WHERE]", "explain a decision from the recording alone",
	 "Answers from the log, without a model. WHAT is miss (why the prefix cache had not all of a "
	 "prompt), evict (why a cached page was dropped), preempt (why a request lost its pages), wait "
	 "(why a first token took its time), reject (why a drafted token was not kept), token (why this "
	 "token and not another) or slow (where the time of a step went). WHERE is a REQUEST for miss, "
	 "preempt and wait, a PAGE for evict, a STEP for slow, a POS or REQUEST:POS for reject and token; "
	 "without it, what is most worth asking.",
	 "cutaway why slow --file session.db", VERB_WHY, 1, 2, verb_why,
	 "miss evict preempt wait reject token slow"},
	{"export", "FILE", "a recording in the formats of other tools",
	 "Writes the recording FILE as perfetto (a JSON trace that ui.perfetto.dev opens as tracks of "
	 "requests, batch, kernel stages and pages), csv (one table, for spreadsheets), jsonl (every "
	 "event, packed columns unpacked), asciicast (the replay's screens as a terminal recording, for "
	 "asciinema) or html (one self-contained page with text, token colours, page map and charts, and "
	 "where the recording has them the tree of each search, attention by layer and page, and what each "
	 "drafter proposed and had accepted).",
	 "cutaway export session.db --to html -o session.html", VERB_EXPORT, 1, 1, verb_export,
	 "FILE"},
	{"whatif", "FILE", "the recorded requests under other settings, without the model",
	 "Runs the engine's own scheduler, prefix cache and drafter over the requests of the recording "
	 "FILE with the settings given, their tokens taken from the log: hits, pages, steps, preemptions "
	 "and recomputed tokens come out exactly, time is predicted from the recorded cost of steps. "
	 "--verify runs it for real as well, with the model, and says how far the prediction was off.",
	 "cutaway whatif session.db --page-size 64 --pages 40", VERB_WHATIF, 1, 1, verb_whatif,
	 "FILE"},
	{"verify", "FILE", "compute a recording again, compare every hash",
	 "Gives the recorded tokens of each request to a fresh engine, many rows at a time, and compares "
	 "the hash of every row of logits, and every token that the race or the best logit chose with its "
	 "probability. The model must be the recorded one (by its SHA-256). One line a request; of a "
	 "difference, which back ends of this machine give the recorded hash, and the first layer and stage "
	 "at which two of them part, with both values. Exit status 0 only if all are equal.",
	 "cutaway verify session.db", VERB_VERIFY, 1, 1, verb_verify,
	 "FILE"},
	{"diff", "A B", "two recordings: the first token that differs, and why",
	 "Lays the requests of two recordings side by side, matched by prompt and order. Of each pair that "
	 "parts: the first token that differs and its cause (the logits, a setting of the draw, a token that "
	 "the user put there, the prompt, the end of one), what each drew there, and how far they go apart "
	 "after it. --view shows both texts in columns: n and N go to the next and previous difference, [ "
	 "and ] to other requests, q quits. --deep loads the model and gives the divergence exactly. Exit "
	 "status 0 if all requests are equal, 1 if not.",
	 "cutaway diff --view monday.db tuesday.db", VERB_DIFF, 2, 2, verb_diff,
	 "FILE"},
	{"devices", "", "instruction sets and GPUs, and why one cannot be used",
	 "Lists the instruction sets of this processor that there are kernels for, best first (CUTAWAY_ISA=NAME "
	 "allows none better than NAME), and the devices of the CUDA driver: number, name, memory, multiprocessors, compute capability "
	 "and driver, whether this build has kernels for it, and if it cannot be used, why. Says for "
	 "which architectures the build has kernels. Exit status 0 whether or not there are any.",
	 "cutaway devices --json", VERB_DEVICES, 0, 0, verb_devices, NULL},
	{0},
};

const struct exit_code exit_codes[] = {
	{0, "all is well"},
	{ERR_DIFFERS, "a check ran and found a difference"},
	{ERR_USAGE, "the command line or a setting is wrong"},
	{ERR_INPUT, "a file is damaged or not supported"},
	{ERR_IO, "the system refused: missing file, full disk, permissions"},
	{ERR_MEMORY, "out of memory"},
	{ERR_DEVICE, "this machine cannot compute as it must"},
	{ERR_INTERRUPTED, "stopped by Ctrl-C"},
	{0, NULL},
};
