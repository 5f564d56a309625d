/* The settings `weights` and `activations`: products of the layers by floats (engine/run/floats.h).
 * Thread: the engine's. */
#include "engine/core/engine_impl.h"
#include "engine/observe/channels.h"
#include "engine/run/floats.h"

/* What the largest value of each of *n inputs is, over the shipped prompts. */
static float *measure_largest(struct engine *e, int32_t *n, struct err *err)
{
	struct channels c;
	float *largest;

	if (channels_measure(&c, e, err))
		return NULL;
	*n = c.n;
	largest = calloc((size_t)c.n + 1, sizeof *largest);
	for (int32_t i = 0; largest && i < c.n; i++)
		largest[i] = k_largest(c.input[i].largest, c.input[i].dim);
	channels_free(&c);
	if (!largest)
		err_no_memory(err, "the scales of activations");
	return largest;
}

/* From the next step on; s NULL: no floats. */
static int use(struct engine *e, struct floats *s, enum k_round_to to, struct err *err)
{
	float *largest = NULL;
	int32_t n = 0;

	if (to == K_ROUND_int8_tensor && !(largest = measure_largest(e, &n, err)))
		return -1;
	if (s)
		floats_round(s, to, largest, n);
	if (s || e->floats)
		engine_clear_prefix(e);
	floats_use(&e->forward, s);
	if (s != e->floats)
		floats_close(e->floats);
	e->floats = s;
	free(largest);
	return 0;
}

/* form NULL: the model's own weights. again: even if there are copies. */
static int apply(struct engine *e, const struct engine_options *to, const struct quant_form *form,
	bool again, struct err *err)
{
	/* 0: the model's own way; else a format's number and 1 */
	const int choice = setting_choice(&engine_settings[ENGINE_AT_activations], to);
	const enum k_round_to round = choice ? (enum k_round_to)(choice - 1) : K_N_ROUNDS;
	struct floats *s = again ? NULL : e->floats;

	if (!e->model && (again || strcmp(to->activations, e->set.activations) != 0))
		engine_clear_prefix(e); /* tokens are given: what depends on them goes as if computed */
	if (!e->model || (s && (choice || form) && floats_rounding(s) == round))
		return 0;
	if (!choice && !form)
		return use(e, NULL, round, err);
	if (!s && e->model->parted)
		return err_set(err, ERR_USAGE,
			"weights, activations: this rank has a part of the model; only on one rank");
	if (!s && floats_open(&s, &e->forward, form, err))
		return -1;
	if (!use(e, s, round, err))
		return 0;
	if (s != e->floats)
		floats_close(s);
	return -1;
}

static bool is_own(const char *weights)
{
	return !strcmp(weights, "model") || !strcmp(weights, "off");
}

int engine_apply_weights(struct engine *e, struct engine_options *to, struct err *err)
{
	const bool own = is_own(to->weights);
	struct quant_form form;
	const char *name = "model";
	char room[32];

	if (!own && form_parse(to->weights, &form, err))
		return -1;
	name = own ? name : form_name(&form, room);
	/* what is there stays, and copies of the own weights are made for activations alone */
	if (strcmp(name, e->weights) != 0 && !(own && !e->floats && e->model) &&
		apply(e, to, own ? NULL : &form, true, err))
		return -1;
	snprintf(e->weights, sizeof e->weights, "%s", name);
	to->weights = e->weights;
	return 0;
}

int engine_apply_activations(struct engine *e, struct engine_options *to, struct err *err)
{
	struct quant_form form;

	if (is_own(to->weights))
		return apply(e, to, NULL, false, err);
	return form_parse(to->weights, &form, err) ? -1 : apply(e, to, &form, false, err);
}
