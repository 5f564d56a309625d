/* A second `cutaway replay --follow` beside a session: this program once more, on a pseudo-terminal of 120 x 40, whose
 * output a thread reads and throws away, as a terminal would. While it is to be away it is stopped.
 * Thread: bench_run's, and the reader. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sessions/bench_impl.h"

enum { COLUMNS = 120, ROWS = 40, TRIES = 50 };

struct follower {
	pid_t pid;
	int terminal;
	pthread_t reader;
	atomic_llong read; /* bytes that it drew */
};

static void *read_terminal(void *arg)
{
	struct follower *f = arg;
	char bytes[16384];
	ssize_t n;

	while ((n = read(f->terminal, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR))
		atomic_fetch_add(&f->read, n > 0 ? n : 0);
	return NULL; /* EIO: nobody has the other end any more */
}

static _Noreturn void child(const char *terminal, const char *file)
{
	struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};
	int fd;

	setsid();
	fd = open(terminal, O_RDWR);
	if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) || ioctl(fd, TIOCSWINSZ, &size) || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 ||
		dup2(fd, 2) < 0)
		_exit(1);
	setenv("TERM", "xterm-256color", 1);
	execl("/proc/self/exe", "cutaway", "replay", "--follow", file, (char *)NULL);
	_exit(1);
}

static int spawn(struct follower *f, const char *file)
{
	char name[64];

	f->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (f->terminal < 0 || grantpt(f->terminal) || unlockpt(f->terminal) || ptsname_r(f->terminal, name, sizeof name))
		return -1;
	f->pid = fork();
	if (f->pid == 0)
		child(name, file);
	return f->pid < 0 ? -1 : 0;
}

/* Until it has drawn and stands still, or ended. */
static bool wait_drawn(struct follower *f)
{
	for (int i = 0; i < TRIES; i++) {
		long long before = atomic_load(&f->read);

		usleep(100000);
		if (waitpid(f->pid, NULL, WNOHANG)) {
			f->pid = -1;
			return false;
		}
		if (before > 0 && atomic_load(&f->read) == before)
			return true;
	}
	return atomic_load(&f->read) > 0;
}

void bench_follower_turn(struct bench *b, bool on)
{
	kill(b->follower->pid, on ? SIGCONT : SIGSTOP);
}

struct follower *bench_follower_open(const char *file)
{
	struct follower *f = calloc(1, sizeof *f);

	if (!f)
		return NULL;
	if (spawn(f, file) || pthread_create(&f->reader, NULL, read_terminal, f)) {
		if (f->pid > 0) {
			kill(f->pid, SIGKILL);
			waitpid(f->pid, NULL, 0);
		}
		if (f->terminal >= 0)
			close(f->terminal);
		free(f);
		return NULL;
	}
	if (wait_drawn(f))
		return f;
	bench_follower_close(f);
	return NULL;
}

int64_t bench_follower_drew(struct follower *f)
{
	return atomic_load(&f->read);
}

void bench_follower_close(struct follower *f)
{
	if (f->pid > 0) {
		kill(f->pid, SIGCONT);
		kill(f->pid, SIGTERM);
		while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	pthread_join(f->reader, NULL);
	close(f->terminal);
	free(f);
}
