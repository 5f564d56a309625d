/* See prompts.h. */
#include "simulate/prompts.h"

#include <stdlib.h>

#include "base/err.h"

struct prompt_job {
	struct prompt_job *next;
	struct request *r; /* NULL: called back */
	int32_t pos, rows, end;
};

static void begin_chunk(struct prompt_rank *p)
{
	struct prompt_job *j = p->job;
	struct step_shape shape = { 0 };

	if (!j)
		return;
	j->rows = j->end - j->pos < p->of->chunk ? j->end - j->pos : p->of->chunk;
	step_shape_add(&shape, j->pos, j->rows, 0);
	p->of->begins(p->of->arg, p, &shape);
}

static int64_t rows_before(const struct prompt_rank *p)
{
	int64_t n = 0;

	for (const struct prompt_job *j = p->job; j; j = j->next)
		n += j->end - j->pos;
	return n;
}

/* By the rank with the fewest rows before it. */
static bool take(void *arg, struct request *r, int32_t n)
{
	struct prompts *p = arg;
	struct prompt_rank *best = p->rank;
	struct prompt_job *j = calloc(1, sizeof *j), **at;

	if (!j)
		return false;
	for (int32_t i = 1; i < p->n; i++)
		if (rows_before(&p->rank[i]) < rows_before(best))
			best = &p->rank[i];
	*j = (struct prompt_job){ .r = r, .pos = r->computed, .end = r->computed + n };
	for (at = &best->job; *at; at = &(*at)->next)
		;
	*at = j;
	if (j == best->job)
		begin_chunk(best);
	return true;
}

/* The chunk that runs is computed to its end, as by the engine's ranks. */
static void recall(void *arg, struct request *r)
{
	struct prompts *p = arg;

	for (int32_t i = 0; i < p->n; i++)
		for (struct prompt_job **at = &p->rank[i].job; *at; at = &(*at)->next)
			if ((*at)->r == r) {
				struct prompt_job *j = *at;

				j->r = NULL;
				if (j != p->rank[i].job) {
					*at = j->next;
					free(j);
				}
				return;
			}
}

void prompts_chunk_ended(struct prompt_rank *p)
{
	struct prompt_job *j = p->job;

	j->pos += j->rows;
	if (j->r) {
		j->r->computed = j->pos;
		sched_register(p->of->sched, j->r);
	}
	if (!j->r || j->pos == j->end) {
		if (j->r)
			j->r->where = REQUEST_HERE;
		p->job = j->next;
		free(j);
	}
	begin_chunk(p);
}

bool prompts_run(const struct prompts *p)
{
	for (int32_t i = 0; i < p->n; i++)
		if (p->rank[i].job)
			return true;
	return false;
}

int prompts_open(struct prompts *p, const struct engine_options *o, struct sched *s, struct err *e)
{
	if (!o->prefill_ranks)
		return 0;
	p->rank = calloc((size_t)o->prefill_ranks, sizeof *p->rank);
	if (!p->rank)
		return err_no_memory(e, "%d prefill ranks", o->prefill_ranks);
	for (; p->n < o->prefill_ranks; p->n++)
		p->rank[p->n] = (struct prompt_rank){ .of = p, .number = p->n };
	p->chunk = s->chunk && s->chunk < s->budget ? s->chunk : s->budget;
	p->sched = s;
	s->hand_over = take;
	s->recall = recall;
	s->hand_arg = p;
	return 0;
}

void prompts_close(struct prompts *p)
{
	for (int32_t i = 0; i < p->n; i++)
		for (struct prompt_job *j = p->rank[i].job, *next; j; j = next) {
			next = j->next;
			free(j);
		}
	free(p->rank);
}
