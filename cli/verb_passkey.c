/* cutaway passkey: whether the model finds a number again that stood in a long text, by depth
 * (Mohtashami and Jaggi 2023, "Landmark attention", section 4.2). Thread: main's. */
#include "base/json.h"
#include "cli/change.h"
#include "cli/open.h"
#include "cli/prompt.h"
#include "engine/lossy.h"
#include "kernels/arith.h"

enum { DIGITS = 5, ANSWER = 8, SEVERAL = 16 };

static const char head[] =
	"There is important information hidden in a lot of irrelevant text. Find it and memorize it. I "
	"will ask you about it.\n";
static const char filler[] =
	"The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
static const char question[] = "What is the pass key? The pass key is";

static struct passkey_opts {
	int32_t tokens, depths, keys;
} opts = { .tokens = 2000, .depths = 11, .keys = 3 };

static const struct setting passkey_own[] = {
	OWN(INT, passkey_opts, tokens, "tokens", "Passkey", "length of the text, about", .arg = "N",
		.low = 128, .high = 1 << 24, .unit = "tokens"),
	OWN(INT, passkey_opts, depths, "depths", "Passkey",
		"places of the key, evenly from the text's begin to its end", .arg = "N", .low = 1,
		.high = 101),
	OWN(INT, passkey_opts, keys, "keys", "Passkey", "keys at each place, drawn by --seed",
		.arg = "N", .low = 1, .high = 100),
	{ 0 },
};

struct trial {
	int64_t request;
	int32_t depth, n_ids; /* % of the text before the key; tokens of the prompt */
	char key[DIGITS + 1];
	char answer[ANSWER * 16]; /* so far */
	bool found;
};
struct passkey {
	struct trial *trial; /* [n] */
	int32_t n, n_ended, n_filler;
	const struct tokenizer *tokenizer;
	char failed[160]; /* why a request was refused or failed; "": none */
};

/* ---- the texts ---- */

/* malloc'd; NULL without memory. */
static char *text_of(int32_t n_filler, const struct trial *t, size_t *size)
{
	const int64_t at = (int64_t)n_filler * t->depth / 100;
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (!out)
		return NULL;
	fputs(head, out);
	for (int32_t i = 0; i <= n_filler; i++) {
		if (i == at)
			fprintf(out, "The pass key is %s. Remember it. %s is the pass key.\n", t->key, t->key);
		fputs(i < n_filler ? filler : question, out);
	}
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* *ids is malloc'd. */
static int ids_of(const struct passkey *p, int32_t n_filler, const struct trial *t, int32_t **ids,
	size_t *n, struct err *e)
{
	size_t size;
	char *text = text_of(n_filler, t, &size);
	const int rc =
		text ? prompt_encode(p->tokenizer, text, size, ids, n, e) : err_no_memory(e, "the text");

	free(text);
	return rc;
}

/* How often the filler makes a text of so many tokens. */
static int fit_length(struct passkey *p, struct err *e)
{
	static const struct trial any = { .key = "12345" };
	int32_t *ids[2] = { NULL };
	size_t n[2] = { 0 };

	if (!ids_of(p, 0, &any, &ids[0], &n[0], e) && !ids_of(p, SEVERAL, &any, &ids[1], &n[1], e)) {
		const int32_t left = opts.tokens - (int32_t)n[0];

		p->n_filler = left < 0 ? 0 : (int32_t)(left * (int64_t)SEVERAL / (int64_t)(n[1] - n[0]));
	}
	free(ids[0]);
	free(ids[1]);
	return e->code ? -1 : 0;
}

/* ---- the answers ---- */

static struct trial *trial_of(struct passkey *p, int64_t request)
{
	for (int32_t i = 0; i < p->n; i++)
		if (p->trial[i].request == request)
			return &p->trial[i];
	return NULL;
}

/* Whether digits of the text are this number, and no others beside them. */
static bool has_number(const char *text, const char *number)
{
	const size_t n = strlen(number);

	for (size_t run; *text; text += run + !run) {
		run = strspn(text, "0123456789");
		if (run == n && !memcmp(text, number, n))
			return true;
	}
	return false;
}

static void see_token(struct trial *t, const struct passkey *p, int32_t id)
{
	const struct gguf_text bytes = tokenizer_bytes(p->tokenizer, id);
	const size_t n = strlen(t->answer), room = sizeof t->answer - n;

	snprintf(t->answer + n, room, "%.*s", (int)bytes.size, bytes.size ? bytes.data : "");
	t->found = has_number(t->answer, t->key);
}

static void on_event(void *arg, const struct event *ev)
{
	struct passkey *p = arg;

	if (ev->kind == EV_token) {
		struct trial *t = trial_of(p, ev->u.token.request);

		if (t && !ev->u.token.is_end)
			see_token(t, p, (int32_t)ev->u.token.id);
	} else if (ev->kind == EV_finish) {
		const enum ev_code_finish reason = (enum ev_code_finish)ev->u.finish.reason;

		p->n_ended++;
		if (reason != EV_FINISH_end && reason != EV_FINISH_length && ev->u.finish.why.data)
			ev_copy(p->failed, sizeof p->failed, ev->u.finish.why);
	}
}

static int ask(struct passkey *p, struct engine *engine, struct trial *t, struct err *e)
{
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .max_tokens = ANSWER, .params = SAMPLE_DEFAULTS, .text = t->key
	};
	int32_t *ids = NULL;
	size_t n;

	if (!ids_of(p, p->n_filler, t, &ids, &n, e)) {
		q.params.temperature = 0;
		q.ids = ids;
		q.n_ids = t->n_ids = (int32_t)n;
		t->request = engine_submit(engine, &q, e);
	}
	free(ids);
	return e->code ? -1 : 0;
}

static int ask_all(struct passkey *p, struct engine *engine, uint64_t seed, struct err *e)
{
	struct bar b = { 0 };
	int more = 1;

	for (int32_t i = 0; i < p->n && !e->code; i++) {
		struct trial *t = &p->trial[i];
		uint32_t word[4];

		k_draw_words(seed, (uint32_t)i, 0, 0, 0, word);
		snprintf(t->key, sizeof t->key, "%u", 10000 + word[0] % 90000);
		t->depth = opts.depths > 1 ? i / opts.keys * 100 / (opts.depths - 1) : 50;
		ask(p, engine, t, e);
	}
	bar_begin(&b);
	while (!e->code && more > 0 && !*p->failed) {
		more = engine_step(engine, e);
		if (!bar_progress(&b, "reading", p->n_ended, p->n))
			err_set(e, ERR_INTERRUPTED, "stopped");
	}
	bar_end();
	return e->code ? -1 : *p->failed ? err_set(e, ERR_USAGE, "%s", p->failed) : 0;
}

/* ---- what came of it ---- */

static int32_t found_from(const struct passkey *p, int32_t i, int32_t n)
{
	int32_t found = 0;

	for (int32_t k = i; k < i + n; k++)
		found += p->trial[k].found;
	return found;
}

/* What was said in place of the first key that was not found, on one line. */
static void print_miss(const struct passkey *p, int32_t i)
{
	for (int32_t k = i; k < i + opts.keys; k++) {
		const struct trial *t = &p->trial[k];

		if (t->found)
			continue;
		printf("   %s:", t->key);
		for (const char *c = t->answer; *c && *c != '\n'; c++)
			putchar(*c);
		return;
	}
}

static void print_table(const struct passkey *p, const struct engine *engine)
{
	const struct lossy_settings l = lossy_of(engine);
	char lossy[128];

	printf("depth    found   instead\n");
	for (int32_t i = 0; i < p->n; i += opts.keys) {
		printf("%3d %%  %2d of %d", p->trial[i].depth, found_from(p, i, opts.keys), opts.keys);
		print_miss(p, i);
		putchar('\n');
	}
	lossy_print(&l, lossy, sizeof lossy);
	printf("\n%d of %d keys found in %d tokens by %s%s%s\n", found_from(p, 0, p->n), p->n,
		p->trial[0].n_ids, engine_info(engine)->name, *lossy ? ", " : "", lossy);
}

static int print_json(const struct passkey *p, struct err *e)
{
	struct json j = { 0 };

	json_put(&j, "{'found': %d, 'keys': [", found_from(p, 0, p->n));
	for (int32_t i = 0; i < p->n; i++) {
		const struct trial *t = &p->trial[i];

		json_put(&j, "{'depth_percent': %d, 'tokens': %d, 'key': %s, 'answer': %s, 'found': %hhd}",
			t->depth, t->n_ids, t->key, t->answer, t->found);
	}
	json_end(&j);
	return json_print(&j, e);
}

static int passkey_verb(const struct cli *c, struct err *e)
{
	struct passkey p = { .n = opts.depths * opts.keys };
	struct session s = { 0 };

	p.trial = calloc((size_t)p.n, sizeof *p.trial);
	if (!p.trial)
		return err_no_memory(e, "%d keys", p.n);
	if (!cli_open(&s, c, on_event, &p, e)) {
		p.tokenizer = engine_tokenizer(s.engine);
		if (!fit_length(&p, e) && !ask_all(&p, s.engine, c->answer.params.seed, e)) {
			if (c->json)
				print_json(&p, e);
			else
				print_table(&p, s.engine);
		}
	}
	cli_close(&s, c, e);
	free(p.trial);
	return e->code ? -1 : 0;
}

const struct verb verb_passkey = {
	VERB(passkey, "", "Model|Kernels|Exactness|Scheduler|Speculation|Watching|Recording|seed|json"),
};
