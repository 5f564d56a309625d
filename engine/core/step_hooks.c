/* The table of step hooks, in the order of their calls: see step_hooks.h. Nothing else is here, so
 * that a program may link a table of its own. */

#include "engine/core/step_hooks.h"

extern const struct step_hooks observe_hooks, sparsity_hooks, watch_hooks, shadow_hooks, twin_hooks,
	search_hooks, roof_hooks, cost_hooks, pin_hooks, measured_hooks, handover_hooks;

const struct step_hooks *const step_hooks_table[] = { &handover_hooks, &observe_hooks,
	&sparsity_hooks, &watch_hooks, &shadow_hooks, &twin_hooks, &search_hooks, &roof_hooks,
	&cost_hooks, &pin_hooks, &measured_hooks, NULL };
