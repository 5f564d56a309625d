/* See score_command.h. The text goes through a file without a name, so that a command which does not read it all
 * cannot hold us up. */
#include "cli/score_command.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 4096, LOOK_MS = 5 }; /* of the output that is looked at; between looks at whether it ended */

static FILE *file_of(const char *text, size_t size, struct err *e)
{
	FILE *f = tmpfile();

	if (f && fwrite(text, 1, size, f) == size && !fflush(f) && !fseek(f, 0, SEEK_SET))
		return f;
	err_set(e, ERR_IO, "the text for --score could not be written: %s", strerror(errno));
	if (f)
		fclose(f);
	return NULL;
}

static pid_t start(const char *command, int in, int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setpgid(0, 0); /* with all that it starts, so that all of it can be ended */
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* What is there by now; false: that was the end. */
static bool read_some(int fd, char out[LONGEST], size_t *n)
{
	char rest[512];
	bool room = *n < LONGEST - 1;
	ssize_t got = room ? read(fd, out + *n, LONGEST - 1 - *n) : read(fd, rest, sizeof rest);

	if (got > 0 && room)
		*n += (size_t)got;
	return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Until it ends (what it started may live on and hold the pipe), or until somebody wants no answer any more. */
static bool wait_for(const struct score_command *c, pid_t pid, int fd, char out[LONGEST], int *status)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool open = true, ended = false;
	size_t n = 0;

	while (!ended) {
		if (c->interrupted && atomic_load(c->interrupted)) {
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL); /* it may not have its group yet */
			while (waitpid(pid, status, 0) < 0 && errno == EINTR)
				;
			return false;
		}
		p.fd = open ? fd : -1;
		if (poll(&p, 1, LOOK_MS) > 0)
			open = read_some(fd, out, &n);
		ended = waitpid(pid, status, WNOHANG) == pid;
	}
	while (open && poll(&p, 1, 0) > 0 && n < LONGEST - 1)
		open = read_some(fd, out, &n);
	out[n] = '\0';
	return true;
}

static int run(const struct score_command *c, int in, char out[LONGEST], struct err *e)
{
	int pipes[2], status = 0;
	bool answered;
	pid_t pid;

	if (pipe(pipes))
		return err_set(e, ERR_IO, "no pipe for --score: %s", strerror(errno));
	pid = start(c->command, in, pipes[1]);
	close(pipes[1]);
	if (pid < 0) {
		close(pipes[0]);
		return err_set(e, ERR_IO, "--score: the command cannot be started: %s", strerror(errno));
	}
	answered = wait_for(c, pid, pipes[0], out, &status);
	close(pipes[0]);
	if (!answered)
		return err_set(e, ERR_INTERRUPTED, "interrupted while '%.60s' judged an answer", c->command);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_INPUT, "--score: '%.60s' was killed by signal %d", c->command, WTERMSIG(status));
	if (!WEXITSTATUS(status))
		return 0;
	return err_set(e, ERR_INPUT, "--score: '%.60s' ended with status %d", c->command, WEXITSTATUS(status));
}

bool score_command(void *arg, const char *text, size_t size, double *score, struct err *e)
{
	const struct score_command *c = arg;
	char out[LONGEST], *end;
	FILE *f = file_of(text, size, e);
	int failed;

	if (!f)
		return false;
	failed = run(c, fileno(f), out, e);
	fclose(f);
	if (failed)
		return false;
	*score = strtod(out, &end);
	if (end == out || !isfinite(*score)) {
		err_set(e, ERR_INPUT, "--score: '%.60s' gave no number, but \"%.40s\"", c->command, out);
		return false;
	}
	return true;
}
