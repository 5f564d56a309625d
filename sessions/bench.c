/* bench: see bench.h. Sets up an engine that records, runs what was asked for, and clears up. Thread: the
 * caller's, with the engine's pool and the log writer beside it. */
#include "sessions/bench_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/gguf.h"

static double resident_bytes(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

/* ---- setting up ---- */

/* Opens an engine and asks it for one token: seconds until it was open, and until the token. */
static int time_start(const struct engine_options *o, double *opened, double *token, struct err *e)
{
	static const char text[] = "The captain wrote that the wind had turned to the north, and that";
	struct bench_stage stage[BENCH_N_PHASES][EV_N_stage];
	struct bench b = {.stage = stage};
	size_t n = 0, cap = 0;
	memset(stage, 0, sizeof stage);
	double start = bench_now();
	if (engine_open(&b.engine, o, e))
		return -1;
	*opened = bench_now() - start;
	int status = engine_add_sink(b.engine, bench_on_event, &b);
	engine_begin(b.engine, NULL);
	status = status || tokenizer_encode(engine_tokenizer(b.engine), text, sizeof text - 1, false,
										&b.ids, &n, &cap, e);
	if (!status && n > 16)
		n = 16;
	status = status || bench_submit(&b, 0, (int32_t)n, 1, true, e) < 0 || bench_step_until(&b, 1, e);
	*token = bench_now() - start;
	engine_close(b.engine);
	free(b.ids);
	return status ? -1 : 0;
}

static int measure_start(const struct engine_options *o, struct bench_report *r, struct err *e)
{
	struct samples opened = {.n = 0}, token = {.n = 0};
	struct engine_options plain = *o;
	double end = bench_now() + 4, a, c;
	plain.measure = false;
	do {
		if (time_start(&plain, &a, &c, e))
			return -1;
		bench_add(&opened, 1e3 * a);
		bench_add(&token, 1e3 * c);
	} while (bench_now() < end && opened.n < 5);
	r->start_ms = bench_figure(&opened);
	r->start_to_first_token_ms = bench_figure(&token);
	return 0;
}

/* Bytes of the file's weights that one decoded token needs: all tensors but an embedding of which
 * only one row is read. */
static int count_weights(const char *model, double *bytes, struct err *e)
{
	struct gguf *g = NULL;
	if (gguf_open(&g, model, e))
		return -1;
	bool tied = !gguf_find(g, "output.weight");
	*bytes = 0;
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		if (tied || strcmp(t->name, "token_embd.weight"))
			*bytes += (double)t->bytes;
	}
	gguf_close(g);
	return 0;
}

static int make_text(struct bench *b, struct err *e)
{
	char part[400];
	size_t cap = 0;
	for (int i = 0; b->n_ids < DEEP + 5 * N_BATCH; i++) {
		int n = snprintf(
			part, sizeof part,
			"Chapter %d. On day %d of the voyage the captain wrote that the wind had turned to "
			"the north, that %d barrels of water were left, and that nobody on board could say "
			"how far the coast was. The cook made soup. The stars, she added, were very clear.\n",
			i + 1, 3 * i + 2, 90 - i);
		if (tokenizer_encode(engine_tokenizer(b->engine), part, (size_t)n, false, &b->ids,
							 &b->n_ids, &cap, e))
			return -1;
	}
	return 0;
}

static int open_recording(struct bench *b, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	if (!tmp || !*tmp || strlen(tmp) > sizeof b->folder - 32)
		tmp = "/tmp";
	snprintf(b->folder, sizeof b->folder, "%s/cutaway-bench.XXXXXX", tmp);
	if (!mkdtemp(b->folder)) {
		b->folder[0] = 0;
		return err_set(e, ERR_IO, "%s: no folder for a recording could be made there", tmp);
	}
	snprintf(b->file, sizeof b->file, "%s/bench.db", b->folder);
	return ring_open(&b->ring, RING_BYTES, e) || writer_open(&b->writer, b->file, b->ring, e) ? -1
																							  : 0;
}

static int open_all(struct bench *b, const struct engine_options *o, struct err *e)
{
	if (engine_open(&b->engine, o, e) || make_text(b, e) || open_recording(b, e))
		return -1;
	if (engine_add_sink(b->engine, bench_on_event, b))
		return err_set(e, ERR_MEMORY, "bench: the engine takes no sink");
	b->recording = true;
	engine_begin(b->engine, NULL);
	b->token_s = 0.1;
	const char *limit;
	double share;
	b->read_rate = b->int_rate = 1;
	b->token_s = bench_time_decode(b, 16, 16, 1, &share, &limit, e); /* warms up, and says how long runs may be */
	return b->token_s < 0 ? -1 : 0;
}

static int close_all(struct bench *b, struct err *e)
{
	static const char *const tail[] = {"", "-wal", "-shm", "-journal", ".lock"};
	int status = 0;
	engine_close(b->engine);
	if (b->writer && writer_close(b->writer, e))
		status = -1;
	if (b->ring)
		ring_close(b->ring);
	for (size_t i = 0; *b->folder && i < sizeof tail / sizeof *tail; i++) {
		char path[576];
		snprintf(path, sizeof path, "%s%s", b->file, tail[i]);
		unlink(path);
	}
	if (*b->folder)
		rmdir(b->folder);
	free(b->ids);
	return status;
}

static void say(struct bench *b, const char *what)
{
	if (b->tell)
		b->tell(b->arg, what);
}

static int run_decode(struct bench *b, struct bench_report *r, struct err *e)
{
	if (bench_measure_decode(b, 16, 1, 15, 9, &r->decode_tok_s, e))
		return -1;
	double token = r->weight_bytes / b->read_rate;
	r->bandwidth_fraction = r->decode_tok_s;
	r->bandwidth_fraction.median *= token;
	r->bandwidth_fraction.low *= token;
	r->bandwidth_fraction.high *= token;
	r->bandwidth_fraction.limit = NULL;
	r->rss_bytes = bench_single(resident_bytes());
	return 0;
}

static int run_first(struct bench *b, struct bench_report *r, struct err *e)
{
	if (bench_measure_first(b, FIRST, 6, &r->prefill64_tok_s, e))
		return -1;
	const struct bench_figure *f = &r->prefill64_tok_s;
	r->ttft_ms = *f;
	r->ttft_ms.median = 1e3 * FIRST / f->median;
	r->ttft_ms.low = 1e3 * FIRST / f->high;
	r->ttft_ms.high = 1e3 * FIRST / f->low;
	return 0;
}

static int run_prefill(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_first(b, PREFILL, 12, &r->prefill_tok_s, e);
}

static int run_deep(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_decode(b, DEEP, 1, 12, 7, &r->decode_1k_tok_s, e);
}

static int run_batch8(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_decode(b, 16, 8, 9, 5, &r->batch8_tok_s, e);
}

static int run_batch16(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_decode(b, 16, N_BATCH, 12, 5, &r->batch16_tok_s, e);
}

static int run_cost4(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_cost4(b, 8, &r->cost4, e);
}

static int run_spec(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_spec(b, 12, &r->spec_speedup, e);
}

static int run_recording(struct bench *b, struct bench_report *r, struct err *e)
{
	return bench_measure_recording(b, 24, &r->record_percent, e);
}

/* In this order; memory is measured before the pages of the others are touched. */
static const struct {
	const char *what;
	const char *figures; /* that come of it, each with a blank on either side */
	int (*run)(struct bench *b, struct bench_report *r, struct err *e);
} measurements[] = {
	{"decoding", " decode_tok_s bandwidth_fraction rss_bytes ", run_decode},
	{"first token", " ttft_ms prefill64_tok_s ", run_first},
	{"prefill", " prefill_tok_s ", run_prefill},
	{"decoding 1,024 tokens deep", " decode_1k_tok_s ", run_deep},
	{"a batch of 8", " batch8_tok_s ", run_batch8},
	{"a batch of 16", " batch16_tok_s ", run_batch16},
	{"steps of 4 rows", " cost4 ", run_cost4},
	{"text that repeats itself", " spec_speedup ", run_spec},
	{"the cost of recording", " record_percent ", run_recording},
};

static bool wanted(const char *figures, const char *only)
{
	char word[64];
	snprintf(word, sizeof word, " %s ", only ? only : "");
	return !only || strstr(figures, word);
}

static int measure_all(struct bench *b, const char *only, struct bench_report *r, struct err *e)
{
	for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++) {
		if (!wanted(measurements[i].figures, only))
			continue;
		say(b, measurements[i].what);
		if (measurements[i].run(b, r, e))
			return -1;
	}
	return 0;
}

bool bench_knows(const char *name)
{
#define X(figure, unit, form, doc)                                                                 \
	if (!strcmp(name, #figure))                                                                    \
		return true;
	BENCH_FIGURES(X)
#undef X
	return false;
}

int bench_run(const struct engine_options *o, const char *only,
			  void (*tell)(void *arg, const char *what), void *arg, struct bench_report *out,
			  struct err *e)
{
	struct engine_options used = *o;
	struct bench b = {.tell = tell, .arg = arg, .stage = out->stage};
	memset(out, 0, sizeof *out);
	if (only && !bench_knows(only))
		return err_set(e, ERR_USAGE, "bench has no figure of this name: see `cutaway bench`");
#define X(name, unit, form, doc) out->name = (struct bench_figure){NAN, NAN, NAN, 0, NAN, NULL};
	BENCH_FIGURES(X)
#undef X
	used.slots = used.slots < N_BATCH ? N_BATCH : used.slots;
	used.pages = used.pages ? used.pages : 8192 / used.page_size;
	used.spec = "off";
	used.measure = true;
	say(&b, "starting");
	if (count_weights(o->model, &out->weight_bytes, e))
		return -1;
	if (wanted(" start_ms start_to_first_token_ms ", only) && measure_start(&used, out, e))
		return -1;
	int status = open_all(&b, &used, e);
	if (!status) {
		out->info = *engine_info(b.engine);
		snprintf(out->isa, sizeof out->isa, "%s", out->info.isa);
		snprintf(out->backend, sizeof out->backend, "%s", out->info.backend);
		b.read_rate = out->info.read_bandwidth;
		b.int_rate = 2 * engine_measure_int(b.engine);
		memset(out->stage, 0, sizeof out->stage);
		out->read_gb_s = bench_single(b.read_rate / 1e9);
		out->int_gmac_s = bench_single(b.int_rate / 2e9);
		status = measure_all(&b, only, out, e);
	}
	if (close_all(&b, e))
		status = -1;
	return status ? -1 : 0;
}
