/* Which cutaway this is. Part of base/: may be included from everywhere. */
#pragma once

#define CUTAWAY_VERSION "0.1.0"

/* The Makefile defines the flags; without it they are unknown. */
#ifndef CUTAWAY_FLAGS
#define CUTAWAY_FLAGS "flags unknown"
#endif
#ifdef __clang__
#define CUTAWAY_BUILD __VERSION__ ", " CUTAWAY_FLAGS
#else
#define CUTAWAY_BUILD "gcc " __VERSION__ ", " CUTAWAY_FLAGS
#endif
