/* For the files of chat templates alone. See template.h. */
#pragma once

#include "engine/text/template.h"

/* What the template makes of a conversation, malloc'd, with what stands for hidden bytes
 * (template_text.c). NULL with the error. */
char *template_text(const struct chat_input *of, size_t *size, struct err *e);
/* Makes what stands for hidden bytes these bytes, in place; returns the size. */
size_t template_reveal(char *text, size_t size);
/* The first control token that the text spells: its id, or -1. A user-defined one is a token
 * wherever it stands. */
int32_t template_control(
	const struct tokenizer *t, const char *text, size_t size, size_t *at, size_t *used);
