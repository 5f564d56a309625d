/* cutaway quantize: a model file whose matrices are rounded to another format. Thread: main's. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "engine/quant/quant.h"

static struct quantize_said {
	const char *format, *otherwise, *keep;
} said = { .format = "q4_0" };

static const struct setting quantize_own[] = {
	OWN(TEXT, quantize_said, format, .name = "format", .group = "Quantise", .arg = "FORMAT",
		.doc =
			"format of the matrices: f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 (the default), iq4_nl, mxfp4, or, with "
			"rows of whole 256, q6_k, q5_k, q4_k, iq4_xs, q3_k, q2_k"),
	OWN(TEXT, quantize_said, otherwise, .name = "else", .group = "Quantise", .arg = "FORMAT",
		.doc =
			"format of matrices whose rows the blocks of the first do not divide; without it that is an error"),
	OWN(TEXT, quantize_said, keep, .name = "keep", .group = "Quantise", .arg = "WORDS",
		.doc =
			"leave tensors as they are that have one of these words in their name: token_embd,ffn_down"),
	{ 0 },
};

static atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

struct shown {
	int64_t began_ns, told_ns;
	bool told;
};

/* A bar on a terminal, after the first second. */
static bool progress(void *arg, int64_t done, int64_t all)
{
	static const char bar[] = "########################################";
	struct shown *s = arg;
	const int64_t now = now_ns();
	const int full = (int)(40 * done / (all > 0 ? all : 1));

	if (isatty(STDERR_FILENO) && now - s->began_ns > 1000000000 && now - s->told_ns > 200000000) {
		fprintf(stderr, "\r[%.*s%*s] %3.0f %%", full, bar, 40 - full, "",
			100.0 * (double)done / (double)(all > 0 ? all : 1));
		s->told_ns = now;
		s->told = true;
	}
	return !atomic_load(&interrupted);
}

static int read_type(const char *name, const char *option, enum k_type *out, struct err *e)
{
	for (int t = 0; t < K_N_TYPES; t++)
		if (!strcasecmp(name, k_types[t].name)) {
			*out = (enum k_type)t;
			return 0;
		}
	return err_set(
		e, ERR_USAGE, "%s %.40s: no such format; cutaway quantize --help lists them", option, name);
}

static int print_json(const struct quant_result *r, double seconds, struct err *e)
{
	struct json j = { 0 };

	json_object(&j, NULL);
	json_text(&j, "source", r->source);
	json_bool(&j, "from_quantised", r->from_quantised);
	json_int(&j, "weights", r->n_weights);
	json_int(&j, "tensors", r->n_tensors);
	json_int(&j, "kept", r->n_kept);
	json_int(&j, "otherwise", r->n_otherwise);
	json_int(&j, "resumed", r->n_resumed);
	json_real(&j, "bits_a_weight", r->bits, 6);
	json_real(&j, "relative_error", r->error, 6);
	json_int(&j, "source_bytes", r->source_bytes);
	json_int(&j, "bytes", r->bytes);
	json_real(&j, "seconds", seconds, 4);
	return json_print(&j, e);
}

static void print_result(const struct quant_result *r, double seconds)
{
	printf("%d matrices of %.1f M weights, %.4g bits each; relative error %.4g%s\n", r->n_tensors,
		(double)r->n_weights / 1e6, r->bits, r->error,
		r->n_resumed ? ", of what this run rounded" : "");
	if (r->n_otherwise)
		printf("%d of them in %s, since their rows are no whole blocks\n", r->n_otherwise,
			said.otherwise);
	if (r->n_kept)
		printf("%d stayed as they were\n", r->n_kept);
	if (r->n_resumed)
		printf("%d were there from an earlier run\n", r->n_resumed);
	if (r->from_quantised)
		printf("from an already quantised source (%s): its error comes on top\n", r->source);
	printf("%.1f MB, from %.1f MB, in %.1f s\n", (double)r->bytes / 1e6,
		(double)r->source_bytes / 1e6, seconds);
}

static int quantize_verb(const struct cli *c, struct err *e)
{
	struct shown s = { .began_ns = now_ns() };
	struct quant_options o = { .otherwise = K_N_TYPES, .keep = said.keep };
	struct quant_result r;
	struct k_ctx *kernels = NULL;
	const int threads = c->engine.threads ? c->engine.threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
	double seconds;
	int rc;

	if (read_type(said.format, "--format", &o.to, e) ||
		(said.otherwise && read_type(said.otherwise, "--else", &o.otherwise, e)) ||
		k_open(&kernels, "cpu", NULL, threads, e))
		return -1;
	signal(SIGINT, on_sigint);
	rc = quantize_file(c->operand[0], c->operand[1], &o, kernels, progress, &s, &r, e);
	signal(SIGINT, SIG_DFL);
	k_close(kernels);
	if (s.told)
		fputs("\r\033[K", stderr);
	if (rc)
		return -1;
	seconds = (double)(now_ns() - s.began_ns) * 1e-9;
	if (c->json)
		return print_json(&r, seconds, e);
	print_result(&r, seconds);
	return out_flush(e);
}

const struct verb verb_quantize = {
	.name = "quantize",
	.operands = "IN OUT",
	.summary = "a model file whose matrices are rounded to another format",
	.doc =
		"Rounds the matrices of the GGUF file IN, each weight to the nearest, and writes the GGUF file OUT; norms, biases and "
		"metadata stay as they are. If IN was quantised already, OUT says so wherever its name is shown. OUT gets its name when it "
		"is whole; until then it is OUT.partial, from which the same command goes on after a kill or a full disk.",
	.example = "cutaway quantize --format q8_0 model-f16.gguf model-q8_0.gguf",
	.takes = "threads|json",
	.min_operands = 2,
	.max_operands = 2,
	.run = quantize_verb,
	.completes = "FILE",
	.own = quantize_own,
	.said = &said,
};
