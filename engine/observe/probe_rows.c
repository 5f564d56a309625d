/* See probe.h: the logits of one row after the other. */
#include "engine/core/engine_impl.h"
#include "engine/observe/pass.h"
#include "engine/observe/probe.h"

struct probe_rows {
	struct pass pass;
	int32_t *ids;
	int32_t at, end; /* rows [at, end) are computed and not yet given */
	int32_t given;   /* of them, since they were computed */
};

int probe_rows_open(struct probe_rows **out, struct engine *e, const int32_t *ids, int32_t n,
	int32_t first, struct err *err)
{
	struct probe_rows *r = calloc(1, sizeof *r);

	*out = NULL;
	if (!r || !(r->ids = malloc(((size_t)n + 1) * sizeof *ids))) {
		free(r);
		return err_no_memory(err, "a look at %d tokens", n);
	}
	memcpy(r->ids, ids, (size_t)n * sizeof *ids);
	if (pass_open(&r->pass, e, n, err)) {
		free(r->ids);
		free(r);
		return -1;
	}
	r->pass.adapter = e->model->adapters != NULL; /* as of a request that names none */
	if (pass_prefill(&r->pass, r->ids, first, NULL, NULL, err)) {
		probe_rows_close(r);
		return -1;
	}
	r->at = r->end = first;
	*out = r;
	return 0;
}

static int compute_more(struct probe_rows *r, struct err *err)
{
	struct forward *f = &r->pass.f;
	int32_t left = pass_most(&r->pass, r->end, r->pass.n),
			n = left < f->max_out ? left : f->max_out;

	pass_rows(&r->pass, r->ids, r->end, n, true);
	f->n_out = n;
	for (int32_t i = 0; i < n; i++)
		f->out_row[i] = i;
	r->end += n;
	r->given = 0;
	return forward_run(f, false, err);
}

const float *probe_rows_next(struct probe_rows *r, struct k_logit_stats *stats, struct err *err)
{
	struct forward *f = &r->pass.f;

	if (r->at == r->pass.n || (r->at == r->end && compute_more(r, err)))
		return NULL;
	if (stats)
		*stats = f->stats[r->given];
	r->at++;
	return f->logits + (size_t)r->given++ * (size_t)r->pass.model->config.vocab;
}

void probe_rows_close(struct probe_rows *r)
{
	if (!r)
		return;
	pass_close(&r->pass);
	free(r->ids);
	free(r);
}
