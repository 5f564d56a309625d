/* Any bytes as an event of the ring: refused, or an event whose spans lie inside them and which
 * packs to the same bytes again. */
#include <string.h>

#include "event/event.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event ev;
	uint8_t *again;

	if (ev_unpack(&ev, data, size))
		return 0;
	again = malloc(size);
	FUZZ_CHECK(again && ev_pack(&ev, again, size) == size && !memcmp(again, data, size));
	free(again);
	return 0;
}
