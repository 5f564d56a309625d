/* One self-contained page (export_page.html with the session's data in its middle): no network, no
 * library. All texts go in as JSON inside a script element of a type that is not run, with every <
 * escaped, so that nothing of a session can become markup. */
#include "base/embed.h"
#include "base/text.h"
#include "sessions/export/export_html.h"

EMBED(export_page, "sessions/export/export_page.html");

enum { MOST_TOKENS = 200000, TOP = 5 };

FILE *html_row(struct html_list *l, int64_t most)
{
	if (l->n >= most) {
		l->left_out++;
		return NULL;
	}
	if (l->n++)
		putc(',', l->out);
	return l->out;
}

static FILE *any_row(struct html *h, enum html_list_id list)
{
	return html_row(&h->list[list], INT64_MAX);
}

void html_text(struct exporter *x, FILE *out, const char *before, struct ev_span bytes)
{
	char *json = text_json(bytes.data ? bytes.data : "", bytes.size);

	fputs(before, out);
	for (const char *p = json ? json : "\"\""; *p; p++)
		if (*p == '<')
			fputs("\\u003c", out);
		else
			putc(*p, out);
	x->no_memory |= !json;
	free(json);
}

static long long html_number(int64_t v)
{
	const int64_t most = INT64_C(1) << 53;

	return v == EV_NULL_I || v < -1 || v > most ? -1 : v;
}

void html_numbers(FILE *out, const char *before, const int64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%lld", i ? "," : before, html_number(v[i]));
}

/* A string; a token that is not whole characters as the array of its bytes, which the page joins.
 */
static void put_token(struct exporter *x, FILE *out, int64_t id)
{
	const struct ev_text *t = ev_texts_get(&x->texts, id);
	const struct ev_span bytes = { t ? t->bytes : "", t ? t->size : 0 };

	if (text_is_utf8(bytes.data, bytes.size)) {
		html_text(x, out, "", bytes);
		return;
	}
	for (size_t i = 0; i < bytes.size; i++)
		fprintf(out, "%c%d", i ? ',' : '[', ((const unsigned char *)bytes.data)[i]);
	putc(']', out);
}

static int begin(struct exporter *x, struct err *e)
{
	struct html *h = calloc(1, sizeof *h);
	bool ok = h && html_views_begin(h);

	x->own = h;
	for (int i = 0; ok && i < HTML_N_LISTS; i++) {
		struct html_list *l = &h->list[i];

		l->out = open_memstream(&l->text, &l->size);
		ok = l->out != NULL;
	}
	return ok ? 0 : err_set(e, ERR_MEMORY, "no memory for a page");
}

static void on_session(struct exporter *x, struct html *h, const struct ev_session *s)
{
	FILE *out = any_row(h, HTML_session);

	html_text(x, out, "{\"model\":", s->model_name);
	html_text(x, out, ",\"backend\":", s->backend);
	html_text(x, out, ",\"isa\":", s->isa);
	html_text(x, out, ",\"version\":", s->version);
	fprintf(out, ",\"unix_ms\":%lld,\"pages\":%lld,\"page_size\":%lld,\"layers\":%lld}",
		html_number(s->unix_ns / 1000000), html_number(s->pages), html_number(s->page_size),
		html_number(s->n_layers));
}

static void on_request(struct exporter *x, struct html *h, const struct ev_request *r, int64_t t_ns)
{
	FILE *out = any_row(h, HTML_requests);

	fprintf(out, "{\"id\":%lld,\"kind\":\"%s\",\"parent\":%lld,\"prompt\":%lld,\"t\":%.3f",
		html_number(r->request), ev_code_name("request_kind", r->kind), html_number(r->parent),
		html_number(r->n_prompt), (double)t_ns / 1e6);
	html_text(x, out, ",\"text\":", r->text);
	export_json_real(out, ",\"temperature\":", r->temperature);
	putc('}', out);
}

static void candidates(struct exporter *x, FILE *out, struct ev_span b)
{
	struct ev_candidate c;

	putc('[', out);
	for (size_t i = 0; i < TOP && ev_item(b, i, &c, sizeof c); i++) {
		fputs(i ? ",[" : "[", out);
		if (ev_texts_get(&x->texts, c.id))
			put_token(x, out, c.id);
		else
			fprintf(out, "\"<%u>\"", c.id);
		export_json_real(out, ",", (double)c.p);
		putc(']', out);
	}
	putc(']', out);
}

static void on_token(struct exporter *x, struct html *h, const struct ev_token *t, int64_t t_ns)
{
	FILE *out = html_row(&h->list[HTML_tokens], MOST_TOKENS);

	if (!out)
		return;
	fprintf(out, "[%lld,%lld,", html_number(t->request), html_number(t->pos));
	put_token(x, out, t->id);
	export_json_real(out, ",", t->p);
	export_json_real(out, ",", t->entropy);
	fprintf(out, ",\"%s\",%lld,%.3f,%d,", ev_code_name("source", t->source), html_number(t->step),
		(double)t_ns / 1e6, t->is_end == 1);
	candidates(x, out, t->candidates);
	putc(']', out);
}

/* Step, request, position, KL in nats, whether the exact twin's most probable token is the same. */
static void on_price(struct html *h, const struct ev_price *p)
{
	FILE *out = html_row(&h->list[HTML_prices], MOST_TOKENS);

	if (!out)
		return;
	HTML_NUMBERS(out, "[", p->step, p->request, p->pos);
	export_json_real(out, ",", p->kl);
	fprintf(out, ",%d]", p->best == p->exact_best);
}

static void on_step(struct html *h, const struct ev_step *s, int64_t t_ns)
{
	FILE *out = html_row(&h->list[HTML_steps], HTML_MOST_STEPS);

	h->step = html_number(s->step);
	if (!out)
		return;
	fprintf(out, "[%.3f", (double)t_ns / 1e6);
	HTML_NUMBERS(out, ",", s->step, s->ns, s->rows, s->prefill_rows, s->draft_rows, s->tokens,
		s->accepted, s->rejected, s->pages_used, s->pages_cached, s->running, s->waiting,
		s->pages_shared, s->evicted, s->kernel_ns);
	putc(']', out);
}

static void on_time(struct html *h, struct ev_span stages)
{
	struct ev_stage_time s;

	for (size_t i = 0; ev_item(stages, i, &s, sizeof s); i++)
		if (s.stage < EV_N_stage)
			h->stage_ns[s.stage] += (double)s.ns;
}

/* After its time the latencies, ns: queue, TTFT, ITL p50 and p99, end to end; -1: not known. */
static void on_finish(struct html *h, const struct ev_finish *f, int64_t t_ns)
{
	FILE *out = any_row(h, HTML_finishes);

	fprintf(out, "[%lld,\"%s\",%lld,%.3f", html_number(f->request),
		ev_code_name("finish", f->reason), html_number(f->hit), (double)t_ns / 1e6);
	HTML_NUMBERS(
		out, ",", f->queue_ns, f->first_token_ns, f->itl_p50_ns, f->itl_p99_ns, f->total_ns);
	putc(']', out);
}

static void on_page(FILE *out, int64_t step, const struct ev_page *p)
{
	HTML_NUMBERS(out, "[", step, p->page, p->action, p->request);
	putc(']', out);
}

static void event(struct exporter *x, const struct event *ev)
{
	struct html *h = x->own;

	switch (ev->kind) {
	case EV_session: on_session(x, h, &ev->u.session); break;
	case EV_request: on_request(x, h, &ev->u.request, ev->t_ns); break;
	case EV_token: on_token(x, h, &ev->u.token, ev->t_ns); break;
	case EV_price: on_price(h, &ev->u.price); break;
	case EV_step: on_step(h, &ev->u.step, ev->t_ns); break;
	case EV_time: on_time(h, ev->u.time.stages); break;
	case EV_page:
		if (h->list[HTML_steps].n < HTML_MOST_STEPS)
			on_page(any_row(h, HTML_pages), h->step + 1, &ev->u.page);
		break;
	case EV_preempt: h->preempted++; break;
	case EV_finish: on_finish(h, &ev->u.finish, ev->t_ns); break;
	default: break;
	}
	html_views_event(x, h, ev);
}

static void write_data(struct exporter *x, struct html *h)
{
#define X(name) #name,
	static const char *const key[] = { HTML_LISTS(X) };
#undef X

	putc('{', x->out);
	for (int i = 0; i < HTML_N_LISTS; i++)
		fprintf(x->out, "\"%s\":[%s],\n", key[i], h->list[i].text ? h->list[i].text : "");
	fputs("\"stages\":{", x->out);
	for (int i = 0; i < EV_N_stage; i++)
		fprintf(
			x->out, "%s\"%s\":%.3f", i ? "," : "", ev_code_name("stage", i), h->stage_ns[i] / 1e6);
	html_text(x, x->out, "},\n\"lossy\":", ev_text(x->lossy));
	fprintf(x->out, ",\n\"preempted\":%lld,\n\"left_out\":{", (long long)h->preempted);
	for (int i = 0; i < HTML_N_LISTS; i++)
		fprintf(x->out, "%s\"%s\":%lld", i ? "," : "", key[i], (long long)h->list[i].left_out);
	fputs("}}", x->out);
}

static void close_lists(struct exporter *x, struct html *h)
{
	if (h->list[HTML_N_LISTS - 1].out)
		html_views_end(x, h);
	for (int i = 0; i < HTML_N_LISTS; i++)
		if (h->list[i].out && fclose(h->list[i].out))
			x->no_memory = true;
}

static void end(struct exporter *x)
{
	static const char mark[] = "@DATA@";
	struct html *h = x->own;
	const char *at = strstr(export_page, mark);

	if (!h)
		return;
	close_lists(x, h);
	if (at && !x->no_memory) {
		fwrite(export_page, 1, (size_t)(at - export_page), x->out);
		write_data(x, h);
		fputs(at + strlen(mark), x->out);
	}
	for (int i = 0; i < HTML_N_LISTS; i++)
		free(h->list[i].text);
	free(h->drafting);
	free(h);
}

const struct export_ops export_html = {
	.name = "html", .engine = true, .begin = begin, .event = event, .end = end
};
