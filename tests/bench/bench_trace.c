/* What recording costs: microseconds a row and a step, bytes a step. Not part of `make test`.
 *
 *     build/tests/bench_trace [steps] [file to keep]
 *
 * Writes decode steps like those of a 30-layer model with everything recorded, 1,024 tokens
 * deep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/random_event.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/ring.h"
#include "trace/writer.h"

enum { LAYERS = 30, PAGES = 64 };

struct maker {
	uint64_t random;
	int64_t seq, step;
	ev_sink *sink;
	void *arg;
	unsigned char share[LAYERS * PAGES], near_zero[LAYERS * 2];
	struct ev_candidate candidates[8];
	struct ev_stage stages[EV_N_STAGES];
};

static void emit(struct maker *m, struct event *ev)
{
	ev->seq = ++m->seq;
	ev->t_ns = m->step * 5000000 + m->seq;
	m->sink(m->arg, ev);
}

static void make_token(struct maker *m)
{
	struct event ev;
	struct ev_token *t = &ev.u.token;

	ev_init(&ev, EV_token);
	*t = (struct ev_token){ .step = m->step,
		.request = 1,
		.pos = m->step,
		.id = (int64_t)(random_u64(&m->random) % 49152) };
	t->p = .3 + 1e-9 * (double)m->step;
	t->p_draw = .4 + 1e-9 * (double)m->step;
	t->entropy = 2.1 + 1e-9 * (double)m->step;
	t->hash = (int64_t)random_u64(&m->random);
	t->survivors = 12;
	for (int i = 0; i < 8; i++)
		m->candidates[i] = (struct ev_candidate){ (uint32_t)random_u64(&m->random) % 49152,
			10.f - (float)i, .1f, 3.f, 0 };
	t->candidates = (struct ev_span){ m->candidates, sizeof m->candidates };
	t->stages = (struct ev_span){ m->stages, sizeof m->stages };
	t->is_end = 0;
	emit(m, &ev);
}

static void make_attention(struct maker *m)
{
	struct event ev;

	ev_init(&ev, EV_attention);
	for (size_t i = 0; i < sizeof m->share; i++)
		m->share[i] = (unsigned char)random_u64(&m->random);
	ev.u.attention = (struct ev_attention){ .step = m->step,
		.request = 1,
		.pos = m->step,
		.pages = PAGES,
		.share = { m->share, sizeof m->share },
		.threshold = 1e-3,
		.near_zero = { m->near_zero, sizeof m->near_zero } };
	emit(m, &ev);
}

static void make_step(struct maker *m)
{
	struct ev_stage_time told[EV_N_stage];
	struct event ev;

	m->step++;
	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){ m->step, 1, 0, EV_WORK_decode, m->step, 1 };
	emit(m, &ev);
	if (m->step % 16 == 0) {
		ev_init(&ev, EV_page);
		ev.u.page =
			(struct ev_page){ m->step / 16, EV_PAGE_alloc, 1, m->step / 16, 1, 0, EV_NULL_I, 0 };
		emit(m, &ev);
	}
	make_token(m);
	make_attention(m);
	for (size_t i = 0; i < EV_N_stage; i++)
		told[i] =
			(struct ev_stage_time){ i, 123456 + random_u64(&m->random) % 999, 1234567, 23456789 };
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ m->step, { told, sizeof told } };
	emit(m, &ev);
	ev_init(&ev, EV_step);
	ev.u.step = (struct ev_step){ .step = m->step,
		.ns = 4900000,
		.kernel_ns = 4800000,
		.rows = 1,
		.decode_rows = 1,
		.tokens = 1,
		.running = 1,
		.pages_used = 64,
		.pages_cached = 10,
		.tail_waste_bytes = 20000,
		.reserve_waste_bytes = 9000000,
		.bytes = 90000000,
		.ops = 230000000 };
	emit(m, &ev);
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(int rc, const struct err *e)
{
	if (rc < 0) {
		fprintf(stderr, "bench_trace: %s\n", e->text);
		exit(1);
	}
}

static void nowhere(void *arg, const struct event *ev)
{
	(void)arg;
	(void)ev;
}

static void add(void *recording, const struct event *ev)
{
	struct err e = { 0 };

	check(recording_add(recording, ev, &e), &e);
}

static void write_steps(struct maker *m, int64_t steps, const char *path)
{
	struct recording *rec;
	struct stat st;
	struct err e = { 0 };
	double begun, spent, wall = wall_ms();

	check(recording_create(&rec, path, &e), &e);
	printf("create             %8.2f ms\n", wall_ms() - wall);
	m->sink = add;
	m->arg = rec;
	begun = cpu_us();
	for (int64_t i = 1; i <= steps; i++) {
		make_step(m);
		if (i % 10 == 0) /* 50 ms at 200 tokens a second */
			check(recording_commit(rec, &e), &e);
	}
	check(recording_commit(rec, &e), &e);
	spent = cpu_us() - begun;
	printf("write              %8.2f us a row, %.1f us a step (with making the events)\n",
		spent / (double)m->seq, spent / (double)steps);
	wall = wall_ms();
	recording_close(rec, false);
	printf("close              %8.2f ms\n", wall_ms() - wall);
	if (!stat(path, &st))
		printf("size               %8.0f bytes a step, indexes included\n",
			(double)st.st_size / (double)steps);
}

static void read_steps(int64_t steps, const char *path)
{
	struct reader *r;
	struct event ev;
	struct err e = { 0 };
	double begun = wall_ms();
	int64_t n = 0;

	check(reader_open(&r, path, &e), &e);
	printf("open               %8.2f ms%s\n", wall_ms() - begun,
		reader_info(r)->checked ? ", every page checked" : "");
	begun = cpu_us();
	for (int i = 0; i < 1000; i++) {
		int64_t seq = reader_step_seq(r, 1 + i * (steps - 1) / 1000);

		check(seq < 0 ? -1 : reader_seek(r, seq, &e), &e);
		check(reader_next(r, &ev, &e), &e);
	}
	printf("go to a step       %8.2f us\n", (cpu_us() - begun) / 1000);
	check(reader_seek(r, 1, &e), &e);
	begun = cpu_us();
	while (n < 2000000 && reader_next(r, &ev, &e) > 0)
		n++;
	check(e.code ? -1 : 0, &e);
	printf("read               %8.2f us a row\n", (cpu_us() - begun) / (double)n);
	reader_close(r);
}

static void push_steps(struct maker *m, int64_t steps, const char *path)
{
	struct ring *ring;
	struct writer *w;
	struct ring_stats stats;
	struct err e = { 0 };
	double begun, spent = 0, all, writer;

	check(ring_open(&ring, RING_BYTES, &e), &e);
	check(writer_open(&w, path, ring, &e), &e);
	m->sink = ring_push;
	m->arg = ring;
	all = cpu_us();
	for (int64_t i = 1; i <= steps; i++) {
		struct timespec a, b;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		make_step(m);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		spent += (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
		usleep(4000);
	}
	writer_flush(w);
	all = cpu_us() - all;
	writer = (double)writer_processor_ns(w) / 1e3;
	begun = wall_ms();
	check(writer_close(w, &e), &e);
	ring_stats(ring, &stats);
	printf("engine's thread    %8.2f us a step (with making the events), %lld stalls\n",
		spent / (double)steps, (long long)stats.stalls);
	printf("all threads        %8.2f us a step, at 250 steps a second\n", all / (double)steps);
	printf("writer's thread    %8.2f us a step\n", writer / (double)steps);
	printf("writer_close       %8.2f ms\n", wall_ms() - begun);
	ring_close(ring);
}

int main(int argc, char **argv)
{
	static struct maker m;
	int64_t steps = argc > 1 ? atoll(argv[1]) : 5000;
	char path[] = "/tmp/bench-trace-XXXXXX", *kept = argc > 2 ? argv[2] : NULL;
	double begun;

	if (steps < 1 || mkstemp(path) < 0)
		return 2;
	m.sink = nowhere;
	begun = cpu_us();
	for (int i = 0; i < 5000; i++)
		make_step(&m);
	printf("making the events  %8.2f us a step, %.1f rows a step\n", (cpu_us() - begun) / 5000,
		(double)m.seq / 5000);
	m = (struct maker){ 0 };
	write_steps(&m, steps, kept ? kept : path);
	read_steps(steps, kept ? kept : path);
	unlink(path);
	m = (struct maker){ 0 };
	push_steps(&m, steps < 500 ? steps : 500, path);
	unlink(path);
	return 0;
}
