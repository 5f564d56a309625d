/* /grep: words in what was said. The cursor goes to the token with which they begin, so that every
 * view shows that moment; what is found in a question leads to the first token of its answer. See
 * app.h. */

#include "base/with_files.h"
#include "tui/app/app.h"
#include "tui/views/chat_turn.h"

enum { IN_QUESTION = -1 };

struct hit {
	int64_t request;
	int32_t token; /* or IN_QUESTION */
};
struct hits { /* the newest first */
	struct hit *hit;
	int n, cap;
};

static void add(struct hits *h, int64_t request, int32_t token)
{
	if (ARRAY_ROOM(h->hit, h->cap, h->n + 1))
		h->hit[h->n++] = (struct hit){ request, token };
}

/* In the order of the text. */
static void look_in(
	struct hits *h, const struct timeline *t, const struct tl_request *r, const char *words)
{
	const char *typed = r->text ? with_files_typed(r->text) : "";
	struct wrap w = { 0 };

	if (strcasestr(typed, words))
		add(h, r->id, IN_QUESTION);
	wrap_add_tokens(&w, t, r);
	wrap_add_text(&w, "", 1); /* its end, for strcasestr() */
	for (const char *at = w.text; !w.failed && at && (at = strcasestr(at, words)); at++)
		add(h, r->id, w.owner[at - w.text]);
	wrap_free(&w);
}

static struct hits look(const struct timeline *t, const struct view_state *s, const char *words)
{
	struct hits h = { 0 };
	int n_left;
	bool *shown = view_shown(t, s, &n_left);

	for (int32_t i = 0; shown && i < t->n_requests; i++)
		if (shown[i])
			look_in(&h, t, &t->request[i], words);
	free(shown);
	for (int i = 0, k = h.n - 1; i < k; i++, k--) {
		struct hit swap = h.hit[i];

		h.hit[i] = h.hit[k];
		h.hit[k] = swap;
	}
	return h;
}

/* The one before that which the cursor was put on last; after the oldest the newest. */
static int next_of(const struct app *a, const struct hits *h, bool again)
{
	for (int i = 0; again && i < h->n; i++)
		if (h->hit[i].request == a->grep.request && h->hit[i].token == a->grep.token)
			return (i + 1) % h->n;
	return 0;
}

static void go(struct app *a, const struct hit *to)
{
	const struct tl_request *r = timeline_request(app_timeline(a), to->request);

	a->grep.request = to->request;
	a->grep.token = to->token;
	a->state.request = to->request;
	a->state.token = to->token >= 0 ? to->token : r->n_tokens ? 0 : -1;
	a->state.cursor[VIEW_CHAT] = VIEW_KEEP_CURSOR;
	if (a->mode->moved)
		a->mode->moved(a);
}

int app_grep(struct app *a, const char *words, struct err *e)
{
	const bool again = !*words || !strcmp(words, a->grep.words);
	struct hits h;
	int at;

	if (*words && !again)
		snprintf(a->grep.words, sizeof a->grep.words, "%s", words);
	if (!*a->grep.words)
		return err_set(e, ERR_USAGE, "/grep: words to look for in what was said are needed");
	h = look(app_timeline(a), &a->state, a->grep.words);
	if (!h.n)
		return err_set(e, ERR_USAGE,
			"\"%s\" was not said here; /sessions %s looks in other sessions", a->grep.words,
			a->grep.words);
	at = next_of(a, &h, again);
	go(a, &h.hit[at]);
	app_say(a, SAY_INFO, "\"%s\": %d of %d, in %s%s", a->grep.words, h.n - at, h.n,
		h.hit[at].token < 0 ? "the question before this answer" : "this answer",
		h.n > 1 ? " · /grep goes to the one before" : "");
	free(h.hit);
	return 0;
}
