/* cutaway run --batch: many prompts, --slots at a time, a line of JSON each. Thread: main's.
 *
 * Line n of the file draws with sample n - 1, so that equal prompts get different answers, and an
 * answer depends on its own line alone: not on what else runs, nor on how many at once. At most two
 * prompts a slot are submitted at a time, so a long file needs no more memory than a short one. */
#include <assert.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/run.h"
#include "cli/out.h"
#include "cli/open.h"
#include "cli/prompt.h"

struct answer {
	int64_t request; /* 0: unused */
	int64_t line;    /* from 1 */
	int32_t *prompt, *ids;
	size_t n_prompt, n, cap;
	bool finished;
	enum ev_code_finish reason;
};

struct batch {
	const struct cli *c;
	const struct tokenizer *tokenizer;
	struct answer *answer;
	int n_answers;
	int in_engine;   /* answers in use */
	int64_t line;    /* the newest */
	int64_t refused; /* the newest request that ended before engine_submit() returned its number */
	bool no_memory;
};

static struct answer *answer_of(struct batch *b, int64_t request)
{
	for (int i = 0; i < b->n_answers; i++)
		if (b->answer[i].request == request)
			return &b->answer[i];
	return NULL;
}

static void keep_token(struct batch *b, const struct ev_token *t)
{
	struct answer *a = answer_of(b, t->request);
	if (!a)
		return;
	if (!ARRAY_ROOM(a->ids, a->cap, a->n + 1)) {
		b->no_memory = true;
		return;
	}
	a->ids[a->n++] = (int32_t)t->id;
}

static void on_event(void *arg, const struct event *ev)
{
	struct batch *b = arg;
	if (ev->kind == EV_token)
		keep_token(b, &ev->u.token);
	if (ev->kind != EV_finish)
		return;
	struct answer *a = answer_of(b, ev->u.finish.request);
	if (!a)
		b->refused = ev->u.finish.request;
	if (a) {
		a->finished = true;
		a->reason = (enum ev_code_finish)ev->u.finish.reason;
	}
}

static int print_answer(struct batch *b, struct answer *a, struct err *e)
{
	struct json j = { 0 };
	size_t size;
	char *text = b->no_memory ? NULL : prompt_answer(b->c, b->tokenizer, a->ids, a->n, &size);
	if (!text)
		return err_no_memory(e, "the answer to line %lld", (long long)a->line);
	json_put(&j, "{'line': %ld, 'finish': %s", a->line, ev_code_name("finish", a->reason));
	json_ids(&j, "prompt", a->prompt, a->n_prompt);
	json_ids(&j, "ids", a->ids, a->n);
	json_bytes(&j, "text", text, size);
	free(text);
	if (json_print(&j, e))
		return -1;
	free(a->prompt);
	a->prompt = NULL;
	a->request = 0;
	a->finished = false;
	a->n = 0;
	b->in_engine--;
	return out_flush(e);
}

static int submit(struct batch *b, struct engine *engine, char *line, size_t size, struct err *e)
{
	struct answer *a = answer_of(b, 0);
	assert(a);
	size = text_unescape(line, size);
	if (prompt_ids(b->c, engine, line, size, &a->prompt, &a->n_prompt, e))
		return -1;
	line[size] = 0; /* where the newline was, or before; in_read() has room after the last */
	struct engine_request q = engine_answer_request(&b->c->answer);

	q.kind = EV_REQUEST_KIND_run;
	q.ids = a->prompt;
	q.n_ids = (int32_t)a->n_prompt;
	q.sample = b->line - 1;
	q.text = line;
	a->line = b->line;
	int64_t request = engine_submit(engine, &q, e);
	if (request < 0)
		return -1;
	a->request = request;
	if (b->refused == request) {
		a->finished = true;
		a->reason = EV_FINISH_refused;
	}
	b->in_engine++;
	return 0;
}

/* Submits lines from *next on while the engine has fewer than two a slot. */
static int submit_some(
	struct batch *b, struct engine *engine, char **next, char *end, struct err *e)
{
	while (*next < end && b->in_engine < b->n_answers) {
		char *newline = memchr(*next, '\n', (size_t)(end - *next));
		char *line = *next, *stop = newline ? newline : end;
		b->line++;
		*next = stop + (newline != NULL);
		if (stop > line && submit(b, engine, line, (size_t)(stop - line), e))
			return -1;
	}
	return 0;
}

static int run_all(struct batch *b, struct engine *engine, char *data, size_t size, struct err *e)
{
	char *next = data, *end = data + size;
	do {
		if (submit_some(b, engine, &next, end, e))
			return -1;
		if (b->in_engine && engine_step(engine, e) < 0)
			return -1;
		for (int i = 0; i < b->n_answers; i++)
			if (b->answer[i].finished && print_answer(b, &b->answer[i], e))
				return -1;
		if (atomic_load(&interrupted)) {
			e->code = ERR_INTERRUPTED;
			return -1;
		}
	} while (next < end || b->in_engine);
	return 0;
}

static void give_up(struct batch *b, struct engine *engine)
{
	for (int i = 0; b->answer && i < b->n_answers; i++) {
		if (b->answer[i].request)
			engine_cancel(engine, b->answer[i].request);
		free(b->answer[i].prompt);
		b->answer[i].prompt = NULL;
	}
	engine_step(engine, NULL);
}

int batch_run(const struct cli *c, const char *path, struct err *e)
{
	struct batch b = { .c = c };
	struct session s = { 0 };
	char *data = NULL;
	size_t size = 0;
	if (in_read(strcmp(path, "-") ? path : NULL, &data, &size, e) ||
		cli_open(&s, c, on_event, &b, e))
		goto out;
	prompt_note_template(c, s.engine);
	b.tokenizer = engine_tokenizer(s.engine);
	b.n_answers = 2 * engine_info(s.engine)->slots;
	b.answer = calloc((size_t)b.n_answers, sizeof *b.answer);
	if (!b.answer)
		err_no_memory(e, "%d prompts at once", b.n_answers);
	else if (run_all(&b, s.engine, data, size, e))
		give_up(&b, s.engine);
out:
	cli_close(&s, c, e);
	for (int i = 0; b.answer && i < b.n_answers; i++)
		free(b.answer[i].ids);
	free(b.answer);
	free(data);
	return e->code ? -1 : 0;
}
