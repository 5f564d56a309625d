/* The view "queue": how many waited at each step, who came, entered and lost its slot; who waits
 * now, in the policy's order with the rank that it goes by, and what for; how long users and
 * classes waited. */

#include "engine/sched/policy.h"
#include "tui/views/view_util.h"

enum { MOST = 256, NAME_W = 10, LEAST_CHART_W = 8 };

/* ---- the steps ---- */

static const struct lane {
	const char *name;
	enum ink ink;
	size_t of; /* in struct tl_step: how many */
} lanes[] = { { "arrived", INK_BRIGHT, offsetof(struct tl_step, arrived) },
	{ "admitted", INK_ACCEPTED, offsetof(struct tl_step, admitted) },
	{ "preempted", INK_REJECTED, offsetof(struct tl_step, preempted) } };
enum { N_LANES = sizeof lanes / sizeof *lanes };

static int64_t most_waiting(const struct timeline *t, int columns)
{
	int64_t most = 0;

	for (int32_t i = view_first_step(t, columns); i < t->n_steps; i++)
		most = at_least(t->step[i].s.waiting, most);
	return most;
}

/* Columns of `rows` rows, the newest at the right; the largest fills them. */
static void draw_length(struct pen *p, const struct timeline *t, int y, int rows)
{
	const int columns = p->r.w - NAME_W;
	const int64_t most = most_waiting(t, columns);

	view_put(p, 0, y, INK_DIM, "waiting");
	if (rows > 1 && most)
		view_put(p, 0, y + 1, INK_DIM, "to %s", view_count(most).text);
	for (int32_t i = view_first_step(t, columns), x = p->r.w - (t->n_steps - i); i < t->n_steps;
		 i++, x++)
		view_stack(
			p, x, y, rows, INK_BAR, most ? (double)t->step[i].s.waiting / (double)most * rows : 0);
}

static void draw_lane(struct pen *p, const struct timeline *t, const struct lane *lane, int y)
{
	const int columns = p->r.w - NAME_W;

	view_put(p, 0, y, INK_DIM, "%s", lane->name);
	for (int32_t i = view_first_step(t, columns), x = p->r.w - (t->n_steps - i); i < t->n_steps;
		 i++, x++) {
		const int32_t n = *(const int32_t *)(const void *)((const char *)&t->step[i] + lane->of);

		if (n > 0)
			view_put(p, x, y, lane->ink, "%c", n > 9 ? '+' : (char)('0' + n));
	}
}

/* ---- who waits ---- */

static const struct sched_policy *policy_of(const struct timeline *t)
{
	const char *name = timeline_setting(t, "policy");

	return name ? sched_policy_find(name, NULL) : NULL;
}

/* Steps, up to the newest, whose plans left requests waiting for the same reason. */
static int32_t held_for(const struct timeline *t)
{
	int32_t n = 0;

	while (n < t->n_steps && t->step[t->n_steps - 1 - n].s.hold == t->step[t->n_steps - 1].s.hold)
		n++;
	return n;
}

/* Why nobody else was admitted in the newest step. */
static struct view_text hold_words(const struct timeline *t)
{
	const struct tl_step *last = timeline_last_step(t);
	const struct sched_policy *p = policy_of(t);
	const struct view_text who =
		last && last->s.hold_first > 0 ? view_label(last->s.hold_first) : view_form("the first");

	switch (last && last->s.hold != EV_NULL_I ? (enum ev_code_hold)last->s.hold : EV_N_hold) {
	case EV_HOLD_slot: return view_form("every slot is taken");
	case EV_HOLD_policy:
		return view_form("%s waits for %s", p ? p->name : "the policy",
			p && p->closed_until ? p->closed_until : "what the log does not say");
	case EV_HOLD_pages: return view_form("%s, the first in order, lacks pages", who.text);
	case EV_HOLD_sibling:
		return view_form("%s lets another compute the prompt they share", who.text);
	default: return (struct view_text){ "" };
	}
}

static int draw_hold(struct pen *p, const struct timeline *t, int y)
{
	const int32_t n = held_for(t);
	const struct view_text words = hold_words(t);

	if (!words.text[0])
		return 0;
	view_put(p, 0, y, INK_TEXT, "%s (%s%d step%s)", words.text,
		n == t->n_steps && n > 1 ? "over " : "", n, plural(n));
	return 1;
}

enum { AT_NTH, AT_WHO, AT_WAIT, AT_STEPS, AT_PROMPT, AT_RANK, AT_USER, AT_CLASS, AT_TEXT };
static const struct column order[] = { { NULL, 3, 0 }, { "who", -6, 1 }, { "waits", 8, 0 },
	{ "steps", 8, 0 }, { "prompt", 8, 0 }, { NULL, 10, 0 }, { "user", -12, 2 }, { "class", 6, 0 },
	{ NULL, 0, 2 } };

static void draw_order_head(const struct table *table, const struct timeline *t)
{
	const struct sched_policy *policy = policy_of(t);
	const bool ranked = policy && policy->rank_is;

	table_heads(table);
	if (ranked)
		table_put(table, AT_RANK, INK_DIM, "rank");
	if (table_rect(table, AT_TEXT).w > 16)
		table_put(table, AT_TEXT, INK_DIM, "%s%s",
			ranked ? "least rank first: " : "in order of arrival", ranked ? policy->rank_is : "");
}

/* As told last. */
static struct view_text rank_words(const struct timeline *t, int64_t request)
{
	const struct sched_policy *policy = policy_of(t);
	const struct ev_queued *q = view_queued(t, request);

	if (!policy || !policy->rank_is)
		return (struct view_text){ "" };
	return q && q->rank == INT64_MAX ? view_form("none") : view_count(q ? q->rank : EV_NULL_I);
}

static void draw_waiter(
	const struct table *table, const struct timeline *t, const struct tl_request *r, int nth)
{
	struct pen who = table_cell(table, AT_WHO);

	table_put(table, AT_NTH, INK_DIM, "%d", nth);
	view_put_label(&who, 0, 0, r->id);
	if (r->state == TL_PREEMPTED) {
		table_put(
			table, AT_STEPS, INK_REJECTED, "%s preempted", glyph(table->p->c, GLYPH_MARK_REJECTED));
	} else {
		table_put(table, AT_WAIT, INK_TEXT, "%s", view_ns(timeline_waits(t, r).queue).text);
		table_put(table, AT_STEPS, INK_TEXT, "%s",
			view_count((int64_t)timeline_latency_steps(t, r).queue).text);
	}
	table_put(table, AT_PROMPT, INK_TEXT, "%s", view_count(r->params.n_prompt).text);
	table_put(table, AT_RANK, INK_TEXT, "%s", rank_words(t, r->id).text);
	table_put(table, AT_USER, INK_TEXT, "%s", r->user ? r->user : "");
	if (r->params.priority != EV_NULL_I)
		table_put(table, AT_CLASS, INK_TEXT, "%" PRId64, r->params.priority);
	if (r->text && table_rect(table, AT_TEXT).w > 8)
		table_put(table, AT_TEXT, INK_DIM, "%s", r->text);
}

/* Returns the lines used, of at most `room`. */
static int draw_order(
	struct pen *p, const struct timeline *t, const struct view_state *s, int y, int room)
{
	const struct tl_request *w[MOST];
	const int total = view_waits(t, w, MOST), n = at_most(total, MOST);
	const int shown = n < room - 1 ? n : total > room - 1 ? room - 2 : room - 1;
	const struct tl_request *chosen = view_request(t, s);
	struct table table = TABLE(p, order, y);

	if (room < 2 || !n)
		return 0;
	table.n = table_rect(&table, AT_CLASS).w ? table.n : AT_USER;
	draw_order_head(&table, t);
	for (int i = 0; i < shown; i++) {
		table.y++;
		draw_waiter(&table, t, w[i], i + 1);
		if (s->focused && w[i] == chosen)
			view_mark_row(p, table.y);
	}
	if (shown < total && shown >= 0)
		view_put(p, table_rect(&table, AT_WHO).x, y + 1 + shown, INK_DIM, "%s %d more",
			glyph(p->c, GLYPH_ELLIPSIS), total - shown);
	return 1 + shown + (shown < total);
}

/* ---- users and classes ---- */

static int waits_of(const struct timeline *t, const struct tl_group *g, bool by_user)
{
	int n = 0;

	for (int32_t i = 0; i < t->n_requests; i++)
		n += view_is_waiting(&t->request[i]) && timeline_group_of(t, &t->request[i], by_user) == g;
	return n;
}

enum { AT_NAME, AT_CAME, AT_NOW, AT_MEAN, AT_LONGEST, AT_MEAN_STEPS, AT_MOST_STEPS };
static const struct column groups[] = { { NULL, -16, 0 }, { "came", 8, 0 }, { "waiting", 9, 0 },
	{ "mean wait", 11, 0 }, { "longest", 11, 0 }, { "mean steps", 11, 0 },
	{ "most steps", 13, 0 } };

static struct view_text group_name(const struct tl_group *g, bool by_user, bool rest)
{
	if (rest)
		return view_form("all others");
	return by_user ? view_form("%.40s", g->user ? g->user : "without a user")
				   : view_form("class %" PRId64, g->priority);
}

static void draw_group(const struct table *table, const struct timeline *t,
	const struct tl_group *g, bool by_user, bool rest)
{
	const double n = g->admitted > 0 ? (double)g->admitted : (double)NAN;

	table_put(table, AT_NAME, INK_TEXT, "%s", group_name(g, by_user, rest).text);
	table_put(table, AT_CAME, INK_TEXT, "%s", view_count(g->arrived).text);
	if (!rest)
		table_put(table, AT_NOW, INK_TEXT, "%d", waits_of(t, g, by_user));
	table_put(table, AT_MEAN, INK_TEXT, "%s", view_ns((double)g->ns / n).text);
	table_put(table, AT_LONGEST, INK_TEXT, "%s", view_ns((double)g->most_ns * n / n).text);
	if (!g->admitted)
		return;
	table_put(table, AT_MEAN_STEPS, INK_TEXT, "%.1f", (double)g->steps / n);
	table_put(table, AT_MOST_STEPS, INK_TEXT, "%s", view_count(g->most_steps).text);
}

static int draw_groups(struct pen *p, const struct timeline *t, bool by_user, int y, int room)
{
	const struct tl_group *g = by_user ? t->user : t->priority;
	const int n = by_user ? t->n_users : t->n_priorities;
	struct table table = TABLE(p, groups, y);

	if (n < 2 || room < 2)
		return 0;
	table.n = table_rect(&table, AT_MOST_STEPS).w ? table.n : AT_MEAN_STEPS;
	table_heads(&table);
	table_put(&table, AT_NAME, INK_DIM, "%s", by_user ? "user" : "priority");
	for (int i = 0; i < n && i < room - 1; i++) {
		table.y++;
		draw_group(&table, t, &g[i], by_user, i == TL_GROUPS - 1);
	}
	return 1 + (at_most(n, room - 1));
}

/* Which tables there is room for beside the list: that which the policy goes by before the other.
 */
struct tables {
	bool user, priority;
	int h;
};

static int table_height(int n)
{
	return n > 1 ? n + 2 : 0;
}

static struct tables tables_in(const struct timeline *t, int room)
{
	const char *policy = timeline_setting(t, "policy");
	const bool class_first = policy && !strcmp(policy, "priority");
	const int user = table_height(t->n_users), priority = table_height(t->n_priorities);

	if (user + priority <= room)
		return (struct tables){ user > 0, priority > 0, user + priority };
	if (priority > 0 && priority <= room && (class_first || user > room || !user))
		return (struct tables){ false, true, priority };
	if (user > 0 && user <= room)
		return (struct tables){ true, false, user };
	return (struct tables){ false, false, 0 };
}

/* ---- all ---- */

static void draw_head(struct pen *p, const struct timeline *t)
{
	const struct tl_step *last = timeline_last_step(t);
	const char *policy = timeline_setting(t, "policy");

	if (!t->n_requests)
		pen_head(p, "queue", NULL);
	else
		view_head(p, "queue", "%d waiting · %" PRId64 " of %" PRId64 " slots%s%s",
			view_waits(t, NULL, 0), last ? last->s.running : 0, t->session.slots,
			policy ? " · " : "", policy ? policy : "");
}

/* Rows of the list that it gets before any table. */
static int list_rows(const struct timeline *t)
{
	const int n = view_waits(t, NULL, 0);

	return n < 8 ? n + 3 : 11;
}

/* Where the list begins. */
static int draw_steps(struct pen *p, const struct timeline *t, int y)
{
	const int lanes_h = p->r.h > 8 ? N_LANES + 1 : 0, left = p->r.h - 2 - lanes_h - list_rows(t);
	const int rows = p->r.h < 12    ? 1
					 : left < 3     ? 3
					 : left / 2 > 6 ? 6
					 : left / 2 < 3 ? 3
									: left / 2;

	if (p->r.w <= NAME_W + LEAST_CHART_W)
		return y;
	draw_length(p, t, y, rows);
	y += rows;
	for (int i = 0; lanes_h && i < N_LANES; i++)
		draw_lane(p, t, &lanes[i], y++);
	return y + (lanes_h > 0);
}

static void draw_queue(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct tables tables;
	int y;

	draw_head(p, t);
	if (!t->n_requests) {
		view_nothing(p,
			"no request yet: who waits, in the policy's order, and how long; `/load 16` fills it");
		return;
	}
	y = draw_steps(p, t, 1);
	tables = tables_in(t, p->r.h - y - list_rows(t));
	if (!view_waits(t, NULL, 0) && y < p->r.h)
		view_put(p, 0, y++, INK_DIM, "nobody waits");
	else
		y += draw_hold(p, t, y);
	y += 1 + draw_order(p, t, s, y, p->r.h - y - tables.h);
	if (tables.user)
		y += 1 + draw_groups(p, t, true, y, p->r.h - y);
	if (tables.priority)
		draw_groups(p, t, false, y, p->r.h - y);
}

/* Chooses among those that wait. */
static bool key_queue(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *w[MOST];
	const int total = view_waits(t, w, MOST), n = at_most(total, MOST);
	int64_t at = n;

	while (--at >= 0 && w[at]->id != s->request)
		;
	if (!(key == KEY_ESC && s->request) && !(n && table_key(key, &at, n)))
		return view_walk_tokens(key, t, s);
	s->request = key == KEY_ESC ? 0 : w[at]->id;
	s->token = -1;
	return true;
}

const struct view view_queue = {
	VIEW(QUEUE, queue, "queue", 24, 3, 8),
	.draw = draw_queue,
	.key = key_queue,
};
