/* cutaway certify: runs the proof and prints its coverage. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "kernels/kernels.h"
#include "sessions/certify.h"

static void tell(void *arg, const struct certify_case *c)
{
	(void)arg;
	printf("%-6s %-16s %-44s %4d tokens%s%s\n",
		   !c->equal ? "DIFFER"
		   : c->idle ? "idle"
					 : "equal",
		   c->axis, c->what, c->tokens, *c->seen ? "  " : "", c->seen);
	fflush(stdout);
}

int verb_certify(const struct cli *c, struct err *e)
{
	struct certify_options o = {.quick = c->quick, .seed = 1};
	struct certify_summary sum;
	char *path = NULL;
	if (K_FREE)
		return err_set(e, ERR_USAGE, "this build is free of the fixed order: nothing to certify");
	if (model_find(c, &path, e))
		return -1;
	o.model = path;
	int status = certify_run(&o, tell, NULL, &sum, e);
	free(path);
	if (status && e->code != ERR_DIFFERS)
		return -1;
	printf("\ncoverage: %d axes", sum.n_axes);
	if (sum.axes_without)
		printf(" (%d of them with only one value on this machine)", sum.axes_without);
	printf(", %d cases, %d of them pairs of axes (%d pairs are possible), %lld tokens compared\n",
		   sum.n_cases, sum.n_pairs, sum.pairs_possible, (long long)sum.n_tokens);
	if (sum.n_idle)
		printf("%d cases are equal, but what they vary had no occasion to matter (idle)\n",
			   sum.n_idle);
	printf("hash of all logits: %016llx (arithmetic %d, this model, %s texts)\n",
		   (unsigned long long)sum.hash, K_ARITH_VERSION, c->quick ? "quick" : "full");
	printf(sum.n_differ ? "%d of %d cases differ\n" : "all equal\n", sum.n_differ, sum.n_cases);
	return out_flush(e) || status ? -1 : 0;
}
