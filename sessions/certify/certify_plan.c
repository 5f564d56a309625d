/* Chooses the mixed cases of certify: a covering array of pairs, made greedily (after AETG: Cohen,
 * Dalal, Fredman, Patton 1997), but the best candidate is the one with the most new pairs per
 * second, not the most new pairs. See certify_private.h.
 *
 * The seconds are predicted from the rows that a case computes and the speed of its kernels, never
 * measured: the list is the same for the same seed on all machines with the same values. Thread:
 * any; no state. */
#include "sessions/certify/certify_private.h"

enum { CANDIDATES = 40, MOST_TRIES = 4 };

/* Seconds on two cores, for a model of 135 million weights. Only their proportions matter. */
static const double OPENING = 0.07, FAST_ROW = 0.0008, FAST_STEP = 0.004, SLOW_ROW = 0.12;

/* ---- what a case costs ---- */

static double prompt_cost(const struct certify_plan *p, bool slow)
{
	int32_t n = p->work.n_ids;
	return slow ? n * SLOW_ROW : n * FAST_ROW + axes_chunks(p, n) * FAST_STEP;
}

/* Rows of the generating steps, and of what the company computes before them. */
static double company_rows(const struct certify_plan *p, bool slow)
{
	int ahead, company = axes_company(p, &ahead), drafts = axes_guesses(p);
	int32_t rows = (p->brief ? 2 : p->work.n_generated) * (1 + ahead) + drafts;
	if (p->choice[AXIS_PREEMPTION])
		return (double)company * (axes_elder_tokens(p) + 8) + rows;
	for (int n = ahead + 1; p->choice[AXIS_BATCH] && n <= company; n++)
		rows += 1 + n + drafts;
	return rows + 2 * ahead + company * (slow ? 1 : 12);
}

double plan_cost(const struct certify_plan *p)
{
	bool slow = axes_slow(p->axes, p->choice);
	int passes = 1 + p->scored + (p->choice[AXIS_PREFIX] != 0) + (p->choice[AXIS_PREEMPTION] != 0);
	passes += p->choice[AXIS_KV] ? p->brief ? 2 : p->work.n_generated : 0;
	double rows = company_rows(p, slow) + axes_drafter_rows(p);
	if (p->choice[AXIS_PAGE_ORDER])
		rows += CERTIFY_SLOTS;
	if (slow)
		return OPENING + passes * prompt_cost(p, true) + rows * SLOW_ROW;
	return OPENING + passes * prompt_cost(p, false) + rows * FAST_ROW +
		   p->work.n_generated * FAST_STEP;
}

/* ---- which text ---- */

enum { MOST_INPUT = 40 };

int32_t plan_input(const struct certify_plan *p)
{
	const int32_t half = p->work.n_ids / 2;

	return p->axes->start < 0 ? 0 : half < MOST_INPUT ? half : MOST_INPUT;
}

int32_t plan_scored(const struct certify_plan *p)
{
	return p->axes->diffusion ? 0 : p->work.n_ids - 1 - plan_input(p);
}

int32_t plan_tokens(const struct axes *axes, const int *choice)
{
	int32_t chunk = axes->number[AXIS_CHUNK][choice[AXIS_CHUNK]];
	int32_t size = axes->number[AXIS_PAGE_SIZE][choice[AXIS_PAGE_SIZE]];
	int32_t need = chunk + 2 + (axes->start < 0 ? 0 : MOST_INPUT);
	if ((choice[AXIS_PREFIX] || choice[AXIS_PAGE_ORDER]) && need < size + 2)
		need = size + 2; /* one whole page for a prefix hit, and part of a second */
	if ((k_cache_by_channel(choice[AXIS_CACHE]) || (axes->kept && !axes_slow(axes, choice))) &&
		need < CERTIFY_CODED)
		need = CERTIFY_CODED;
	/* of pages of 16; sinks take one more */
	if (choice[AXIS_UNSEEN] && need < axes->unseen_from + 2 * (size - 16))
		need = axes->unseen_from + 2 * (size - 16);
	return need;
}

static enum text_size text_of(
	const struct axes *axes, const struct workload *work, const int *choice)
{
	int32_t need = plan_tokens(axes, choice);
	bool few = axes_slow(axes, choice) || choice[AXIS_CHUNK];
	int size = few ? TEXT_SHORT : TEXT_MIDDLE;
	while (size < N_TEXTS - 1 && work[size].n_ids < need && work[size + 1].n_ids)
		size++;
	return (enum text_size)size;
}

struct certify_plan plan_case(const struct axes *axes, const struct workload *work,
	const int *choice, enum text_size size, bool mixed)
{
	struct certify_plan p = { .axes = axes, .work = work[size], .scored = !axes->diffusion };
	memcpy(p.choice, choice, sizeof p.choice);
	if (mixed && axes_slow(axes, choice)) {
		p.scored = false;
		p.brief = true;
	}
	return p;
}

/* ---- the covering array ---- */

struct planner {
	const struct axes *axes;
	const struct workload *work;
	certify_grid open; /* pairs that no case of the list covers yet */
	int n_open;
	uint8_t (*pair)[CERTIFY_MAX_VALUES], (*tries)[CERTIFY_MAX_VALUES];
	uint64_t *random;
};

static int draw(struct planner *pl, int n)
{
	return (int)(certify_random(pl->random) % (uint64_t)n);
}

static uint8_t *cell(certify_grid grid, const struct axes *axes, int a, int i, int b, int j)
{
	int x = axes->first[a] + i, y = axes->first[b] + j;
	return a < b ? &grid[x][y] : &grid[y][x];
}

/* Values of axis a that a case of this choice should have: the batch shrinks by one a step, and so
 * do drafts that do not depend on repeated text, at the end of the request. */
static int values_of(const struct certify_plan *p, int a, int *value)
{
	int ahead, n = 0, most = axes_company(p, &ahead) + 1;
	bool shrinks = a == AXIS_BATCH && p->choice[a] && !p->choice[AXIS_PREEMPTION];
	bool ends = a == AXIS_DRAFTS && p->choice[a] && p->choice[AXIS_DRAFTER] && !p->brief;
	if (p->choice[a])
		value[n++] = p->choice[a];
	for (int i = 1; shrinks && i < p->axes->axis[a].n; i++) {
		int x = p->axes->number[a][i];
		if (x < most && x > ahead)
			value[n++] = i;
	}
	for (int i = 1; ends && i < p->axes->axis[a].n; i++)
		if (p->axes->number[a][i] < axes_number(p, AXIS_DRAFTS))
			value[n++] = i;
	return n;
}

/* How many new pairs the case covers; close: marks them as covered. */
static int new_pairs(struct planner *pl, const struct certify_plan *p, bool close)
{
	int n = 0, x[AXIS_VALUES], y[AXIS_VALUES];
	for (int a = 0; a < N_AXES; a++) {
		int n_x = values_of(p, a, x);
		for (int b = a + 1; n_x && b < N_AXES; b++) {
			int n_y = values_of(p, b, y);
			for (int k = 0; k < n_x * n_y; k++) {
				uint8_t *open = cell(pl->open, pl->axes, a, x[k / n_y], b, y[k % n_y]);
				n += *open;
				pl->n_open -= close && *open;
				*open = close ? 0 : *open;
			}
		}
	}
	return n;
}

/* With preemption all other requests come before ours. */
static bool can_be(const struct planner *pl, const int *choice)
{
	for (int a = 0; a < N_AXES; a++)
		for (int b = 0; b < a; b++)
			if (*cell(pl->pair, pl->axes, b, choice[b], a, choice[a]) == CERTIFY_PAIR_IMPOSSIBLE)
				return false;
	const int batch = pl->axes->number[AXIS_BATCH][choice[AXIS_BATCH]];
	const int row = pl->axes->number[AXIS_ROW][choice[AXIS_ROW]];
	return !choice[AXIS_PREEMPTION] || !choice[AXIS_BATCH] || !choice[AXIS_ROW] || batch == row + 1;
}

/* Other values may have kept an open pair from taking effect: it is then tried alone. */
static bool is_alone(struct planner *pl, int a, int i, int b, int j)
{
	return *cell(pl->open, pl->axes, a, i, b, j) && *cell(pl->tries, pl->axes, a, i, b, j) > 1;
}

/* Open pairs of value i of axis a with the values chosen so far; -1: impossible. */
static int gain(struct planner *pl, int *choice, int a, int i)
{
	int n = 0;
	choice[a] = i;
	if (!can_be(pl, choice))
		n = -1;
	for (int b = 0; n >= 0 && b < N_AXES; b++)
		if (b != a && choice[b] && is_alone(pl, a, i, b, choice[b]))
			n = -1;
		else if (b != a && choice[b])
			n += *cell(pl->open, pl->axes, a, i, b, choice[b]);
	choice[a] = 0;
	return n;
}

/* Starts a choice from the k-th open pair. True: other values may join it. */
static bool begin(struct planner *pl, int *choice, int k)
{
	for (int a = 0; a < N_AXES; a++)
		for (int b = a + 1; b < N_AXES; b++)
			for (int i = 1; i < pl->axes->axis[a].n; i++)
				for (int j = 1; j < pl->axes->axis[b].n; j++)
					if (*cell(pl->open, pl->axes, a, i, b, j) && !k--) {
						choice[a] = i;
						choice[b] = j;
						return !is_alone(pl, a, i, b, j);
					}
	return true;
}

static double worth(struct planner *pl, const int *choice)
{
	enum text_size size = text_of(pl->axes, pl->work, choice);
	struct certify_plan p = plan_case(pl->axes, pl->work, choice, size, true);
	return new_pairs(pl, &p, false) / plan_cost(&p);
}

/* Fills the other axes in random order: takes the value with the most open pairs (ties: the first
 * from a random index on), if it makes the case worth more. */
static void extend(struct planner *pl, int *choice)
{
	int order[N_AXES];
	double so_far = worth(pl, choice);
	for (int a = 0; a < N_AXES; a++) {
		int k = draw(pl, a + 1); /* Fisher and Yates */
		order[a] = order[k];
		order[k] = a;
	}
	for (int k = 0; k < N_AXES; k++) {
		int a = order[k], n = pl->axes->axis[a].n, best = 0, best_gain = 0, from = draw(pl, n);
		for (int v = 0; v < n && !choice[a]; v++) {
			int i = (from + v) % n, g = i ? gain(pl, choice, a, i) : 0;
			if (g > best_gain)
				best = i, best_gain = g;
		}
		if (!best)
			continue;
		choice[a] = best;
		double with = worth(pl, choice);
		choice[a] = with >= so_far ? best : 0;
		so_far = with >= so_far ? with : so_far;
	}
}

static void choose(struct planner *pl, struct mixed_case *out)
{
	double most = 0;
	for (int i = 0; i < CANDIDATES; i++) {
		int choice[N_AXES] = { 0 };
		if (begin(pl, choice, draw(pl, pl->n_open)))
			extend(pl, choice);
		double w = worth(pl, choice);
		if (w > most) {
			memcpy(out->choice, choice, sizeof out->choice);
			most = w;
		}
	}
	out->size = text_of(pl->axes, pl->work, out->choice);
}

void plan_note_try(const struct axes *axes, const int *choice, certify_grid tries)
{
	for (int a = 0; a < N_AXES; a++)
		for (int b = a + 1; b < N_AXES; b++)
			if (choice[a] && choice[b])
				++*cell(tries, axes, a, choice[a], b, choice[b]);
}

static void open_pairs(struct planner *pl, certify_grid pair)
{
	for (int i = 0; i < pl->axes->n_values; i++)
		for (int j = i + 1; j < pl->axes->n_values; j++) {
			pl->open[i][j] = pair[i][j] == CERTIFY_PAIR_LEFT && pl->tries[i][j] < MOST_TRIES;
			pl->n_open += pl->open[i][j];
		}
}

void plan_mixed(const struct axes *axes, const struct workload *work, certify_grid pair,
	certify_grid tries, int most, uint64_t *random, struct mixed_list *list)
{
	struct planner pl = {
		.axes = axes, .work = work, .pair = pair, .tries = tries, .random = random
	};
	open_pairs(&pl, pair);
	list->n = 0;
	while (pl.n_open && list->n < CERTIFY_MAX_PLANNED && (!most || list->n < most)) {
		struct mixed_case *m = &list->item[list->n++];
		choose(&pl, m);
		struct certify_plan p = plan_case(axes, work, m->choice, m->size, true);
		m->cost = plan_cost(&p);
		new_pairs(&pl, &p, true);
	}
}
