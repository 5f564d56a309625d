/* A link between machines as a user writes it: "1gbit,50us". Thread: any; no state. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct link_speed {
	double rate; /* bytes a second; 0: not said */
	int64_t latency_ns;
};

/* "1gbit,50us", "100mbit", "20us". ERR_USAGE says what a link is. */
int link_parse(struct link_speed *link, const char *text, struct err *e);
