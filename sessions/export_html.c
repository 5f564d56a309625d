/* One self-contained page (export_page.html with the session's data in its middle): no network, no library.
 * All texts go in as JSON inside a script element of a type that is not run, with every < escaped, so that
 * nothing of a session can become markup. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sessions/export_impl.h"

__asm__(".section .rodata\n"
		".global export_page\n"
		"export_page:\n"
		".incbin \"sessions/export_page.html\"\n"
		".byte 0\n"
		".previous\n");
extern const char export_page[];

enum { MOST_STEPS = 100000, MOST_TOKENS = 200000, TOP = 5 };

/* The rows of each list are gathered in memory, and written in the order of the page's data at the end. */
struct list {
	char *text;
	size_t size;
	FILE *out;
	int64_t n;
};

struct html {
	struct list requests, tokens, steps, pages, session, finishes;
	double stage_ns[EV_N_stage];
	int64_t n_steps, n_tokens, step; /* step: the last that ended */
};

static struct list *all_lists(struct html *h, int i)
{
	struct list *const l[] = { &h->requests, &h->tokens, &h->steps, &h->pages, &h->session, &h->finishes };

	return i < (int)(sizeof l / sizeof *l) ? l[i] : NULL;
}

static void text(FILE *out, const void *bytes, size_t size, bool *no_memory)
{
	char *json = text_json(bytes ? bytes : "", size);

	for (const char *p = json ? json : "\"\""; *p; p++)
		if (*p == '<')
			fputs("\\u003c", out);
		else
			putc(*p, out);
	*no_memory |= !json;
	free(json);
}

static int begin(struct exporter *x, struct err *e)
{
	struct html *h = calloc(1, sizeof *h);
	bool ok = h != NULL;

	x->own = h;
	for (int i = 0; ok && all_lists(h, i); i++) {
		struct list *l = all_lists(h, i);

		l->out = open_memstream(&l->text, &l->size);
		ok = l->out != NULL;
	}
	return ok ? 0 : err_set(e, ERR_MEMORY, "no memory for a page");
}

static FILE *row(struct list *l)
{
	if (l->n++)
		putc(',', l->out);
	return l->out;
}

static int64_t number(int64_t v)
{
	const int64_t most = INT64_C(1) << 53;

	return v == EV_NULL_I || v < -1 || v > most ? -1 : v;
}

static void on_session(struct exporter *x, struct list *l, const struct ev_session *s)
{
	FILE *out = row(l);

	fputs("{\"model\":", out);
	text(out, s->model_name.data, s->model_name.size, &x->no_memory);
	fputs(",\"backend\":", out);
	text(out, s->backend.data, s->backend.size, &x->no_memory);
	fputs(",\"isa\":", out);
	text(out, s->isa.data, s->isa.size, &x->no_memory);
	fputs(",\"version\":", out);
	text(out, s->version.data, s->version.size, &x->no_memory);
	fprintf(out, ",\"unix_ms\":%lld,\"pages\":%lld,\"page_size\":%lld,\"layers\":%lld}",
			(long long)number(s->unix_ns / 1000000), (long long)number(s->pages),
			(long long)number(s->page_size), (long long)number(s->n_layers));
}

static void on_request(struct exporter *x, struct list *l, const struct ev_request *r, int64_t t_ns)
{
	FILE *out = row(l);

	fprintf(out, "{\"id\":%lld,\"kind\":\"%s\",\"parent\":%lld,\"prompt\":%lld,\"t\":%.3f,\"text\":",
			(long long)number(r->request), ev_code_name("request_kind", r->kind),
			(long long)number(r->parent), (long long)number(r->n_prompt), (double)t_ns / 1e6);
	text(out, r->text.data, r->text.size, &x->no_memory);
	fputs(",\"temperature\":", out);
	export_json_real(out, r->temperature);
	putc('}', out);
}

static void candidates(struct exporter *x, FILE *out, struct ev_span b)
{
	struct ev_candidate c;

	putc('[', out);
	for (size_t i = 0; i < TOP && (i + 1) * sizeof c <= b.size; i++) {
		memcpy(&c, (const char *)b.data + i * sizeof c, sizeof c);
		fputs(i ? ",[" : "[", out);
		if (c.id < (uint32_t)x->n_vocab && x->vocab[c.id].bytes)
			text(out, x->vocab[c.id].bytes, x->vocab[c.id].size, &x->no_memory);
		else
			fprintf(out, "\"<%u>\"", c.id);
		putc(',', out);
		export_json_real(out, (double)c.p);
		putc(']', out);
	}
	putc(']', out);
}

static void on_token(struct exporter *x, struct html *h, const struct ev_token *t, int64_t t_ns)
{
	FILE *out;

	if (h->n_tokens++ >= MOST_TOKENS)
		return;
	out = row(&h->tokens);
	fprintf(out, "[%lld,%lld,", (long long)number(t->request), (long long)number(t->pos));
	if (t->id >= 0 && t->id < x->n_vocab && x->vocab[t->id].bytes)
		text(out, x->vocab[t->id].bytes, x->vocab[t->id].size, &x->no_memory);
	else
		fputs("\"\"", out);
	putc(',', out);
	export_json_real(out, t->p);
	putc(',', out);
	export_json_real(out, t->entropy);
	fprintf(out, ",\"%s\",%lld,%.3f,%d,", ev_code_name("source", t->source), (long long)number(t->step),
			(double)t_ns / 1e6, t->is_end == 1);
	candidates(x, out, t->candidates);
	putc(']', out);
}

static void on_step(struct html *h, const struct ev_step *s, int64_t t_ns)
{
	const int64_t v[] = { s->step,		s->ns,		 s->rows,		  s->prefill_rows, s->draft_rows,
						  s->tokens,	s->accepted, s->rejected,	  s->pages_used,   s->pages_cached,
						  s->running,	s->waiting,	 s->pages_shared, s->evicted,	   s->kernel_ns };
	FILE *out;

	h->step = number(s->step);
	if (h->n_steps++ >= MOST_STEPS)
		return;
	out = row(&h->steps);
	fprintf(out, "[%.3f", (double)t_ns / 1e6);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		fprintf(out, ",%lld", (long long)number(v[i]));
	putc(']', out);
}

static void on_time(struct html *h, struct ev_span stages)
{
	struct ev_stage_time s;

	for (size_t i = 0; (i + 1) * sizeof s <= stages.size; i++) {
		memcpy(&s, (const char *)stages.data + i * sizeof s, sizeof s);
		if (s.stage < EV_N_stage)
			h->stage_ns[s.stage] += (double)s.ns;
	}
}

static void event(struct exporter *x, const struct event *ev)
{
	struct html *h = x->own;

	switch (ev->kind) {
	case EV_session: on_session(x, &h->session, &ev->u.session); break;
	case EV_request: on_request(x, &h->requests, &ev->u.request, ev->t_ns); break;
	case EV_token: on_token(x, h, &ev->u.token, ev->t_ns); break;
	case EV_step: on_step(h, &ev->u.step, ev->t_ns); break;
	case EV_time: on_time(h, ev->u.time.stages); break;
	case EV_page:
		if (h->n_steps < MOST_STEPS)
			fprintf(row(&h->pages), "[%lld,%lld,%lld,%lld]", (long long)h->step + 1,
					(long long)number(ev->u.page.page), (long long)number(ev->u.page.action),
					(long long)number(ev->u.page.request));
		break;
	case EV_finish:
		fprintf(row(&h->finishes), "[%lld,\"%s\",%lld,%.3f]", (long long)number(ev->u.finish.request),
				ev_code_name("finish", ev->u.finish.reason), (long long)number(ev->u.finish.hit),
				(double)ev->t_ns / 1e6);
		break;
	default: break;
	}
}

static void write_data(struct exporter *x, struct html *h)
{
	static const char *const key[] = { "requests", "tokens", "steps", "pages", "session", "finishes" };

	putc('{', x->out);
	for (int i = 0; all_lists(h, i); i++) {
		struct list *l = all_lists(h, i);

		fprintf(x->out, "\"%s\":[%s],\n", key[i], l->text ? l->text : "");
	}
	fputs("\"stages\":{", x->out);
	for (int i = 0; i < EV_N_stage; i++)
		fprintf(x->out, "%s\"%s\":%.3f", i ? "," : "", ev_code_name("stage", i), h->stage_ns[i] / 1e6);
	fprintf(x->out, "},\"all_steps\":%lld,\"all_tokens\":%lld}", (long long)h->n_steps,
			(long long)h->n_tokens);
}

static void end(struct exporter *x)
{
	static const char mark[] = "@DATA@";
	struct html *h = x->own;
	const char *at = strstr(export_page, mark);

	if (!h)
		return;
	for (int i = 0; all_lists(h, i); i++)
		if (all_lists(h, i)->out && fclose(all_lists(h, i)->out))
			x->no_memory = true;
	if (at && !x->no_memory) {
		fwrite(export_page, 1, (size_t)(at - export_page), x->out);
		write_data(x, h);
		fputs(at + strlen(mark), x->out);
	}
	for (int i = 0; all_lists(h, i); i++)
		free(all_lists(h, i)->text);
	free(h);
}

const struct export_ops export_html = { .name = "html", .begin = begin, .event = event, .end = end };
