/* See score_command.h. The text goes through a file without a name, so that a command which does not read it all
 * cannot hold us up. */
#include "cli/score_command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 4096 }; /* of the output that is looked at */

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
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* All of it is read, so that the command can end. */
static void read_all(int fd, char out[LONGEST])
{
	char rest[512];
	size_t n = 0;

	for (;;) {
		ssize_t got = n < LONGEST - 1 ? read(fd, out + n, LONGEST - 1 - n) : read(fd, rest, sizeof rest);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += n < LONGEST - 1 ? (size_t)got : 0;
	}
	out[n] = '\0';
}

static int run(const char *command, int in, char out[LONGEST], struct err *e)
{
	int pipes[2], status;
	pid_t pid;

	if (pipe(pipes))
		return err_set(e, ERR_IO, "no pipe for --score: %s", strerror(errno));
	pid = start(command, in, pipes[1]);
	close(pipes[1]);
	if (pid < 0) {
		close(pipes[0]);
		return err_set(e, ERR_IO, "--score: the command cannot be started: %s", strerror(errno));
	}
	read_all(pipes[0], out);
	close(pipes[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return err_set(e, ERR_INPUT, "--score: '%.60s' ended with status %d", command,
				   WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

bool score_command(void *arg, const char *text, size_t size, double *score, struct err *e)
{
	const char *command = arg;
	char out[LONGEST], *end;
	FILE *f = file_of(text, size, e);
	int failed;

	if (!f)
		return false;
	failed = run(command, fileno(f), out, e);
	fclose(f);
	if (failed)
		return false;
	*score = strtod(out, &end);
	if (end == out || !isfinite(*score)) {
		err_set(e, ERR_INPUT, "--score: '%.60s' gave no number, but \"%.40s\"", command, out);
		return false;
	}
	return true;
}
