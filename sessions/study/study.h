/* A recording of work that is no session of an engine: a model that a trainer of another program
 * trains, a file that is quantised or pruned. Each step of it is a step of the recording, so that
 * `replay` travels through it, and `replay --follow` shows it while it goes on. Thread: one. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "event/event.h"

struct study;

/* path: of the recording, which must not be there yet. name: of the model, for people; model: its
 * file, or NULL. */
int study_open(
	struct study **s, const char *path, const char *name, const char *model, struct err *e);
/* -1: the recording had failed. e NULL: the work had failed, and the recording then says that it
 * did not end in order. s NULL is fine. */
int study_close(struct study *s, struct err *e);

/* *ev: `training`; or a step, of the kind `trained` or `changed`, whose `step` is set here. tokens:
 * of a step, or EV_NULL_I. */
void study_tell(struct study *s, struct event *ev, int64_t tokens);

/* Records what a trainer writes to `in`, a JSON object a line, until that ends. One with "training"
 * is an event `training` ({"training": NAME, "teacher": …, "params": …, "weight_bytes": …,
 * "gradient_bytes": …, "optimizer_bytes": …, "steps": …}); all others are events `trained`
 * ({"step": N, "loss": …, "held": …, "kl": …, "acceptance": …, "gradient": …, "rate": …, "tokens":
 * …}); what is null or not there is absent. *n: steps. -1 with ERR_INPUT and the line: what is
 * before it is recorded. */
int study_lines(struct study *s, FILE *in, int64_t *n, struct err *e);
