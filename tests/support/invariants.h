/* The invariants that heads of pages.h, prefix.h, pin.h and sched.h state, as asserts. */
#pragma once

struct engine;
struct memory;
struct pages;
struct prefix;
struct sched;

void pages_check(const struct pages *p);
void memory_check(const struct memory *m); /* its pages */
void pins_check(const struct prefix *p);
void prefix_check(const struct prefix *p); /* and its pins */
void sched_check(const struct sched *s);
void engine_check(const struct engine *e); /* all of them */
