/* Opens, steps and ends searches; their members are in search_member.c. See search.h and
 * search_impl.h. */
#include "base/array.h"
#include "base/text.h"
#include "engine/search/search_impl.h"

enum { WAIT_MS = 5 };

struct searches { /* of one engine */
	struct search *first;
	int64_t n;
	uint8_t *page_seen; /* scratch, of a pool that settings may make anew */
	size_t n_seen;
};

extern const struct step_hooks search_hooks;

static struct searches *searches_of(const struct engine *e)
{
	return engine_hook_state(e, &search_hooks);
}

/* ---- telling ---- */

struct ev_search *search_event(
	const struct search *s, enum ev_code_search_action action, struct event *ev)
{
	ev_init(ev, EV_search);
	ev->u.search.step = s->engine->n_steps;
	ev->u.search.search = s->id;
	ev->u.search.action = action;
	return &ev->u.search;
}

void search_emit(const struct search *s, struct event *ev)
{
	stream_emit(&s->engine->stream, ev);
}

static void emit_begin(const struct search *s)
{
	struct event ev;
	struct ev_search *t = search_event(s, EV_SEARCH_begin, &ev);

	t->tokens = s->q.n_ids;
	t->method = ev_text(s->options.method);
	t->judge = ev_text(s->options.scorer);
	search_emit(s, &ev);
}

static void emit_stopped(const struct search *s, const char *why)
{
	struct event ev;
	struct ev_search *t = search_event(s, EV_SEARCH_stopped, &ev);

	t->method = ev_text(why);
	search_emit(s, &ev);
}

/* Emits the best answer as an ordinary request: it never runs, since all of it is computed. */
static int emit_answer(struct search *s, struct err *err)
{
	const struct search_answer *a = &s->answer[0];
	struct engine_request q = s->q;
	struct ev_token *token = malloc((size_t)a->n * sizeof *token + 1);
	int64_t number;

	if (!token)
		return err_no_memory(err, "the answer of a search");
	q.parent = a->request;
	q.max_tokens = a->n;
	for (int32_t i = 0; i < a->n; i++) {
		const struct search_token *k = &a->token[i];
		struct event ev;

		ev_init(&ev, EV_token);
		token[i] = ev.u.token;
		token[i].id = a->ids[i];
		token[i].p = k->p;
		token[i].entropy = k->entropy;
		token[i].hash = k->hash;
		token[i].source = EV_SOURCE_taken;
	}
	number = engine_note_answer(s->engine, &q, token, a->n, a->reason, s->arrival_ns, err);
	free(token);
	s->view.taken = number > 0 ? number : 0;
	return number > 0 ? 0 : -1;
}

static void emit_won(const struct search *s)
{
	const struct search_answer *a = &s->answer[0];
	struct event ev;
	struct ev_search *t = search_event(s, EV_SEARCH_won, &ev);

	t->request = a->request;
	t->tokens = a->n;
	t->logp = a->logp;
	t->score = a->score;
	search_emit(s, &ev);
}

/* ---- the search ---- */

static struct search *search_find(const struct engine *e, int64_t id)
{
	for (struct search *s = searches_of(e)->first; s; s = s->next)
		if (s->id == id)
			return s;
	return NULL;
}

static void drop_all(struct search *s)
{
	while (s->n_members)
		search_drop(s, s->member[s->n_members - 1]);
}

static void free_search(struct search *s)
{
	if (s->state && s->ops->close)
		s->ops->close(s);
	free(s->state);
	search_forget_waiting(s);
	for (int32_t i = 0; i < s->n_answers; i++) {
		free(s->answer[i].ids);
		free(s->answer[i].token);
	}
	setting_stops_free(&s->stops);
	free((void *)(uintptr_t)s->q.ids);
	free((void *)(uintptr_t)s->q.text);
	free((void *)(uintptr_t)s->q.user);
	free((void *)(uintptr_t)s->options.method);
	free((void *)(uintptr_t)s->options.scorer);
	free(s->biased);
	free(s->waiting);
	free(s->answer);
	free(s);
}

/* Of a text its own copy; NULL stays. */
static bool copy_text(const char **text)
{
	if (!*text)
		return true;
	*text = strdup(*text);
	return *text;
}

/* Takes the caller's request and options, and copies all that their pointers point to. */
static bool copy_request(
	struct search *s, const struct search_options *o, const struct engine_request *q)
{
	int32_t *ids = malloc((size_t)q->n_ids * sizeof *ids);
	const char **const texts[] = { &s->q.text, &s->q.user, &s->options.method, &s->options.scorer };
	bool copied = ids;

	s->q = *q;
	s->options = *o;
	s->q.ids = ids;
	if (ids)
		memcpy(ids, q->ids, (size_t)q->n_ids * sizeof *ids);
	for (int i = 0; i < 4; i++) /* all of them, so that none is the caller's any more */
		copied &= copy_text(texts[i]);
	s->q.stop = setting_stops(&s->stops);
	return (!q->stop || setting_stops_take(&s->stops, q->stop)) && copied;
}

static const struct search_ops *method_of(const char *text, const char **args, struct err *e)
{
	size_t n = strcspn(text, ":");
	char known[160] = "";

	*args = text[n] ? text + n + 1 : NULL;
	for (int i = 0; search_table[i]; i++) {
		const struct search_method *a = &search_table[i]->about;

		if (strlen(a->name) == n && !memcmp(a->name, text, n))
			return search_table[i];
		text_append(known, sizeof known, ", ", "%s[:%s]", a->name, a->args);
	}
	err_set(e, ERR_USAGE, "no search is called '%.40s'; there are: %s", text, known);
	return NULL;
}

static int open_search(
	struct search *s, const struct search_options *o, const struct engine_request *q, struct err *e)
{
	const char *args;

	if (!copy_request(s, o, q))
		return err_no_memory(e, "a search");
	s->ops = method_of(s->options.method, &args, e);
	if (!s->ops || s->ops->open(s, args, e))
		return -1;
	if (s->ops->chooses && s->width > s->engine->info.slots)
		return err_set(e, ERR_USAGE, "%s needs %d slots, the engine has %d: see --slots",
			s->options.method, s->width, s->engine->info.slots);
	if (s->ops->chooses && s->q.params.logit_bias.n &&
		!(s->biased = malloc((size_t)s->engine->info.vocab * sizeof *s->biased)))
		return err_no_memory(e, "a row with logit bias");
	return 0;
}

/* The prompt as the model's requests have it (an encoder's input is closed): what members add is
 * counted from there. */
static int take_form(struct search *s, struct err *e)
{
	const struct request_form *form = s->engine->form;
	int32_t *ids = NULL, *own = (int32_t *)(uintptr_t)s->q.ids;
	const int rc = form ? form->vet(s->engine, &s->q, true, &ids, e) : 0;

	if (ids)
		free(own);
	return rc;
}

int64_t engine_search(struct engine *e, const struct search_options *o,
	const struct engine_request *q, struct err *err)
{
	struct searches *all = searches_of(e);
	struct search *s;

	if (q->n_ids < 1)
		return err_set(err, ERR_USAGE, "the prompt is empty; a search needs at least one token");
	s = calloc(1, sizeof *s);
	if (!s)
		return err_no_memory(err, "a search");
	s->engine = e;
	if (open_search(s, o, q, err) || take_form(s, err)) {
		free_search(s);
		return -1;
	}
	s->id = ++all->n;
	s->arrival_ns = stream_now(&e->stream);
	s->next = all->first;
	all->first = s;
	emit_begin(s);
	if (s->ops->begin(s, err)) {
		engine_search_close(e, s->id);
		return -1;
	}
	return s->id;
}

int engine_search_check(struct engine *e, const struct search_options *o, struct err *err)
{
	const int32_t id = 0;
	const struct engine_request q = { .ids = &id, .n_ids = 1 };
	struct search *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_no_memory(err, "a search");
	s->engine = e;
	rc = open_search(s, o, &q, err);
	free_search(s);
	return rc;
}

static void end_search(struct search *s)
{
	drop_all(s);
	search_forget_waiting(s);
	s->view.done = true;
	if (!s->n_answers) {
		if (!s->view.cancelled && !s->view.err.code)
			emit_stopped(s, "it found no answer");
		return;
	}
	emit_won(s);
	emit_answer(s, s->view.err.code ? NULL : &s->view.err);
}

bool engine_search_cancel(struct engine *e, int64_t search)
{
	struct search *s = search_find(e, search);

	if (!s || s->view.done)
		return false;
	s->view.cancelled = true;
	emit_stopped(s, "cancelled");
	end_search(s);
	return true;
}

bool engine_search_look(const struct engine *e, int64_t search, struct search_view *out)
{
	const struct search *s = search_find(e, search);

	if (!s)
		return false;
	*out = s->view;
	out->answer = s->answer;
	out->n_answers = s->n_answers;
	out->n_running = s->n_members;
	out->n_waiting = s->n_waiting;
	return true;
}

void engine_search_close(struct engine *e, int64_t search)
{
	struct search **at = &searches_of(e)->first, *s;

	while (*at && (*at)->id != search)
		at = &(*at)->next;
	s = *at;
	if (!s)
		return;
	drop_all(s);
	*at = s->next;
	free_search(s);
}

/* ---- each step ---- */

static void count_table(
	const struct memory_table *t, int32_t g, uint8_t *page_seen, int32_t *pages, int32_t *unshared)
{
	for (int32_t b = 0; b < t->n; b++) {
		int32_t page = t->page[g][b];

		if (page < 0)
			continue;
		++*unshared;
		*pages += !page_seen[page];
		page_seen[page] = 1;
	}
}

/* Pages of all members, each page once, and as if none were shared. */
static void count_pages(struct search *s, uint8_t *page_seen)
{
	struct engine *e = s->engine;
	int32_t pages = 0, unshared = 0;

	for (int32_t g = 0; g < e->memory.spec.n; g++) {
		memset(page_seen, 0, (size_t)e->memory.pages[g].n_pages);
		for (int32_t i = 0; i < s->n_members; i++)
			count_table(&s->member[i]->r->table, g, page_seen, &pages, &unshared);
	}
	s->view.pages += pages;
	s->view.unshared += unshared;
	if (unshared > s->view.most_unshared) {
		s->view.most_unshared = unshared;
		s->view.most_pages = pages;
	}
	STREAM_EMIT(&e->stream, sharing, .step = e->n_steps, .search = s->id, .members = s->n_members,
		.pages = pages, .unshared = unshared);
}

static void advance(struct search *s, int wait_ms)
{
	struct err *err = &s->view.err;

	if (!err->code)
		search_score_waiting(s, wait_ms, err);
	if (!err->code && s->ops->step)
		s->ops->step(s, err);
	if (err->code)
		emit_stopped(s, err->text);
	if (err->code || (!s->n_members && !s->n_waiting))
		end_search(s);
}

static void searches_done(struct engine *e, void *state)
{
	struct searches *all = state;

	for (struct search *s = all->first; s; s = s->next) {
		if (s->view.done)
			continue;
		if (s->n_members && ARRAY_ROOM(all->page_seen, all->n_seen, memory_most_pages(&e->memory)))
			count_pages(s, all->page_seen);
		advance(s, 0);
	}
}

/* There may be no step for it: an answer waits for its score, or its last members ended outside of
 * one, for want of pages or cancelled. */
static bool is_due(const struct search *s)
{
	return s->n_waiting || (!s->view.done && !s->n_members);
}

static bool searches_busy(const struct engine *e, const void *state)
{
	const struct searches *all = state;

	(void)e;
	for (const struct search *s = all->first; s; s = s->next)
		if (is_due(s))
			return true;
	return false;
}

static void searches_wait(struct engine *e, void *state)
{
	struct searches *all = state;

	(void)e;
	for (struct search *s = all->first; s; s = s->next)
		if (is_due(s))
			advance(s, WAIT_MS);
}

/* The youngest of the members that wait for their next token: the logits of its row are known, so
 * releasing its pages costs only time. */
static struct search_member *find_rested(const struct search *s)
{
	struct search_member *rested = NULL;

	for (int32_t i = 0; i < s->n_members; i++) {
		struct search_member *m = s->member[i];

		if (m->held && m->r->slot >= 0 && (!rested || m->r->admitted > rested->r->admitted))
			rested = m;
	}
	return rested;
}

/* A request waits for pages held by members that themselves wait for other members; or the last
 * that these waited for ended outside of a step, and they go on. */
static void searches_stuck(struct engine *e, void *state)
{
	struct searches *all = state;

	for (struct search *s = all->first; s; s = s->next) {
		struct search_member *m;

		if (s->view.done)
			continue;
		advance(s, 0);
		m = find_rested(s);
		if (m) {
			sched_rest(&e->sched, m->r);
			return;
		}
	}
}

/* ---- the hook ---- */

static void searches_close(struct engine *e, void *state)
{
	struct searches *all = state;

	while (all->first)
		engine_search_close(e, all->first->id);
	free(all->page_seen);
}

const struct step_hooks search_hooks = {
	.name = "search",
	.size = sizeof(struct searches),
	.close = searches_close,
	.busy = searches_busy,
	.wait = searches_wait,
	.stuck = searches_stuck,
	.done = searches_done,
};
