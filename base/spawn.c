/* See spawn.h. Spawned, not forked: a fork would copy the page tables of all weights. */
#include "base/spawn.h"

#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void set_signals(posix_spawnattr_t *how)
{
	sigset_t none, ours;

	sigemptyset(&none);
	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	posix_spawnattr_setsigmask(how, &none);
	posix_spawnattr_setsigdefault(how, &ours);
	posix_spawnattr_setpgroup(how, 0);
	posix_spawnattr_setflags(
		how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

int spawn(const char *const argv[], int in, int out, int errors, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	int failed = posix_spawn_file_actions_init(&files);

	if (failed)
		return failed;
	failed = posix_spawnattr_init(&how);
	if (failed) {
		posix_spawn_file_actions_destroy(&files);
		return failed;
	}
	set_signals(&how);
	failed = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	if (!failed)
		failed = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (!failed && errors >= 0)
		failed = posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
	if (!failed)
		failed = posix_spawnp(pid, argv[0], &files, &how, (char **)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return failed;
}

int spawn_input(const char *text, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	for (ssize_t n = 0; fd >= 0 && size; text += n, size -= (size_t)n) {
		n = write(fd, text, size);
		if (n < 0) {
			close(fd);
			return -1;
		}
	}
	return fd >= 0 && lseek(fd, 0, SEEK_SET) < 0 ? (close(fd), -1) : fd;
}
