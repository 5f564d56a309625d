/* Fuzz target of the session reader: bytes as a file, opened and read to the end, with all that a
 * reader offers. FUZZ_OPTIONS: -max_len=65536 -malloc_limit_mb=2048
 *
 * The limit is wide because SQLite 3.40 checks the end of a value with 32 bits: one that wraps
 * around is given (untouched) memory of the size it claims before it is found to be damage. */
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trace/reader.h"

static char path[64];

static void forget_file(void)
{
	unlink(path);
}

static void store(const uint8_t *data, size_t size)
{
	FILE *f;

	if (!*path) {
		/* In memory where there is such a place: a fuzzer writes thousands of files a second. */
		snprintf(path, sizeof path, "%s/cutaway-fuzz-%d.db",
			access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
		atexit(forget_file);
	}
	f = fopen(path, "wb");
	FUZZ_CHECK(f && (!size || fwrite(data, 1, size, f) == size) && !fclose(f));
}

static void ignore_mark(void *arg, enum reader_mark kind, int64_t step)
{
	(void)arg;
	(void)kind;
	(void)step;
}

/* Looks at every byte of an event, so that a span outside its memory shows. */
static uint64_t sum_event(const struct event *ev)
{
	const char *member = (const char *)&ev->u;
	uint64_t sum = 0;

	for (int i = 0; i < ev_info[ev->kind].n_fields; i++) {
		const struct ev_span *span = (const void *)member;

		if (ev_info[ev->kind].fields[i].type >= EV_TYPE_T && span->data)
			for (size_t k = 0; k < span->size; k++)
				sum += ((const unsigned char *)span->data)[k];
		member += ev_field_size(ev_info[ev->kind].fields[i].type);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile uint64_t sum;
	struct reader *r;
	struct event ev;
	struct err e = { 0 };
	int64_t last = 0;

	store(data, size);
	if (reader_open(&r, path, &e))
		return 0;
	while (reader_next(r, &ev, &e) > 0) {
		FUZZ_CHECK(ev.seq > last);
		last = ev.seq;
		sum = sum + sum_event(&ev);
	}
	for (int64_t step = 0; step < 9; step++)
		reader_step_seq(r, step);
	reader_marks(r, 1, INT64_MAX, ignore_mark, NULL, &e);
	reader_close(r);
	return 0;
}
