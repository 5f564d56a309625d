/* The result of a comparison as text. See diff.h. */
#include "base/text.h"
#include "sessions/diff/diff_impl.h"

static const char *end_of(const struct diff_side *s)
{
	return s->request->finish < 0 ? "cut off" : ev_code_name("finish", s->request->finish);
}

/* Position in the sequence of A; the same in B's unless the vocabularies differ. */
static int32_t position(const struct diff_pair *p)
{
	return p->from[0] + p->at;
}

static void describe_length(const struct diff_pair *p, char *buf, size_t cap)
{
	bool a_is_short = p->side[0].n < p->side[1].n;
	const struct diff_side *ended = &p->side[!a_is_short], *other = &p->side[a_is_short];

	snprintf(buf, cap, "%c ends there (%s), %c goes on for %d token%s (%s)%s%s",
		a_is_short ? 'A' : 'B', end_of(ended), a_is_short ? 'B' : 'A', other->n - ended->n,
		plural(other->n - ended->n), end_of(other), p->settings[0] ? "; " : "", p->settings);
}

static void describe_logits(const struct diff *d, const struct diff_pair *p, char *buf, size_t cap)
{
	const struct lossy_settings a = history_lossy(d->h[0], NULL), b = history_lossy(d->h[1], NULL);
	const char *why =
		!d->same_model                     ? "the models differ"
		: d->h[0]->arith != d->h[1]->arith ? "the arithmetic differs"
		: !lossy_same(&a, &b)
			? "a lossy setting differs"
			: "of one model and arithmetic that cannot be: cutaway verify says which file is wrong";

	if (p->hash_at < p->at)
		snprintf(buf, cap, "the logits, from position %d on: %s", p->from[0] + p->hash_at, why);
	else
		snprintf(buf, cap, "the logits: %s", why);
}

void diff_describe(struct diff *d, const struct diff_pair *p, char *buf, size_t cap)
{
	bool fork;

	switch (p->cause) {
	case DIFF_EQUAL: snprintf(buf, cap, "equal"); break;
	case DIFF_ALONE: snprintf(buf, cap, "only in %c", p->side[0].request ? 'A' : 'B'); break;
	case DIFF_PROMPT:
		fork = p->side[0].request->parent || p->side[1].request->parent;
		snprintf(buf, cap, "the prompt%s", fork ? " of a fork" : "");
		break;
	case DIFF_CHOSEN: snprintf(buf, cap, "a search chose, from equal logits"); break;
	case DIFF_FORCED: snprintf(buf, cap, "a token that the user put there"); break;
	case DIFF_LOGITS: describe_logits(d, p, buf, cap); break;
	case DIFF_SETTING: snprintf(buf, cap, "the draw, from equal logits: %s", p->settings); break;
	case DIFF_DRAW:
		snprintf(buf, cap,
			"the draw, from equal logits and with equal settings, which cannot be: cutaway verify "
			"says which file is wrong");
		break;
	case DIFF_LENGTH: describe_length(p, buf, cap); break;
	case DIFF_N_CAUSES: break;
	}
}

/* What happened to the other side's token in this side's draw. */
static void describe_other(const struct diff *d, const struct diff_pair *p, int side,
	const struct ev_candidate *c, int n, char *buf, size_t cap)
{
	const struct history_row *other = diff_row(p, !side);

	buf[0] = 0;
	if (!other || !n || !d->same_vocab || other->id == diff_row(p, side)->id)
		return;
	for (int i = 0; i < n; i++) {
		if ((int32_t)c[i].id != other->id)
			continue;
		if (c[i].cut == EV_CUT_kept)
			snprintf(buf, cap, ", %c's arrived at %.4g", side ? 'A' : 'B', (double)c[i].arrival);
		else
			snprintf(
				buf, cap, ", %c's was cut (%s)", side ? 'A' : 'B', ev_code_name("cut", c[i].cut));
		return;
	}
	snprintf(buf, cap, ", %c's was not among its %d candidates", side ? 'A' : 'B', n);
}

void diff_describe_draw(struct diff *d, const struct diff_pair *p, int side, char *buf, size_t cap)
{
	const struct history_row *row = diff_row(p, side);
	struct ev_candidate c[16];
	char text[80], won[48] = "", other[96];
	int n;

	buf[0] = 0;
	if (!row)
		return;
	ev_texts_quoted(&d->h[side]->texts, row->id, 40, text, sizeof text);
	if (ev_is_given(row->source)) {
		snprintf(buf, cap, "%s, %s", text,
			row->source == EV_SOURCE_forced ? "put there by the user"
											: "of another model's answer");
		return;
	}
	if (p->side[side].request->kind == EV_REQUEST_KIND_score) {
		snprintf(buf, cap, "%s, log-probability %.6f, hash %016llx", text, row->p,
			(unsigned long long)row->hash);
		return;
	}
	if (row->source == EV_SOURCE_chosen || row->source == EV_SOURCE_taken) {
		snprintf(buf, cap, "%s, p %.4f, of the best answer of a search, hash %016llx", text, row->p,
			(unsigned long long)row->hash);
		return;
	}
	n = history_candidates(d->h[side], row, c, 16);
	for (int i = 0; i < n; i++)
		if ((int32_t)c[i].id == row->id && c[i].cut == EV_CUT_kept && !isnan(c[i].arrival))
			snprintf(won, sizeof won, ", arrived at %.4g", (double)c[i].arrival);
	describe_other(d, p, side, c, n, other, sizeof other);
	snprintf(buf, cap, "%s, p %.4f%s%s, in the draw %.4f, %lld survivors, hash %016llx", text,
		row->p, won, other, row->p_draw, (long long)row->survivors, (unsigned long long)row->hash);
}

/* ---- all of it ---- */

static void print_distance(const struct diff_distance *d, const char *where, FILE *out)
{
	if (!d->n)
		return;
	fprintf(out, "      %s: %d positions of both, the same token at %d", where, d->n, d->same);
	if (d->n_top)
		fprintf(out, ", the same best token at %d of %d", d->top, d->n_top);
	if (d->n_kl && d->none == d->n_kl)
		fprintf(out, ", KL 0");
	else if (d->n_kl)
		fprintf(out, ", KL at least %.4g nats (largest %.4g)", d->kl, d->kl_max);
	fputc('\n', out);
}

static void print_head(const struct diff_pair *p, FILE *out)
{
	const struct history_request *q = p->side[0].request ? p->side[0].request : p->side[1].request;
	char clean[640]; /* of 36 columns, whatever they are */
	size_t n = text_line(
		text_cleaned(clean, sizeof clean, q->text, strlen(q->text)), 36, false, &(size_t){ 0 });

	if (p->side[0].request && p->side[1].request)
		fprintf(out, "A %-3lld B %-3lld", (long long)p->side[0].request->number,
			(long long)p->side[1].request->number);
	else
		fprintf(out, "%c %-9lld", p->side[0].request ? 'A' : 'B', (long long)q->number);
	fprintf(out, " %-5s %.*s", ev_code_name("request_kind", q->kind), (int)n, clean);
}

static void print_pair(struct diff *d, const struct diff_pair *p, FILE *out)
{
	char text[400];

	print_head(p, out);
	diff_describe(d, p, text, sizeof text);
	if (p->cause == DIFF_EQUAL || p->cause == DIFF_ALONE) {
		fprintf(out, "  %s (%d tokens)\n", text,
			p->side[p->side[0].request == NULL].n - p->side[p->side[0].request == NULL].n_prompt);
		return;
	}
	fprintf(out, "\n      parts at position %d: %s\n", position(p), text);
	for (int s = 0; s < 2; s++) {
		int32_t at = p->from[s] + p->at;

		diff_describe_draw(d, p, s, text, sizeof text);
		if (text[0])
			fprintf(out, "      %c drew %s\n", 'A' + s, text);
		else if (at < p->side[s].n)
			fprintf(out, "      %c has %s in its prompt\n", 'A' + s,
				ev_texts_quoted(&d->h[s]->texts, p->side[s].ids[at], 40, text, sizeof text));
	}
	if (p->cause != DIFF_SETTING && p->cause != DIFF_LENGTH && p->settings[0])
		fprintf(out, "      settings differ too: %s\n", p->settings);
	print_distance(&p->before, "up to there", out);
	print_distance(&p->after, "after it, each with its own text", out);
}

void diff_print(struct diff *d, FILE *out)
{
	char *clean = text_clean(d->session, strlen(d->session), true, NULL);

	fputs(clean ? clean : "", out);
	free(clean);
	if (!d->same_vocab)
		fprintf(out, "the vocabularies differ: answers are compared by their text\n");
	for (int32_t i = 0; i < d->n_pairs; i++)
		print_pair(d, &d->pair[i], out);
	fprintf(out, "%s%d of %d requests are equal\n", d->n_equal == d->n_pairs ? "equal: " : "",
		d->n_equal, d->n_pairs);
}
