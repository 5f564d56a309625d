/* A chat without a screen, for what people do to it. */
#pragma once

#include "tui/chat/chat.h"

/* Both all zero before. Waits until the model is open; a failure fails the test. */
void open_chat(struct app *a, struct chat *c, struct tui_options *o);
