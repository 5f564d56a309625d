/* See change.h. */
#include "cli/change.h"

#include <unistd.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/out.h"

void bar_begin(struct bar *b)
{
	b->began_ns = now_ns();
	interrupt_catch(SIGINT, SA_RESTART);
}

bool bar_progress(void *bar, const char *what, int64_t done, int64_t all)
{
	static const char full[] = "########################################";
	struct bar *b = bar;
	const int64_t now = now_ns();
	const double part = all > 0 && done < all ? (double)done / (double)all : 1;
	const int n = (int)(40 * part);

	if (!b->quiet && now - b->began_ns > 1000000000 && now - b->reported_ns > 200000000) {
		out_progress("[%.*s%*s] %3.0f %% %s%s%s", n, full, 40 - n, "", 100 * part, b->title,
			b->title[0] ? ": " : "", what);
		b->reported_ns = now;
	}
	return !atomic_load(&interrupted);
}

void bar_end(void)
{
	signal(SIGINT, SIG_DFL);
	out_progress_end();
}

static int open_study(struct change_run *r, const struct cli *c, struct err *e)
{
	const char *name = strrchr(c->operand[0], '/');

	if (!c->record)
		return 0;
	if (study_open(&r->study, c->record, name ? name + 1 : c->operand[0], c->operand[0], e))
		return -1;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "cutaway replay --follow %s shows it, from another terminal\n", c->record);
	return 0;
}

static void tell(void *study, struct event *ev)
{
	study_tell(study, ev, EV_NULL_I);
}

int change_begin(struct change_run *r, const struct cli *c, struct change_options *o, struct err *e)
{
	*r = (struct change_run){ .began_ns = now_ns() };
	*o = (struct change_options){ .seed = c->answer.params.seed,
		.threads = c->engine.threads,
		.progress = bar_progress,
		.arg = &r->bar };
	if ((c->calibrate && in_read(c->calibrate, &r->text, &o->size, e)) || open_study(r, c, e))
		return -1;
	o->text = r->text;
	o->told = r->study ? tell : NULL;
	o->told_arg = r->study;
	bar_begin(&r->bar);
	return 0;
}

int change_end(struct change_run *r, int rc, struct err *e)
{
	bar_end();
	free(r->text);
	r->seconds = (double)(now_ns() - r->began_ns) * 1e-9;
	return study_close(r->study, rc ? NULL : e) || rc ? -1 : 0;
}

void change_print_text(const struct cli *c, const struct change_result *r)
{
	if (r->n_calibration)
		printf("by %d tokens of %s text\n", r->n_calibration,
			c->calibrate ? "the calibration" : "the model's own");
}

void change_print_end(const struct change_run *run, const struct change_result *r)
{
	printf("%.1f MB, from %.1f MB, in %.1f s\n", (double)r->bytes / 1e6,
		(double)r->source_bytes / 1e6, run->seconds);
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
