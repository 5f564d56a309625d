/* Texts and checks of verify before it begins. See verify.h. */
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/model/adapters.h"
#include "kernels/kernels.h"
#include "sessions/verify/verify.h"

int verify_arith(const struct history *h, struct err *e)
{
	if (K_FREE)
		return err_set(
			e, ERR_USAGE, "this build is free of the fixed order: its bits are nobody's to verify");
	if (h->arith == K_ARITH_VERSION)
		return 0;
	return err_set(e, ERR_INPUT,
		"%s: recorded with arithmetic %lld, and this cutaway computes arithmetic %d, so its bits "
		"cannot be the same: use the version that recorded it (%.20s)",
		h->path, (long long)h->arith, K_ARITH_VERSION, h->version);
}

static bool is_recorded(const struct history *h, const char *path)
{
	char sha[SHA256_HEX];

	if (!path || !*path || file_sha256_cached(path, sha, NULL))
		return false;
	return !h->model_sha256[0] || !strcmp(sha, h->model_sha256);
}

static int take(const char *path, char **out, struct err *e)
{
	*out = strdup(path);
	return *out ? 0 : err_set(e, ERR_MEMORY, "out of memory");
}

int verify_model(
	const struct history *h, const char *given, const char *fallback, char **path, struct err *e)
{
	char sha[SHA256_HEX], was[120], name[80];

	*path = NULL;
	text_cleaned(was, sizeof was, h->model_path, strlen(h->model_path));
	text_cleaned(name, sizeof name, h->model_name, strlen(h->model_name));
	if (given) {
		if (is_recorded(h, given))
			return take(given, path, e);
		if (file_sha256_cached(given, sha, NULL))
			return err_set(e, ERR_IO, "%s: no model file that can be read", given);
		return err_set(e, ERR_INPUT,
			"%s is not the model that was recorded: its SHA-256 begins %.12s, that of %s begins "
			"%.12s; see --model",
			given, sha, name, h->model_sha256);
	}
	if (is_recorded(h, h->model_path))
		return take(h->model_path, path, e);
	if (h->model_sha256[0] && is_recorded(h, fallback))
		return take(fallback, path, e);
	if (!file_sha256_cached(h->model_path, sha, NULL))
		return err_set(e, ERR_INPUT,
			"%s is another file than when it was recorded: its SHA-256 begins %.12s, that of %s "
			"began %.12s; name the old file with --model FILE",
			was, sha, name, h->model_sha256);
	return err_set(e, ERR_IO,
		"the model of this recording, %s, is not at %s any more; name it with --model "
		"FILE%s%.12s%s",
		name, was, h->model_sha256[0] ? " (SHA-256 " : "", h->model_sha256,
		h->model_sha256[0] ? "…)" : "");
}

/* The file of the list that has the name and the SHA-256 of the recorded one, malloc'd; NULL: none
 * has. */
static char *found_among(const struct history_adapter *a, const char *list)
{
	char *path, name[ADAPTER_NAME], sha[SHA256_HEX];
	float scale;

	while (adapters_next(&list, &path, &scale, NULL) > 0) {
		adapters_name(path, name);
		if (!strcmp(name, a->name) && !file_sha256_cached(path, sha, NULL) &&
			!strcmp(sha, a->sha256))
			return path;
		free(path);
	}
	return NULL;
}

/* where: whose list that is. */
static int add_adapter(const struct history_adapter *a, const char *list, const char *where,
	char **lora, struct err *e)
{
	char name[80], *longer, *path = found_among(a, list);
	int failed;

	if (!path) {
		text_cleaned(name, sizeof name, a->name, strlen(a->name));
		return err_set(e, ERR_INPUT,
			"the adapter %s of this recording (SHA-256 %.12s…) is not among the files of %s; name "
			"it with --lora FILE",
			name, a->sha256, where);
	}
	failed = paths_print(
		&longer, e, "%s%s%s:%.9g", *lora ? *lora : "", *lora ? "," : "", path, a->scale);
	free(path);
	if (failed)
		return -1;
	free(*lora);
	*lora = longer;
	return 0;
}

int verify_adapters(const struct history *h, const char *given, char **lora, struct err *e)
{
	const struct history_setting *s = history_setting(h, "lora", INT64_MAX);
	const char *list = given ? given : s ? s->value : "";
	int failed = 0;

	*lora = NULL;
	for (int32_t i = 0; i < h->n_adapters && !failed; i++)
		failed = add_adapter(&h->adapter[i], list, given ? "--lora" : "its setting lora", lora, e);
	if (failed) {
		free(*lora);
		*lora = NULL;
	}
	return failed;
}

/* ---- a difference in words ---- */

static const char *hex(int64_t hash, char *buf)
{
	if (hash == EV_NULL_I)
		strcpy(buf, "none");
	else
		snprintf(buf, 17, "%016llx", (unsigned long long)hash);
	return buf;
}

void verify_describe(const struct history *h, const struct verify_result *r, char *buf, size_t cap)
{
	static const char *const names[] = { [VERIFY_P] = "p",
		[VERIFY_P_DRAW] = "p_draw",
		[VERIFY_ENTROPY] = "entropy",
		[VERIFY_LOGP] = "logp" };
	const struct verify_difference *d = &r->first;
	const struct history_row *row = &r->request->row[d->row];
	char a[80], b[80];

	switch (d->what) {
	case VERIFY_NOTHING: snprintf(buf, cap, "equal"); break;
	case VERIFY_HASH:
		snprintf(buf, cap, "hash of the logits at position %d: recorded %s, computed %s", row->pos,
			hex(d->recorded, a), hex(d->computed, b));
		break;
	case VERIFY_ID:
		snprintf(buf, cap, "token at position %d: recorded %s, drawn %s, from equal logits",
			row->pos, ev_texts_quoted(&h->texts, d->recorded, 30, a, sizeof a),
			ev_texts_quoted(&h->texts, d->computed, 30, b, sizeof b));
		break;
	case VERIFY_SURVIVORS:
		snprintf(buf, cap, "survivors at position %d: recorded %lld, computed %lld", row->pos,
			(long long)d->recorded, (long long)d->computed);
		break;
	case VERIFY_FAILED:
		snprintf(buf, cap, "position %d cannot be computed here: %s", row->pos, d->why);
		break;
	case VERIFY_P:
	case VERIFY_P_DRAW:
	case VERIFY_ENTROPY:
	case VERIFY_LOGP:
		snprintf(buf, cap, "%s at position %d: recorded %.9g, computed %.9g", names[d->what],
			row->pos, d->was, d->is);
	}
}
