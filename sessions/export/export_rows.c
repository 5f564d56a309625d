/* csv and jsonl: the event table as it is, row by row. */
#include "base/listing.h"
#include "sessions/export/export_impl.h"
#include "trace/foreign.h"
#include "trace/schema.h"

/* ---- jsonl ---- */

/* A number as text; "": it is absent. */
static const char *number_text(const struct ev_field *f, const void *member, char out[32])
{
	const int64_t *i = member;
	const double *r = member;

	out[0] = '\0';
	if (f->type == EV_TYPE_I && *i != EV_NULL_I)
		snprintf(out, 32, "%lld", (long long)*i);
	else if (f->type == EV_TYPE_R && isfinite(*r))
		snprintf(out, 32, "%.17g", *r);
	return out;
}

static void json_field(
	struct exporter *x, const struct event *ev, const struct ev_field *f, const void *member)
{
	const struct ev_span *span = member;
	char number[32];

	if (f->type < EV_TYPE_T ? !*number_text(f, member, number) : !span->data)
		return;
	fprintf(x->out, ",\"%s\":", f->name);
	if (f->type < EV_TYPE_T)
		fputs(number, x->out);
	else if (f->type == EV_TYPE_T)
		export_json_text(x, span->data, span->size);
	else
		export_json_blob(x, ev->kind, f->name, *span);
}

static void jsonl_event(struct exporter *x, const struct event *ev)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;

	fprintf(x->out, "{\"event\":\"%s\",\"seq\":%lld,\"t_ns\":%lld", info->name, (long long)ev->seq,
		(long long)ev->t_ns);
	for (int i = 0; i < info->n_fields; i++) {
		json_field(x, ev, &info->fields[i], member);
		member += ev_field_size(info->fields[i].type);
	}
	if (ev->kind == EV_token) {
		fputs(",\"text\":", x->out);
		export_json_token(x, ev->u.token.id);
	}
	fputs("}\n", x->out);
}

const struct export_ops export_jsonl = { .name = "jsonl", .event = jsonl_event };

/* ---- csv (RFC 4180) ---- */

static const struct ev_info *table_of(const struct exporter *x)
{
	const char *name = x->o->table ? x->o->table : "token";

	for (int k = 0; k < EV_N_KINDS; k++)
		if (strcmp(ev_info[k].name, name) == 0)
			return &ev_info[k];
	return NULL;
}

static int csv_begin(struct exporter *x, struct err *e)
{
	const struct ev_info *info = table_of(x);

	if (!info)
		return err_set(e, ERR_USAGE,
			"no table or view \"%.40s\" in a recording: docs/trace.md lists them; token, tokens, "
			"step, request and latency are some",
			x->o->table);
	fputs("seq,t_ns", x->out);
	for (int i = 0; i < info->n_fields; i++)
		fprintf(x->out, ",%s", info->fields[i].name);
	fputs(info == &ev_info[EV_token] ? ",text\r\n" : "\r\n", x->out);
	return 0;
}

static void csv_field(struct exporter *x, const struct ev_field *f, const void *member)
{
	const struct ev_span *span = member;
	char number[32];

	putc(',', x->out);
	if (f->type < EV_TYPE_T)
		fputs(number_text(f, member, number), x->out);
	else if (f->type == EV_TYPE_T && span->data)
		csv_text(x->out, span->data, span->size);
	else if (f->type == EV_TYPE_B)
		export_hex(x->out, *span);
}

static void csv_event(struct exporter *x, const struct event *ev)
{
	const struct ev_info *info = table_of(x);
	const char *member = (const char *)&ev->u;
	const struct ev_text *text;

	if (info != &ev_info[ev->kind])
		return;
	fprintf(x->out, "%lld,%lld", (long long)ev->seq, (long long)ev->t_ns);
	for (int i = 0; i < info->n_fields; i++) {
		csv_field(x, &info->fields[i], member);
		member += ev_field_size(info->fields[i].type);
	}
	if (ev->kind == EV_token) {
		putc(',', x->out);
		text = ev_texts_get(&x->texts, ev->u.token.id);
		if (text)
			csv_text(x->out, text->bytes, text->size);
	}
	fputs("\r\n", x->out);
}

const struct export_ops export_csv = { .name = "csv", .begin = csv_begin, .event = csv_event };

/* ---- csv of a view ---- */

static void csv_value(struct exporter *x, sqlite3_stmt *s, int column)
{
	switch (sqlite3_column_type(s, column)) {
	case SQLITE_NULL: break;
	case SQLITE_INTEGER: fprintf(x->out, "%lld", sqlite3_column_int64(s, column)); break;
	case SQLITE_FLOAT: fprintf(x->out, "%.17g", sqlite3_column_double(s, column)); break;
	default:
		csv_text(x->out, sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column));
		break;
	}
}

/* Header and rows. Returns SQLite's code. */
static int csv_rows(struct exporter *x, sqlite3_stmt *s)
{
	const int n = sqlite3_column_count(s);
	int rc;

	for (int i = 0; i < n; i++)
		fprintf(x->out, "%s%s", i ? "," : "", sqlite3_column_name(s, i));
	fputs("\r\n", x->out);
	while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
		for (int i = 0; i < n; i++) {
			fputs(i ? "," : "", x->out);
			csv_value(x, s, i);
		}
		fputs("\r\n", x->out);
		if (ferror(x->out) ||
			(++x->n % 1024 == 0 && x->o->progress && !x->o->progress(x->o->arg, 0, 1)))
			return SQLITE_INTERRUPT;
	}
	return rc;
}

int export_view(struct exporter *x, const char *path, struct err *e)
{
	const struct schema_view *v = schema_views;
	sqlite3_stmt *s = NULL;
	struct foreign f;
	char *sql;
	int rc;

	while (v->name && strcmp(v->name, x->o->table) != 0)
		v++;
	if (!v->name)
		return 1;
	if (foreign_open(&f, path, e))
		return -1;
	sql = sqlite3_mprintf("SELECT * FROM temp.\"%w\"", v->name);
	rc = !sql || schema_temp_views(f.db) || sqlite3_prepare_v2(f.db, sql, -1, &s, NULL);
	if (rc || (rc = csv_rows(x, s)) != SQLITE_DONE)
		rc == SQLITE_INTERRUPT ? err_set(e, ERR_IO, "writing failed") : foreign_fail(f.db, path, e);
	sqlite3_free(sql);
	sqlite3_finalize(s);
	foreign_close(&f);
	if (!e->code && (fflush(x->out) || ferror(x->out)))
		err_set(e, ERR_IO, "writing failed");
	return e->code ? -1 : 0;
}
