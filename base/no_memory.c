/* See no_memory.h. */
#include "base/no_memory.h"

#include <stdarg.h>
#include <stdio.h>

int no_memory(struct err *e, const char *what, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof text, what, ap);
	va_end(ap);
	return err_set(e, ERR_MEMORY, "no memory for %s", text);
}
