/* See layer_part.h. */
#include "lab/layer_part.h"

#include "base/clock.h"
#include "engine/core/engine_impl.h"

static size_t n_values(const struct calibration *c)
{
	return (size_t)c->n * (size_t)c->length * (size_t)engine_info(c->engine)->dim;
}

/* Squared differences of the stream from what the layer gave before, relative to what that added.
 */
static double error_of(const struct told *t)
{
	const struct calibration *c = &t->change->text;
	double error = 0, size = 0;

	for (size_t i = 0, n = n_values(c); i < n; i++) {
		const double d = (double)c->x[i] - (double)t->exact[i],
					 added = (double)t->exact[i] - (double)t->before[i];

		error += d * d;
		size += added * added;
	}
	return size > 0 ? error / size : (double)NAN;
}

static void rewind_text(struct told *t)
{
	struct calibration *c = &t->change->text;

	memcpy(c->x, t->before, n_values(c) * sizeof *c->x);
}

int told_begin(struct told *t, int32_t layer, const struct layer_parts *p, struct err *e)
{
	struct event ev;
	const struct calibration *c = &t->change->text;
	size_t size;

	if (!t->change->o->told)
		return 0;
	ev_init(&ev, EV_changed);
	t->row = ev.u.changed;
	t->row.layer = layer;
	t->row.layers = t->change->layers;
	t->row.weights = 0;
	t->began_ns = now_ns();
	for (int i = 0; i < CALIBRATION_INPUTS; i++)
		t->alpha[i] = NAN;
	for (int32_t i = 0; p && i < p->n; i++)
		t->row.weights += p->part[i].rows > 1 ? p->part[i].rows * p->part[i].cols : 0;
	if (!change_reads(t->change, layer))
		return 0;
	size = n_values(c) * sizeof *c->x;
	t->before = malloc(size);
	t->exact = malloc(size);
	if (!t->before || !t->exact)
		return err_no_memory(e, "what a layer computes");
	memcpy(t->before, c->x, size);
	if (layer_pass(p, NULL, 0, e))
		return -1;
	memcpy(t->exact, c->x, size);
	rewind_text(t);
	return 0;
}

/* A copy of a part with its weights rounded to the nearest. */
static int round_copy(struct layer_part *p, struct err *e)
{
	const size_t row = p->t->to.bytes / (size_t)p->rows;
	struct form_scales scales = { 0 };
	float *w = p->w;
	int rc;

	p->w = NULL;
	p->out = malloc(p->t->to.bytes);
	if (!p->out)
		return err_no_memory(e, "tensor %s", p->t->from->name);
	rc = form_scales_make(&p->t->form, &scales, w, p->rows, p->cols, e);
	for (int64_t r = 0; r < p->rows && !rc; r++)
		form_row(&p->t->form, &scales, r, w + r * p->cols, p->cols, p->out + (size_t)r * row);
	free(scales.unit);
	return rc || layer_part_take(p, e) ? -1 : 0;
}

int told_nearest(struct told *t, const struct layer_parts *p, struct err *e)
{
	struct layer_parts copy = *p;
	int rc = 0;

	if (!t->exact)
		return 0;
	copy.part = calloc((size_t)p->n, sizeof *copy.part);
	if (!copy.part)
		return err_no_memory(e, "a layer");
	for (int32_t i = 0; i < p->n; i++) {
		copy.part[i] = p->part[i];
		copy.part[i].out = NULL;
		if (p->part[i].t->changed && !rc)
			rc = round_copy(&copy.part[i], e);
	}
	if (!rc && !(rc = layer_pass(&copy, NULL, 0, e)))
		t->row.nearest = error_of(t);
	rewind_text(t);
	for (int32_t i = 0; i < p->n; i++)
		if (copy.part[i].w != p->part[i].w) {
			free(copy.part[i].w);
			free(copy.part[i].out);
		}
	free(copy.part);
	return rc;
}

void told_end(struct told *t, const char *method, double error, double size)
{
	struct event ev;

	if (!t->change->o->told)
		return;
	t->row.error = t->exact ? error_of(t) : (double)NAN;
	t->row.weights_error = size > 0 ? error / size : (double)NAN;
	t->row.method = ev_text(method);
	t->row.alphas = (struct ev_span){ t->alpha, sizeof t->alpha };
	t->row.ns = now_ns() - t->began_ns;
	ev_init(&ev, EV_changed);
	ev.u.changed = t->row;
	t->change->o->told(t->change->o->told_arg, &ev);
}

void told_free(struct told *t)
{
	free(t->before);
	free(t->exact);
}
