/* The methods of pruning, and what they share. See prune.h. */
#include "engine/core/engine_impl.h"
#include "lab/prune_impl.h"
#include "kernels/format/formats.h"

const struct prune_method *const prune_table[] = { &prune_magnitude, &prune_wanda, &prune_layers,
	&prune_heads, &prune_kv_heads, &prune_channels, NULL };

bool prune_holds_zero(enum k_type type)
{
	const struct k_facts f = k_facts_of(type);

	if (f.min_at >= 0)
		return false;
	for (int i = 0; f.book && i < 16; i++)
		if (!k_books[f.book][i])
			return true;
	return !f.book;
}

/* The value that stands at place k of x [n] in order (Hoare 1961). x is put in another order. */
static float nth_least(float *x, int64_t n, int64_t k)
{
	int64_t low = 0, high = n - 1;

	while (low < high) {
		const float pivot = x[low + (high - low) / 2];
		int64_t i = low, j = high;

		while (i <= j) {
			while (x[i] < pivot)
				i++;
			while (x[j] > pivot)
				j--;
			if (i <= j) {
				const float t = x[i];

				x[i++] = x[j];
				x[j--] = t;
			}
		}
		if (k <= j)
			high = j;
		else if (k >= i)
			low = i;
		else
			break;
	}
	return x[k];
}

void prune_least(const float *score, int64_t n, int64_t k, bool *gone, float *scratch)
{
	float limit;
	int64_t equal = k;

	memset(gone, 0, (size_t)n * sizeof *gone);
	if (k <= 0)
		return;
	memcpy(scratch, score, (size_t)n * sizeof *score);
	limit = nth_least(scratch, n, k - 1);
	for (int64_t i = 0; i < n; i++)
		equal -= score[i] < limit;
	for (int64_t i = 0; i < n; i++)
		gone[i] = score[i] < limit || (!(score[i] > limit) && equal-- > 0);
}

int prune_mark(struct prune *p, const float *score, int64_t n, int64_t k, bool *gone,
	float *scratch, struct err *e)
{
	prune_least(score, n, k, gone, scratch);
	for (int64_t i = 0; i < n; i++) {
		k -= gone[i];
		p->lost += gone[i] ? (double)score[i] : 0;
	}
	return k ? err_set(e, ERR_INPUT, "the model gave no numbers (a NaN) on the calibration text")
			 : 0;
}

int prune_set_number(struct prune *p, const char *name, uint32_t value, struct err *e)
{
	struct prune_number *n = &p->number[p->n_numbers];
	struct gguf_text arch;

	if (gguf_get_text(p->c->g, "general.architecture", &arch, e))
		return -1;
	snprintf(
		n->key, sizeof n->key, "%.*s.%s", (int)(arch.size < 40 ? arch.size : 40), arch.data, name);
	n->value = value;
	p->n_numbers++;
	return 0;
}

const struct model_config *prune_config(const struct prune *p)
{
	return &p->c->text.engine->model->config;
}
