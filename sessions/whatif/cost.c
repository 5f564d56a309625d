/* Shapes, prices, and the file that they are kept in. See cost.h. */
#include "sessions/whatif/cost.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/whole_file.h"

static const char head[] = "cutaway cost 1";
static const double MOST = 1e15; /* ns: eleven days for one of anything */

/* The numbers of a file: prices, which it must have, then the rest. */
static const struct {
	const char *name, *doc;
	size_t at; /* of a struct cost */
} numbers[] = {
#define X(name, value, doc)                                                                        \
	{ #name, doc, offsetof(struct cost, ns) + COST_##name * sizeof(double) },
	COST_TERMS(X)
#undef X
		{ "token_bytes", "bytes of keys and values of a token",
			offsetof(struct cost, token_bytes) },
#define X(name, doc) { #name, doc, offsetof(struct cost, model.name) },
	COST_MODEL(X)
#undef X
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

void step_shape_add(struct step_shape *s, int32_t pos, int32_t rows, int32_t outs)
{
	s->rows += rows;
	s->outs += outs;
	s->requests++;
	s->pairs += (int64_t)rows * pos + (int64_t)rows * (rows + 1) / 2;
	s->positions += pos + rows;
}

static bool sane(int64_t n)
{
	return n >= 0 && n <= 1 << 24;
}

bool step_shape_event(struct step_shape *s, const struct event *ev)
{
	const struct ev_batch *b = &ev->u.batch;

	switch (ev->kind) {
	case EV_batch:
		if (sane(b->pos) && sane(b->rows) && sane(s->rows + b->rows))
			step_shape_add(s, (int32_t)b->pos, (int32_t)b->rows, 0);
		return false;
	case EV_token: s->outs += ev->u.token.source != EV_SOURCE_forced; return false;
	case EV_score: s->outs++; return false;
	case EV_step: /* a row of logits for each token drawn, and for each draft that was rejected */
		s->outs += sane(ev->u.step.rejected) ? (int32_t)ev->u.step.rejected : 0;
		return true;
	default: return false;
	}
}

void cost_terms_of(const struct step_shape *s, double x[N_COST_TERMS])
{
#define X(name, value, doc) x[COST_##name] = (double)(value);
	COST_TERMS(X)
#undef X
}

double cost_step_s(const struct cost *c, const struct step_shape *s)
{
	double x[N_COST_TERMS], ns = 0;

	cost_terms_of(s, x);
	for (int i = 0; i < N_COST_TERMS; i++)
		ns += c->ns[i] * x[i];
	return ns * 1e-9;
}

/* ---- the file ---- */

static void write_numbers(const struct cost *c, FILE *out)
{
	for (int i = 0; i < N_NUMBERS; i++) {
		double x;

		memcpy(&x, (const char *)c + numbers[i].at, sizeof x);
		if (i <= N_COST_TERMS || x > 0)
			fprintf(out, "%-12s %-12.9g # %s\n", numbers[i].name, x, numbers[i].doc);
	}
}

static void write_products(const struct cost_model *m, FILE *out)
{
	if (m->n_products)
		fprintf(out, "# stage, format, inputs, outputs, matrices of a token, their bytes\n");
	for (int32_t i = 0; i < m->n_products; i++) {
		const struct tl_product *p = &m->product[i];

		fprintf(out, "%-12s %s %s %d %d %d %" PRId64 "\n", p->each_row ? "experts" : "product",
			ev_code_name("stage", p->stage), p->format, p->inputs, p->outputs, p->n, p->bytes);
	}
}

int cost_write(const struct cost *c, const char *path, struct err *e)
{
	struct whole_file f;

	if (whole_file_open(&f, path, e))
		return -1;
	fprintf(f.out, "%s\n# nanoseconds for one of each, fitted to %" PRId64 " steps\n", head,
		c->n_steps);
	fprintf(f.out,
		"# on steps held out: median error %.2f %% of a step, %+.2f %% of all together\n",
		100 * c->error, 100 * c->bias);
	write_numbers(c, f.out);
	write_products(&c->model, f.out);
	return whole_file_close(&f, ferror(f.out), e);
}

static int stage_of(const char *name)
{
	for (int i = 0; name && i < EV_N_stage; i++)
		if (!strcmp(ev_code_name("stage", i), name))
			return i;
	return -1;
}

/* "STAGE FORMAT INPUTS OUTPUTS N BYTES" */
static int read_product(struct cost_model *m, char *rest, bool each_row, const char **why)
{
	char stage[16], format[12];
	struct ev_product e = { .row_bytes = 0, .each_row = each_row };
	int end = -1;

	*why = "a product has a stage, a format and four numbers of 1 or more";
	if (sscanf(rest, "%15s %11s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %n", stage, format,
			&e.inputs, &e.outputs, &e.n, &e.bytes, &end) != 6 ||
		end < 0 || rest[end] || (e.stage = stage_of(stage)) < 0)
		return -1;
	if (m->n_products == TL_PRODUCTS) {
		*why = "too many products";
		return -1;
	}
	e.format = ev_text(format);
	if (!tl_product_of(&m->product[m->n_products], &e))
		return -1;
	m->n_products++;
	return 0;
}

/* "name value", the rest of the line being empty or a comment; or a product. */
static int read_line(struct cost *c, char *line, bool seen[N_NUMBERS], const char **why)
{
	char *name, *value, *rest = NULL, *end;
	double x;
	int i = 0;

	line[strcspn(line, "#\r\n")] = 0;
	name = strtok_r(line, " \t", &rest);
	if (!name)
		return 0;
	if (!strcmp(name, "product") || !strcmp(name, "experts"))
		return read_product(&c->model, rest, *name == 'e', why);
	value = strtok_r(NULL, " \t", &rest);
	while (i < N_NUMBERS && strcmp(numbers[i].name, name) != 0)
		i++;
	*why = i == N_NUMBERS ? "no such term"
		   : seen[i]      ? "a second time"
						  : "its value is no number of 0 or more";
	if (i == N_NUMBERS || seen[i] || !value || strtok_r(NULL, " \t", &rest))
		return -1;
	errno = 0;
	x = strtod(value, &end);
	if (*end || errno || !(x >= 0 && x <= MOST))
		return -1;
	seen[i] = true;
	memcpy((char *)c + numbers[i].at, &x, sizeof x);
	return 0;
}

static int read_all(struct cost *c, FILE *f, const char *path, struct err *e)
{
	bool seen[N_NUMBERS] = { false };
	const char *why = "";
	char line[256];
	int n = 1;

	if (!fgets(line, sizeof line, f) || strncmp(line, head, strlen(head)) ||
		(line[strlen(head)] && line[strlen(head)] != '\n'))
		return err_set(e, ERR_INPUT,
			"%s: not a cost file, whose first line is \"%s\": cutaway simulate --fit FILE "
			"--save-cost FILE makes one",
			path, head);
	while (fgets(line, sizeof line, f)) {
		n++;
		if (!strchr(line, '\n') && !feof(f))
			return err_set(e, ERR_INPUT, "%s: line %d is too long", path, n);
		if (read_line(c, line, seen, &why))
			return err_set(e, ERR_INPUT, "%s: line %d: %s: %s", path, n, line, why);
	}
	if (ferror(f))
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < N_COST_TERMS; i++)
		if (!seen[i])
			return err_set(e, ERR_INPUT, "%s: the price of %s is missing", path, numbers[i].name);
	if (c->ns[COST_step] + c->ns[COST_request] + c->ns[COST_row] + c->ns[COST_first_rows] > 0)
		return 0; /* every step has a member and a row */
	return err_set(e, ERR_INPUT, "%s: steps cost nothing: time would stand still", path);
}

int cost_read(struct cost *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "r");
	int rc;

	memset(c, 0, sizeof *c);
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	rc = read_all(c, f, path, e);
	fclose(f);
	return rc;
}
