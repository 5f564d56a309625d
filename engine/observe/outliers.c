/* The setting `outliers`: measures the channels of what products read (engine/observe/channels.h)
 * and tells of each input (event outliers). Dettmers et al. 2022, "LLM.int8()", found few channels
 * that reach 20 times the others and take the scale of the whole row; Xiao et al. 2022,
 * "SmoothQuant", divide them by max|X|^a / max|W|^(1-a), which the weights take over. Thread: the
 * engine's. */
#include "base/median.h"
#include "engine/core/engine_impl.h"
#include "engine/observe/channels.h"
#include "engine/run/program.h"

enum { TOP = 8 };

static double median_of_channels(const float *v, int32_t n, double *room)
{
	for (int32_t i = 0; i < n; i++)
		room[i] = (double)v[i];
	return median_of(room, n).value;
}

/* The largest weight of each column of all matrices that read the input, into of [dim]. */
static int weights_by_column(
	const struct engine *e, const struct channel_input *in, float *of, struct err *err)
{
	memset(of, 0, (size_t)in->dim * sizeof *of);
	for (int32_t k = 0; k < in->n_w; k++) {
		const struct k_matrix *m = in->w[k];
		float *w = program_read_matrix(e->kernels, m, err);

		if (!w)
			return -1;
		for (int32_t r = 0; r < m->n_rows; r++)
			for (int32_t i = 0; i < m->n_cols; i++)
				of[i] = fmaxf(of[i], fabsf(w[(size_t)r * (size_t)m->n_cols + (size_t)i]));
		free(w);
	}
	return 0;
}

struct top {
	uint32_t channel;
	float largest;
};

/* The largest channels, descending; how many. */
static int32_t top_of(const struct channel_input *in, struct top *top)
{
	int32_t n = 0;

	for (int32_t i = 0; i < in->dim; i++) {
		int32_t at = n < TOP ? n : TOP;

		while (at > 0 && top[at - 1].largest < in->largest[i])
			at--;
		if (at == TOP)
			continue;
		n += n < TOP;
		memmove(top + at + 1, top + at, (size_t)(n - 1 - at) * sizeof *top);
		top[at] = (struct top){ (uint32_t)i, in->largest[i] };
	}
	return n;
}

static int emit(struct engine *e, const struct channel_input *in, int32_t nth, struct err *err)
{
	const int32_t n = in->dim;
	float *w = malloc((size_t)n * sizeof *w);
	double *room = malloc((size_t)n * sizeof *room), median, smoothed;
	struct top top[TOP + 1];
	int32_t above_six = 0;

	if (!w || !room)
		err_no_memory(err, "the channels of activations");
	if (err->code || weights_by_column(e, in, w, err)) {
		free(w);
		free(room);
		return -1;
	}
	for (int32_t i = 0; i < n; i++) {
		above_six += in->largest[i] > K_OUTLIER;
		w[i] = sqrtf(in->largest[i] * w[i]); /* x / s, with s = sqrt(x / w) */
	}
	median = median_of_channels(w, n, room);
	smoothed = median > 0 ? (double)k_largest(w, n) / median : (double)NAN;
	STREAM_EMIT(&e->stream, outliers, .nth = nth, .layer = in->layer, .stage = (int64_t)in->stage,
		.channels = n, .largest = (double)k_largest(in->largest, n),
		.median = median_of_channels(in->largest, n, room), .smoothed = smoothed,
		.above_six = above_six, .top = { top, (size_t)top_of(in, top) * sizeof *top });
	free(w);
	free(room);
	return 0;
}

static int measure(struct engine *e, struct err *err)
{
	struct channels c;
	int failed = 0;

	if (channels_measure(&c, e, err))
		return -1;
	for (int32_t i = 0; !failed && i < c.n; i++)
		failed = emit(e, &c.input[i], i, err);
	channels_free(&c);
	return failed;
}

int engine_apply_outliers(struct engine *e, struct engine_options *to, struct err *err)
{
	return channels_setting(e, &to->outliers, "outliers", measure, err);
}
