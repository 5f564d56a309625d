/* Inner channels of the feed-forward by what they add to the residual stream: the norm of their
 * column of ffn_down times that of their values over a text, which is Wanda's score of a whole
 * column. --unit: neighbours that go together; whole blocks of ffn_down's type keep their bytes. */
#include "engine/core/engine_impl.h"
#include "engine/observe/influence.h"
#include "lab/prune_impl.h"

static int plan_channels(struct prune *p, struct err *e)
{
	const int32_t ffn = prune_config(p)->ffn, k = p->o->remove, unit = p->o->unit;

	if (unit < 1 || ffn % unit)
		return err_set(e, ERR_USAGE, "--unit %d does not divide %d channels", unit, ffn);
	if (k < 1 || k >= ffn || k % unit)
		return err_set(e, ERR_USAGE,
			"--remove %d: a multiple of --unit %d, below the %d channels of a layer", k, unit, ffn);
	if (unit > 1)
		snprintf(p->r->what, sizeof p->r->what, "%d of %d channels by %d", k, ffn, unit);
	else
		snprintf(p->r->what, sizeof p->r->what, "%d of %d channels", k, ffn);
	return prune_set_number(p, "feed_forward_length", (uint32_t)(ffn - k), e) ||
				   prune_plan_parts(p, 0, 0, k, e)
			   ? -1
			   : 0;
}

static void measure(struct prune *p, const struct layer_part *down, const struct quant_input *in,
	int32_t unit, float *score)
{
	for (int32_t i = 0; i < down->cols / unit; i++) {
		double sum = 0;

		for (int32_t k = i * unit; k < (i + 1) * unit; k++) {
			const float h = (float)in->sum_squares[k];

			sum += columns_importance(down->w, down->rows, down->cols, k, 1, &h, 1);
		}
		score[i] = (float)sum;
		p->all += sum;
	}
}

static int mark_channels(struct prune *p, const struct layer_parts *parts,
	const struct quant_input *in, struct prune_gone *gone, struct err *e)
{
	const struct layer_part *down = layer_part_find(parts, "ffn_down.weight");
	const int32_t ffn = prune_config(p)->ffn, unit = p->o->unit, n = ffn / unit;
	float *score;
	bool *marks;

	if (!down || down->cols != ffn || in[INPUT_DOWN].n != ffn)
		return err_set(e, ERR_INPUT, "a layer has no ffn_down.weight of %d columns", ffn);
	score = malloc((size_t)n * 2 * sizeof *score);
	marks = malloc((size_t)n * sizeof *marks);
	if (score && marks) {
		measure(p, down, &in[INPUT_DOWN], unit, score);
		prune_mark(p, score, n, p->channels / unit, marks, score + n, e);
		for (int32_t i = 0; i < ffn; i++)
			gone->channel[i] = marks[i / unit];
	} else {
		err_no_memory(e, "%d channels", ffn);
	}
	free(score);
	free(marks);
	return e->code ? -1 : 0;
}

const struct prune_method prune_channels = { .name = "channels",
	.kind = PRUNE_PARTS,
	.reads = true,
	.plan = plan_channels,
	.parts = mark_channels };
