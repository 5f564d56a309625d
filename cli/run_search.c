/* See run.h. */
#include "base/text.h"
#include "cli/run.h"

#include <unistd.h>

#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "engine/search/search.h"
#include "sessions/score/score_command.h"

static int method_of(const struct run_options *r, char *out, size_t cap, struct err *e)
{
	if (!!r->best_of + !!r->beam + !!r->mcts > 1)
		return err_set(e, ERR_USAGE, "--best-of, --beam and --mcts exclude each other");
	if (r->best_of)
		snprintf(out, cap, "best:%s", r->best_of);
	else if (r->beam)
		snprintf(out, cap, "beam:%s", r->beam);
	else
		snprintf(out, cap, "mcts:%s", r->mcts);
	return 0;
}

void run_search_slots(const struct run_options *r, struct cli *c)
{
	const char *width = r->beam ? r->beam : r->best_of;
	long n = width ? strtol(width, NULL, 10) : 0;

	if (!cli_given(c, "slots") && n > c->engine.slots && n <= 64)
		c->engine.slots = (int32_t)n;
}

static int print_json(
	const struct cli *c, const struct tokenizer *t, const struct search_view *v, struct err *e)
{
	for (int32_t i = 0; i < v->n_answers; i++) {
		const struct search_answer *a = &v->answer[i];
		struct json j = { 0 };
		size_t size;
		char *text = prompt_answer(c, t, a->ids, (size_t)a->n, &size);

		if (!text)
			return err_no_memory(e, "an answer");
		json_put(&j,
			"{'rank': %d, 'request': %ld, 'score': %.9g, 'logp': %.9g, 'tokens': %d, "
			"'finish': %s",
			i + 1, a->request, a->score, a->logp, a->n, ev_code_name("finish", a->reason));
		json_bytes(&j, "text", text, size);
		free(text);
		if (json_print(&j, e))
			return -1;
	}
	return 0;
}

static int print_best(
	const struct cli *c, const struct tokenizer *t, const struct search_view *v, struct err *e)
{
	size_t size;
	char *text = prompt_answer(c, t, v->answer[0].ids, (size_t)v->answer[0].n, &size);

	if (!text)
		return err_no_memory(e, "the answer");
	fwrite(text, 1, size, stdout);
	if ((!size || text[size - 1] != '\n') && (isatty(STDOUT_FILENO) || !c->raw))
		putchar('\n');
	free(text);
	return 0;
}

static void search_report(
	const char *method, bool by_command, const struct search_view *v, int64_t steps)
{
	double saved = v->unshared > 0 ? 100 * (1 - (double)v->pages / (double)v->unshared) : 0;

	fprintf(stderr, "cutaway: %s: %d answer%s in %lld step%s", method, v->n_answers,
		plural(v->n_answers), (long long)steps, plural(steps));
	for (int32_t i = 0; i < v->n_answers && i < 5; i++)
		fprintf(stderr, "%s%.4g",
			i            ? ", "
			: by_command ? "; the command's scores "
						 : "; log-probability by length ",
			v->answer[i].score);
	fprintf(stderr, "%s\n", v->n_answers > 5 ? ", …" : "");
	fprintf(stderr,
		"cutaway: KV pages: %d at most, %d if none were shared; over all steps %.0f %% saved\n",
		v->most_pages, v->most_unshared, saved);
}

static int search_run(
	struct engine *engine, int64_t search, const char *method, struct search_view *v, struct err *e)
{
	int64_t from = engine_steps(engine), steps;

	while (engine_search_look(engine, search, v) && !v->done) {
		if (atomic_load(&interrupted))
			engine_search_cancel(engine, search);
		else if (engine_step(engine, e) < 0)
			return -1;
		steps = engine_steps(engine) - from;
		if (!(steps & 15))
			out_progress("%s: step %lld, %d branches, %d answers", method, (long long)steps,
				v->n_running, v->n_answers);
	}
	out_progress_end();
	return 0;
}

static int print(
	const struct cli *c, struct engine *engine, const struct search_view *v, struct err *e)
{
	if (v->err.code)
		return err_set(e, v->err.code, "%s", v->err.text);
	if (!v->n_answers)
		return v->cancelled ? 0 : err_set(e, ERR_INPUT, "the search found no answer");
	return c->json ? print_json(c, engine_tokenizer(engine), v, e)
				   : print_best(c, engine_tokenizer(engine), v, e);
}

int run_search(const struct cli *c, const struct run_options *r, struct engine *engine,
	const struct engine_request *q, struct err *e)
{
	struct score_command scorer = { .command = r->score };
	struct search_options o = { 0 };
	struct search_view v = { 0 };
	char method[80];
	int64_t search, from = engine_steps(engine);
	int result = -1;

	if (method_of(r, method, sizeof method, e))
		return -1;
	o.method = method;
	if (r->score) {
		o.score = score_command;
		o.arg = &scorer;
		o.scorer = r->score;
	}
	search = engine_search(engine, &o, q, e);
	if (search < 0)
		return -1;
	if (!search_run(engine, search, method, &v, e) && !print(c, engine, &v, e) && !out_flush(e)) {
		search_report(method, r->score != NULL, &v, engine_steps(engine) - from);
		result = v.cancelled ? err_set(e, ERR_INTERRUPTED, "interrupted%s",
								   v.n_answers ? "" : " before there was an answer")
							 : 0;
	}
	engine_search_close(engine, search);
	return result;
}
