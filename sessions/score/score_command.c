/* See score_command.h. The text is passed in an unnamed file, so that a command which does not read
 * it all cannot block; so is its standard error if `quiet`. */
#include "sessions/score/score_command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"

enum {
	READS = 64, /* per call: a command with endless output does not block the caller */
	OUTPUT_ERROR = 160,
};

/* ---- it begins ---- */

static void close_all(struct score_command *c)
{
	close(c->out);
	if (c->errors >= 0)
		close(c->errors);
}

static int begin(struct score_command *c, const char *text, size_t size, struct err *e)
{
	const char *const argv[] = { "/bin/sh", "-c", c->command, NULL };
	int in = spawn_input(text, size), pipes[2], failed;

	if (in < 0 || pipe2(pipes, O_CLOEXEC)) {
		err_set(e, ERR_IO, "no file or pipe for '%.60s': %s", c->command, strerror(errno));
		if (in >= 0)
			close(in);
		return -1;
	}
	c->n = 0;
	c->out = pipes[0];
	c->errors = c->quiet ? memfd_create("errors", MFD_CLOEXEC) : -1;
	failed = spawn(argv, in, pipes[1], c->errors, &c->pid);
	close(in);
	close(pipes[1]);
	if (!failed)
		return 0;
	c->pid = 0;
	close_all(c);
	return err_set(e, ERR_IO, "'%.60s' cannot be started: %s", c->command, strerror(failed));
}

/* ---- it runs ---- */

/* Reads the output so far; what does not fit is discarded, so that the command can go on. */
static void read_some(struct score_command *c, int wait_ms)
{
	struct pollfd p = { .fd = c->out, .events = POLLIN };

	for (int i = 0; i < READS && poll(&p, 1, wait_ms) > 0; i++) {
		bool room = c->n < SCORE_OUTPUT - 1;
		char rest[SCORE_OUTPUT];
		ssize_t got = room ? read(c->out, c->output + c->n, SCORE_OUTPUT - 1 - c->n)
						   : read(c->out, rest, sizeof rest);

		if (got > 0) {
			c->n += room ? (size_t)got : 0;
			wait_ms = 0;
		} else if (!got || errno != EINTR) {
			p.fd = -1; /* closed, but it may live on: the next poll just waits */
		}
	}
}

static void stop(struct score_command *c)
{
	if (!c->pid)
		return;
	kill(-c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	close_all(c);
}

/* ---- it has ended ---- */

static void one_line(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = ' ';
}

/* The last line of its standard error, after ": ", as far as there is room; or "". */
static void last_error(const struct score_command *c, char out[OUTPUT_ERROR])
{
	char output[OUTPUT_ERROR - 2], *line;
	off_t size = c->errors < 0 ? 0 : lseek(c->errors, 0, SEEK_END), room = (off_t)sizeof output - 1;
	ssize_t n =
		size > 0 ? pread(c->errors, output, (size_t)room, size > room ? size - room : 0) : 0;

	while (n > 0 && isspace((unsigned char)output[n - 1]))
		n--;
	output[n > 0 ? n : 0] = '\0';
	line = strrchr(output, '\n');
	snprintf(out, OUTPUT_ERROR, "%s%s", *output ? ": " : "", line ? line + 1 : output);
	one_line(out);
}

static int number_of(struct score_command *c, int status, double *score, struct err *e)
{
	char errors[OUTPUT_ERROR], *end;

	if (WIFSIGNALED(status))
		return err_set(
			e, ERR_INPUT, "'%.60s' was killed by signal %d", c->command, WTERMSIG(status));
	last_error(c, errors);
	if (WEXITSTATUS(status))
		return err_set(e, ERR_INPUT, "'%.60s' ended with status %d%s", c->command,
			WEXITSTATUS(status), errors);
	*score = strtod(c->output, &end);
	if (end != c->output && isfinite(*score))
		return 0;
	one_line(c->output);
	return err_set(
		e, ERR_INPUT, "'%.60s' gave no number, but \"%.40s\"%s", c->command, c->output, errors);
}

enum score_verdict score_command(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e)
{
	struct score_command *c = arg;
	int status = 0, failed;
	siginfo_t ended = { 0 };

	if (!text) {
		stop(c);
		return SCORE_FAILED;
	}
	if (!c->pid && begin(c, text, size, e))
		return SCORE_FAILED;
	read_some(c, wait_ms);
	if (waitid(P_PID, (id_t)c->pid, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid)
		return SCORE_LATER;
	read_some(c, 0); /* its last output */
	/* kills what it left running; the group id cannot be reused before waitpid() */
	kill(-c->pid, SIGKILL);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->output[c->n] = '\0';
	failed = number_of(c, status, score, e);
	c->pid = 0;
	close_all(c);
	return failed ? SCORE_FAILED : SCORE_KNOWN;
}
