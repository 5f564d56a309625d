/* cutaway prune: a model file with zeros for weights, or without some of its layers, heads or
 * channels. Thread: main's. */
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/change.h"
#include "lab/prune.h"

static struct prune_opts {
	const char *method, *pattern, *format;
	float sparsity;
	int32_t remove, unit;
} opts = { .method = "wanda", .sparsity = 0.5f, .remove = 1, .unit = 1 };

static const struct setting prune_own[] = {
	OWN(TEXT, prune_opts, method, "method", "Prune",
		"zeros: wanda (of each row, those with the smallest |w| times norm of the input), "
		"magnitude (of each matrix, the smallest, without a text); or what is removed: layers, "
		"heads, kv-heads, channels, those that do least",
		.arg = "METHOD"),
	OWN(FLOAT, prune_opts, sparsity, "sparsity", "Prune", "of zeros: their share", .arg = "S",
		.high = 1),
	OWN(TEXT, prune_opts, pattern, "pattern", "Prune",
		"of zeros: N of each M columns stay; 2:4 is what sparse tensor cores read", .arg = "N:M"),
	OWN(TEXT, prune_opts, format, "format", "Prune",
		"of zeros: the matrices' format in OUT; without it the source's, or f16 where that holds "
		"no zero (q4_1, q5_1, q2_k, q4_k, q5_k, iq4_nl, iq4_xs)",
		.arg = "FORMAT"),
	OWN(INT, prune_opts, remove, "remove", "Prune",
		"of layers: how many; of the others: how many of each layer", .arg = "N", .low = 1,
		.high = 1 << 20),
	OWN(INT, prune_opts, unit, "unit", "Prune", "of channels: neighbours that go together",
		.arg = "N", .low = 1, .high = 1 << 20),
	{ 0 },
};

/* ---- options ---- */

static int read_method(const struct prune_method **out, struct err *e)
{
	char names[128] = "";

	for (int i = 0; prune_table[i]; i++) {
		*out = prune_table[i];
		if (!strcasecmp(opts.method, prune_table[i]->name))
			return 0;
		text_append(names, sizeof names, ", ", "%s", prune_table[i]->name);
	}
	return err_set(e, ERR_USAGE, "--method %.40s: %s are possible", opts.method, names);
}

/* What has no meaning for a method is refused, not ignored. */
static int check_given(const struct cli *c, const struct prune_method *m, struct err *e)
{
	static const char *const of_zeros[] = { "sparsity", "pattern", "format" };

	for (size_t i = 0; i < ARRAY_N(of_zeros); i++)
		if (m->kind != PRUNE_ZEROS && cli_given(c, of_zeros[i]))
			return err_set(e, ERR_USAGE, "--%s is for wanda and magnitude; %s has --remove",
				of_zeros[i], m->name);
	if (m->kind == PRUNE_ZEROS && cli_given(c, "remove"))
		return err_set(
			e, ERR_USAGE, "--remove is for layers, heads and channels; %s has --sparsity", m->name);
	if (cli_given(c, "unit") && strcmp(m->name, "channels") != 0)
		return err_set(e, ERR_USAGE, "--unit is for channels");
	if (opts.pattern && cli_given(c, "sparsity"))
		return err_set(e, ERR_USAGE, "--sparsity and --pattern are two ways of saying how many");
	if (c->calibrate && !m->reads)
		return err_set(e, ERR_USAGE, "--calibrate: %s reads no text", m->name);
	return 0;
}

static int read_options(const struct cli *c, struct prune_options *o, struct err *e)
{
	char end;

	if (read_method(&o->method, e) || check_given(c, o->method, e))
		return -1;
	if (opts.pattern &&
		(sscanf(opts.pattern, "%6d:%6d%c", &o->keep, &o->of, &end) != 2 || o->of < 2))
		return err_set(e, ERR_USAGE, "--pattern %.40s: N:M, such as 2:4", opts.pattern);
	return opts.format ? format_by_name(opts.format, "--format", &o->to, e) : 0;
}

/* ---- the result ---- */

static void put_layers(struct json *j, const struct prune_result *r)
{
	json_array(j, "influence");
	for (int32_t i = 0; i < r->n_layers; i++)
		json_real(j, NULL, (double)r->influence[i], 6);
	json_end(j);
	json_array(j, "removed");
	for (int32_t i = 0; i < r->n_layers; i++)
		if (r->removed[i])
			json_int(j, NULL, i);
	json_end(j);
}

static int print_json(const struct prune_result *r, double seconds, struct err *e)
{
	struct json j = { 0 };

	json_put(&j, "{'what': %s, 'source': %s, 'from_quantised': %hhd, 'weights': %ld, 'gone': %ld",
		r->what, r->common.source, r->common.from_quantised, r->n_weights, r->n_gone);
	json_put(&j, "'converted': %d, 'resumed': %d, 'calibration_tokens': %d, 'dense_bytes': %ld",
		r->n_converted, r->common.n_resumed, r->common.n_calibration, r->dense_bytes);
	json_put(&j, "'mask_bytes': %ld, 'pattern_bytes': %ld, 'lost': %.6g", r->mask_bytes,
		r->pattern_bytes, r->lost);
	put_layers(&j, r);
	json_put(&j, "'source_bytes': %ld, 'bytes': %ld, 'seconds': %.4g", r->common.source_bytes,
		r->common.bytes, seconds);
	return json_print(&j, e);
}

static void print_zeros(const struct prune_result *r)
{
	printf(
		"a zero takes as much room as a weight here: those matrices take %.1f MB; with a mask of "
		"a bit a weight they would take %.1f",
		(double)r->dense_bytes / 1e6, (double)r->mask_bytes / 1e6);
	if (r->pattern_bytes)
		printf(", as sparse tensor cores read them %.1f", (double)r->pattern_bytes / 1e6);
	puts("");
}

static void print_layers(const struct prune_result *r)
{
	fputs("influence of layers (1 - cosine of what enters and what leaves):", stdout);
	for (int32_t i = 0; i < r->n_layers; i++)
		printf("%s%3d %.4f%s", i % 6 ? "" : "\n ", i, (double)r->influence[i],
			r->removed[i] ? " removed" : "        ");
	puts("");
}

static void print_result(const struct cli *c, const struct prune_result *r, enum prune_kind kind,
	const struct change_run *run)
{
	printf("%s: %.1f M of %.1f M weights of the layers %s\n", r->what, (double)r->n_gone / 1e6,
		(double)r->n_weights / 1e6, kind == PRUNE_ZEROS ? "are zero" : "are gone");
	if (r->n_converted)
		printf("%d matrices in another format than the source's, %s\n", r->n_converted,
			r->common.source);
	if (kind == PRUNE_ZEROS)
		print_zeros(r);
	else if (kind == PRUNE_LAYERS)
		print_layers(r);
	else
		printf("they added %.3g %% of the squares of what such parts add to the stream\n",
			100 * r->lost);
	change_print_text(c, &r->common);
	if (r->common.n_resumed)
		printf("%d matrices were there from an earlier run\n", r->common.n_resumed);
	change_print_end(run, &r->common);
}

static int prune_verb(const struct cli *c, struct err *e)
{
	static struct prune_result r;
	struct prune_options o = {
		.to = K_N_TYPES, .sparsity = (double)opts.sparsity, .remove = opts.remove, .unit = opts.unit
	};
	struct change_run run;
	int rc;

	if (read_options(c, &o, e))
		return -1;
	rc = change_begin(&run, c, &o.common, e) || prune_file(c->operand[0], c->operand[1], &o, &r, e);
	if (change_end(&run, rc, e))
		return -1;
	if (c->json)
		return print_json(&r, run.seconds, e);
	print_result(c, &r, o.method->kind, &run);
	return 0;
}

const struct verb verb_prune = {
	VERB(prune, "IN OUT", "calibrate|threads|seed|record|json"),
	OPERANDS(2, 2, "FILE"),
};
