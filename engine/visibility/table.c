/* The table of visibility policies, full first. See visibility.h. Nothing else is here, so that a
 * program may link a table of its own. */
#include "engine/visibility/visibility.h"

extern const struct visible_policy visible_sinks, visible_stream, visible_dilated, visible_strided,
	visible_fixed, visible_top, visible_share, visible_h2o, visible_h2o_share;

const struct visible_policy *const visible_policies[] = { &visible_full, &visible_window,
	&visible_dilated, &visible_sinks, &visible_stream, &visible_strided, &visible_fixed,
	&visible_top, &visible_share, &visible_h2o, &visible_h2o_share, NULL };
