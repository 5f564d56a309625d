/* See err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	if (!e || e->code)
		return -1;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return -1;
}
