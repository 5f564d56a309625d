/* /price: the text of the request in focus, scored beside the exact twin under all lossy settings,
 * each alone and all but each (sessions/price/apart.h), as score requests of this session; then why
 * price shows what the recording has of them. The settings are as before when it is over, or was
 * stopped. Internal to tui/. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_PRICE_H
#define CUTAWAY_TUI_CHAT_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sessions/price/apart.h"

struct app;

struct chat_price {
	bool running, asked, stopping, begun; /* asked: the engine's thread has it */
	struct apart apart;                   /* the engine's thread's, while asked */
	int32_t *ids, n_ids;
	int64_t request;  /* whose text it is */
	int64_t reported; /* case whose end was acted on */
	int64_t looked_ns;
	struct err err;
};

int chat_price(struct app *a, struct err *e); /* begins */
bool chat_price_cancel(struct app *a);        /* without waiting; false: none runs */
void chat_price_work(struct app *a);          /* after every wait */
void chat_price_free(struct chat_price *c);

#endif
