/* See whatif.h. Checks the question and whether it can be answered; whatif_run.c does the runs. */
#include "sessions/whatif/whatif.h"

#include <stdio.h>

#include "base/text.h"
#include "engine/draft/draft.h"
#include "sessions/whatif/whatif_impl.h"

/* Does the drafter work without the model? Others cannot be simulated: the log has only the drafts
 * that were verified. */
static bool is_simple(const char *spec)
{
	const struct draft_ops *ops = NULL;
	struct drafter *d = NULL;
	struct err unused = { 0 };

	if (draft_open(spec, NULL, &ops, &d, &unused))
		return !draft_find(spec); /* unknown name: opening it reports the error */
	draft_close(ops, d);
	return true;
}

/* The first drafter of the recording that needs the model, or NULL. */
static const char *recorded_drafter(const struct recorded *r)
{
	if (!is_simple(r->settings.spec))
		return r->settings.spec;
	for (int32_t i = 0; i < r->n_changes; i++)
		if (!strcmp(r->change[i].name, "spec") && !is_simple(r->change[i].value))
			return r->change[i].value;
	return NULL;
}

/* "off, ngram": those that can be asked about. */
static const char *simple_names(char *buf, size_t cap)
{
	snprintf(buf, cap, "off");
	for (int i = 0; draft_table[i]; i++)
		if (is_simple(draft_table[i]->name))
			text_append(buf, cap, ", ", "%s", draft_table[i]->name);
	return buf;
}

static int check_drafters(const char *path, const struct recorded *r,
	const struct whatif_settings *s, struct whatif *out, struct err *e)
{
	const char *needs = recorded_drafter(r);
	char names[200];

	if (s->to.spec && !is_simple(s->to.spec))
		return err_set(e, ERR_USAGE,
			"'%s' guesses with the model, or weighs those who do: that cannot be simulated "
			"from a log; these can: %s",
			s->to.spec, simple_names(names, sizeof names));
	if (needs && !s->to.spec)
		return err_set(e, ERR_USAGE,
			"%s was recorded with '%s', whose guesses need the model and cannot be simulated; "
			"--spec with one of these asks about the rest: %s",
			path, needs, simple_names(names, sizeof names));
	out->unchecked = needs != NULL;
	return 0;
}

/* Of a few steps only the mean says something. */
static void fit_steps(struct cost *c, const struct cost_rows *steps, struct whatif *out)
{
	if (cost_fit(c, steps, NULL)) {
		memset(c, 0, sizeof *c);
		for (int32_t i = 0; i < steps->n; i++)
			c->ns[COST_step] += steps->row[i].ns / steps->n;
		cost_check(c, steps);
	}
	out->step_error = c->error;
	out->time_error = c->bias;
	for (int32_t i = 0; i < steps->n; i++)
		out->predicted += cost_step_s(c, &steps->row[i].shape);
}

int whatif_run(const char *path, const struct whatif_settings *s, struct whatif *out, struct err *e)
{
	struct whatif_settings as_recorded = { 0 };
	struct recorded r;
	struct cost cost;
	int rc;

	memset(out, 0, sizeof *out);
	if (whatif_read(path, &r, e))
		return -1;
	fit_steps(&cost, &r.steps, out);
	out->recorded = r.counts;
	rc = check_drafters(path, &r, s, out, e);
	if (!rc && out->unchecked)
		rc = whatif_ask(&as_recorded, "spec", s->to.spec, e);
	if (!rc)
		rc = whatif_rerun(&r, &as_recorded, &cost, NULL, NULL, NULL, &out->again, e) ||
					 whatif_rerun(&r, s, &cost, NULL, NULL, NULL, &out->changed, e)
				 ? -1
				 : 0;
	/* otherwise `again` has another drafter, and the prediction over the recorded steps stays */
	if (!out->unchecked)
		out->predicted = out->again.seconds;
	whatif_free(&r);
	return rc;
}

int whatif_verify(const char *path, const struct whatif_settings *s, const struct engine_options *o,
	bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct whatif *out,
	struct err *e)
{
	struct recorded r;
	int rc;

	if (whatif_read(path, &r, e))
		return -1;
	rc = whatif_rerun(&r, s, NULL, o, progress, arg, &out->real, e);
	out->verified = !rc;
	whatif_free(&r);
	return rc;
}
