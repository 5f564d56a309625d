/* Evidence that a value of an axis took effect in a case of certify. See certify_private.h.
 *
 * Batch, row and drafts have evidence per step: every value that a step had took effect, chosen or
 * not, and two of them have met only where one step had both. The others hold for a whole case.
 * Thread: any; no state. */
#include "base/text.h"
#include "engine/sched/policy.h"
#include "sessions/certify/certify_private.h"

static bool by_step(int a)
{
	return a == AXIS_BATCH || a == AXIS_ROW || a == AXIS_DRAFTS;
}

static bool step_has(const struct seen_step *s, int a, int want)
{
	return a == AXIS_BATCH ? s->members == want
		   : a == AXIS_ROW ? s->before == want
						   : s->drafts == want;
}

static bool kernels_at_work(const struct axis_engine *want, const struct evidence *ev)
{
	const char *isa = want->mode ? want->mode : want->isa;
	return !strcmp(ev->backend, want->backend) && (!isa || !strcmp(ev->isa, isa));
}

/* It ordered requests otherwise than they came, or it kept prompts and newest tokens apart. */
static bool policy_at_work(const struct sched_policy *policy, const struct evidence *ev)
{
	return policy->turn == SCHED_TOGETHER ? ev->reordered > 0 : ev->paused > 0;
}

/* Evidence of an axis that holds for the whole case. */
static bool case_has(const struct certify_plan *p, const struct evidence *ev, enum axis a)
{
	int want = axes_number(p, a);
	switch (a) {
	case AXIS_KERNELS: return kernels_at_work(&p->axes->engine[p->choice[a]], ev);
	case AXIS_THREADS: return ev->threads == want;
	case AXIS_PAGE_SIZE: return ev->page_size == want && ev->taken;
	case AXIS_PAGE_ORDER: return ev->apart > 0;
	case AXIS_CHUNK: return ev->most_rows == want;
	case AXIS_PREFIX: return (p->choice[a] == CERTIFY_PINNED ? ev->pinned : ev->hit) > 0;
	case AXIS_KV: return ev->again > 0;
	case AXIS_PREEMPTION: return ev->preempted > 0;
	case AXIS_UNSEEN: return ev->reach >= ev->unseen_from && !ev->unseen;
	case AXIS_POLICY: return policy_at_work(sched_policies[p->choice[a]], ev);
	case AXIS_CACHE:
		return !strcmp(ev->cache, axes_chosen(p, a)) &&
			   (!k_cache_by_channel(p->choice[a]) || ev->reach >= CERTIFY_CODED);
	case AXIS_GRAMMAR: return ev->bound > 0;
	case AXIS_ADAPTER: return ev->adapted > 0;
	case AXIS_ATTENTION: return !strcmp(ev->attention, axes_chosen(p, a));
	case AXIS_ZEROS: return !strcmp(ev->zeros, "on");
	case AXIS_PAIRS: return !ev->pairs;
	case AXIS_DRAFTER: return ev->verified > 0;
	case AXIS_RULE: return ev->by_rejection > 0;
	case AXIS_RANKS: return ev->exchanged > 0;
	case AXIS_WATCHED:
		if (!strcmp(axes_chosen(p, a), "twin"))
			return ev->twins > 0 && !ev->apart_twins;
		return (ev->watched > 0 || p->axes->states || p->axes->diffusion) &&
			   (strcmp(axes_chosen(p, a), "recorded") || ev->recorded > 0);
	case AXIS_BATCH:
	case AXIS_ROW:
	case AXIS_DRAFTS:
	case N_AXES: break;
	}
	return false;
}

bool evidence_has(const struct certify_plan *p, const struct evidence *ev, int a, int i)
{
	if (!by_step(a))
		return i == p->choice[a] && case_has(p, ev, (enum axis)a);
	for (int k = 0; k < ev->n_steps; k++)
		if (step_has(&ev->step[k], a, p->axes->number[a][i]))
			return true;
	return false;
}

bool evidence_has_pair(
	const struct certify_plan *p, const struct evidence *ev, int a, int i, int b, int j)
{
	if (!by_step(a) || !by_step(b))
		return evidence_has(p, ev, a, i) && evidence_has(p, ev, b, j);
	for (int k = 0; k < ev->n_steps; k++)
		if (step_has(&ev->step[k], a, p->axes->number[a][i]) &&
			step_has(&ev->step[k], b, p->axes->number[b][j]))
			return true;
	return false;
}

bool evidence_is_whole(const struct certify_plan *p, const struct evidence *ev)
{
	for (int a = 0; a < N_AXES; a++) {
		/* a recording is counted when it is closed */
		bool later = a == AXIS_WATCHED && ev->watched > 0;
		if (p->choice[a] && !later && !evidence_has(p, ev, a, p->choice[a]))
			return false;
		for (int b = 0; b < a; b++)
			if (p->choice[a] && p->choice[b] && by_step(a) && by_step(b) &&
				!evidence_has_pair(p, ev, b, p->choice[b], a, p->choice[a]))
				return false;
	}
	return true;
}

/* "17 to 9 requests in a step" */
static void say_batch(const struct evidence *ev, char *seen, size_t cap)
{
	int least = 127, most = 0;
	for (int k = 0; k < ev->n_steps; k++) {
		least = ev->step[k].members < least ? ev->step[k].members : least;
		most = ev->step[k].members > most ? ev->step[k].members : most;
	}
	if (least < most)
		text_append(seen, cap, ", ", "%d to %d requests in a step", most, least);
	else
		text_append(seen, cap, ", ", "%d request%s in a step", most, plural(most));
}

static void say_watched(const char *how, const struct evidence *ev, char *seen, size_t cap)
{
	if (!strcmp(how, "twin"))
		text_append(seen, cap, ", ", "%lld rows of the exact twin%s", (long long)ev->twins,
			ev->apart_twins ? ", which differ" : "");
	else
		text_append(seen, cap, ", ", "%lld looks at attention", (long long)ev->watched);
	if (!strcmp(how, "recorded"))
		text_append(seen, cap, ", ", "%lld events on disk", (long long)ev->recorded);
}

static void say_policy(
	const struct sched_policy *policy, const struct evidence *ev, char *seen, size_t cap)
{
	if (policy->turn == SCHED_TOGETHER)
		text_append(seen, cap, ", ", "%lld admitted out of turn", (long long)ev->reordered);
	else
		text_append(
			seen, cap, ", ", "paused in %lld step%s", (long long)ev->paused, plural(ev->paused));
}

void evidence_say(
	const struct certify_plan *p, const struct evidence *ev, enum axis a, char *seen, size_t cap)
{
	if (a == AXIS_PAGE_ORDER)
		text_append(seen, cap, ", ", "%lld of %lld pages apart", (long long)ev->apart,
			(long long)ev->taken);
	else if (a == AXIS_CHUNK)
		text_append(
			seen, cap, ", ", "%lld row%s at once", (long long)ev->most_rows, plural(ev->most_rows));
	else if (a == AXIS_BATCH)
		say_batch(ev, seen, cap);
	else if (a == AXIS_ROW && evidence_has(p, ev, a, p->choice[a]))
		text_append(seen, cap, ", ", "others before: %d", axes_number(p, a));
	else if (a == AXIS_PREFIX && p->choice[a] == CERTIFY_PINNED)
		text_append(seen, cap, ", ", "%lld tokens from the cache, a pin kept %lld",
			(long long)ev->hit, (long long)ev->pinned);
	else if (a == AXIS_PREFIX)
		text_append(seen, cap, ", ", "%lld tokens from the cache", (long long)ev->hit);
	else if (a == AXIS_KV)
		text_append(
			seen, cap, ", ", "%lld tokens that computed all before them", (long long)ev->again);
	else if (a == AXIS_PREEMPTION)
		text_append(seen, cap, ", ", "preempted %lld time%s", (long long)ev->preempted,
			plural(ev->preempted));
	else if (a == AXIS_UNSEEN)
		text_append(seen, cap, ", ", "%lld positions, unseen from %lld", (long long)ev->reach,
			(long long)ev->unseen_from);
	else if (a == AXIS_POLICY)
		say_policy(sched_policies[p->choice[a]], ev, seen, cap);
	else if (a == AXIS_DRAFTS ||
			 (!p->choice[AXIS_DRAFTS] &&
				 (a == AXIS_DRAFTER || (a == AXIS_RULE && !p->choice[AXIS_DRAFTER]))))
		text_append(seen, cap, ", ", "%lld drafts verified, %lld accepted", (long long)ev->verified,
			(long long)ev->accepted);
	else if (a == AXIS_GRAMMAR)
		text_append(seen, cap, ", ", "%lld tokens under a grammar", (long long)ev->bound);
	else if (a == AXIS_ADAPTER)
		text_append(seen, cap, ", ", "%lld tokens %s it", (long long)ev->adapted,
			p->choice[a] == CERTIFY_OWN ? "with" : "beside requests with");
	else if (a == AXIS_WATCHED)
		say_watched(axes_chosen(p, a), ev, seen, cap);
}
