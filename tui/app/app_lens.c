/* /lens: the deep look at the token under the cursor, in chat and replay. See lens.h. */
#include <ctype.h>

#include "tui/app/app.h"
#include "tui/state/lens.h"

/* The position meant: "57", "@57", or "" for the cursor or the newest token. */
static int position(
	const struct app *a, const struct tl_request *r, const char *where, int32_t *pos, struct err *e)
{
	int32_t at = view_token_index(r, &a->state), all = r->n_prompt + r->n_tokens;
	long value;
	char *end;

	where += *where == '@';
	value = strtol(where, &end, 10);
	while (isspace((unsigned char)*end))
		end++;
	if (!*where && at < 0)
		return err_set(e, ERR_USAGE, "/lens: nothing is drawn yet");
	if (!*where)
		value = (long)r->token[at].pos;
	else if (end == where || *end || value < 1 || value >= all)
		return err_set(e, ERR_USAGE, "/lens %.20s: request %s has positions 1 to %d", where,
			view_label(r->id).text, all - 1);
	*pos = (int32_t)value;
	return 0;
}

/* The tokens before it, and itself. malloc'd. */
static int32_t *tokens_to(
	const struct timeline *t, const struct tl_request *r, int32_t pos, struct err *e)
{
	int32_t *ids = malloc(((size_t)pos + 1) * sizeof *ids);

	if (!ids)
		err_no_memory(e, "a look at %d tokens", pos);
	for (int32_t i = 0; ids && i <= pos; i++) {
		ids[i] = timeline_branch_id(t, (struct tl_branch){ r->id, -1, 0 }, i);
		if (ids[i] >= 0)
			continue;
		err_set(e, ERR_USAGE, "position %d of request %s was not seen: events were lost", i,
			view_label(r->id).text);
		free(ids);
		ids = NULL;
	}
	return ids;
}

static int ask(
	struct app *a, const struct timeline *t, const struct tl_request *r, int32_t pos, struct err *e)
{
	const struct tl_token *k =
		timeline_whole(t, timeline_branch_token(t, (struct tl_branch){ r->id, -1, 0 }, pos));
	struct lens_query q = { .n = pos,
		.request = r->id,
		.hash = k ? k->hash : EV_NULL_I,
		.lossy = view_lossy(t),
		.adapter = r->adapter };
	int32_t *ids = tokens_to(t, r, pos, e);
	int result;

	if (!ids)
		return -1;
	q.ids = ids;
	q.token = ids[pos];
	result = lens_query(a->lens, &q, e);
	free(ids);
	return result;
}

int app_lens(struct app *a, const char *where, struct err *e)
{
	const struct timeline *t = app_timeline(a);
	const struct tl_request *r = view_request(t, &a->state);
	int32_t pos = 0;

	if (!r)
		return err_set(e, ERR_USAGE, "/lens: nothing is said yet");
	if (position(a, r, where, &pos, e) < 0 || (!a->lens && a->mode->open_lens(a, &a->lens, e) < 0))
		return -1;
	a->state.lens = lens_look(a->lens);
	if (ask(a, t, r, pos, e) < 0)
		return -1;
	app_look(a, VIEW_LENS, a->focus != VIEW_LENS);
	return 0;
}
