/* See file.h. */
#include "engine/draft/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/models.h"
#include "engine/model/model.h"

/* ---- where it is ---- */

/* The folder that the program is in, with a slash after. */
static void program_folder(char out[DRAFT_PATH])
{
	ssize_t n = readlink("/proc/self/exe", out, DRAFT_PATH - 1);
	char *slash;

	out[n > 0 ? n : 0] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		slash[1] = '\0';
}

static bool try_path(char path[DRAFT_PATH], const char *folder, const char *under, const char *name)
{
	int n = snprintf(path, DRAFT_PATH, "%s%s/%s.gguf", folder, under, name);

	return n > 0 && n < DRAFT_PATH && !access(path, R_OK);
}

/* A whole model of that name, beside its siblings. */
static bool try_models(char path[DRAFT_PATH], const char *name)
{
	char *found = models_own(name);
	const bool is = found && strlen(found) < DRAFT_PATH && !access(found, R_OK);

	if (is)
		snprintf(path, DRAFT_PATH, "%s", found);
	free(found);
	return is;
}

static int search(const char *name, char path[DRAFT_PATH], struct err *e)
{
	const char *own = getenv("CUTAWAY_MODELS");
	char folder[DRAFT_PATH];

	program_folder(folder);
	if ((own && *own && try_path(path, own, "", name)) ||
		try_path(path, "", "demos/models", name) || try_path(path, folder, "demos/models", name) ||
		try_path(path, folder, "../share/cutaway/models", name) || try_models(path, name))
		return 0;
	return err_set(e, ERR_IO,
		"there is no drafter's file %.80s.gguf in demos/models, here or beside the program, nor in "
		"$CUTAWAY_MODELS; make one with tools/train, or give a path",
		name);
}

int draft_find_file(
	const char *name, const char *args, char path[DRAFT_PATH], const char **numbers, struct err *e)
{
	bool given = args && *args && (*args < '0' || *args > '9');
	const char *comma = given ? strchr(args, ',') : NULL;
	size_t n = !given ? 0 : comma ? (size_t)(comma - args) : strlen(args);
	char file[DRAFT_PATH];

	*numbers = given ? (comma ? comma + 1 : NULL) : args;
	if (n >= sizeof file)
		return err_set(e, ERR_USAGE, "the path of the drafter's file is too long");
	if (!given)
		return search(name, path, e);
	snprintf(file, sizeof file, "%.*s", (int)n, args);
	if (!strchr(file, '/') && (n < 5 || strcmp(file + n - 5, ".gguf")))
		return search(file, path, e);
	snprintf(path, DRAFT_PATH, "%s", file);
	return 0;
}

/* ---- what it must say ---- */

static bool says(const struct gguf *g, const char *key, const char *value)
{
	struct gguf_text t = { 0 };
	struct err ignored = { 0 };

	return gguf_opt_text(g, key, &t, &ignored) && gguf_text_is(&t, value);
}

bool draft_is_drafter(const struct gguf *g, const char *kind)
{
	return says(g, "general.architecture", "cutaway-draft") &&
		   (!kind || says(g, "cutaway.draft.kind", kind));
}

static int check_number(const struct gguf *g, const char *key, int64_t must, struct err *e)
{
	int64_t v = 0;

	if (gguf_get_i64(g, key, &v, e))
		return -1;
	if (v != must)
		return gguf_bad(g, e, "made for a model whose %s is %lld; this one's is %lld",
			key + strlen("cutaway.draft."), (long long)v, (long long)must);
	return 0;
}

/* The hash must be that of the target's own file. */
static int check_hash(const struct gguf *g, const struct draft_env *env, struct err *e)
{
	struct gguf *target;
	char hex[17] = "";
	int failed;

	if (gguf_open(&target, env->model_path, e))
		return -1;
	failed = draft_vocab_hash(target, hex, e);
	gguf_close(target);
	if (!failed && !says(g, "cutaway.draft.vocab_hash", hex))
		return gguf_bad(g, e,
			"made for a model of another vocabulary: its vocab_hash is not %s, this model's", hex);
	return failed;
}

int draft_open_file(struct gguf **out, const char *path, const char *kind,
	const struct draft_env *env, struct err *e)
{
	struct gguf *g;

	*out = NULL;
	if (gguf_open(&g, path, e))
		return -1;
	if (!draft_is_drafter(g, kind))
		err_set(e, ERR_INPUT,
			"%s: not a drafter's file%s%s (general.architecture \"cutaway-draft\", "
			"cutaway.draft.kind)",
			path, kind ? " of kind " : "", kind ? kind : "");
	else if (!check_number(g, "cutaway.draft.dim", env->model->config.dim, e) &&
			 !check_number(g, "cutaway.draft.vocab", env->vocab, e) && !check_hash(g, env, e)) {
		*out = g;
		return 0;
	}
	gguf_close(g);
	return -1;
}

int draft_read_list(const struct gguf *g, const char *key, int32_t most, int32_t below,
	int32_t *out, int32_t *n, struct err *e)
{
	const int64_t many = gguf_array_length(g, key);
	int64_t *wide, before = -1;
	int failed;

	*n = 0;
	if (many < 0)
		return 0;
	if (many < 1 || many > most)
		return gguf_bad(
			g, e, "%s has %lld numbers; 1 to %d are possible", key, (long long)many, most);
	wide = malloc((size_t)many * sizeof *wide);
	failed = wide ? gguf_array_i64(g, key, wide, many, e) : err_no_memory(e, "%s", key);
	for (int64_t i = 0; i < many && !failed; before = wide[i++]) {
		if (wide[i] <= before || wide[i] >= below)
			failed = gguf_bad(g, e,
				"%s: number %lld is %lld after %lld; they must ascend from 0, below %d", key,
				(long long)i, (long long)wide[i], (long long)before, below);
		out[i] = (int32_t)wide[i];
	}
	*n = (int32_t)many;
	free(wide);
	return failed ? -1 : 0;
}

int draft_read_ids(const struct gguf *g, int32_t vocab, int32_t **ids, int32_t *n, struct err *e)
{
	static const char key[] = "cutaway.draft.ids";
	const int64_t many = gguf_array_length(g, key);

	*ids = NULL;
	*n = vocab;
	if (many < 0)
		return 0;
	if (many < 1 || many > vocab)
		return gguf_bad(g, e, "a trimmed vocabulary of %lld of %d ids", (long long)many, vocab);
	*ids = malloc((size_t)vocab * sizeof **ids);
	if (!*ids)
		return err_no_memory(e, "a trimmed vocabulary");
	if (!draft_read_list(g, key, vocab, vocab, *ids, n, e))
		return 0;
	free(*ids);
	*ids = NULL;
	return -1;
}

/* ---- vocabularies ---- */

/* The strings, malloc'd. */
static struct gguf_text *read_vocab(const struct gguf *g, int64_t *n, struct err *e)
{
	struct gguf_text *t;

	*n = gguf_array_length(g, "tokenizer.ggml.tokens");
	if (*n < 1) {
		gguf_bad(g, e, "there is no vocabulary in it");
		return NULL;
	}
	t = malloc((size_t)*n * sizeof *t);
	if (!t)
		err_no_memory(e, "a vocabulary");
	else if (gguf_array_text(g, "tokenizer.ggml.tokens", t, *n, e)) {
		free(t);
		t = NULL;
	}
	return t;
}

/* Makes the string printable on one line, for an error. */
static void printable(char out[48], struct gguf_text t)
{
	size_t n = 0;

	for (size_t i = 0; i < t.size && n < 40; i++) {
		unsigned char c = (unsigned char)t.data[i];
		n += (size_t)snprintf(out + n, 48 - n, c >= ' ' && c < 127 ? "%c" : "\\x%02x", c);
	}
	out[n] = '\0';
}

static int compare(const struct gguf *drafter, const struct gguf_text *a, int64_t n_a,
	const struct gguf_text *b, int64_t n_b, struct err *e)
{
	char mine[48], theirs[48];

	for (int64_t i = 0; i < n_a && i < n_b; i++) {
		if (a[i].size == b[i].size && !memcmp(a[i].data, b[i].data, a[i].size))
			continue;
		printable(mine, a[i]);
		printable(theirs, b[i]);
		return gguf_bad(drafter, e,
			"another vocabulary: token %lld is \"%s\" there and \"%s\" in this model; "
			"a draft model must have the same",
			(long long)i, mine, theirs);
	}
	if (n_a != n_b)
		return gguf_bad(drafter, e, "another vocabulary: %lld tokens, this model has %lld",
			(long long)n_a, (long long)n_b);
	return 0;
}

int draft_same_vocab(const struct gguf *drafter, const struct gguf *target, struct err *e)
{
	int64_t n_a = 0, n_b = 0;
	struct gguf_text *a = read_vocab(drafter, &n_a, e), *b = a ? read_vocab(target, &n_b, e) : NULL;
	int status = b ? compare(drafter, a, n_a, b, n_b, e) : -1;

	free(a);
	free(b);
	return status;
}

int draft_vocab_hash(const struct gguf *g, char hex[17], struct err *e)
{
	int64_t n;
	struct gguf_text *t = read_vocab(g, &n, e);
	XXH64_state_t *state = XXH64_createState();

	for (int64_t i = 0; t && state && i < n; i++) {
		if (!i)
			XXH64_reset(state, 0);
		XXH64_update(state, t[i].data, t[i].size);
		XXH64_update(state, "", 1);
	}
	if (t && state)
		snprintf(hex, 17, "%016" PRIx64, XXH64_digest(state));
	free(t);
	XXH64_freeState(state);
	return t && state ? 0 : err_no_memory(e, "a vocabulary");
}

/* ---- the head ---- */

static uint8_t *gather(
	const struct gguf *g, const struct model *m, const int32_t *ids, int32_t n, struct err *e)
{
	const struct gguf_tensor *t = gguf_find(g, m->tied ? "token_embd.weight" : "output.weight");
	size_t row;
	uint8_t *raw;

	if (!t || t->type != m->output.type || t->n_dims != 2 || t->dim[0] != m->output.n_cols ||
		t->dim[1] != m->output.n_rows) {
		gguf_bad(g, e, "the output matrix is not the one that was opened");
		return NULL;
	}
	row = t->bytes / (size_t)t->dim[1];
	raw = malloc((size_t)n * row);
	if (!raw)
		err_no_memory(e, "%d rows of the output matrix", n);
	for (int32_t i = 0; raw && i < n; i++)
		if (gguf_read_bytes(t, (size_t)ids[i] * row, row, raw + (size_t)i * row, e)) {
			free(raw);
			raw = NULL;
		}
	return raw;
}

int draft_open_head(
	struct draft_head *h, const struct draft_env *env, int32_t *ids, int32_t n, struct err *e)
{
	struct gguf *g;
	uint8_t *raw;
	bool failed;

	*h = (struct draft_head){
		.kernels = env->kernels, .matrix = env->model->output, .ids = ids, .n = n
	};
	if (!ids)
		return 0;
	h->matrix.n_rows = n;
	h->matrix.data = NULL;
	if (gguf_open(&g, env->model_path, e))
		return -1;
	raw = gather(g, env->model, ids, n, e);
	gguf_close(g);
	if (raw)
		h->data = k_alloc(env->kernels, k_matrix_bytes(env->kernels, &h->matrix), K_WEIGHTS,
			"the rows of a drafter's head", e);
	failed = !h->data || weights_pack(env->kernels, &h->matrix, raw, h->data, e);
	free(raw);
	return failed ? -1 : 0;
}

void draft_close_head(struct draft_head *h)
{
	k_free(h->kernels, h->data);
	free(h->ids);
	memset(h, 0, sizeof *h);
}
