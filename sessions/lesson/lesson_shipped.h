/* Inside sessions/lesson/: the lessons that are part of the program. Constant. */
#ifndef CUTAWAY_SESSIONS_LESSON_SHIPPED_H
#define CUTAWAY_SESSIONS_LESSON_SHIPPED_H

struct lesson_file {
	const char *name, *text, *topic;
};
extern const struct lesson_file lessons_shipped[]; /* in the order of a course; ends with name NULL
													*/

#endif
