/* Part of the timeline: the questions that views ask. They change nothing. */
#include "base/find.h"
#include "fold/timeline_fold.h"

#define SECOND_NS 1000000000.0

struct tl_request *tl_request_find(struct timeline *t, int64_t id)
{
	return find_number(id, t->request, t->n_requests, sizeof *t->request);
}

const struct tl_request *timeline_request(const struct timeline *t, int64_t id)
{
	return tl_request_find((struct timeline *)t, id);
}

const struct tl_step *timeline_step(const struct timeline *t, int64_t step)
{
	return find_number(step, t->step, t->n_steps, sizeof *t->step);
}

const struct tl_step *timeline_last_step(const struct timeline *t)
{
	return t->n_steps ? &t->step[t->n_steps - 1] : NULL;
}

static const struct tl_setting *setting_of(const struct timeline *t, const char *name)
{
	for (int32_t i = 0; i < t->n_settings; i++)
		if (!strcmp(t->setting[i].name, name))
			return &t->setting[i];
	return NULL;
}

const char *timeline_setting(const struct timeline *t, const char *name)
{
	const struct tl_setting *s = setting_of(t, name);

	return s ? s->value : NULL;
}

bool timeline_exact(const struct timeline *t)
{
	const char *exact = timeline_setting(t, "exact");

	return !exact || strcmp(exact, "off") != 0;
}

bool timeline_of_conversation(enum ev_code_request_kind kind)
{
	return kind == EV_REQUEST_KIND_chat || kind == EV_REQUEST_KIND_fork ||
		   kind == EV_REQUEST_KIND_run || kind == EV_REQUEST_KIND_served;
}

const struct tl_request *timeline_chat(const struct timeline *t)
{
	for (int32_t i = t->n_requests; i-- > 0;)
		if (timeline_of_conversation(t->request[i].kind))
			return &t->request[i];
	return NULL;
}

const char *timeline_token_bytes(const struct timeline *t, int32_t id, int32_t *size)
{
	const struct tl_vocab *v = is_index(id, t->n_vocab) ? &t->vocab[id] : NULL;

	*size = v && v->bytes ? v->size : 0;
	return *size ? v->bytes : "";
}

static bool step_has(const struct timeline *t, const struct tl_step *s, int64_t request)
{
	for (int32_t i = 0; i < s->n_batch; i++)
		if (t->batch[s->batch_at + i].request == request)
			return true;
	return false;
}

/* Tokens of r in steps from `first` on. */
static int32_t tokens_since(const struct tl_request *r, int64_t first)
{
	int32_t n = 0;

	while (n < r->n_tokens && r->token[r->n_tokens - 1 - n].step >= first)
		n++;
	return n;
}

double timeline_rate(const struct timeline *t, int64_t request)
{
	const struct tl_request *r = request ? timeline_request(t, request) : NULL;
	double ns = 0, tokens = 0;
	int64_t first = 0;

	if (request && !r)
		return (double)NAN;
	if (r && r->finished)
		return SECOND_NS / timeline_waits(t, r).tpot;
	for (int32_t i = t->n_steps; i-- > 0 && ns < SECOND_NS;) {
		const struct tl_step *s = &t->step[i];

		if (r && r->admitted_ns != EV_NULL_I && s->t_ns < r->admitted_ns)
			break;
		if (r && !step_has(t, s, request))
			continue;
		ns += (double)s->s.ns;
		tokens += (double)s->s.tokens;
		first = s->s.step;
	}
	if (r)
		tokens = tokens_since(r, first);
	return ns > 0 ? tokens * SECOND_NS / ns : (double)NAN;
}

static int64_t setting_seq(const struct timeline *t, const char *name)
{
	const struct tl_setting *s = setting_of(t, name);

	return s ? s->seq : 0;
}

static int64_t drafter_seq(const struct timeline *t)
{
	int64_t spec = setting_seq(t, "spec"), rule = setting_seq(t, "rule");

	return at_least(spec, rule);
}

bool timeline_drafter_since(const struct timeline *t, int64_t step)
{
	const struct tl_step *s = timeline_step(t, step);

	return !s || s->seq > drafter_seq(t); /* a step that is open has the newest */
}

static void count_drafts(
	struct tl_speculation *out, int64_t request, const struct tl_draft *d, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		bool again = i && d[i - 1].request == d[i].request && d[i - 1].depth == d[i].depth &&
					 d[i - 1].verdict != EV_VERDICT_discarded;

		if (d[i].verdict == EV_VERDICT_discarded || d[i].depth > TL_PLACES ||
			(request && d[i].request != request))
			continue;
		out->verified[d[i].depth - 1] += !again;
		out->accepted[d[i].depth - 1] += d[i].verdict == EV_VERDICT_accepted;
	}
}

/* Tokens of a step are told of all its members together: those of one are in its text. */
static void count_tokens(struct tl_speculation *out, const struct timeline *t,
	const struct tl_request *r, const struct tl_step *s)
{
	for (int32_t b = 0; b < s->n_batch; b++)
		out->members += t->batch[s->batch_at + b].request == r->id;
	for (int32_t i = r->n_tokens; i-- > 0 && r->token[i].step >= s->s.step;)
		out->tokens += r->token[i].step == s->s.step;
}

struct tl_speculation timeline_speculation(const struct timeline *t, int64_t request)
{
	const struct tl_request *r = request ? timeline_request(t, request) : NULL;
	struct tl_speculation out = { 0 };
	int64_t since = drafter_seq(t);

	for (int32_t i = t->n_steps, n = 0; i-- > 0 && n < TL_WINDOW && t->step[i].seq > since; n++) {
		const struct tl_step *s = &t->step[i];

		if (s->s.prefill_rows)
			continue;
		if (r) {
			count_tokens(&out, t, r, s);
		} else {
			out.tokens += s->s.tokens;
			out.members += s->n_batch;
		}
		if (s->n_draft)
			count_drafts(&out, request, t->draft + s->draft_at, s->n_draft);
	}
	for (int i = 0; i < TL_PLACES; i++) {
		out.n_verified += out.verified[i];
		out.n_accepted += out.accepted[i];
	}
	return out;
}
