/* The adapters of requests (engine/model/adapters.h): which one a request has, and what is told of
 * them. Of an engine whose tokens are given, names alone: its prompts are found again by them. */
#include "base/text.h"
#include "engine/core/engine_impl.h"

int engine_adapters_check(struct engine *e, struct engine_options *o, struct err *err)
{
	e->info.adapters = e->adapter_name;
	if (!o->lora || !*o->lora)
		return 0;
	if (o->ranks > 1 || o->prefill_ranks || o->follows ||
		o->tensor_parallel * o->pipeline_parallel * o->sequence_parallel > 1)
		return err_set(err, ERR_USAGE, "lora: adapters are for one rank alone; not with ranks");
	e->lora = strdup(o->lora);
	if (!e->lora)
		return err_no_memory(err, "the engine");
	o->lora = e->lora;
	return 0;
}

/* Of given tokens: a name has a number from its first request on. */
static int32_t number_of(struct engine *e, const char *name)
{
	int32_t i = 0;

	while (i < e->n_named && strcmp(e->named[i], name) != 0)
		i++;
	if (i == e->n_named && i < ADAPTERS_MOST)
		snprintf(e->named[e->n_named++], ADAPTER_NAME, "%s", name);
	return i < e->n_named ? i + 1 : 0;
}

static int unknown(const struct engine *e, const char *name, struct err *err)
{
	const struct adapters *a = e->model ? e->model->adapters : NULL;
	char names[200] = "";

	for (int32_t i = 0; a && i < a->n; i++)
		text_append(names, sizeof names, ", ", "%s", a->adapter[i].name);
	return err_set(err, ERR_USAGE, "adapter %.60s: %s%s", name,
		a ? "it is none of --lora's: " : "the model was opened without adapters: see --lora",
		names);
}

int engine_adapter_find(struct engine *e, const char *name, int32_t *number, struct err *err)
{
	const struct adapters *a = e->model ? e->model->adapters : NULL;

	*number = 0;
	if (!name || !*name)
		*number = a != NULL;
	else if (strcmp(name, "off") != 0)
		*number = e->given ? number_of(e, name) : adapters_find(a, name);
	return *number || !name || !*name || !strcmp(name, "off") ? 0 : unknown(e, name, err);
}

int engine_adapt(
	struct engine *e, const struct engine_request *q, struct request *r, struct err *err)
{
	if (engine_adapter_find(e, q->adapter, &r->adapter, err))
		return -1;
	if (r->adapter)
		r->adapter_name =
			e->given ? e->named[r->adapter - 1] : e->model->adapters->adapter[r->adapter - 1].name;
	return 0;
}

/* Bytes that a token reads of an adapter. */
static int64_t bytes_of(const struct adapter *a)
{
	return a->n_weights * (int64_t)sizeof(float);
}

void engine_emit_adapters(struct engine *e)
{
	const struct adapters *all = e->model ? e->model->adapters : NULL;
	struct event ev;

	for (int32_t i = 0; all && i < all->n; i++) {
		const struct adapter *a = &all->adapter[i];

		ev_init(&ev, EV_adapter);
		ev.u.adapter.adapter = i + 1;
		ev.u.adapter.name = ev_text(a->name);
		ev.u.adapter.path = ev_text(a->path);
		ev.u.adapter.sha256 = ev_text(a->sha256);
		ev.u.adapter.rank = a->rank;
		ev.u.adapter.matrices = a->n_matrices;
		ev.u.adapter.weights = a->n_weights;
		ev.u.adapter.bytes = bytes_of(a);
		if (a->alpha != 0)
			ev.u.adapter.alpha = a->alpha;
		ev.u.adapter.scale = a->scale;
		stream_emit(&e->stream, &ev);
	}
}
