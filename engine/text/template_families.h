/* Families of chat templates: what is taken where a file's own template cannot be followed. */
#ifndef CUTAWAY_ENGINE_TEMPLATE_FAMILIES_H
#define CUTAWAY_ENGINE_TEMPLATE_FAMILIES_H

#include "engine/text/template.h"

extern const struct chat_template template_chatml;
extern const struct chat_template template_plain; /* of a text that is of no family */

/* The family that a template's Jinja text looks like. */
const struct chat_template *template_family(struct gguf_text text);

#endif
