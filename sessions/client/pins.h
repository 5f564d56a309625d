/* The pins of a server that runs, for `cutaway pin`. Thread: any one. */
#pragma once

#include "sessions/client/client.h"

/* What a server answers at /pin or /pins: its JSON, or a line a pin. malloc'd; NULL with the error,
 * which is the server's own where it has one. */
char *pins_ask(const struct client_options *o, const char *method, const char *path,
	const char *body, bool json, struct err *e);
