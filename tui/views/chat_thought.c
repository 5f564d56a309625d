/* See chat_thought.h. */
#include "tui/views/chat_thought.h"

#include <stdio.h>
#include <string.h>

#include "engine/text/parts.h"
#include "tui/views/view_util.h"

/* The end of the prompt before position `open`. */
static size_t prompt_tail(
	const struct timeline *t, const struct tl_request *r, int32_t open, char text[PARTS_TAIL])
{
	size_t from = PARTS_TAIL;

	for (int32_t i = open < r->n_prompt ? open : r->n_prompt; i > 0; i--) {
		int32_t size;
		const char *bytes = timeline_token_bytes(t, r->prompt[i - 1], &size);

		if ((size_t)size > from)
			break;
		from -= (size_t)size;
		memcpy(text + from, bytes, (size_t)size);
	}
	memmove(text, text + from, PARTS_TAIL - from);
	return PARTS_TAIL - from;
}

/* Of the answer's first tokens, from when it was asked for. */
static int64_t time_of(const struct tl_request *r, int32_t tokens)
{
	int64_t ns = 0;

	for (int32_t i = 0; i < tokens && i < r->n_tokens; i++)
		ns += r->token[i].ns > 0 ? r->token[i].ns : 0;
	return ns;
}

/* tokens: of the thought; whole: it has ended. */
static struct view_text tell(const struct tl_request *r, int32_t open, int32_t tokens, bool whole)
{
	const int32_t given = r->n_prompt - open;
	const int64_t spent = time_of(r, tokens - given);

	if (whole)
		return view_form("thought: %s of %s tokens%s (/thoughts)", view_count(tokens).text,
			view_count(given + r->n_tokens).text,
			spent > 0 ? view_form(", %s of %s", view_ns((double)spent).text,
							view_ns((double)time_of(r, r->n_tokens)).text)
							.text
					  : "");
	return view_form("%s: %s tokens%s%s (/thoughts)",
		r->finished ? "a thought without end" : "thinking", view_count(tokens).text,
		spent > 0 ? ", " : "", spent > 0 ? view_ns((double)spent).text : "");
}

void thought_fold(struct wrap *w, const struct timeline *t, const struct tl_request *r,
	int32_t open, struct view_text *words)
{
	char prompt[PARTS_TAIL];
	const size_t n = prompt_tail(t, r, open, prompt);
	const struct parts_thought *h = parts_thought_in(prompt, n, w->text, w->size);
	const char *close;
	size_t end = w->size;
	int32_t tokens;

	if (!h || !w->owner || !w->size)
		return;
	close = memmem(w->text, w->size, h->close, strlen(h->close));
	if (close)
		end = (size_t)(close - w->text) + strlen(h->close);
	tokens = w->owner[end - 1] <= WRAP_GIVEN ? WRAP_GIVEN - w->owner[end - 1] - open + 1
											 : r->n_prompt - open + w->owner[end - 1] + 1;
	*words = tell(r, open, tokens, close);
	while (end < w->size && strchr(" \n", w->text[end]))
		end++;
	wrap_drop(w, end);
}
