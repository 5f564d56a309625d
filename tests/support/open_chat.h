/* A chat without a screen, for what people do to it. */
#ifndef CUTAWAY_TESTS_OPEN_CHAT_H
#define CUTAWAY_TESTS_OPEN_CHAT_H

#include "tui/chat/chat.h"

/* Both all zero before. Waits until the model is open; a failure fails the test. */
void open_chat(struct app *a, struct chat *c, struct tui_options *o);

#endif
