/* See travel.h. */
#include "tui/replay/travel.h"

#include <ctype.h>

#include "tui/views/view_util.h"

enum { TRY_TOKENS = 64 };

/* --- where --- */

static bool number(const char *text, long long *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	*out = strtoll(text, &end, 10);
	while (isspace((unsigned char)*end))
		end++;
	return !*end && *out <= INT32_MAX;
}

int64_t travel_turn(const struct timeline *t, int64_t request, long long n, int *n_turns)
{
	*n_turns = 0;
	for (int64_t i = request; i; i = timeline_turn_before(t, i))
		(*n_turns)++;
	if (n < 1 || n > *n_turns)
		return 0;
	for (int i = *n_turns; i > n; i--)
		request = timeline_turn_before(t, request);
	return request;
}

static int to_turn(const struct travel_from *f, const char *command, const char *text,
	struct tl_branch *out, struct err *e)
{
	long long n;
	int n_turns;
	const struct tl_request *r;

	while (isspace((unsigned char)*text))
		text++;
	if (!number(text, &n))
		return err_set(
			e, ERR_USAGE, "/%s turn %.20s: the number of a turn is needed", command, text);
	r = timeline_request(f->t, travel_turn(f->t, f->request, n, &n_turns));
	if (!r)
		return err_set(
			e, ERR_USAGE, "/%s turn %lld: this branch has turns 1 to %d", command, n, n_turns);
	*out =
		(struct tl_branch){ r->id, -1, r->id == f->request && f->open > 0 ? f->open : r->n_prompt };
	return 0;
}

int travel_where(const struct travel_from *f, const char *command, const char *where,
	struct tl_branch *out, struct err *e)
{
	const struct tl_request *r = timeline_request(f->t, f->request);
	struct tl_branch b = { f->request, -1, 0 };
	int32_t length = timeline_branch_length(f->t, b);
	long long n = -1;

	if (!strncmp(where, "turn", 4))
		return to_turn(f, command, where + 4, out, e);
	if (*where == '@')
		where++;
	b.pos =
		f->cursor >= 0 && r && f->cursor < r->n_tokens ? (int32_t)r->token[f->cursor].pos : length;
	if (*where == '-' && number(where + 1, &n))
		n = length - n;
	else if (*where && !number(where, &n))
		return err_set(e, ERR_USAGE,
			"/%s %.20s: a position, turn N, or - and a number of tokens is needed", command, where);
	if (*where)
		b.pos = n < 0 ? 0 : (int32_t)n;
	if (b.pos < f->open || b.pos > length)
		return err_set(e, ERR_USAGE, "/%s: the answer has positions %d to %d%s", command, f->open,
			length, f->open > 0 ? "; turn N goes to another" : "");
	*out = b;
	return 0;
}

/* --- a token --- */

static bool reads(const struct timeline *t, int32_t id, const char *text, size_t n)
{
	int32_t size;
	const char *bytes = timeline_token_bytes(t, id, &size);

	if ((size_t)size == n + 1 && *bytes == ' ')
		bytes++, size--;
	return (size_t)size == n && !memcmp(bytes, text, n);
}

/* Finds the token among the candidates at that position, if one was drawn there. */
static int32_t candidate(
	const struct travel_from *f, struct tl_branch at, const char *text, size_t n)
{
	const struct tl_token *k = timeline_whole(f->t, timeline_branch_token(f->t, at, at.pos));

	for (int i = 0; k && i < k->n_candidates; i++)
		if (k->candidate[i].id <= INT32_MAX && reads(f->t, (int32_t)k->candidate[i].id, text, n))
			return (int32_t)k->candidate[i].id;
	return -1;
}

/* Exactly one token, or -1 and how many there are. */
static int32_t only_token(const struct tokenizer *tokenizer, const char *text, size_t size,
	int32_t before, size_t *n_tokens)
{
	size_t n = 1, cap = TRY_TOKENS;
	int32_t *ids = malloc(cap * sizeof *ids), id = -1;

	*n_tokens = 0;
	if (!ids)
		return -1;
	ids[0] = before; /* so that it is tokenised as a continuation */
	if (tokenizer_encode(tokenizer, text, size, true, &ids, &n, &cap, NULL) == 0 && n == 2)
		id = ids[1];
	*n_tokens = n - 1;
	free(ids);
	return id;
}

int travel_token(const struct tokenizer *tokenizer, const struct travel_from *f,
	struct tl_branch at, const char *text, int32_t *id, struct err *e)
{
	size_t n = strlen(text), n_tokens = 0;
	bool quoted = n >= 3 && (*text == '\'' || *text == '"') && text[n - 1] == *text;
	int32_t before = at.pos > 0 ? timeline_branch_id(f->t, at, at.pos - 1) : -1;
	char spaced[256];
	long long value;

	if (!n)
		return err_set(e, ERR_USAGE, "/try needs a token: its text, ' text' with blanks, or #ID");
	if (*text == '#' && number(text + 1, &value)) {
		*id = (int32_t)value;
		return *id < tokenizer_n_vocab(tokenizer)
				   ? 0
				   : err_set(e, ERR_USAGE, "/try #%lld: ids go from 0 to %d", value,
						 tokenizer_n_vocab(tokenizer) - 1);
	}
	*id = quoted ? -1 : candidate(f, at, text, n);
	if (*id < 0 && !quoted && n + 2 < sizeof spaced) {
		snprintf(spaced, sizeof spaced, " %s", text);
		*id = only_token(tokenizer, spaced, n + 1, before, &n_tokens);
	}
	if (*id < 0)
		*id = only_token(tokenizer, text + quoted, n - 2 * (size_t)quoted, before, &n_tokens);
	return *id >= 0 ? 0
					: err_set(e, ERR_USAGE,
						  "/try %.40s: this is %zu tokens, one is needed; its beginning, or #ID",
						  text, n_tokens);
}

/* --- settings --- */

static void differs(
	struct view_text *changes, const struct setting *s, const void *was, const void *is)
{
	char a[32], b[32];

	if (setting_same(s, was, is))
		return;
	setting_text(s, was, a, sizeof a);
	setting_text(s, is, b, sizeof b);
	view_add(changes, "%s%s %s to %s", *changes->text ? ", " : "", s->name, a, b);
}

bool travel_changed(const struct tl_request *r, int32_t open, const struct answer_settings *s,
	int32_t ctx, char *out, size_t cap)
{
	struct view_text changes = { "" };
	const struct ev_request q = timeline_params(r);
	struct answer_settings was = { .params = sample_params_of(&q) }, is = { .params = s->params };
	int64_t limit = s->max_tokens ? open + (int64_t)s->max_tokens : ctx;

	was.max_tokens = (int32_t)(r->n_prompt + r->params.max_tokens - open);
	is.max_tokens = (int32_t)((limit > ctx ? ctx : limit) - open);
	for (int i = 0; i <= ANSWER_AT_max_tokens; i++)
		differs(&changes, &answer_settings[i], &was, &is);
	snprintf(out, cap, "%s", changes.text);
	return *changes.text;
}
