/* why miss, why evict: the prefix cache. See why.h. */
#include "base/ids.h"
#include "base/range.h"
#include "base/text.h"
#include "engine/settings/settings.h"
#include "sessions/why/why_impl.h"

enum { MOST_BLOCK = 1 << 24 };

/* ---- miss ---- */

struct miss {
	long long request, seq, asked, hit, hit_pages, reason, nearest, diverge, expected, got, size;
	int32_t *ids, n_ids;
	long long closest; /* request that shares most tokens, by the prompts in the log; 0: none */
	int32_t shared;
};

static bool read_lookup(struct why *w, struct miss *m)
{
	const char *columns =
		"SELECT request, seq, asked, hit, hit_pages, reason, nearest, diverge_pos,"
		" expected, got FROM lookup WHERE ";
	char sql[400];
	long long *to[] = { &m->request, &m->seq, &m->asked, &m->hit, &m->hit_pages, &m->reason,
		&m->nearest, &m->diverge, &m->expected, &m->got };

	snprintf(sql, sizeof sql, "%s%s", columns,
		w->at.given ? "request = ?1 ORDER BY seq LIMIT 1"
					: "reason <> {prefix.hit} AND seq <= ?9 ORDER BY seq DESC LIMIT 1");
	if (!why_read(w, why_query(w, sql, w->at.number), 10, to))
		return false;
	/* what no engine writes, but a file may say */
	m->asked = within(m->asked, 0, INT32_MAX);
	m->hit = within(m->hit, 0, m->asked);
	m->hit_pages = within(m->hit_pages, 0, MOST_BLOCK);
	m->size = why_page_size(w, m->seq);
	m->ids = why_tokens(w, m->request, m->seq, &m->n_ids);
	return true;
}

/* Tokens with which this prompt and what another request had by then begin. */
static int32_t shared_with(struct why *w, const struct miss *m, long long request)
{
	int32_t n, *ids = why_tokens(w, request, m->seq, &n);
	const int32_t shared = ids_common(ids, n, m->ids, m->n_ids);

	free(ids);
	return shared;
}

/* The earlier request whose tokens agree longest with this prompt. */
static void find_closest(struct why *w, struct miss *m)
{
	sqlite3_stmt *s = why_query(
		w, "SELECT request FROM request WHERE seq < ?1 AND request <> ?2", m->seq, m->request);

	while (why_row(w, &s)) {
		const long long other = sqlite3_column_int64(s, 0);
		const int32_t shared = shared_with(w, m, other);

		if (shared > m->shared) {
			m->shared = shared;
			m->closest = other;
		}
	}
}

/* The page that had held block `block` of exactly these tokens, and when it was evicted. */
static bool find_dropped(
	struct why *w, const struct miss *m, long long *page, long long *seq, long long *owner)
{
	const long long block = m->hit_pages;
	sqlite3_stmt *s = why_query(w,
		"SELECT c.page, c.request, (SELECT min(e.seq) FROM page e WHERE e.page ="
		" c.page AND e.action = {page_action.evict} AND e.seq > c.seq AND e.seq < ?2) AS dropped"
		" FROM page c WHERE c.action = {page_action.cache} AND c.block = ?1 AND c.seq < ?2"
		" ORDER BY c.seq DESC",
		block, m->seq);
	bool found = false;

	while (!found && why_row(w, &s)) {
		if (why_is_null(s, 2) || why_is_null(s, 1) ||
			shared_with(w, m, sqlite3_column_int64(s, 1)) < (block + 1) * m->size)
			continue;
		*page = sqlite3_column_int64(s, 0);
		*owner = sqlite3_column_int64(s, 1);
		*seq = sqlite3_column_int64(s, 2);
		found = true;
	}
	why_done(&s);
	return found;
}

/* What was cached under another value of a lossy setting is not what this one computes. */
static bool empties(const char *name)
{
	static const char *const others[] = { "page-size", "give-back", "prefix-cache", "kv-cache",
		NULL };
	const struct setting *s = name ? setting_find(engine_settings, name) : NULL;

	if (s && s->effect == SETTING_LOSSY)
		return true;
	for (const char *const *o = others; s && *o; o++)
		if (!strcmp(name, *o))
			return true;
	return false;
}

/* The setting that emptied the cache between two steps: its row follows the evictions. */
static void emptied_by(struct why *w, long long seq, char *out, size_t cap)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT name, value FROM setting WHERE seq > ?1"
		" AND seq < ifnull((SELECT min(seq) FROM step WHERE seq > ?1), 1 << 62)"
		" ORDER BY seq",
		seq);

	snprintf(out, cap, "a setting");
	while (why_row(w, &s)) {
		const char *name = (const char *)sqlite3_column_text(s, 0),
				   *value = (const char *)sqlite3_column_text(s, 1);
		char clean[128];

		if (!empties(name))
			continue;
		text_cleaned(clean, sizeof clean, value ? value : "", value ? strlen(value) : 0);
		snprintf(out, cap, "/%s %s", name, clean);
		why_done(&s);
	}
}

/* An eviction without idle steps. */
static void say_emptied(struct why *w, long long page, long long seq)
{
	char setting[160];
	long long step = why_int(w, 0, "SELECT max(step) FROM step WHERE seq < ?1", seq);
	long long n = why_int(w, 0,
		"SELECT count(*) FROM page WHERE action = {page_action.evict} AND other IS NULL"
		" AND seq > ifnull((SELECT max(seq) FROM step WHERE seq < ?1), 0)"
		" AND seq < ifnull((SELECT min(seq) FROM setting WHERE seq > ?1), 1 << 62)",
		seq);

	emptied_by(w, seq, setting, sizeof setting);
	why_say(w, "Page %lld was dropped after step %lld, because %s emptied the prefix cache:", page,
		step, setting);
	why_say(w, "  %lld page%s went, not for want of room", n, plural(n));
}

static void say_dropped(struct why *w, const struct miss *m)
{
	long long page, seq, owner, idle;

	if (!find_dropped(w, m, &page, &seq, &owner)) {
		why_say(w, "  which page it was cannot be told: its cache row is not in this file");
		return;
	}
	idle = why_int(w, -1, "SELECT other FROM page WHERE seq = ?1", seq);
	if (idle < 0) {
		say_emptied(w, page, seq);
		return;
	}
	why_say(w, "  page %lld, written by request %lld, was dropped in step %lld,", page, owner,
		why_step_of(w, seq));
	why_say(w, "  after %lld step%s in which nobody read it: ask why evict %lld", idle,
		plural(idle), page);
}

static void say_pruned(struct why *w, const struct miss *m)
{
	why_say(w,
		"More of request %lld's prompt is known, but its state was kept at block %lld alone:",
		m->request, m->hit_pages);
	why_say(w, "  between snapshots tokens are computed again; --state-memory keeps more of them");
}

static void say_reason(struct why *w, const struct miss *m)
{
	char here[80], there[80];

	switch (m->reason) {
	case EV_PREFIX_hit:
		why_say(w,
			"Request %lld missed nothing: all whole pages of its prompt came from the cache.",
			m->request);
		break;
	case EV_PREFIX_empty:
		why_say(w, "Nothing cached began like the prompt of request %lld.", m->request);
		if (why_int(w, 0, "SELECT count(*) FROM adapter") > 0)
			why_say(w, "What was computed with another adapter, or none, does not count.");
		break;
	case EV_PREFIX_diverged:
		why_say(w, "The prompt of request %lld parts from the nearest cached one at position %lld:",
			m->request, m->diverge);
		why_say(w, "  cached, by request %lld: %s    here: %s", m->nearest,
			why_text(w, m->expected, there, sizeof there), why_text(w, m->got, here, sizeof here));
		break;
	case EV_PREFIX_evicted:
		why_say(w,
			"Block %lld of request %lld's prompt had been cached, and was evicted before it came:",
			m->hit_pages, m->request);
		say_dropped(w, m);
		break;
	case EV_PREFIX_pruned: say_pruned(w, m); break;
	case EV_PREFIX_tail:
		why_say(w, "What was cached ends before the prompt of request %lld does: the rest is new.",
			m->request);
		break;
	case EV_PREFIX_off:
		why_say(w, "The prefix cache was off when request %lld came: /prefix-cache on", m->request);
		break;
	default:
		why_say(w, "Request %lld: the log gives no reason that this cutaway knows.", m->request);
	}
}

/* What a pin had kept of it. */
static void say_pin(struct why *w, const struct miss *m)
{
	const long long pin = why_int(w, EV_NULL_I, "SELECT pin FROM lookup WHERE seq = ?1", m->seq);

	if (pin > 0)
		why_say(w, "  pin %lld had kept the first %lld of these tokens", pin,
			why_int(w, 0, "SELECT pinned FROM lookup WHERE seq = ?1", m->seq));
}

static void say_needed(struct why *w, const struct miss *m)
{
	/* the last token is always computed, so a page that only it would complete saves nothing */
	long long whole = m->asked / m->size, missing = whole - m->hit / m->size;

	why_say(w, "  from the cache: %lld of %lld tokens, %lld page%s of %lld; computed: %lld tokens",
		m->hit, m->asked, m->hit_pages, plural(m->hit_pages), m->size, (m->asked - m->hit));
	say_pin(w, m);
	if (m->closest)
		why_say(w, "  closest in this session: request %lld, which begins with the same %d token%s",
			m->closest, m->shared, plural(m->shared));
	else
		why_say(w, "  no earlier request of this session begins with the same token");
	/* where the cache had all whole pages that are alike, and not where it had lost them */
	if (m->closest && m->hit / m->size == m->shared / m->size && m->hit / m->size < whole &&
		m->shared % m->size && m->shared < m->n_ids)
		why_say(w,
			"  it fills %lld whole page%s; the next %lld lie in a page that also holds "
			"others, and a page is shared whole or not at all",
			(m->shared / m->size), plural(m->shared / m->size), (m->shared % m->size));
	if (missing > 0)
		why_say(w,
			"  for a whole hit %lld more page%s would be needed: blocks %lld to %lld, positions "
			"%lld to %lld",
			missing, plural(missing), (m->hit / m->size), (whole - 1), (m->hit / m->size * m->size),
			(whole * m->size - 1));
	why_say(w, "  in the log: SELECT * FROM lookup WHERE seq = %lld", m->seq);
}

void why_miss(struct why *w)
{
	struct miss m = { 0 };

	if (!read_lookup(w, &m)) {
		if (w->at.given)
			why_say(w, "Request %lld asked nothing of the prefix cache, or is not in this log.",
				w->at.number);
		else
			why_say(w, "No prompt missed%s: of %lld lookups each found all that it could.",
				why_so_far(w), why_int(w, 0, "SELECT count(*) FROM lookup WHERE seq <= ?9"));
		return;
	}
	find_closest(w, &m);
	say_reason(w, &m);
	say_needed(w, &m);
	free(m.ids);
}

/* ---- evict ---- */

struct evict {
	long long seq, page, step, idle;
	long long taker, taker_block; /* the request that got the page */
	long long writer, block, cached_seq;
};

static bool read_evict(struct why *w, struct evict *v)
{
	sqlite3_stmt *s = why_query(w,
		w->at.given
			? "SELECT seq, page, other FROM page WHERE action = {page_action.evict} AND page = ?1"
			  " ORDER BY seq <= ?9 DESC, seq DESC LIMIT 1"
			: "SELECT seq, page, other FROM page WHERE action = {page_action.evict} AND seq <= ?9"
			  " ORDER BY seq DESC LIMIT 1",
		w->at.number);

	if (!why_read(w, s, 3, (long long *[]){ &v->seq, &v->page, &v->idle }))
		return false;
	v->step = why_step_of(w, v->seq);
	v->taker = v->writer = v->block = -1;
	s = why_query(w,
		"SELECT request, block FROM page WHERE page = ?1 AND seq > ?2 AND action IN "
		"({page_action.alloc}, {page_action.copy})"
		" ORDER BY seq LIMIT 1",
		v->page, v->seq);
	why_read(w, s, 2, (long long *[]){ &v->taker, &v->taker_block });
	s = why_query(w,
		"SELECT request, block, seq FROM page WHERE page = ?1 AND seq < ?2 AND action = "
		"{page_action.cache}"
		" ORDER BY seq DESC LIMIT 1",
		v->page, v->seq);
	why_read(w, s, 3, (long long *[]){ &v->writer, &v->block, &v->cached_seq });
	v->block = within(v->block, 0, MOST_BLOCK);
	return true;
}

/* Later requests that began with exactly the tokens of the evicted page and all before it. */
static void say_missed(struct why *w, const struct evict *v)
{
	long long size = why_page_size(w, v->seq), need = (v->block + 1) * size, n_missed = 0,
			  first = 0;
	int32_t n, *ids = why_tokens(w, v->writer, v->seq, &n);
	sqlite3_stmt *s = why_query(w,
		"SELECT request, seq FROM lookup WHERE seq > ?1 AND hit < ?2 ORDER BY seq", v->seq, need);

	while (n >= need && why_row(w, &s)) {
		int32_t m,
			*other = why_tokens(w, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), &m);

		if (m > need && !memcmp(other, ids, (size_t)need * sizeof *ids) && !n_missed++)
			first = sqlite3_column_int64(s, 0);
		free(other);
	}
	why_done(&s);
	free(ids);
	if (n_missed)
		why_say(w, "  it was missed: %lld later prompt%s began with its tokens, request %lld first",
			n_missed, plural(n_missed), first);
	else
		why_say(w, "  nobody missed it: no later prompt of this log began with its tokens");
}

/* Pages that pins kept then: they were not to be had. */
static void say_pinned(struct why *w, const struct evict *v)
{
	const long long n = why_int(w, 0,
		"SELECT (SELECT count(*) FROM page WHERE action = {page_action.pin} AND seq < ?1) -"
		" (SELECT count(*) FROM page WHERE action = {page_action.unpin} AND seq < ?1)",
		v->seq);

	if (n > 0)
		why_say(
			w, "  %lld pinned page%s stayed, however long unused: SELECT * FROM pin", n, plural(n));
}

static void say_for_room(struct why *w, const struct evict *v)
{
	why_say(w, "Page %lld was dropped from the prefix cache in step %lld, because %s.", v->page,
		v->step, v->taker >= 0 ? "a request needed a page and none was free" : "room was needed");
	if (v->taker >= 0)
		why_say(w, "  it went to request %lld, for its block %lld", v->taker, v->taker_block);
	why_say(w, "  of the unreferenced pages without children, it was the one least recently used:");
	why_say(w, "  nobody had read it for %lld step%s", v->idle, plural(v->idle));
	say_pinned(w, v);
	why_say(w, "  the pool then: %lld pages, %lld read by requests, %lld kept by the cache alone",
		why_pages(w, v->seq), why_int(w, 0, "SELECT pages_used FROM step WHERE step = ?1", v->step),
		why_int(w, 0, "SELECT pages_cached FROM step WHERE step = ?1", v->step));
}

void why_evict(struct why *w)
{
	struct evict v = { 0 };

	if (!read_evict(w, &v)) {
		if (w->at.given)
			why_say(w, "Page %lld was never evicted.", w->at.number);
		else
			why_say(w, "No page was evicted in this session%s.", why_so_far(w));
		return;
	}
	if (v.idle < 0)
		say_emptied(w, v.page, v.seq);
	else
		say_for_room(w, &v);
	if (v.writer >= 0)
		why_say(w,
			"  request %lld had written it in step %lld: its block %lld, positions %lld to %lld",
			v.writer, why_step_of(w, v.cached_seq), v.block, (v.block * why_page_size(w, v.seq)),
			((v.block + 1) * why_page_size(w, v.seq) - 1));
	if (v.writer >= 0)
		say_missed(w, &v);
	why_say(w, "  in the log: SELECT * FROM page WHERE page = %lld", v.page);
}
