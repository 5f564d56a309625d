/* See bisect.h. */
#include "sessions/verify/bisect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe/probe.h"
#include "kernels/kernels.h"

enum { REF_ROWS = 16 };

struct run {
	struct bisect *b;
	const struct bisect_options *o;
	const int32_t *ids;
	int32_t n;
	/* [n + 1] of the rows that predict positions 1 … n, as far as computed */
	int64_t *hash[BISECT_MAX_ENDS];
};

static bool is_stopped(const struct run *r)
{
	return r->o->stop && atomic_load(r->o->stop);
}

static void bisect_say(const struct run *r, const char *fmt, const struct bisect_end *end)
{
	char name[40], text[120];

	bisect_describe_end(end, name, sizeof name);
	snprintf(text, sizeof text, fmt, name);
	if (r->o->progress)
		r->o->progress(r->o->arg, text);
}

void bisect_describe_end(const struct bisect_end *end, char *buf, size_t cap)
{
	bool plain = !end->isa[0] || strcmp(end->backend, "ref") == 0;

	snprintf(buf, cap, "%s%s%s", end->backend, plain ? "" : " ", plain ? "" : end->isa);
}

/* ---- the back ends ---- */

static void add_end(struct bisect *b, const char *backend, const char *isa)
{
	struct bisect_end *end = &b->end[b->n_ends];

	if (!backend || !*backend || b->n_ends == BISECT_MAX_ENDS)
		return;
	isa = isa && strcmp(backend, "ref") ? isa : "";
	for (int i = 0; i < b->n_ends; i++)
		if (!strcmp(b->end[i].backend, backend) && (!*isa || !strcmp(b->end[i].isa, isa)))
			return;
	snprintf(end->backend, sizeof end->backend, "%s", backend);
	snprintf(end->isa, sizeof end->isa, "%s", isa);
	b->n_ends++;
}

/* Lists the recorded back end, the one in use, and all of this processor; the slow reference is
 * last. "cpu scalar" runs the reference's own functions. */
static void list_ends(struct bisect *b, const struct bisect_options *o)
{
	const char *const *isas = k_isas();

	if (o->recorded_backend && strcmp(o->recorded_backend, "ref"))
		add_end(b, o->recorded_backend, o->recorded_isa);
	for (int i = 0; isas[i]; i++)
		if (strcmp(isas[i], "scalar"))
			add_end(b, "cpu", isas[i]);
	if (o->used_backend && strcmp(o->used_backend, "ref"))
		add_end(b, o->used_backend, o->used_isa);
	add_end(b, "ref", NULL);
}

static bool is_ref(const struct bisect_end *end)
{
	return !strcmp(end->backend, "ref");
}

static struct engine *open_end(const struct run *r, const struct bisect_end *end, struct err *e)
{
	struct engine_options o = r->o->engine;
	struct engine *engine = NULL;

	o.backend = end->backend;
	o.isa = end->isa[0] ? end->isa : NULL;
	o.ctx = o.ctx > r->n ? o.ctx : r->n + 1;
	o.slots = 1;
	o.page_size = K_GROUP;
	o.pages = (r->n + 2) / K_GROUP + 4;
	o.budget = is_ref(end) ? REF_ROWS : 256; /* it stops soon after a difference */
	o.prefill_chunk = 0;
	o.spec = "off";
	o.abandon = r->o->stop;
	if (!lossy_put(&r->o->lossy, &o, e))
		engine_open(&engine, &o, e);
	return engine;
}

/* ---- the hash of every row ---- */

struct hashing {
	const struct run *r;
	int64_t *hash;
	int32_t rows;        /* rows computed so far */
	bool failed, parted; /* parted: its rows differ from an earlier back end's */
};

static void on_event(void *arg, const struct event *ev)
{
	struct hashing *h = arg;
	const struct bisect *b = h->r->b;
	int64_t pos = ev->u.score.pos;

	if (ev->kind == EV_finish)
		h->failed = ev->u.finish.reason != EV_FINISH_end;
	if (ev->kind != EV_score || pos < 1 || pos > h->r->n)
		return;
	h->hash[pos] = ev->u.score.hash;
	h->rows = (int32_t)pos;
	for (int i = 0; i < b->n_ends; i++)
		h->parted |= b->end[i].ran && h->r->hash[i][pos] != h->hash[pos];
}

/* until_parted: what comes after the first difference does not matter. */
static int hash_rows(
	const struct run *r, struct engine *engine, bool until_parted, struct hashing *h, struct err *e)
{
	struct engine_request q =
		engine_own_request(EV_REQUEST_KIND_score, r->ids, r->n + 1, 0, "bisect");

	if (engine_add_sink(engine, on_event, h))
		return err_set(e, ERR_MEMORY, "the engine takes no sink");
	engine_begin(engine, NULL);
	engine_observe(engine, false);
	q.adapter = r->o->adapter;
	if (engine_submit(engine, &q, e) < 0)
		return -1;
	while (!engine_idle(engine) && !is_stopped(r) && !(until_parted && h->parted))
		if (engine_step(engine, e) < 0)
			return -1;
	if (is_stopped(r))
		return err_set(e, ERR_INTERRUPTED, "stopped");
	return h->failed ? err_set(e, ERR_INPUT, "it computes no numbers (NaN)") : 0;
}

/* A back end that is missing or cannot run is not an error. */
static int try_end(struct run *r, int i, struct err *e)
{
	struct bisect_end *end = &r->b->end[i];
	struct hashing h = { .r = r, .hash = r->hash[i] };
	struct err own = { 0 };
	struct engine *engine;

	bisect_say(r, "hashes by %s", end);
	engine = open_end(r, end, &own);
	if (engine && !hash_rows(r, engine, is_ref(end), &h, &own)) {
		snprintf(end->isa, sizeof end->isa, "%s", engine_info(engine)->isa);
		end->ran = true;
		end->rows = h.rows;
		end->hash = h.rows == r->n ? r->hash[i][r->n] : 0;
		end->matches = h.rows == r->n && end->hash == r->b->recorded;
	}
	engine_close(engine);
	snprintf(end->why, sizeof end->why, "%.*s", (int)sizeof end->why - 1, own.text);
	if (own.code == ERR_INTERRUPTED || own.code == ERR_MEMORY)
		return err_set(e, own.code, "%s", own.text);
	return 0;
}

/* First position at which two back ends differ; INT32_MAX: none that both computed. */
static int32_t parting(const struct run *r, int i, int k)
{
	const struct bisect_end *a = &r->b->end[i], *b = &r->b->end[k];

	for (int32_t p = 1; a->ran && b->ran && p <= a->rows && p <= b->rows; p++)
		if (r->hash[i][p] != r->hash[k][p])
			return p;
	return INT32_MAX;
}

/* Whether the fast back ends leave it open which is right, so that the reference must run. */
static bool is_open(const struct run *r)
{
	const struct bisect *b = r->b;
	int n = 0;

	for (int i = 0; i < b->n_ends; i++) {
		if (!b->end[i].ran)
			continue;
		if (b->end[i].matches)
			return false;
		n++;
		for (int k = 0; k < i; k++)
			if (parting(r, i, k) != INT32_MAX)
				return true;
	}
	return n < 2;
}

/* The pair that differs first; prefers one that gives the recorded hash, then the reference (which
 * is last). */
static bool find_pair(const struct run *r)
{
	struct bisect *b = r->b;
	int32_t first = INT32_MAX;

	for (int pass = 0; pass < 2; pass++)
		for (int i = b->n_ends - 1; i >= 0; i--)
			for (int k = b->n_ends - 1; k >= 0; k--) {
				int32_t p = b->end[i].matches == !pass && i != k ? parting(r, i, k) : INT32_MAX;

				if (p >= first)
					continue;
				first = p;
				b->a = i;
				b->b = k;
			}
	b->pos = first == INT32_MAX ? -1 : first - 1;
	return b->pos >= 0;
}

/* ---- stage by stage ---- */

struct kept_stage {
	struct kept_stage *next;
	int32_t n;
	float values[];
};

struct stages {
	struct bisect *b;
	struct kept_stage *first, **last; /* of a */
	struct kept_stage *at;            /* where b is */
	bool no_memory;
};

static bool keep_stage(void *arg, const struct probe_stage *s)
{
	struct stages *k = arg;
	struct kept_stage *kept = malloc(sizeof *kept + (size_t)s->n_values * sizeof(float));

	k->no_memory = !kept;
	if (!kept)
		return false;
	kept->next = NULL;
	kept->n = s->n_values;
	memcpy(kept->values, s->values, (size_t)s->n_values * sizeof(float));
	*k->last = kept;
	k->last = &kept->next;
	return true;
}

static void note_difference(
	struct bisect *b, const struct kept_stage *a, const struct probe_stage *s)
{
	b->found = true;
	b->layer = s->layer;
	snprintf(b->stage, sizeof b->stage, "%s", ev_code_name("stage", s->stage));
	snprintf(b->part, sizeof b->part, "%s", s->part);
	b->n_values = s->n_values;
	b->n_differ = 0;
	for (int32_t i = s->n_values - 1; i >= 0; i--)
		if (memcmp(&a->values[i], &s->values[i], sizeof(float))) {
			b->n_differ++;
			b->index = i;
			b->value_a = a->values[i];
			b->value_b = s->values[i];
		}
}

static bool compare_stage(void *arg, const struct probe_stage *s)
{
	struct stages *k = arg;
	const struct kept_stage *a = k->at;

	if (!a || a->n != s->n_values)
		return false;
	k->at = a->next;
	if (!memcmp(a->values, s->values, (size_t)a->n * sizeof(float)))
		return true;
	note_difference(k->b, a, s);
	return false;
}

static int bisect_look(const struct run *r, const struct bisect_end *end, probe_stage_fn *fn,
	struct stages *k, struct err *e)
{
	struct engine *engine;
	int rc = -1;

	bisect_say(r, "stages of %s", end);
	engine = is_stopped(r) ? NULL : open_end(r, end, e);
	if (engine)
		rc = probe_stages(engine, r->o->adapter, r->ids, r->b->pos + 1, fn, k, e);
	else
		err_set(e, ERR_INTERRUPTED, "stopped");
	engine_close(engine);
	if (!rc && k->no_memory)
		return err_no_memory(e, "the stages of a row");
	return rc;
}

static int find_stage(const struct run *r, struct err *e)
{
	struct stages k = { .b = r->b, .last = &k.first };
	struct err own = { 0 };
	int rc = bisect_look(r, &r->b->end[r->b->a], keep_stage, &k, &own);

	k.at = k.first;
	if (!rc)
		rc = bisect_look(r, &r->b->end[r->b->b], compare_stage, &k, &own);
	while (k.first) {
		struct kept_stage *next = k.first->next;

		free(k.first);
		k.first = next;
	}
	/* a device with memory of its own has no stages to compare; the row is known all the same */
	return rc && own.code != ERR_DEVICE ? err_set(e, own.code, "%s", own.text) : 0;
}

int bisect_run(struct bisect *b, const struct bisect_options *o, const int32_t *ids, int32_t n,
	int64_t recorded, struct err *e)
{
	struct run r = { .b = b, .o = o, .ids = ids, .n = n };
	int64_t *hash;
	int rc = 0;

	*b = (struct bisect){ .recorded = recorded, .n = n, .agree = true, .layer = -1, .pos = -1 };
	list_ends(b, o);
	hash = calloc((size_t)b->n_ends * ((size_t)n + 1), sizeof *hash);
	if (!hash)
		return err_no_memory(e, "the hashes of %d rows", n);
	for (int i = 0; !rc && i < b->n_ends; i++) {
		r.hash[i] = hash + (size_t)i * ((size_t)n + 1);
		b->end[i].unasked = is_ref(&b->end[i]) && !is_open(&r);
		if (!b->end[i].unasked)
			rc = try_end(&r, i, e);
	}
	if (!rc && find_pair(&r)) {
		b->agree = false;
		rc = find_stage(&r, e);
	}
	free(hash);
	return rc;
}
