/* The table of drafters and the reading of "name[:arguments]". See draft.h. Thread: the engine's.
 */
#include "engine/draft.h"

#include <stdio.h>
#include <string.h>

extern const struct draft_ops draft_ngram;

const struct draft_ops *const draft_table[] = {&draft_ngram, NULL};

/* "off, ngram[:k[,min,max]]" */
static void list_names(char *buf, size_t cap)
{
	size_t len = (size_t)snprintf(buf, cap, "off");

	for (int i = 0; draft_table[i] && len < cap; i++)
		len += (size_t)snprintf(buf + len, cap - len, ", %s[:%s]", draft_table[i]->name,
								draft_table[i]->args);
}

int draft_open(const char *spec, const struct draft_ops **ops, struct drafter **d, struct err *e)
{
	const char *colon = strchr(spec, ':');
	size_t name_size = colon ? (size_t)(colon - spec) : strlen(spec);
	char known[200];

	*ops = NULL;
	*d = NULL;
	if (strcmp(spec, "off") == 0)
		return 0;
	for (int i = 0; draft_table[i]; i++) {
		const struct draft_ops *known_ops = draft_table[i];

		if (strlen(known_ops->name) != name_size || memcmp(known_ops->name, spec, name_size))
			continue;
		if (known_ops->open(d, colon ? colon + 1 : NULL, e))
			return -1;
		*ops = known_ops;
		return 0;
	}
	list_names(known, sizeof known);
	return err_set(e, ERR_USAGE, "no drafter is called '%.40s'; there are: %s", spec, known);
}
