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

static int unknown(const struct engine *e, const char *name, struct err *err)
{
	char names[200] = "";

	for (int32_t i = 0; e->adapter_name[i]; i++)
		text_append(names, sizeof names, ", ", "%s", e->adapter_name[i]);
	return err_set(err, ERR_USAGE, "adapter %.60s: %s%s", name,
		*names ? "it is none of --lora's: " : "the model was opened without adapters: see --lora",
		names);
}

/* Where tokens are given, a name has a number from its first request on. */
int engine_adapter_find(struct engine *e, const char *name, int32_t *number, struct err *err)
{
	const char **own = e->adapter_name;

	*number = 0;
	if (!name || !*name) {
		*number = *own != NULL && !e->given;
		return 0;
	}
	if (!strcmp(name, "off"))
		return 0;
	while (*own && strcmp(*own, name) != 0)
		own++;
	if (!*own && e->given && own < e->adapter_name + ADAPTERS_MOST)
		*own = setting_keep("", name, strlen(name));
	if (!*own)
		return unknown(e, name, err);
	*number = (int32_t)(own - e->adapter_name) + 1;
	return 0;
}

int engine_adapt(
	struct engine *e, const struct engine_request *q, struct request *r, struct err *err)
{
	if (engine_adapter_find(e, q->adapter, &r->adapter, err))
		return -1;
	r->adapter_name = r->adapter ? e->adapter_name[r->adapter - 1] : NULL;
	return 0;
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
		ev.u.adapter.bytes = a->n_weights * (int64_t)sizeof(float);
		if (a->alpha != 0)
			ev.u.adapter.alpha = a->alpha;
		ev.u.adapter.scale = a->scale;
		stream_emit(&e->stream, &ev);
	}
}
