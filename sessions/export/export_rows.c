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

static const struct ev_info *table_of(const char *name)
{
	for (int k = 0; k < EV_N_KINDS; k++)
		if (strcmp(ev_info[k].name, name) == 0)
			return &ev_info[k];
	return NULL;
}

static void csv_value(struct exporter *x, sqlite3_stmt *s, int column)
{
	struct ev_span bytes;
	double v;

	switch (sqlite3_column_type(s, column)) {
	case SQLITE_NULL: break;
	case SQLITE_INTEGER: fprintf(x->out, "%lld", sqlite3_column_int64(s, column)); break;
	case SQLITE_FLOAT:
		v = sqlite3_column_double(s, column);
		if (isfinite(v))
			fprintf(x->out, "%.17g", v);
		break;
	case SQLITE_TEXT:
		csv_text(x->out, (const char *)sqlite3_column_text(s, column),
			(size_t)sqlite3_column_bytes(s, column));
		break;
	default:
		bytes.data = sqlite3_column_blob(s, column);
		bytes.size = (size_t)sqlite3_column_bytes(s, column);
		if (x->packed && times_unpack(&x->unpacked, bytes, &bytes))
			x->no_memory = true;
		export_hex(x->out, bytes);
	}
}

/* Header and rows. Returns SQLite's code. */
static int csv_rows(struct exporter *x, sqlite3_stmt *s, struct err *e)
{
	const int n = sqlite3_column_count(s);
	int rc;

	sqlite3_bind_int64(s, 1, 1); /* of a table: from which event on */
	for (int i = 0; i < n; i++)
		fprintf(x->out, "%s%s", i ? "," : "", sqlite3_column_name(s, i));
	fputs("\r\n", x->out);
	while (!e->code && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		for (int i = 0; i < n; i++) {
			fputs(i ? "," : "", x->out);
			csv_value(x, s, i);
		}
		fputs("\r\n", x->out);
		export_goes_on(x, 0, 1, e);
	}
	return e->code ? SQLITE_DONE : rc;
}

/* The statement of a table or view of that name; NULL: there is none, or no memory. */
static char *rows_sql(const char *name, const struct ev_info *info)
{
	const struct schema_view *v = schema_views;
	char *rows = info ? schema_select_sql((enum ev_kind)(info - ev_info)) : NULL, *sql;

	while (v->name && strcmp(v->name, name) != 0)
		v++;
	if (info != &ev_info[EV_token])
		return info || !v->name ? rows : sqlite3_mprintf("SELECT * FROM temp.\"%w\"", name);
	sql = sqlite3_mprintf("SELECT t.*, CAST(v.bytes AS TEXT) AS text FROM (%s) t LEFT JOIN"
						  " main.vocab v ON v.id = t.id ORDER BY t.seq",
		rows);
	sqlite3_free(rows);
	return sql;
}

int export_table(struct exporter *x, struct err *e)
{
	const char *name = x->o->table ? x->o->table : "token";
	const struct ev_info *info = table_of(name);
	char *sql = rows_sql(name, info);
	sqlite3_stmt *s = NULL;
	struct foreign f;

	if (!sql)
		return err_set(e, ERR_USAGE,
			"no table or view \"%.40s\" in a recording: docs/trace.md lists them; token, tokens, "
			"step, request and latency are some",
			name);
	x->packed = info == &ev_info[EV_time];
	if (!foreign_open(&f, x->path, e)) {
		if (schema_temp_views(f.db) || sqlite3_prepare_v2(f.db, sql, -1, &s, NULL) ||
			csv_rows(x, s, e) != SQLITE_DONE)
			foreign_fail(f.db, x->path, e);
		sqlite3_finalize(s);
		foreign_close(&f);
	}
	sqlite3_free(sql);
	free(x->unpacked.data);
	return e->code ? -1 : export_flush(x, e);
}

const struct export_ops export_csv = { .name = "csv" };
