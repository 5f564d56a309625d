/* The JSON trace format (Trace Event Format, "traceEvents"), which ui.perfetto.dev and
 * chrome://tracing open: requests with their queue, prompt and answer; the batch by slots; kernel
 * stages; counters of pages, tokens and drafts; evictions, preemptions and rejected drafts as
 * instants. Times are microseconds of the session.
 *
 * A step's kernel stages and its drafters have measured lengths but no recorded order in time: they
 * are laid one after the other from the step's start, stages in the order of a layer, each as long
 * as all its layers together. */
#include "sessions/export/export_impl.h"

enum { PID_REQUESTS = 1, PID_BATCH, PID_KERNELS, PID_COUNTERS, MAX_BATCH = 256, MAX_OPEN = 4096 };

struct open_request {
	int64_t id, arrived, admitted, first, lost; /* ns; -1: not yet; lost: its pages, and waits */
};

struct perfetto {
	struct open_request *open; /* [MAX_OPEN] a ring by request number */
	struct ev_batch batch[MAX_BATCH];
	int n_batch;
	bool slot_named[MAX_BATCH];
	struct ev_stage_time stage[EV_N_stage];
	int n_stages;
	int64_t now; /* ns; of the newest event */
};

static double us(int64_t ns)
{
	return (double)ns / 1e3;
}

static void comma(struct exporter *x)
{
	fputs(x->n++ ? ",\n" : "\n", x->out);
}

static void name(struct exporter *x, int pid, int64_t tid, const char *what, const char *text)
{
	comma(x);
	fprintf(x->out,
		"{\"ph\":\"M\",\"pid\":%d,\"tid\":%lld,\"name\":\"%s\",\"args\":{\"name\":", pid,
		(long long)tid, what);
	export_json_text(x, text, strlen(text));
	fputs("}}", x->out);
}

/* Leaves "args" open for the caller, who closes both braces. */
static void slice(
	struct exporter *x, int pid, int64_t tid, const char *text, int64_t from, int64_t to)
{
	comma(x);
	fprintf(x->out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%lld,\"ts\":%.3f,\"dur\":%.3f,\"name\":", pid,
		(long long)tid, us(from), us(to > from ? to - from : 0));
	export_json_text(x, text, strlen(text));
	fputs(",\"args\":{", x->out);
}

static void instant(struct exporter *x, int pid, int64_t tid, const char *text, int64_t at)
{
	comma(x);
	fprintf(x->out,
		"{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%lld,\"ts\":%.3f,\"name\":\"%s\",\"args\":{",
		pid, (long long)tid, us(at), text);
}

static void counter(struct exporter *x, const char *what, int64_t at, double value)
{
	comma(x);
	fprintf(x->out, "{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"%s\",\"args\":{", PID_COUNTERS,
		us(at), what);
	export_json_real(x->out, "\"value\":", value);
	fputs("}}", x->out);
}

static int begin(struct exporter *x, struct err *e)
{
	struct perfetto *p = calloc(1, sizeof *p);

	x->own = p;
	if (p)
		p->open = calloc(MAX_OPEN, sizeof *p->open);
	if (!p || !p->open)
		return err_set(e, ERR_MEMORY, "out of memory");
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", x->out);
	name(x, PID_BATCH, 0, "process_name", "batch");
	name(x, PID_KERNELS, 0, "process_name", "kernels");
	name(x, PID_COUNTERS, 0, "process_name", "counters");
	name(x, PID_KERNELS, 1, "thread_name", "steps");
	name(x, PID_KERNELS, 2, "thread_name", "stages (lengths measured, laid end to end)");
	return 0;
}

static struct open_request *request(struct perfetto *p, int64_t id)
{
	struct open_request *r = &p->open[(uint64_t)id % MAX_OPEN];

	return r->id == id ? r : NULL;
}

static void on_request(
	struct exporter *x, struct perfetto *p, const struct ev_request *q, int64_t t)
{
	char text[64];

	if (q->request < 1)
		return;
	p->open[(uint64_t)q->request % MAX_OPEN] = (struct open_request){
		.id = q->request, .arrived = t, .admitted = -1, .first = -1, .lost = -1
	};
	snprintf(text, sizeof text, "request %lld (%s)", (long long)q->request,
		ev_code_name("request_kind", q->kind));
	name(x, PID_REQUESTS, q->request, "thread_name", text);
}

static void put_ms(struct exporter *x, const char *what, int64_t ns)
{
	if (ns != EV_NULL_I)
		fprintf(x->out, ",\"%s\":%.6f", what, (double)ns / 1e6);
}

/* A slice within its prompt or answer: from the loss of its pages until it is admitted again. */
static void on_admit(struct exporter *x, struct open_request *r, int64_t t)
{
	if (!r)
		return;
	if (r->admitted < 0)
		r->admitted = t;
	if (r->lost >= 0) {
		slice(x, PID_REQUESTS, r->id, "preempted", r->lost, t);
		fputs("}}", x->out);
	}
	r->lost = -1;
}

static void on_preempt(
	struct exporter *x, struct open_request *r, const struct ev_preempt *v, int64_t t)
{
	if (r)
		r->lost = t;
	instant(x, PID_REQUESTS, v->request, "preempted", t);
	fprintf(x->out, "\"pages\":%lld,\"favour\":%lld}}", (long long)v->pages, (long long)v->favour);
}

static void put_finish(struct exporter *x, const struct ev_finish *f)
{
	fprintf(x->out, "\"tokens\":%lld,\"reason\":\"%s\"", (long long)f->generated,
		ev_code_name("finish", f->reason));
	put_ms(x, "ttft_ms", f->first_token_ns);
	put_ms(x, "itl_p50_ms", f->itl_p50_ns);
	put_ms(x, "itl_p99_ms", f->itl_p99_ns);
	put_ms(x, "e2e_ms", f->total_ns);
}

/* f NULL: the recording ends before it does. */
static void on_finish(
	struct exporter *x, struct open_request *r, const struct ev_finish *f, int64_t t)
{
	const int64_t from = r->admitted < 0 ? t : r->admitted;

	slice(x, PID_REQUESTS, r->id, "queue", r->arrived, from);
	fputs("}}", x->out);
	if (r->admitted >= 0) {
		slice(x, PID_REQUESTS, r->id, "prompt", from, r->first < 0 ? t : r->first);
		if (f)
			fprintf(x->out, "\"cached\":%lld", (long long)f->hit);
		fputs("}}", x->out);
	}
	if (r->first >= 0) {
		slice(x, PID_REQUESTS, r->id, "answer", r->first, t);
		if (f)
			put_finish(x, f);
		fputs("}}", x->out);
	}
	r->id = 0;
}

static int end(struct exporter *x, struct reader *r, struct err *e)
{
	struct perfetto *p = x->own;
	char requests[sizeof x->lossy + 32];

	(void)r, (void)e;
	if (!p)
		return 0;
	for (int i = 0; p->open && i < MAX_OPEN; i++)
		if (p->open[i].id)
			on_finish(x, &p->open[i], NULL, p->now);
	snprintf(requests, sizeof requests, *x->lossy ? "requests, LOSSY %s" : "requests", x->lossy);
	name(x, PID_REQUESTS, 0, "process_name", requests);
	fputs("\n],\"otherData\":{\"lossy\":", x->out);
	export_json_text(x, x->lossy, strlen(x->lossy));
	fputs("}}\n", x->out);
	free(p->open);
	free(p);
	return 0;
}

static void on_batch(struct exporter *x, struct perfetto *p, const struct ev_batch *b)
{
	char text[32];

	if (p->n_batch == MAX_BATCH || b->slot < 0 || b->slot >= MAX_BATCH)
		return;
	p->batch[p->n_batch++] = *b;
	if (!p->slot_named[b->slot]) {
		p->slot_named[b->slot] = true;
		snprintf(text, sizeof text, "slot %lld", (long long)b->slot);
		name(x, PID_BATCH, b->slot + 1, "thread_name", text);
	}
}

static void write_stages(
	struct exporter *x, const struct perfetto *p, int64_t drafters_ns, int64_t from, int64_t to)
{
	for (int i = 0; i < p->n_stages; i++) {
		const struct ev_stage_time *s = &p->stage[i];
		int64_t until = s->ns < (uint64_t)(to - from) ? from + (int64_t)s->ns : to;

		slice(x, PID_KERNELS, 2, ev_code_name("stage", (int64_t)s->stage), from, until);
		fprintf(x->out, "\"bytes\":%llu,\"ops\":%llu}}", (unsigned long long)s->bytes,
			(unsigned long long)s->ops);
		from = until;
	}
	if (drafters_ns > 0) {
		slice(
			x, PID_KERNELS, 2, "drafters", from, drafters_ns < to - from ? from + drafters_ns : to);
		fputs("}}", x->out);
	}
}

static void on_step(struct exporter *x, struct perfetto *p, const struct ev_step *s, int64_t t)
{
	int64_t from = s->ns > 0 && s->ns < t ? t - s->ns : t;
	char text[64];

	slice(x, PID_KERNELS, 1, "step", from, t);
	fprintf(x->out, "\"step\":%lld,\"rows\":%lld,\"tokens\":%lld,\"bytes\":%lld,\"ops\":%lld}}",
		(long long)s->step, (long long)s->rows, (long long)s->tokens, (long long)s->bytes,
		(long long)s->ops);
	write_stages(x, p, s->drafters_ns, from, t);
	for (int i = 0; i < p->n_batch; i++) {
		const struct ev_batch *b = &p->batch[i];

		snprintf(
			text, sizeof text, "%s %lld", ev_code_name("work", b->work), (long long)b->request);
		slice(x, PID_BATCH, b->slot + 1, text, from, t);
		fprintf(x->out, "\"request\":%lld,\"pos\":%lld,\"rows\":%lld}}", (long long)b->request,
			(long long)b->pos, (long long)b->rows);
	}
	p->n_batch = p->n_stages = 0;
	counter(x, "pages read by requests", t, (double)s->pages_used);
	counter(x, "pages only cached", t, (double)s->pages_cached);
	counter(x, "pages shared", t, (double)s->pages_shared);
	counter(x, "running", t, (double)s->running);
	counter(x, "waiting", t, (double)s->waiting);
	if (s->ns > 0)
		counter(x, "tokens a second", t, (double)s->tokens * 1e9 / (double)s->ns);
}

/* A forged time must not overflow: 2^53 ns are a hundred days. */
static int64_t time_of(const struct event *ev)
{
	const int64_t most = INT64_C(1) << 53;

	return ev->t_ns < 0 ? 0 : ev->t_ns > most ? most : ev->t_ns;
}

static void event(struct exporter *x, const struct event *ev)
{
	struct perfetto *p = x->own;
	struct open_request *r;
	int64_t t = time_of(ev);

	p->now = t;
	switch (ev->kind) {
	case EV_request: on_request(x, p, &ev->u.request, t); break;
	case EV_admit: on_admit(x, request(p, ev->u.admit.request), t); break;
	case EV_token:
		if ((r = request(p, ev->u.token.request)) && r->first < 0)
			r->first = t;
		break;
	case EV_finish:
		if ((r = request(p, ev->u.finish.request)))
			on_finish(x, r, &ev->u.finish, t);
		break;
	case EV_batch: on_batch(x, p, &ev->u.batch); break;
	case EV_time:
		p->n_stages = (int)ev_items(ev->u.time.stages, p->stage, sizeof *p->stage, EV_N_stage);
		break;
	case EV_step: on_step(x, p, &ev->u.step, t); break;
	case EV_preempt: on_preempt(x, request(p, ev->u.preempt.request), &ev->u.preempt, t); break;
	case EV_page:
		if (ev->u.page.action != EV_PAGE_evict)
			break;
		instant(x, PID_COUNTERS, 1, "page evicted", t);
		fprintf(x->out, "\"page\":%lld}}", (long long)ev->u.page.page);
		break;
	case EV_draft:
		if (ev->u.draft.verdict != EV_VERDICT_rejected)
			break;
		instant(x, PID_REQUESTS, ev->u.draft.request, "draft rejected", t);
		fprintf(x->out, "\"pos\":%lld}}", (long long)ev->u.draft.pos);
		break;
	default: break;
	}
}

const struct export_ops export_perfetto = {
	.name = "perfetto", .engine = true, .begin = begin, .event = event, .end = end
};
