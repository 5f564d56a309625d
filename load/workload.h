/* A load: which requests arrive when, how long they are and what they share; for `cutaway load`
 * and `cutaway simulate`.
 *
 * A stream is what requests share: a conversation, a document, a system prompt. Each arrival uses
 * one: a turn of the conversation, a question about the document. All is drawn from the seed by a
 * counter (philox, kernels/arith.h) and computed without libm, so the same options give the same
 * load, bit for bit, on every machine; only the streams in use are held, so a million arrivals need
 * no more memory than ten.
 *
 * Lengths are in tokens: lognormal with the means and coefficients of variation of workload_kinds[]
 * (docs/load.md has their sources), rounded, at least 1. Times are in seconds from the start.
 * Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum workload_kind {
	WORKLOAD_CHAT,     /* a turn of a conversation: all turns before it, with answers, then more */
	WORKLOAD_DOCUMENT, /* a question about a document that others ask about, too */
	WORKLOAD_EDIT,     /* code to be written again with a change; nothing is shared */
	WORKLOAD_SYSTEM,   /* a task below a system prompt of an application */
	WORKLOAD_KINDS,
	WORKLOAD_TRACE_KIND = WORKLOAD_KINDS /* an arrival of a trace file: only lengths are known */
};

struct workload_length {
	double mean, cv; /* tokens; standard deviation / mean */
};
extern const struct workload_kind_row {
	const char *name, *doc;
	struct workload_length shared, own, output; /* shared: mean 0: nothing; of chats what grows */
	double uses;                                /* arrivals of a stream, mean of a geometric */
	int32_t priority;                           /* 0: someone waits for it; 1: a machine does */
} workload_kinds[WORKLOAD_KINDS];

enum workload_arrivals {
	WORKLOAD_POISSON, /* gaps exponential */
	WORKLOAD_UNIFORM, /* gaps equal */
	WORKLOAD_GAMMA,   /* gaps of a Gamma distribution: bursts if cv is above 1 */
	/* Poisson while on, none while off; both last exponentially long: an interrupted Poisson
	 * process */
	WORKLOAD_ONOFF,
	WORKLOAD_CLOSED, /* users, each of whom asks, waits for the answer, thinks, and asks again */
	WORKLOAD_TRACE,  /* times and lengths of a file: see trace_file.h */
};

struct workload_options {
	enum workload_arrivals arrivals;
	/* requests a second in the mean; of a trace how many times as fast as it was recorded; of
	 * closed loops not read */
	double rate;
	double cv;          /* gamma: coefficient of variation of the gaps */
	double on_s, off_s; /* on-off: means */
	int32_t users;      /* closed: 1 to WORKLOAD_MOST */
	double think_s;     /* closed: mean of an exponential; 0: none */
	const char *trace;  /* path */
	uint32_t kinds;     /* set of 1 << enum workload_kind, equally often; 0: chat. Not of a trace */
	int64_t n;          /* requests; of a trace 0: all */
	double scale;       /* factor of all lengths but a trace's; 0: 1 */
	/* tokens of prompt and output together, at least 8, or 0: any number. A shared part is at most
	 * half of it, a question or an output a quarter; a conversation that would exceed it ends */
	int32_t limit;
	int32_t max_output; /* 0: any number */
	int32_t live;       /* open: streams of each kind at a time, 1 to WORKLOAD_MOST; 0: 8 */
	uint64_t seed;
};
enum { WORKLOAD_MOST = 4096 };

struct arrival {
	int64_t number; /* from 0, in order of at_s */
	double at_s;
	int32_t n_prompt, n_output; /* tokens; of texts about as many, without a chat template's */
	/* The first n_prefix tokens of the prompt are the first of this stream, which others share
	 * (of a chat: the prompt before and its answer); -1: none, and n_prefix is 0. */
	int64_t prefix;
	int32_t n_prefix;
	int32_t user, priority;
	enum workload_kind kind;
	int64_t stream; /* what it is part of */
	int32_t turn;   /* its number in the stream, from 0 */
};

struct workload;

/* ERR_USAGE: an option is out of range; ERR_IO, ERR_INPUT: the trace. */
int workload_open(struct workload **w, const struct workload_options *o, struct err *e);
void workload_close(struct workload *w);

/* When the next request arrives; INFINITY: none does, or (closed) none before another one ends. */
double workload_when(const struct workload *w);
/* Takes it. 1; 0: workload_when() is INFINITY; -1: the trace is damaged there. */
int workload_next(struct workload *w, struct arrival *out, struct err *e);
/* Closed: the request of this user ended, well or not, at that time; the next one is after the
 * thinking time. Nothing for other loads. */
void workload_ended(struct workload *w, int32_t user, double now_s);
/* Arrivals whose length was cut to the limit or to max_output. */
int64_t workload_n_cut(const struct workload *w);

/* Token i of its prompt, and from n_prompt on of the answer that a conversation goes on from: any
 * number from 0 to vocab - 1. Equal streams have equal tokens, others have not, so a prefix cache
 * finds what is shared and nothing else (but by chance, 1 in vocab at each position). */
int32_t workload_id(
	const struct workload_options *o, const struct arrival *a, int32_t vocab, int32_t i);
/* The first n of them, malloc'd; NULL: no memory. */
int32_t *workload_ids(
	const struct workload_options *o, const struct arrival *a, int32_t vocab, size_t n);

/* Its prompt as text. Answers of earlier turns are part of it, as the load has them and whatever
 * was answered: so the load is the same for whoever serves it. */
struct workload_prompt {
	char *system; /* or NULL */
	char **text;  /* [n] a user's and an assistant's by turns, both ends the user's; malloc'd */
	int32_t n;
};
int workload_prompt(const struct workload_options *o, const struct arrival *a,
	struct workload_prompt *out, struct err *e);
void workload_prompt_free(struct workload_prompt *p);
