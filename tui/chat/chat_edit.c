/* What is typed: an earlier turn again, and the files that it names. */

#include "base/with_files.h"
#include "tui/chat/chat.h"

/* ---- /edit ---- */

/* The request that answered turn *n of the branch that ends with r; 0 is its last turn. */
static const struct tl_request *turn_of(
	const struct timeline *t, const struct tl_request *r, long *n, struct err *e)
{
	int turns;
	const int64_t request = travel_turn(t, r->id, *n ? *n : 1, &turns);

	if (!request)
		err_set(e, ERR_USAGE, "/edit: this conversation has turns 1 to %d", turns);
	else if (*n)
		r = timeline_request(t, request);
	*n = *n ? *n : turns;
	return request ? r : NULL;
}

/* The conversation ends before the turn that this request answered. */
static int stand_before(struct app *a, const struct timeline *t, int64_t request, struct err *e)
{
	const int64_t before = timeline_turn_before(t, request);

	return before ? chat_stand_at(a, t, timeline_branch_whole(t, before), e)
				  : chat_begin_anew(a, e);
}

int chat_edit(struct app *a, const char *turn, struct err *e)
{
	const bool paused = actor_paused(a->chat->live.session.actor);
	char *end, *text;
	long n = strtol(turn, &end, 10);
	const struct tl_request *r;
	int rc;

	if (*end || (*turn && n < 1))
		return err_set(e, ERR_USAGE, "/edit %.40s: the number of a turn is needed", turn);
	r = chat_focused(a, e);
	r = r ? turn_of(app_timeline(a), r, &n, e) : NULL;
	text = r && r->text ? strdup(with_files_typed(r->text)) : NULL;
	if (!text)
		return e->code ? -1 : err_set(e, ERR_USAGE, "/edit: the words of that turn are not known");
	rc = stand_before(a, app_timeline(a), r->id, e);
	if (!rc) {
		chat_past_leave(a);
		app_focus(a, FOCUS_PROMPT);
		prompt_set(text);
		app_say(a, SAY_INFO, "turn %ld: Enter sends it anew; /tree has the answer that it had", n);
	}
	if (!paused)
		actor_unpause(a->chat->live.session.actor);
	free(text);
	return rc;
}

/* ---- files ---- */

int chat_file(struct app *a, const char *path, struct err *e)
{
	char *text = with_files_read(path, "/file", NULL, e), *word = NULL;
	int rc = -1;

	free(text);
	if (text && asprintf(&word, strpbrk(path, " \t") ? "@\"%s\" " : "@%s ", path) > 0) {
		app_focus(a, FOCUS_PROMPT);
		prompt_set(word);
		app_say(a, SAY_INFO, "what you say now is sent after %s", path);
		rc = 0;
	}
	free(word);
	return rc;
}

char *chat_with_files(struct app *a, const char *typed)
{
	struct err e = { 0 };
	char unknown[80], *text;

	if (a->chat->lesson.l) /* its author's words read no file here */
		return strdup(typed);
	text = with_files(typed, unknown, sizeof unknown, &e);
	if (text && *unknown && strpbrk(unknown, "./"))
		app_say(a, SAY_INFO, "@%s %s: it is sent as it stands", unknown,
			access(unknown, F_OK) ? "names no file" : "is a folder");
	if (text)
		return text;
	app_complain(a, &e);
	if (!*prompt_text())
		prompt_set(typed);
	return NULL;
}
