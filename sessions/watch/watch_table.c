/* The columns that an expression can name, and the virtual table `now`, which returns those of the
 * step that ended. See watch.h. */
#include <pthread.h>

#include "base/near.h"
#include "sessions/watch/watch_impl.h"

static const struct watch_column extra_columns[] = {
#define X(name, unit, doc) { #name, unit, doc },
	EXTRA(X)
#undef X
};
static const struct watch_column text_column = { "text", "", "text of the token" };

/* Where the columns of `now` come from, in their order. */
enum from { FROM_STEP, FROM_TOKEN, FROM_TEXT, FROM_EXTRA };
struct source {
	enum from from;
	int field;     /* of ev_info, or number of an extra */
	size_t offset; /* of the member in the event's struct */
	enum ev_type type;
	bool is_code; /* the values have a code list, whose names are shown */
	struct watch_column column;
};

enum { MAX_COLUMNS = 64 };
static struct source sources[MAX_COLUMNS];
static int n_sources;

/* ---- columns ---- */

static bool is_known(const char *name)
{
	for (int i = 0; i < n_sources; i++)
		if (!strcmp(sources[i].column.name, name))
			return true;
	return false;
}

static void add_source(struct source s)
{
	if (n_sources < MAX_COLUMNS && !is_known(s.column.name))
		sources[n_sources++] = s;
}

static bool names_a_list(const char *unit)
{
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (!strcmp(c->list, unit))
			return true;
	return false;
}

static void add_fields(enum ev_kind kind, enum from from)
{
	size_t offset = 0;

	for (int i = 0; i < ev_info[kind].n_fields; i++) {
		const struct ev_field *f = &ev_info[kind].fields[i];

		if (f->type < EV_TYPE_T)
			add_source((struct source){
				from, i, offset, f->type, names_a_list(f->unit), { f->name, f->unit, f->doc } });
		offset += ev_field_size(f->type);
	}
}

static void fill_sources(void)
{
	add_fields(EV_step, FROM_STEP);
	add_fields(EV_token, FROM_TOKEN);
	add_source((struct source){ .from = FROM_TEXT, .type = EV_TYPE_T, .column = text_column });
	for (int i = 0; i < N_EXTRAS; i++)
		add_source((struct source){
			.from = FROM_EXTRA, .field = i, .type = EV_TYPE_I, .column = extra_columns[i] });
}

/* Shared by all sets; made once, from constants. */
void watch_make_columns(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_sources);
}

const struct watch_column *watch_column(int n)
{
	watch_make_columns();
	return n >= 0 && n < n_sources ? &sources[n].column : NULL;
}

bool watch_is_of_step(int n)
{
	return sources[n].from == FROM_STEP || sources[n].from == FROM_EXTRA;
}

const char *watch_nearest(const char *name)
{
	struct near n = NEAR_NONE;

	for (int i = 0; watch_column(i); i++)
		near_try(&n, name, watch_column(i)->name);
	return n.best;
}

/* ---- the virtual table ---- */

struct table {
	sqlite3_vtab base;
	const struct watch_set *set;
};
struct cursor {
	sqlite3_vtab_cursor base;
	int row;
};

static int connect_table(
	sqlite3 *db, void *set, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
	char sql[2048];
	size_t used = (size_t)snprintf(sql, sizeof sql, "CREATE TABLE now(");
	struct table *t = sqlite3_malloc(sizeof *t);

	(void)argc;
	(void)argv;
	(void)error;
	if (!t)
		return SQLITE_NOMEM;
	memset(t, 0, sizeof *t);
	t->set = set;
	for (int i = 0; i < n_sources; i++)
		used += (size_t)snprintf(
			sql + used, sizeof sql - used, "%s\"%s\"", i ? "," : "", sources[i].column.name);
	snprintf(sql + used, sizeof sql - used, ")");
	*out = &t->base;
	return sqlite3_declare_vtab(db, sql);
}

static int disconnect_table(sqlite3_vtab *t)
{
	sqlite3_free(t);
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
	(void)t;
	info->estimatedCost = 1;
	return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
	struct cursor *c = sqlite3_malloc(sizeof *c);

	(void)t;
	if (!c)
		return SQLITE_NOMEM;
	memset(c, 0, sizeof *c);
	*out = &c->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *c)
{
	sqlite3_free(c);
	return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *c, int n, const char *s, int argc, sqlite3_value **argv)
{
	(void)n;
	(void)s;
	(void)argc;
	(void)argv;
	((struct cursor *)c)->row = 0;
	return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *c)
{
	((struct cursor *)c)->row++;
	return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *c)
{
	const struct watch_set *s = ((struct table *)c->pVtab)->set;

	return ((struct cursor *)c)->row >= (s->n_tokens ? s->n_tokens : 1);
}

static int row_id(sqlite3_vtab_cursor *c, sqlite3_int64 *id)
{
	*id = ((struct cursor *)c)->row;
	return SQLITE_OK;
}

static void give_text(sqlite3_context *out, const struct watch_set *s, const struct ev_token *t)
{
	const struct ev_text *text = t ? ev_texts_get(&s->texts, t->id) : NULL;

	if (text)
		sqlite3_result_text(out, text->bytes, (int)text->size, SQLITE_STATIC);
}

static void give_member(sqlite3_context *out, const struct source *from, const void *event)
{
	const char *at = (const char *)event + from->offset;
	int64_t i;
	double r;

	if (from->type == EV_TYPE_R) {
		memcpy(&r, at, sizeof r);
		if (!isnan(r))
			sqlite3_result_double(out, r);
		return;
	}
	memcpy(&i, at, sizeof i);
	if (i == EV_NULL_I)
		return;
	if (from->is_code)
		sqlite3_result_text(out, ev_code_name(from->column.unit, i), -1, SQLITE_STATIC);
	else
		sqlite3_result_int64(out, i);
}

static int column(sqlite3_vtab_cursor *c, sqlite3_context *out, int n)
{
	const struct watch_set *s = ((struct table *)c->pVtab)->set;
	const int row = ((struct cursor *)c)->row;
	const struct ev_token *t = row < s->n_tokens ? &s->token[row] : NULL;
	const struct source *from = &sources[n];

	if (from->from == FROM_STEP)
		give_member(out, from, &s->step);
	else if (from->from == FROM_TOKEN && t)
		give_member(out, from, t);
	else if (from->from == FROM_TEXT)
		give_text(out, s, t);
	else if (from->from == FROM_EXTRA)
		sqlite3_result_int64(out, s->shown[from->field]);
	return SQLITE_OK; /* without a result the value is NULL */
}

const sqlite3_module watch_table = {
	.xConnect = connect_table,
	.xDisconnect = disconnect_table,
	.xBestIndex = best_index,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next_row,
	.xEof = at_end,
	.xColumn = column,
	.xRowid = row_id,
};
