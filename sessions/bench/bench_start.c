/* Measures a start as the first action of a process: memory that an earlier engine of the same
 * process freed is faster to allocate again, and a fragmented heap slower. So each start runs in a
 * child process. The file has been read once before, so that the page cache is warm. Thread: the
 * only one of its process. */
#include "sessions/bench/bench_impl.h"

#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

struct start {
	int status;
	double opened, token; /* seconds */
	struct err err;
};

/* Opens an engine and generates one token. */
static int start(const struct engine_options *o, struct start *s)
{
	static const char text[] = "The captain wrote that the wind had turned to the north, and that";
	struct bench *b = calloc(1, sizeof *b);
	const struct session_options with = { .engine = *o, .sink = bench_on_event, .arg = b };
	size_t n = 0, cap = 0;
	double begin = bench_now();
	if (!b)
		return err_no_memory(&s->err, "the bench");
	if (session_open(&b->session, &with, &s->err))
		return -1;
	s->opened = bench_now() - begin;
	b->engine = b->session.engine;
	int status = session_begin(&b->session, NULL, NULL, &s->err) ||
				 tokenizer_encode(engine_tokenizer(b->engine), text, sizeof text - 1, false,
					 &b->ids, &n, &cap, &s->err);
	if (!status && n > SHORT)
		n = SHORT;
	status = status || bench_submit(b, 0, (int32_t)n, 1, true, &s->err) < 0 ||
			 bench_step_until(b, 1, &s->err);
	s->token = bench_now() - begin;
	return status ? -1 : 0;
}

/* Frees nothing: the child exits. What it writes at once, the parent reads at once. */
static _Noreturn void child(const struct engine_options *o, int fd)
{
	struct start s = { .status = 0 };
	_Static_assert(sizeof s <= PIPE_BUF, "a write to a pipe is whole");
	s.status = start(o, &s);
	_exit(TEMP_FAILURE_RETRY(write(fd, &s, sizeof s)) != sizeof s);
}

int bench_time_start(const struct engine_options *o, double *opened, double *token, struct err *e)
{
	struct start s = { .status = -1 };
	int fd[2];
	if (pipe(fd))
		return err_set(e, ERR_IO, "bench: no pipe (%s)", strerror(errno));
	pid_t pid = fork();
	if (pid == 0)
		child(o, fd[1]);
	close(fd[1]);
	bool told = pid > 0 && TEMP_FAILURE_RETRY(read(fd[0], &s, sizeof s)) == sizeof s;
	close(fd[0]);
	if (pid > 0)
		TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
	if (!told)
		return err_set(e, ERR_MEMORY, "bench: a process that measures a start %s",
			pid < 0 ? "could not begin" : "died");
	if (s.status) {
		*e = s.err;
		return -1;
	}
	*opened = s.opened;
	*token = s.token;
	return 0;
}

int bench_measure_start(const struct engine_options *o, struct bench_report *r, struct err *e)
{
	enum { AT_LEAST = 7, AT_MOST = 15, SECONDS = 6, TOO_LONG = 30 };
	struct samples opened = { .n = 0 }, token = { .n = 0 };
	double a, c, begin = bench_now();
	if (bench_time_start(o, &a, &c, e)) /* the file is read */
		return -1;
	for (double t = 0; t < (opened.n < AT_LEAST ? TOO_LONG : SECONDS) && opened.n < AT_MOST;
		 t = bench_now() - begin) {
		if (bench_time_start(o, &a, &c, e))
			return -1;
		bench_add(&opened, 1e3 * a);
		bench_add(&token, 1e3 * c);
	}
	r->start_ms = bench_figure(&opened);
	r->start_to_first_token_ms = bench_figure(&token);
	return 0;
}
