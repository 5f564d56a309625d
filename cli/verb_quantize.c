/* cutaway quantize: a model file whose matrices are rounded to another format. Thread: main's. */
#include <strings.h>

#include "base/json.h"
#include "cli/change.h"

static struct quantize_opts {
	const char *format, *otherwise, *keep, *method, *group;
	int32_t bits;
	bool zero_point, nf4, e4m3, twice, act_order;
	float alpha, damping, apart;
} opts = { .method = "rtn", .group = "128", .alpha = 0.5f, .damping = 0.01f, .apart = 0.01f };

#define X(name, word, reads, does) word "|"
static const char methods[] = QUANT_METHODS(X);
#undef X
#define X(name, word, reads, does) word " (" does "), "
static const char methods_doc[] =
	"how values are chosen: " QUANT_METHODS(X) "all but rtn with a text";
#undef X

static const struct setting quantize_own[] = {
	OWN(TEXT, quantize_opts, format, "format", "Quantise",
		"format of the matrices: f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 (without this option), "
		"iq4_nl, mxfp4, or, with rows of whole 256, q6_k, q5_k, q4_k, iq4_xs, q3_k, q2_k; with "
		"--bits f16 or f32, in which the values are kept",
		.arg = "FORMAT"),
	OWN(TEXT, quantize_opts, otherwise, "else", "Quantise",
		"format of matrices whose rows the blocks of the first do not divide; without it that is "
		"an error",
		.arg = "FORMAT"),
	OWN(TEXT, quantize_opts, keep, "keep", "Quantise",
		"leave tensors as they are that have one of these words in their name: token_embd,ffn_down",
		.arg = "WORDS"),
	OWN(TEXT, quantize_opts, method, "method", "Quantise", methods_doc, .arg = "METHOD"),
	OWN(INT, quantize_opts, bits, "bits", "Grid",
		"no format but a grid of so many bits, for the layers; the file has the values as floats",
		.arg = "N", .low = 2, .high = 8),
	OWN(TEXT, quantize_opts, group, "group", "Grid",
		"how many columns share a scale: 32, 64, 128 …, row, or tensor", .arg = "COLUMNS"),
	OWN(FLAG, quantize_opts, zero_point, "zero-point", "Grid",
		"from the least weight to the greatest, not as far below zero as above"),
	OWN(FLAG, quantize_opts, nf4, "nf4", "Grid", "4 bits: the quantiles of a normal distribution"),
	OWN(FLAG, quantize_opts, e4m3, "e4m3", "Grid",
		"8 bits: floats of 4 bits of exponent and 3 of mantissa (FP8)"),
	OWN(FLAG, quantize_opts, twice, "double-quant", "Grid",
		"scales in 8 bits, with one of 32 for each 256"),
	OWN(FLOAT, quantize_opts, damping, "damping", "Calibration",
		"of gptq: part of the mean of the Hessian's diagonal that is added to it", .arg = "D",
		.high = 1),
	OWN(FLAG, quantize_opts, act_order, "act-order", "Calibration",
		"of gptq: columns of the largest inputs first"),
	OWN(FLOAT, quantize_opts, alpha, "alpha", "Calibration",
		"of smoothquant: how much of the inputs' extremes the weights take", .arg = "A", .high = 1),
	OWN(FLOAT, quantize_opts, apart, "apart", "Calibration",
		"of salient: the share of columns that stays in f16", .arg = "SHARE", .high = 1),
	{ 0 },
};

/* What has no meaning for a form is refused, not ignored. */
static int check_given(const struct cli *c, bool grid, const struct quant_options *o, struct err *e)
{
	static const char *const of_grids[] = { "group", "zero-point", "double-quant" };

	for (size_t i = 0; i < ARRAY_N(of_grids) && !grid; i++)
		if (cli_given(c, of_grids[i]))
			return err_set(
				e, ERR_USAGE, "--%s is for a grid: --bits N, --nf4 or --e4m3", of_grids[i]);
	if (c->calibrate && !quant_method_reads(o->method))
		return err_set(e, ERR_USAGE, "--calibrate: %s reads no text", opts.method);
	if (o->method == QUANT_LLM_INT8 && (opts.format || grid))
		return err_set(e, ERR_USAGE, "llm.int8 has a grid of its own: 8 bits, a scale a row");
	if (o->method == QUANT_SALIENT && (!grid || opts.twice || !strcasecmp(opts.group, "tensor")))
		return err_set(e, ERR_USAGE,
			"salient leaves columns of a grid as they are: --bits N, scales of rows or groups");
	if (cli_given(c, "apart") && o->method != QUANT_SALIENT)
		return err_set(e, ERR_USAGE, "--apart is for salient");
	return 0;
}

static int read_form(const struct cli *c, struct quant_options *o, struct err *e)
{
	const bool grid = opts.bits || opts.nf4 || opts.e4m3;

	o->method = quant_method_named(opts.method);
	if (o->method == QUANT_N_METHODS)
		return err_set(e, ERR_USAGE, "--method %.40s: %.*s is possible", opts.method,
			(int)sizeof methods - 2, methods);
	if (check_given(c, grid, o, e))
		return -1;
	if (o->method == QUANT_LLM_INT8) {
		o->to = (struct quant_form){ .type = K_F16, .bits = 8, .group = FORM_ROW };
		return 0;
	}
	if (format_by_name(opts.format ? opts.format
					   : grid      ? "f16"
								   : "q4_0",
			"--format", &o->to.type, e) ||
		(opts.otherwise && format_by_name(opts.otherwise, "--else", &o->otherwise, e)))
		return -1;
	if (!grid)
		return 0;
	o->to.bits = opts.bits ? opts.bits : opts.e4m3 ? 8 : 4;
	o->to.zero_point = opts.zero_point;
	o->to.nf4 = opts.nf4;
	o->to.e4m3 = opts.e4m3;
	o->to.twice = opts.twice;
	return group_by_name(opts.group, &o->to.group, e);
}

static int print_json(const struct quant_result *r, double seconds, struct err *e)
{
	struct json j = { 0 };

	json_put(&j, "{'source': %s, 'from_quantised': %hhd, 'weights': %ld, 'tensors': %d, 'kept': %d",
		r->common.source, r->common.from_quantised, r->n_weights, r->n_tensors, r->n_kept);
	json_put(&j, "'calibration_tokens': %d, 'outliers': %ld, 'otherwise': %d, 'resumed': %d",
		r->common.n_calibration, r->n_outliers, r->n_otherwise, r->common.n_resumed);
	json_put(&j, "'bits_a_weight': %.6g, 'relative_error': %.6g, 'source_bytes': %ld", r->bits,
		r->error, r->common.source_bytes);
	json_put(&j, "'bytes': %ld, 'seconds': %.4g", r->common.bytes, seconds);
	return json_print(&j, e);
}

static void print_result(
	const struct cli *c, const struct quant_result *r, const struct change_run *run)
{
	printf("%d matrices of %.1f M weights, %.4g bits each; relative error %.4g%s\n", r->n_tensors,
		(double)r->n_weights / 1e6, r->bits, r->error,
		r->common.n_resumed ? ", of what this run rounded" : "");
	if (r->n_otherwise)
		printf("%d of them in %s, since their rows are no whole blocks\n", r->n_otherwise,
			opts.otherwise);
	change_print_text(c, &r->common);
	if (r->n_outliers)
		printf("%lld weights, of columns set apart, stayed in f16\n", (long long)r->n_outliers);
	if (r->n_kept)
		printf("%d stayed as they were\n", r->n_kept);
	if (r->common.n_resumed)
		printf("%d were there from an earlier run\n", r->common.n_resumed);
	if (r->common.from_quantised)
		printf("from an already quantised source (%s): its error comes on top\n", r->common.source);
	change_print_end(run, &r->common);
}

static int quantize_verb(const struct cli *c, struct err *e)
{
	struct quant_options o = { .otherwise = K_N_TYPES,
		.keep = opts.keep,
		.alpha = (double)opts.alpha,
		.damping = (double)opts.damping,
		.apart = (double)opts.apart,
		.act_order = opts.act_order };
	struct change_run run;
	struct quant_result r;
	int rc;

	if (read_form(c, &o, e))
		return -1;
	rc = change_begin(&run, c, &o.common, e) ||
		 quantize_file(c->operand[0], c->operand[1], &o, &r, e);
	if (change_end(&run, rc, e))
		return -1;
	if (c->json)
		return print_json(&r, run.seconds, e);
	print_result(c, &r, &run);
	return 0;
}

const struct verb verb_quantize = {
	VERB(quantize, "IN OUT", "calibrate|threads|seed|record|json"),
	OPERANDS(2, 2, "FILE"),
};
