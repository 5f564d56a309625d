/* Part of the timeline: all of it as text, so that two of them can be compared. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fold/timeline_fold.h"

/* Of a NaN only that it is one: its sign and payload mean nothing. */
static void dump_real(FILE *f, const char *name, double v)
{
	if (isnan(v))
		fprintf(f, " %s=nan", name);
	else
		fprintf(f, " %s=%a", name, v);
}

static void dump_text(FILE *f, const char *name, const char *text)
{
	fprintf(f, " %s=%s", name, text ? "'" : "none");
	for (const char *p = text; p && *p; p++)
		fprintf(f, (unsigned char)*p < 0x20 ? "\\x%02x" : "%c", (unsigned char)*p);
	if (text)
		fputc('\'', f);
}

/* Integers and reals of an event's struct; its spans are dumped where they were copied to. */
static void dump_fields(FILE *f, enum ev_kind kind, const void *fields)
{
	const struct ev_info *info = &ev_info[kind];
	const char *member = fields;

	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *d = &info->fields[i];

		if (d->type == EV_TYPE_I)
			fprintf(f, " %s=%" PRId64, d->name, *(const int64_t *)(const void *)member);
		else if (d->type == EV_TYPE_R)
			dump_real(f, d->name, *(const double *)(const void *)member);
		member += ev_field_size(d->type);
	}
}

static void dump_token(FILE *f, const struct timeline *t, const struct tl_token *light)
{
	const struct tl_token *k = timeline_whole(t, light);

	fprintf(f, "  token step=%" PRId64 " seq=%" PRId64 " pos=%" PRId64 " hash=%" PRId64 " id=%d "
			"source=%d end=%d staged=%d survivors=%d draft=%d",
			k->step, k->seq, k->pos, k->hash, k->id, k->source, k->is_end, k->staged, k->survivors,
			k->draft);
	dump_real(f, "p", (double)k->p);
	dump_real(f, "p_draw", (double)k->p_draw);
	dump_real(f, "entropy", (double)k->entropy);
	for (int i = 0; i < k->n_candidates; i++) {
		const struct ev_candidate *c = &k->candidate[i];

		fprintf(f, " [%u %u", c->id, c->cut);
		dump_real(f, "logit", (double)c->logit);
		dump_real(f, "p", (double)c->p);
		dump_real(f, "arrival", (double)c->arrival);
		fputc(']', f);
	}
	for (int i = 0; i < EV_N_STAGES; i++) {
		fprintf(f, " (%u", k->stage[i].left);
		dump_real(f, "mass", (double)k->stage[i].mass);
		dump_real(f, "value", (double)k->stage[i].value);
		fputc(')', f);
	}
	fputc('\n', f);
}

static void dump_attention(FILE *f, const struct tl_attention *a)
{
	fprintf(f, "  attention step=%" PRId64 " pos=%" PRId64 " layers=%d pages=%d head=%d.%d", a->step,
			a->pos, a->n_layers, a->n_pages, a->head_layer, a->head);
	dump_real(f, "threshold", a->threshold);
	for (size_t i = 0; i < (size_t)a->n_layers * (size_t)a->n_pages; i++)
		dump_real(f, "", (double)a->share[i]);
	for (int32_t i = 0; i < a->n_layers; i++)
		dump_real(f, "z", (double)a->near_zero[i]);
	for (int32_t i = 0; i < a->head_pages; i++)
		dump_real(f, "h", (double)a->head_share[i]);
	fputc('\n', f);
}

static void dump_request(FILE *f, const struct timeline *t, const struct tl_request *r)
{
	fprintf(f, "request %" PRId64 " parent=%" PRId64 " sample=%" PRId64 " kind=%d state=%d arrival=%" PRId64
			" admitted=%" PRId64 " first=%" PRId64 " finished=%" PRId64 " slot=%d computed=%d drafted=%d "
			"accepted=%d preempted=%d trimmed=%d/%d",
			r->id, r->parent, r->sample, r->kind, r->state, r->arrival_ns, r->admitted_ns,
			r->first_token_ns, r->finished_ns, r->slot, r->computed, r->n_drafted, r->n_accepted,
			r->n_preempted, r->trimmed_tokens, r->trimmed_turns);
	dump_text(f, "text", r->text);
	dump_text(f, "stop", r->stop);
	dump_text(f, "spec", r->spec);
	dump_text(f, "why", r->finish_why);
	dump_fields(f, EV_request, &r->params);
	if (r->looked_up)
		dump_fields(f, EV_lookup, &r->lookup);
	if (r->finished)
		dump_fields(f, EV_finish, &r->finish);
	fprintf(f, " rewinds=%d fork=%d stem=%" PRId64 "/%d/%d", r->n_rewinds, r->fork_pos, r->stem.request,
			r->stem.future, r->stem.pos);
	if (r->n_rewinds)
		dump_fields(f, EV_rewind, &r->rewind);
	fputs("\n  prompt", f);
	for (int32_t i = 0; i < r->n_prompt; i++)
		fprintf(f, " %d", r->prompt[i]);
	fputs("\n  pages", f);
	for (int32_t i = 0; i < r->n_pages; i++)
		fprintf(f, " %d", r->pages[i]);
	fputc('\n', f);
	for (int32_t i = 0; i < r->n_tokens; i++)
		dump_token(f, t, &r->token[i]);
	dump_attention(f, &r->attention);
}

static void dump_future(FILE *f, const struct timeline *t, const struct tl_future *u)
{
	fprintf(f, "future request=%" PRId64 " step=%" PRId64 " stem=%" PRId64 "/%d/%d\n", u->request, u->step,
			u->stem.request, u->stem.future, u->stem.pos);
	for (int32_t i = 0; i < u->n_tokens; i++)
		dump_token(f, t, &u->token[i]);
}

static void dump_page(FILE *f, int32_t number, const struct tl_page *p)
{
	if (!p->n_story)
		return;
	fprintf(f, "page %d refs=%d cached=%d owner=%" PRId64 " block=%d used=%" PRId64 " story=%d", number,
			p->refs, p->cached, p->owner, p->block, p->last_used_step, p->n_story);
	dump_real(f, "heat", (double)p->heat);
	for (int i = 0; i < TL_PAGE_STORY; i++) {
		const struct tl_page_event *e = &p->story[i];

		fprintf(f, " (%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %d %d)", e->step, e->t_ns,
				e->request, e->other, e->action, e->block, e->refs);
	}
	fputc('\n', f);
}

static void dump_step(FILE *f, const struct tl_step *s)
{
	fprintf(f, "step seq=%" PRId64 " t=%" PRId64 " batch=%d+%d draft=%d+%d window=%d+%d timed=%d drafters=%d", s->seq, s->t_ns,
			s->batch_at, s->n_batch, s->draft_at, s->n_draft, s->window_at, s->n_window, s->timed, s->drafters_told);
	dump_fields(f, EV_step, &s->s);
	for (int i = 0; s->timed && i < EV_N_stage; i++)
		fprintf(f, " (%" PRId64 " %" PRId64 " %" PRId64 ")", s->time[i].ns, s->time[i].bytes,
				s->time[i].ops);
	fputc('\n', f);
}

static void dump_draft(FILE *f, const struct tl_draft *d)
{
	fprintf(f, "draft step=%" PRId64 " request=%" PRId64 " pos=%" PRId64 " nth=%d id=%d winner=%d "
			"verdict=%d rule=%d", d->step, d->request, d->pos, d->nth, d->id, d->winner, d->verdict,
			d->rule);
	dump_text(f, "drafter", d->drafter);
	dump_real(f, "q", (double)d->q);
	dump_real(f, "p", (double)d->p);
	dump_real(f, "arrival", (double)d->arrival);
	dump_real(f, "won", (double)d->winner_arrival);
	fprintf(f, " parent=%d depth=%d top=%d other=%d", d->parent, d->depth, d->top, d->other);
	dump_real(f, "other_arrival", (double)d->other_arrival);
	dump_real(f, "other_won", (double)d->other_winner_arrival);
	fputc('\n', f);
}

static void dump_window(FILE *f, const struct timeline *t, const struct tl_window *w)
{
	fprintf(f, "window step=%" PRId64 " request=%" PRId64 " pos=%" PRId64 " levels=%d columns=%d gram=%d own=%d "
			"pool=%d ids=%d:", w->step, w->request, w->pos, w->levels, w->columns, w->gram, w->own, w->pool,
			w->ids_at);
	for (int32_t i = 0; i < tl_window_ids(w); i++)
		fprintf(f, " %d", t->window_id[w->ids_at + i]);
	fputc('\n', f);
}

static void dump_shadow(FILE *f, const struct tl_shadow *s)
{
	fprintf(f, "shadow step=%" PRId64 " at=%" PRId64 " used=%d steps=%" PRId64 " tokens=%" PRId64 " nodes=%" PRId64
			" propose=%" PRId64 " learn=%" PRId64 " best=%d", s->step, s->measured_step, s->used, s->steps,
			s->tokens, s->nodes, s->propose_ns, s->learn_ns, s->best_nodes);
	dump_text(f, "drafter", s->drafter);
	dump_real(f, "lately", s->lately);
	dump_real(f, "predicted", s->predicted);
	dump_real(f, "measured", s->measured);
	for (int i = 0; i < TL_PLACES; i++)
		fprintf(f, " %u/%u", s->accepted[i], s->judged[i]);
	fputc('\n', f);
}

static void dump_shadows(FILE *f, const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_shadows; i++)
		dump_shadow(f, &t->shadow[i]);
	for (int32_t i = 0; i < t->n_costs; i++) {
		fprintf(f, "cost");
		dump_fields(f, EV_cost, &t->cost[i]);
		fputc('\n', f);
	}
	for (int32_t i = 0; i < t->n_choices; i++) {
		fprintf(f, "choice step=%" PRId64 " nodes=%d", t->choice[i].step, t->choice[i].nodes);
		dump_text(f, "drafter", t->choice[i].drafter);
		dump_text(f, "before", t->choice[i].before);
		dump_real(f, "speed", t->choice[i].speed);
		dump_real(f, "speed_before", t->choice[i].speed_before);
		fputc('\n', f);
	}
}

static void dump_node(FILE *f, const struct tl_node *k)
{
	fprintf(f, "node %" PRId64 " parent=%d from=%d tokens=%d state=%d request=%" PRId64 " born=%" PRId64 " last=%" PRId64
			" visits=%d answers=%d answer=%" PRId64 "/%d/%d", k->node, k->parent, k->from, k->tokens, k->state,
			k->request, k->born, k->last, k->visits, k->n_answers, k->answer, k->answer_tokens, k->answer_own);
	dump_real(f, "logp", k->logp);
	dump_real(f, "score", k->score);
	dump_real(f, "answer_logp", k->answer_logp);
	dump_real(f, "answer_score", k->answer_score);
	for (int32_t i = 0; i < k->tokens - k->from; i++)
		fprintf(f, " %d", k->id[i]);
	fputc('\n', f);
}

static void dump_search(FILE *f, const struct tl_search *s)
{
	fprintf(f, "search %" PRId64 " step=%" PRId64 " last=%" PRId64 " over=%d stopped=%d prompt=%d made=%" PRId64
			" dropped=%" PRId64 " answers=%" PRId64 " winner=%" PRId64 "/%d told=%" PRId64 " steps=%" PRId64
			" pages=%" PRId64 "/%" PRId64 " now=%d/%d most=%d/%d", s->id, s->step, s->last_step, s->over, s->stopped,
			s->n_prompt, s->n_made, s->n_dropped, s->n_answers, s->winner, s->won_tokens, s->told, s->steps,
			s->sum_pages, s->sum_unshared, s->pages, s->unshared, s->most_pages, s->most_unshared);
	for (int32_t i = 0; i < s->n_shares; i++)
		fprintf(f, " %d", s->share[i]);
	dump_text(f, "method", s->method);
	dump_text(f, "judge", s->judge);
	dump_text(f, "text", s->text);
	dump_text(f, "why", s->why);
	dump_real(f, "won", s->won_score);
	dump_real(f, "won_logp", s->won_logp);
	dump_real(f, "least", s->least);
	dump_real(f, "most", s->most);
	dump_real(f, "value", s->value);
	fputc('\n', f);
	for (int32_t i = 0; i < s->n_nodes; i++)
		dump_node(f, &s->node[i]);
	for (int32_t i = 0; i < s->n_members; i++) {
		const struct tl_member *m = &s->member[i];

		fprintf(f, "member %" PRId64 " node=%d ended=%d", m->request, m->node, m->ended);
		dump_real(f, "logp", m->logp);
		for (int32_t k = 0; k < m->n; k++)
			fprintf(f, " %d", m->id[k]);
		fputc('\n', f);
	}
}

static void dump_session(FILE *f, const struct timeline *t)
{
	fprintf(f, "session begun=%d closed=%d full=%d", t->begun, t->closed, t->full);
	if (t->begun)
		dump_fields(f, EV_session, &t->session);
	dump_text(f, "version", t->version);
	dump_text(f, "build", t->build);
	dump_text(f, "backend", t->backend);
	dump_text(f, "isa", t->isa);
	dump_text(f, "path", t->model_path);
	dump_text(f, "name", t->model_name);
	dump_text(f, "sha256", t->model_sha256);
	fprintf(f, "\ncounts tokens=%" PRId64 " drafted=%" PRId64 " accepted=%" PRId64 " rejected=%" PRId64
			" evicted=%" PRId64 " prompt=%" PRId64 " hit=%" PRId64 " seq=%" PRId64 " t=%" PRId64
			" odd=%" PRId64 " lost=%" PRId64 "\n",
			t->n_tokens, t->n_drafted, t->n_accepted, t->n_rejected, t->n_evicted, t->n_prompt_tokens,
			t->n_hit_tokens, t->last_seq, t->last_t_ns, t->n_odd, t->n_lost);
}

char *timeline_dump(const struct timeline *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	dump_session(f, t);
	for (int32_t i = 0; i < t->n_settings; i++) {
		fprintf(f, "setting seq=%" PRId64, t->setting[i].seq);
		dump_text(f, "name", t->setting[i].name);
		dump_text(f, "value", t->setting[i].value);
		fputc('\n', f);
	}
	for (int32_t i = 0; i < t->n_requests; i++)
		dump_request(f, t, &t->request[i]);
	for (int32_t i = 0; i < t->n_futures; i++)
		dump_future(f, t, &t->future[i]);
	for (int32_t i = 0; i < t->n_pages; i++)
		dump_page(f, i, timeline_page(t, i));
	for (int32_t i = 0; i < t->n_steps; i++)
		dump_step(f, &t->step[i]);
	dump_step(f, &t->open);
	for (int32_t i = 0; i < t->n_batch; i++)
		fprintf(f, "batch request=%" PRId64 " slot=%d rows=%d pos=%d work=%d\n", t->batch[i].request,
				t->batch[i].slot, t->batch[i].rows, t->batch[i].pos, t->batch[i].work);
	for (int32_t i = 0; i < t->n_drafts; i++)
		dump_draft(f, &t->draft[i]);
	dump_shadows(f, t);
	for (int32_t i = 0; i < t->n_windows; i++)
		dump_window(f, t, &t->window[i]);
	for (int32_t i = 0; i < t->n_searches; i++)
		dump_search(f, t->search[i]);
	for (int32_t i = 0; i < t->n_preempts; i++) {
		fprintf(f, "preempt at=%" PRId64, t->preempt[i].step);
		dump_fields(f, EV_preempt, &t->preempt[i].p);
		fputc('\n', f);
	}
	for (int32_t i = 0; i < t->n_vocab; i++)
		if (t->vocab[i].bytes) {
			fprintf(f, "vocab %d special=%d size=%d", i, t->vocab[i].special, t->vocab[i].size);
			dump_text(f, "bytes", t->vocab[i].bytes);
			fputc('\n', f);
		}
	fclose(f);
	return text;
}
