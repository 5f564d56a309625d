/* The text that explains a difference that verification found. See verify.h. */
#include <string.h>

#include "base/text.h"
#include "kernels/arith.h"
#include "sessions/verify/verify.h"

/* Prints which program and machine recorded, as the file states (unchecked). */
static void print_recorder(const struct history *h, FILE *out)
{
	char version[64], backend[64], isa[64];

	fprintf(out, "recorded by cutaway %s on %s %s, %lld thread%s\n",
		text_cleaned(version, sizeof version, h->version, strlen(h->version)),
		text_cleaned(backend, sizeof backend, h->backend, strlen(h->backend)),
		text_cleaned(isa, sizeof isa, h->isa, strlen(h->isa)), (long long)h->threads,
		plural(h->threads));
}

static void print_ends(const struct bisect *b, FILE *out)
{
	char name[40];

	fprintf(out, "  %-14s %016llx\n", "recorded", (unsigned long long)b->recorded);
	for (int i = 0; i < b->n_ends; i++) {
		bisect_describe_end(&b->end[i], name, sizeof name);
		fprintf(out, "  %-14s ", name);
		if (b->end[i].unasked)
			fprintf(out, "not asked: the others settle it\n");
		else if (b->end[i].ran && b->end[i].rows < b->n)
			fprintf(out, "parts from the others before this row\n");
		else if (b->end[i].ran)
			fprintf(out, "%016llx%s\n", (unsigned long long)b->end[i].hash,
				b->end[i].matches ? "  as recorded" : "");
		else
			fprintf(out, "could not run here: %s\n", b->end[i].why);
	}
}

/* "layer 3, stage gate_up, up[17]" */
static void print_stage(const struct bisect *b, const char *a, const char *c, FILE *out)
{
	fprintf(out, "first difference between %s and %s: position %d, ", a, c, b->pos);
	if (b->layer >= 0)
		fprintf(out, "layer %d, ", b->layer);
	fprintf(out, "stage %s, %s[%d]\n", b->stage, b->part, b->index);
	fprintf(out, "  %-14s %.9g (%08x)\n  %-14s %.9g (%08x)\n", a, (double)b->value_a,
		k_bits(b->value_a), c, (double)b->value_b, k_bits(b->value_b));
	fprintf(out, "  %d of the %d values of that stage differ\n", b->n_differ, b->n_values);
}

static void explain_parted(const struct bisect *b, FILE *out)
{
	char a[40], c[40];

	bisect_describe_end(&b->end[b->a], a, sizeof a);
	bisect_describe_end(&b->end[b->b], c, sizeof c);
	if (b->found)
		print_stage(b, a, c, out);
	else
		fprintf(out,
			"%s and %s part at position %d, but stage by stage that row alone is equal: the fault "
			"is in kernels for several rows at once, or on a device\n",
			a, c, b->pos);
	fprintf(out,
		"the back ends of this machine do not agree with each other: `cutaway certify` shows how "
		"far it goes\n");
}

static void explain_hash(const struct history *h, const struct verify_summary *sum, FILE *out)
{
	const struct bisect *b = &sum->bisect;
	bool any = false;

	fprintf(out, "that row of logits, computed again:\n");
	print_ends(b, out);
	for (int i = 0; i < b->n_ends; i++)
		any |= b->end[i].matches;
	if (!b->agree) {
		explain_parted(b, out);
	} else if (any) {
		fprintf(out,
			"alone it is as recorded, so among other rows this machine computes it otherwise: "
			"`cutaway certify` shows where\n");
	} else {
		fprintf(out,
			"the back ends of this machine agree with each other and not with the file: the "
			"recording was changed, or the machine that made it computed otherwise\n");
		print_recorder(h, out);
	}
}

static void explain_id(const struct history *h, const struct verify_summary *sum, FILE *out)
{
	char settings[256];

	sample_params_print(&sum->first.request->params, settings, sizeof settings);
	fprintf(out, "the logits are equal and the draw is not: %s, sample %lld\n", settings,
		(long long)sum->first.request->sample);
	if (sum->drawn_fits == 1)
		fprintf(out,
			"with the token drawn here, the next row's hash is the recorded one: the token in the "
			"file was changed\n");
	else if (sum->drawn_fits == 0)
		fprintf(out,
			"the rows after it go on from the file's token: its settings were changed, or it was "
			"drawn otherwise\n");
	print_recorder(h, out);
}

void verify_explain(const struct history *h, const struct verify_summary *sum, FILE *out)
{
	const struct verify_result *v = &sum->first;

	if (v->first.what == VERIFY_NOTHING)
		return;
	if (v->n_differ == 1)
		fprintf(out, "of request %lld this row alone differs, %lld others are equal\n",
			(long long)v->request->number, (long long)v->rows - 1);
	else
		fprintf(out, "of request %lld %lld of %lld rows differ\n", (long long)v->request->number,
			(long long)v->n_differ, (long long)v->rows);
	if (v->request->denoised) {
		fprintf(out,
			"a diffusion model's row depends on the masks of its step, so it is not computed "
			"alone once more\n");
		print_recorder(h, out);
	} else if (v->first.what == VERIFY_HASH)
		explain_hash(h, sum, out);
	else if (v->first.what == VERIFY_ID)
		explain_id(h, sum, out);
	else if (v->first.what != VERIFY_FAILED)
		fprintf(out,
			"logits and token are equal: that column of the file was changed, or its sampler "
			"counted otherwise\n");
}
