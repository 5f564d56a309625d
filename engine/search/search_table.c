/* The table of search methods, in the order of help. See search.h. Nothing else is here, so that a
 * program may link a table of its own. */
#include "engine/search/search_impl.h"

extern const struct search_ops search_beam, search_best, search_mcts;

const struct search_ops *const search_table[] = { &search_best, &search_beam, &search_mcts, NULL };
