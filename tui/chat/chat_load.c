/* /load: background requests, from the shipped prompts or of a kind of load
 * (load/workload.h). */

#include "load/load.h"
#include "tui/chat/chat.h"

enum { LOAD_TOKENS = 128 };

/* What is submitted between the same two steps; texts and ids are its own. */
struct batch {
	struct engine_request *request;
	char **text; /* of the request's label */
	int n;
	struct err err;
};

static const struct setting number_row = {
	.type = SETTING_NUMBER, .name = "load", .low = 1, .high = 256, .step = 1
};

static void submit(struct engine *engine, void *arg)
{
	struct batch *b = arg;

	for (int i = 0; i < b->n; i++)
		if (engine_submit(engine, &b->request[i], &b->err) < 0)
			return;
}

/* Frees a batch, submitted or not. */
static void loaded(void *app, void *arg)
{
	struct batch *b = arg;

	for (int i = 0; b->request && b->text && i < b->n; i++) {
		free((void *)(uintptr_t)b->request[i].ids);
		free(b->text[i]);
	}
	free(b->request);
	free(b->text);
	if (app)
		app_complain(app, &b->err);
}

/* Request i of the shipped prompts: room in *out and *text. */
static int shipped(struct chat *c, int i, struct engine_request *out, char **text, int32_t **ids,
	size_t *n, struct err *e)
{
	const struct engine_info *info = engine_info(c->live.session.engine);
	const struct chat_input chat = engine_chat(c->live.session.engine);
	const char *system = answer_system(&c->settings, info->default_system), *label;
	size_t cap = 0;

	*text = load_prompt(i, &label);
	if (!*text)
		return err_no_memory(e, "background requests");
	*out = chat_request(c, EV_REQUEST_KIND_load, &(struct conversation_prompt){ .text = label }, i);
	if (!out->max_tokens)
		out->max_tokens = LOAD_TOKENS;
	return template_first(&chat, system, *text, strlen(*text), ids, n, &cap, e);
}

/* The next request of a load. */
static int of_kind(struct chat *c, const struct workload_options *o, struct workload *w,
	struct engine_request *out, char **text, int32_t **ids, size_t *n, struct err *e)
{
	struct arrival a;

	if (workload_next(w, &a, e) < 0 || !(*text = malloc(32)))
		return err_no_memory(e, "background requests");
	snprintf(*text, 32, "%s %lld", workload_kinds[a.kind].name, (long long)a.number + 1);
	*out = chat_request(
		c, EV_REQUEST_KIND_load, &(struct conversation_prompt){ .text = *text }, a.number);
	if (!out->max_tokens || out->max_tokens > a.n_output)
		out->max_tokens = a.n_output;
	out->priority = a.priority;
	return load_ids(o, &a, c->live.session.engine, ids, n, e);
}

/* b->n requests more, from number c->next_load on; kind WORKLOAD_KINDS: of the shipped prompts. */
static int fill(struct chat *c, int n, int kind, struct batch *b, struct err *e)
{
	const struct workload_options o = { .arrivals = WORKLOAD_UNIFORM,
		.rate = 1,
		.n = (int64_t)c->next_load + n,
		.kinds = 1u << kind,
		.limit = load_limit(c->live.session.engine),
		.seed = c->settings.params.seed };
	struct workload *w = NULL;
	struct arrival skipped;
	int rc = kind < WORKLOAD_KINDS ? workload_open(&w, &o, e) : 0;

	for (int i = 0; w && !rc && i < c->next_load; i++)
		rc = workload_next(w, &skipped, e) < 0;
	for (; !rc && b->n < n; b->n += !rc) {
		struct engine_request *q = &b->request[b->n];
		int32_t *ids = NULL;
		size_t n_ids = 0;

		rc = w ? of_kind(c, &o, w, q, &b->text[b->n], &ids, &n_ids, e)
			   : shipped(c, c->next_load + b->n, q, &b->text[b->n], &ids, &n_ids, e);
		if (rc)
			free(ids);
		q->ids = ids;
		q->n_ids = (int32_t)n_ids;
		q->stop = NULL;
	}
	workload_close(w);
	if (rc)
		free(b->text[b->n]); /* of the one that failed */
	return rc ? -1 : 0;
}

int chat_load(struct app *a, const char *text, struct err *e)
{
	const size_t word = strcspn(text, " ");
	const char *name = text + word + strspn(text + word, " ");
	double number = 1;
	char first[24];
	struct batch b = { 0 };
	int kind = *name ? 0 : WORKLOAD_KINDS, rc = -1;

	snprintf(first, sizeof first, "%.*s", (int)(word < 23 ? word : 23), text);
	if (*first && setting_put(&number_row, &number, first, e))
		return -1;
	while (kind < WORKLOAD_KINDS && strcmp(name, workload_kinds[kind].name))
		kind++;
	if (*name && kind == WORKLOAD_KINDS)
		return err_set(
			e, ERR_USAGE, "load: %.30s is no kind: chat, document, edit or system", name);
	b.request = calloc((size_t)number, sizeof *b.request);
	b.text = calloc((size_t)number, sizeof *b.text);
	if (!b.request || !b.text)
		err_no_memory(e, "background requests");
	else if (!fill(a->chat, (int)number, kind, &b, e))
		rc = actor_post(a->chat->live.session.actor, submit, loaded, &b, sizeof b)
				 ? 0
				 : err_no_memory(e, "background requests");
	a->chat->next_load += b.n;
	if (rc)
		loaded(NULL, &b);
	else
		app_say(a, SAY_INFO,
			"%d background request%s: /view requests shows them, /cancel ends them", b.n,
			plural(b.n));
	return rc;
}
