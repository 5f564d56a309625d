/* Accounts of users: the virtual token counters of Sheng et al. (2024), algorithm 2, which the
 * policy fair ranks by. They are kept under any policy, so that it can be chosen at any time.
 *
 * A counter grows by the tokens of a prompt when its request is first admitted, and by DRAWN for
 * each token that is drawn. One who comes without a waiting request is lifted to the least counter
 * of those who wait; if nobody waits, to that of the user whose request left the queue last. So
 * idle time gives no credit. */
#include "base/array.h"
#include "engine/sched/sched_impl.h"

enum { DRAWN = 2 }; /* the price of a drawn token, of a prompt token 1: Sheng et al. 2024, 5.1 */

/* Least counter of one who comes now. */
static int64_t lift(const struct sched *s)
{
	int64_t least = s->n_queue ? INT64_MAX : s->last ? s->last->served : 0;

	for (int32_t i = 0; i < s->n_queue; i++)
		if (s->queue[i]->account->served < least)
			least = s->queue[i]->account->served;
	return least;
}

/* Takes the place of one who would be lifted if he came back, so that only those are kept whose
 * counters say something. */
static struct sched_user *new_user(struct sched *s, const char *name, int64_t least)
{
	struct sched_user *u = NULL;
	char *copy = strdup(name);

	for (int32_t i = 0; copy && !u && i < s->n_users; i++)
		if (!s->user[i]->n_live && s->user[i]->served <= least) {
			u = s->user[i];
			free(u->name);
		}
	if (copy && !u && ARRAY_ROOM(s->user, s->cap_users, s->n_users + 1) && (u = malloc(sizeof *u)))
		s->user[s->n_users++] = u;
	if (!u)
		free(copy);
	else
		*u = (struct sched_user){ .name = copy };
	return u;
}

int sched_user_open(struct sched *s, struct request *r)
{
	const char *name = r->user ? r->user : "";
	struct sched_user *u = NULL;
	bool waits = false;
	int64_t least;

	sched_users_count(s);
	least = lift(s);
	for (int32_t i = 0; !u && i < s->n_users; i++)
		if (!strcmp(s->user[i]->name, name))
			u = s->user[i];
	if (!u && !(u = new_user(s, name, least)))
		return -1;
	for (int32_t i = 0; i < s->n_queue; i++)
		waits |= s->queue[i]->account == u;
	if (!waits && u->served < least)
		u->served = least;
	u->n_live++;
	r->account = u;
	r->charged = r->n_prompt;
	return 0;
}

static void count(struct request *r)
{
	if (r->n_ids > r->charged) {
		r->account->served += DRAWN * (int64_t)(r->n_ids - r->charged);
		r->charged = r->n_ids;
	}
}

void sched_user_close(struct request *r)
{
	count(r);
	r->account->n_live--;
	r->account = NULL;
}

void sched_user_admit(struct sched *s, struct request *r)
{
	r->account->served += r->n_prompt;
	s->last = r->account;
}

void sched_users_count(struct sched *s)
{
	for_running(s, r)
		count(r);
}

void sched_users_free(struct sched *s)
{
	for (int32_t i = 0; i < s->n_users; i++) {
		free(s->user[i]->name);
		free(s->user[i]);
	}
	free(s->user);
}
