/* Inside of study.h. */
#ifndef CUTAWAY_SESSIONS_STUDY_IMPL_H
#define CUTAWAY_SESSIONS_STUDY_IMPL_H

#include "event/stream.h"
#include "sessions/study/study.h"
#include "trace/ring.h"
#include "trace/writer.h"

struct study {
	struct stream stream;
	struct ring *ring;
	struct writer *writer;
	int64_t steps;
};

#endif
