/* Pieces of a chat template cut out of what the file's own Jinja text renders. */
#ifndef CUTAWAY_ENGINE_TEMPLATE_PROBE_H
#define CUTAWAY_ENGINE_TEMPLATE_PROBE_H

#include "engine/text/template.h"

/* Renders conversations of marks and takes what stands around them. If `family` says the same as
 * the template, *out is a copy of it; else the pieces that were found, under the name "jinja", of
 * which other conversations were rendered and compared. *out's strings live in `store`
 * (TEMPLATE_STORE bytes) or in `family`. eos_name: the vocabulary's, or "". -1: neither; *e says
 * why. */
enum { TEMPLATE_STORE = 1 << 16 };
int template_probe(struct chat_template *out, char *store, const struct chat_template *family,
	const char *jinja, size_t size, const char *eos_name, struct err *e);

#endif
