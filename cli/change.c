/* See change.h. */
#include "cli/change.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

void bar_begin(struct bar *b)
{
	b->began_ns = now_ns();
	signal(SIGINT, on_sigint);
}

bool bar_progress(void *bar, const char *what, int64_t done, int64_t all)
{
	static const char full[] = "########################################";
	struct bar *b = bar;
	const int64_t now = now_ns();
	const double part = all > 0 && done < all ? (double)done / (double)all : 1;
	const int n = (int)(40 * part);

	if (!b->quiet && isatty(STDERR_FILENO) && now - b->began_ns > 1000000000 &&
		now - b->reported_ns > 200000000) {
		fprintf(stderr, "\r\033[K[%.*s%*s] %3.0f %% %s%s%s", n, full, 40 - n, "", 100 * part,
			b->title, b->title[0] ? ": " : "", what);
		b->reported_ns = now;
		b->reported = true;
	}
	return !atomic_load(&interrupted);
}

void bar_wipe(struct bar *b)
{
	if (b->reported)
		fputs("\r\033[K", stderr);
	b->reported = false;
}

void bar_end(struct bar *b)
{
	signal(SIGINT, SIG_DFL);
	bar_wipe(b);
}

int change_record(const struct cli *c, struct study **s, struct err *e)
{
	const char *name = strrchr(c->operand[0], '/');

	*s = NULL;
	if (!c->record)
		return 0;
	if (study_open(s, c->record, name ? name + 1 : c->operand[0], c->operand[0], e))
		return -1;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "cutaway replay --follow %s shows it, from another terminal\n", c->record);
	return 0;
}

void change_told(void *study, struct event *ev)
{
	study_tell(study, ev, EV_NULL_I);
}

int change_recorded(struct study *s, int rc, struct err *e)
{
	return study_close(s, rc ? NULL : e) || rc ? -1 : 0;
}

int format_by_name(const char *name, const char *option, enum k_type *out, struct err *e)
{
	if (form_type(name, out))
		return 0;
	return err_set(
		e, ERR_USAGE, "%s %.40s: no such format; cutaway quantize --help lists them", option, name);
}

int group_by_name(const char *name, int32_t *out, struct err *e)
{
	const char *end = form_group(name, out);

	return end && !*end
			   ? 0
			   : err_set(e, ERR_USAGE, "--group %.40s: a number of columns, row or tensor", name);
}
