/* See formulas.h. */
#include "fold/formulas.h"

#include <math.h>

double formula_kv(double layers, double heads, double head_dim, double element)
{
	return 2 * layers * heads * head_dim * element;
}

double formula_kept(double depth, double window)
{
	return window > 0 && window < depth ? window : depth;
}

double formula_memory(double batch, double kv, double weights)
{
	return batch * kv + weights;
}

double formula_latency(double bytes, double bandwidth)
{
	return bytes / bandwidth;
}

double formula_throughput(double batch, double latency)
{
	return batch / latency;
}

double formula_largest_batch(double memory, double weights, double kv)
{
	return memory > weights ? floor((memory - weights) / kv) : 0;
}

double formula_intensity(double rows, double weights, double bytes, double row_bytes)
{
	return 2 * rows * weights / (bytes + rows * row_bytes);
}

double formula_attention_intensity(double heads, double kv_heads, double element)
{
	return 4 * heads / (2 * kv_heads * element);
}

double formula_ridge(double peak, double bandwidth)
{
	return peak / bandwidth;
}

double formula_roofline(double ops, double bytes, double peak, double bandwidth)
{
	return fmax(bytes / bandwidth, peak > 0 ? ops / peak : 0);
}

double formula_expected(double accept, double drafts)
{
	return accept >= 1 ? drafts + 1 : (1 - pow(accept, drafts + 1)) / (1 - accept);
}

double formula_rows(double prompt, double tokens, int cached)
{
	return cached ? prompt + tokens - 1 : tokens * prompt + tokens * (tokens - 1) / 2;
}

/* Of all sequences of 1 … n tokens. */
static double pairs_up_to(double n)
{
	return n * (n + 1) * (n + 2) / 6;
}

double formula_pairs(double prompt, double tokens, int cached)
{
	const double last = prompt + tokens - 1;

	return cached ? last * (last + 1) / 2 : pairs_up_to(last) - pairs_up_to(prompt - 1);
}
