/* The prompts of a load as text: sentences and lines of code from a few words, each of which is a
 * token of most vocabularies, so that a text has about as many tokens as it was asked to have. What
 * is at a position depends on the position and a key alone, so texts of one key begin alike. */
#include <stdio.h>

#include "load/workload_impl.h"

enum { WORDS = 16 };

static const char *const adjective[WORDS] = { " old", " small", " red", " quiet", " long", " warm",
	" dark", " young", " heavy", " bright", " cold", " strange", " white", " early", " deep",
	" empty" };
static const char *const noun[WORDS] = { " house", " river", " teacher", " bird", " letter",
	" garden", " ship", " doctor", " road", " clock", " village", " horse", " window", " farmer",
	" tree", " book" };
static const char *const verb[WORDS] = { " found", " left", " saw", " carried", " painted",
	" followed", " lost", " built", " opened", " crossed", " heard", " kept", " moved", " sold",
	" reached", " wanted" };
static const char *const where[WORDS] = { " near", " under", " behind", " beside", " above",
	" beyond", " before", " after", " without", " inside", " outside", " against", " around",
	" below", " across", " toward" };
static const char *const name[WORDS] = { " total", " count", " price", " width", " height",
	" index", " offset", " value", " size", " rate", " sum", " next", " last", " first", " left",
	" right" };
static const char *const sign[WORDS] = { " +", " -", " *", " +", " -", " *", " +", " -", " *", " +",
	" -", " *", " +", " -", " *", " +" };

/* A token each, over and over; a string that stands for itself, or a list. */
static const struct pattern {
	const char *fixed;
	const char *const *word;
} prose[] = { { " The", NULL }, { NULL, adjective }, { NULL, noun }, { NULL, verb },
	{ " the", NULL }, { NULL, noun }, { NULL, where }, { " a", NULL }, { NULL, noun },
	{ ".", NULL } },
  code[] = { { "   ", NULL }, { NULL, name }, { " =", NULL }, { NULL, name }, { NULL, sign },
	  { NULL, name }, { ";\n", NULL } };
enum { PROSE = sizeof prose / sizeof *prose, CODE = sizeof code / sizeof *code };

struct key {
	uint64_t seed;
	int64_t stream;
	int32_t part; /* 0: what is shared; turns: 1, 2 for the first question and answer, 3, 4 … */
};

static void write_tokens(FILE *out, const struct pattern *p, int n_pattern, struct key k, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		const struct pattern *now = &p[i % n_pattern];
		const double u =
			now->fixed ? 0 : workload_u(k.seed, DRAW_WORD, k.stream, k.part, (uint32_t)i);
		const char *word = now->fixed ? now->fixed : now->word[(int)(u * WORDS)];

		fputs(i || *word != ' ' || p == code ? word : word + 1, out);
	}
}

/* A question of n tokens. */
static void write_question(FILE *out, struct key k, int32_t n)
{
	write_tokens(out, prose, PROSE, k, n - 1);
	fputs(n > 1 ? "?" : "Why", out);
}

static void write_user(FILE *out, const struct workload_options *o, const struct arrival *a)
{
	static const char rename[] = "Write this code again, with every total renamed to amount:\n";
	enum { RENAME = 12 };
	const struct key shared = { o->seed, a->stream, 0 },
					 own = { o->seed, a->stream, 1 + 2 * a->turn };
	const int32_t n = a->n_prompt - a->n_prefix;

	if (a->kind == WORKLOAD_EDIT && n > RENAME) {
		fputs(rename, out);
		write_tokens(out, code, CODE, own, n - RENAME);
		return;
	}
	if (a->kind == WORKLOAD_DOCUMENT) {
		write_tokens(out, prose, PROSE, shared, a->n_prefix);
		fputs("\n\n", out);
	}
	write_question(out, own, n);
}

/* Message i of a conversation: a question of an earlier turn or of this one, or an answer. */
static void write_chat(
	FILE *out, const struct workload_options *o, const struct arrival *a, int32_t i)
{
	bool cut = false;
	const struct workload_lengths l = workload_lengths(o, a->kind, a->stream, i / 2, &cut);
	const struct key k = { o->seed, a->stream, 1 + i };

	if (i % 2)
		write_tokens(out, prose, PROSE, k, l.output);
	else
		write_question(out, k, l.own);
}

static char *text_of(const struct workload_options *o, const struct arrival *a, int32_t i)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (i < 0)
		write_tokens(out, prose, PROSE, (struct key){ o->seed, a->stream, 0 }, a->n_prefix);
	else if (a->kind == WORKLOAD_CHAT)
		write_chat(out, o, a, i);
	else
		write_user(out, o, a);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

int workload_prompt(const struct workload_options *o, const struct arrival *a,
	struct workload_prompt *out, struct err *e)
{
	const int32_t n = a->kind == WORKLOAD_CHAT ? 2 * a->turn + 1 : 1;

	*out = (struct workload_prompt){ .text = calloc((size_t)n, sizeof *out->text) };
	if (out->text && a->kind == WORKLOAD_SYSTEM)
		out->system = text_of(o, a, -1);
	for (; out->text && out->n < n; out->n++)
		if (!(out->text[out->n] = text_of(o, a, out->n)))
			break;
	if (out->n == n && (a->kind != WORKLOAD_SYSTEM || out->system))
		return 0;
	workload_prompt_free(out);
	return err_no_memory(e, "a prompt of %d tokens", (int)a->n_prompt);
}

void workload_prompt_free(struct workload_prompt *p)
{
	for (int32_t i = 0; i < p->n; i++)
		free(p->text[i]);
	free(p->text);
	free(p->system);
	*p = (struct workload_prompt){ 0 };
}
