/* See export.h: the table of formats, and the walk over the events. */
#include "sessions/export/export_impl.h"

#include <errno.h>

#include "base/text.h"
#include "trace/reader.h"

enum { REPORT_EVERY = 4096 };

static const struct export_ops *const all[] = { &export_perfetto, &export_csv, &export_jsonl,
	&export_html };

static const struct export_ops *export_find(const char *name, struct err *e)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	err_set(e, ERR_USAGE, "no format \"%.40s\": there are perfetto, csv, jsonl and html", name);
	return NULL;
}

static void take_setting(struct lossy_settings *l, const struct ev_setting *s)
{
	for (int i = 0; i < l->n; i++)
		if (ev_is(s->name, l->row[i]->name))
			ev_copy(l->value[i], LOSSY_VALUE, s->value);
}

static void note_lossy(struct exporter *x)
{
	const char *last = strrchr(x->lossy, ';');
	char now[sizeof x->lossy];

	lossy_print(&x->settings, now, sizeof now);
	if (*now && strcmp(last ? last + 2 : x->lossy, now) != 0)
		text_append(x->lossy, sizeof x->lossy, "; ", "%s", now);
}

int export_flush(struct exporter *x, struct err *e)
{
	return fflush(x->out) || ferror(x->out)
			   ? err_set(e, ERR_IO, "writing failed: %s", strerror(errno))
			   : 0;
}

int export_goes_on(struct exporter *x, int64_t done, int64_t last, struct err *e)
{
	if (++x->n_rows % REPORT_EVERY == 0 && x->o->progress && !x->o->progress(x->o->arg, done, last))
		return err_set(e, ERR_INTERRUPTED, "stopped");
	if (x->no_memory)
		return err_no_memory(e, "this session; csv and jsonl need none");
	return ferror(x->out) ? export_flush(x, e) : 0;
}

static int export_walk(
	struct exporter *x, const struct export_ops *ops, struct reader *r, struct err *e)
{
	struct event ev;
	int rc;

	while ((rc = reader_next(r, &ev, e)) > 0) {
		if (ev.kind == EV_attached && ops->engine)
			return err_set(e, ERR_INPUT,
				"another server computed this session, and told nothing of the steps and pages "
				"that %s draws: csv, jsonl, cast and pictures of views have what it told",
				ops->name);
		if (ev.kind == EV_vocab)
			x->no_memory |= !ev_texts_keep(&x->texts, &ev.u.vocab);
		if (ev.kind == EV_setting)
			take_setting(&x->settings, &ev.u.setting);
		if (ev.kind == EV_step)
			note_lossy(x);
		if (ops->event)
			ops->event(x, &ev);
		if (export_goes_on(x, ev.seq, reader_info(r)->last_seq, e))
			return -1;
	}
	return rc;
}

int export_session(const char *path, const struct export_options *o, FILE *out, struct err *e)
{
	struct exporter x = { .out = out, .path = path, .o = o, .settings = lossy_query(NULL, NULL) };
	const struct export_ops *ops = export_find(o->to, e);
	struct reader *r = NULL;
	int rc = 0;

	if (!ops)
		return -1;
	if (ops == &export_csv)
		return export_table(&x, e);
	if (reader_open(&r, path, e))
		return -1;
	if (ops->kinds)
		reader_only(r, ops->kinds | EV_BIT(attached) | EV_BIT(setting) | EV_BIT(step));
	if ((ops->begin && ops->begin(&x, e)) || export_walk(&x, ops, r, e))
		rc = -1;
	if (ops->end && ops->end(&x, rc ? NULL : r, e))
		rc = -1;
	reader_close(r);
	ev_texts_free(&x.texts);
	return rc ? rc : export_flush(&x, e);
}

/* ---- JSON ---- */

void export_json_text(struct exporter *x, const void *text, size_t size)
{
	char *json = text_json(text ? text : "", size);

	fputs(json ? json : "\"\"", x->out);
	x->no_memory |= !json;
	free(json);
}

void export_json_token(struct exporter *x, int64_t id)
{
	const struct ev_text *t = ev_texts_get(&x->texts, id);

	if (t)
		export_json_text(x, t->bytes, t->size);
	else
		fprintf(x->out, "\"<%lld>\"", (long long)id);
}

void export_json_real(FILE *out, const char *before, double v)
{
	fputs(before, out);
	if (isfinite(v))
		fprintf(out, "%.9g", v);
	else
		fputs("null", out);
}

void export_hex(FILE *out, struct ev_span bytes)
{
	for (size_t i = 0; bytes.data && i < bytes.size; i++)
		fprintf(out, "%02x", ((const unsigned char *)bytes.data)[i]);
}

static void candidate(struct exporter *x, const void *item)
{
	const struct ev_candidate *c = item;

	fprintf(x->out, "{\"id\":%u,\"text\":", c->id);
	export_json_token(x, c->id);
	export_json_real(x->out, ",\"logit\":", (double)c->logit);
	export_json_real(x->out, ",\"p\":", (double)c->p);
	export_json_real(x->out, ",\"arrival\":", (double)c->arrival);
	fprintf(x->out, ",\"cut\":\"%s\"}", ev_code_name("cut", c->cut));
}

static void sampler_stage(struct exporter *x, const void *item)
{
	const struct ev_stage *s = item;

	fprintf(x->out, "{\"left\":%u", s->left);
	export_json_real(x->out, ",\"mass\":", (double)s->mass);
	export_json_real(x->out, ",\"value\":", (double)s->value);
	putc('}', x->out);
}

static void kernel_stage(struct exporter *x, const void *item)
{
	const struct ev_stage_time *s = item;

	fprintf(x->out, "{\"stage\":\"%s\",\"ns\":%llu,\"bytes\":%llu,\"ops\":%llu}",
		ev_code_name("stage", (int64_t)s->stage), (unsigned long long)s->ns,
		(unsigned long long)s->bytes, (unsigned long long)s->ops);
}

static void word(struct exporter *x, const void *item)
{
	fprintf(x->out, "%u", *(const uint32_t *)item);
}

void export_json_blob(struct exporter *x, enum ev_kind kind, const char *field, struct ev_span blob)
{
	static const struct {
		enum ev_kind kind;
		const char *field;
		size_t each;
		void (*write)(struct exporter *x, const void *item);
	} known[] = {
		{ EV_token, "candidates", sizeof(struct ev_candidate), candidate },
		{ EV_token, "stages", sizeof(struct ev_stage), sampler_stage },
		{ EV_time, "stages", sizeof(struct ev_stage_time), kernel_stage },
		{ EV_request, "prompt", sizeof(uint32_t), word },
	};
	struct ev_stage_time item; /* room for the largest */

	if (kind == EV_vocab) {
		export_json_text(x, blob.data, blob.size);
		return;
	}
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].kind == kind && !strcmp(known[i].field, field)) {
			putc('[', x->out);
			for (size_t k = 0; ev_item(blob, k, &item, known[i].each); k++) {
				fputs(k ? "," : "", x->out);
				known[i].write(x, &item);
			}
			putc(']', x->out);
			return;
		}
	putc('"', x->out);
	export_hex(x->out, blob);
	putc('"', x->out);
}
