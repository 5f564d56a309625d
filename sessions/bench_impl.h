/* Inside sessions/: what bench.c and bench_measure.c share. Thread: bench_run's. */
#ifndef CUTAWAY_SESSIONS_BENCH_IMPL_H
#define CUTAWAY_SESSIONS_BENCH_IMPL_H

#include "sessions/bench.h"
#include "trace/ring.h"
#include "trace/writer.h"

enum {
	MAX_RUNS = 4096,
	N_BATCH = 16,
	DEEP = 1024,
	PREFILL = 512,
	FIRST = 64,
	MOST_GENERATED = 160
};

struct samples {
	double value[MAX_RUNS];
	int n;
};

struct bench {
	struct engine *engine;
	struct ring *ring;
	struct writer *writer;
	char folder[512], file[544];
	bool recording; /* events go to the ring */
	int32_t *ids;	/* text long enough for every prompt */
	size_t n_ids;
	int64_t n_tokens, n_finished; /* since they were last set to 0 */
	struct ev_step step;		  /* the newest */
	int64_t token[MOST_GENERATED]; /* ids of those tokens */
	struct bench_stage newest[EV_N_stage];
	struct bench_stage (*stage)[EV_N_stage]; /* sums, by phase */
	double bytes, ops;					 /* counted, of all steps since they were last set to 0 */
	double read_rate, int_rate;			 /* bytes and operations a second: the roofs */
	double token_s;				  /* about how long a decoded token takes */
	void (*tell)(void *arg, const char *what);
	void *arg;
};

double bench_now(void);
void bench_on_event(void *arg, const struct event *ev);
void bench_add(struct samples *s, double value);
struct bench_figure bench_figure(struct samples *s);
struct bench_figure bench_single(double value);
int64_t bench_submit(struct bench *b, int32_t at, int32_t n_ids, int32_t n_generated, bool greedy,
					  struct err *e);
int bench_step_until(struct bench *b, int64_t n, struct err *e);
double bench_time_decode(struct bench *b, int32_t n_ids, int32_t n_generated, int n_requests,
						  double *share, const char **limit, struct err *e);
int bench_measure_first(struct bench *b, int32_t n_ids, double seconds,
						 struct bench_figure *out, struct err *e);
int bench_measure_decode(struct bench *b, int32_t n_ids, int n_requests, double seconds, int runs,
						  struct bench_figure *out, struct err *e);
int bench_measure_cost4(struct bench *b, double seconds, struct bench_figure *out, struct err *e);
int bench_measure_spec(struct bench *b, double seconds, struct bench_figure *out, struct err *e);
int bench_measure_recording(struct bench *b, double seconds, struct bench_figure *out,
							 struct err *e);

#endif
