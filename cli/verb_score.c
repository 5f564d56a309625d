/* cutaway score: the log-probability of each token of a text. Thread: main's. */
#include <math.h>

#include "base/json.h"
#include "cli/out.h"
#include "cli/open.h"
#include "cli/prompt.h"
#include "sessions/price/apart.h"

static struct score_opts {
	bool apart;
} opts;

static const struct setting score_own[] = {
	OWN(FLAG, score_opts, apart, "apart", "Score",
		"with several lossy settings: what each of them costs alone, and all but each, beside the "
		"exact twin"),
	{ 0 },
};

struct score {
	double *logp;         /* [n - 1], of the token at position i + 1; from `first` on */
	int32_t n;            /* tokens of the text */
	int32_t first;        /* of them, those that an encoder reads */
	int32_t n_seen;       /* score events */
	struct prices prices; /* with a twin */
	struct apart apart;   /* with --apart */
	bool finished;
	enum ev_code_finish reason;
	char why[256];
};

static void on_event(void *arg, const struct event *ev)
{
	struct score *s = arg;
	apart_see(&s->apart, ev);
	if (ev->kind == EV_score && s->logp && ev->u.score.pos > 0 && ev->u.score.pos < s->n) {
		s->logp[ev->u.score.pos - 1] = ev->u.score.logp;
		s->n_seen++;
	}
	prices_add(&s->prices, ev);
	if (ev->kind == EV_finish) {
		s->finished = true;
		s->reason = (enum ev_code_finish)ev->u.finish.reason;
		ev_copy(s->why, sizeof s->why, ev->u.finish.why);
	}
}

static int score_text(
	struct score *s, struct engine *engine, const int32_t *ids, const char *text, struct err *e)
{
	const struct engine_request q = engine_own_request(EV_REQUEST_KIND_score, ids, s->n, 0, text);
	int more = 1;
	s->logp = calloc((size_t)s->n, sizeof *s->logp);
	if (!s->logp)
		return err_no_memory(e, "%d tokens", s->n);
	if (engine_submit(engine, &q, e) < 0)
		return -1;
	while (engine_info(engine)->start >= 0 && ids[s->first] != engine_info(engine)->start)
		s->first++;
	while (!s->finished && more > 0)
		more = engine_step(engine, e);
	if (more < 0)
		return -1;
	if (s->reason == EV_FINISH_refused || s->reason == EV_FINISH_context)
		return err_set(e, ERR_USAGE, "the text could not be scored: %s",
			*s->why ? s->why : "the context is full; see --ctx");
	if (s->reason == EV_FINISH_failed || s->n_seen != s->n - 1 - s->first)
		return err_set(e, ERR_INPUT, "the text could not be scored (%d of %d tokens): %s",
			s->n_seen, s->n - 1 - s->first, *s->why ? s->why : "the arithmetic gave a NaN");
	return 0;
}

static double perplexity(const struct score *s)
{
	double sum = 0;
	for (int32_t i = s->first; i < s->n - 1; i++)
		sum += s->logp[i];
	return exp(-sum / (s->n - 1 - s->first));
}

static void json_prices(struct json *j, const struct prices *p)
{
	if (!p->n)
		return;
	json_put(j, "'exact_perplexity': %.9g, 'mean_kl': %.9g, 'best_equal': %d",
		prices_exact_perplexity(p), prices_kl(p), p->n_equal);
}

static int print_json(const struct score *s, const int32_t *ids, const char *model, struct err *e)
{
	struct json j = { 0 };
	json_object(&j, NULL);
	json_text(&j, "model", model);
	json_ids(&j, "ids", ids, (size_t)s->n);
	json_array(&j, "logp");
	for (int32_t i = s->first; i < s->n - 1; i++)
		json_real(&j, NULL, s->logp[i], 7);
	json_end(&j);
	json_real(&j, "perplexity", perplexity(s), 9);
	json_prices(&j, &s->prices);
	return json_print(&j, e);
}

static void print_table(const struct score *s, const int32_t *ids, const struct engine *engine)
{
	const struct tokenizer *t = engine_tokenizer(engine);

	for (int32_t i = s->first + 1; i < s->n; i++) {
		struct gguf_text bytes = tokenizer_bytes(t, ids[i]);
		printf("%6d %7d %10.4f  ", i, ids[i], s->logp[i - 1]);
		for (size_t k = 0; k < bytes.size; k++) {
			unsigned char b = (unsigned char)bytes.data[k];
			printf(b < 0x20 || b >= 0x7f || b == '\\' ? "\\x%02x" : "%c", b);
		}
		putchar('\n');
	}
	printf("\n%d tokens, perplexity %.4f by %s\n", s->n - s->first, perplexity(s),
		engine_info(engine)->name);
	if (s->prices.n)
		printf(
			"exact: perplexity %.4f; KL %.6f nats a token; most probable token equal in %d of %d\n",
			prices_exact_perplexity(&s->prices), prices_kl(&s->prices), s->prices.n_equal,
			s->prices.n);
}

/* What each of several lossy settings costs in the text. */
static int score_apart(struct score *s, struct engine *engine, const int32_t *ids, struct err *e)
{
	struct apart *a = &s->apart;
	int more = 1;
	if (apart_begin(a, engine, ids, s->n, e))
		return -1;
	while ((more = apart_next(a, engine, e)) > 0) {
		out_progress("scoring %d of %d: %.60s", a->next, a->n, a->one[a->next - 1].name);
		for (s->finished = false; !s->finished && more > 0;)
			more = engine_step(engine, e);
		if (more >= 0 && (s->reason == EV_FINISH_refused || s->reason == EV_FINISH_context ||
							 s->reason == EV_FINISH_failed))
			more = err_set(
				e, ERR_USAGE, "the text could not be scored: %s", *s->why ? s->why : "see --ctx");
		if (more < 0)
			break;
	}
	out_progress_end();
	return more;
}

static int print_apart(const struct apart *a, bool as_json, struct err *e)
{
	struct json j = { 0 };
	if (!as_json) {
		apart_print(a, stdout);
		return 0;
	}
	json_object(&j, NULL);
	json_array(&j, "cases");
	for (int i = 0; i < a->n; i++) {
		const struct apart_case *c = &a->one[i];
		json_put(&j, "{'settings': %s, 'perplexity': %.9g", c->name, prices_perplexity(&c->sum));
		json_prices(&j, &c->sum);
		json_end(&j);
	}
	json_end(&j);
	return json_print(&j, e);
}

static int score_verb(const struct cli *c, struct err *e)
{
	struct score s = { 0 };
	struct session session = { 0 };
	struct cli quiet = *c;
	char *text = NULL;
	int32_t *ids = NULL;
	size_t size, n = 0;
	quiet.no_record = true;
	if (in_read(c->operand[0], &text, &size, e) || cli_open(&session, &quiet, on_event, &s, e))
		goto out;
	const struct tokenizer *t = engine_tokenizer(session.engine);
	if (prompt_encode(t, text, size, &ids, &n, e))
		goto out;
	if (n < 2) {
		err_set(e, ERR_USAGE, "%s: a text of at least two tokens is needed, this has %zu",
			c->operand[0], n);
		goto out;
	}
	s.n = (int32_t)n;
	if (opts.apart ? score_apart(&s, session.engine, ids, e)
				   : score_text(&s, session.engine, ids, text, e))
		goto out;
	if (opts.apart)
		print_apart(&s.apart, c->json, e);
	else if (c->json)
		print_json(&s, ids, engine_info(session.engine)->name, e);
	else
		print_table(&s, ids, session.engine);
out:
	cli_close(&session, &quiet, e);
	free(s.logp);
	free(ids);
	free(text);
	return e->code ? -1 : 0;
}

const struct verb verb_score = {
	VERB(score, "FILE", "Model|Kernels|Exactness|json"),
	OPERANDS(1, 1, "FILE"),
};
