/* The error of a call that gets no memory: what it is for goes into the text, as printf's. */
#pragma once

#include "base/err.h"

#define err_no_memory(e, ...) err_set(e, ERR_MEMORY, "no memory for " __VA_ARGS__)
