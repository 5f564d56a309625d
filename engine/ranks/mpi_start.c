/* The start of others by MPI, with this process's terminal left alone. Part of mpi_world.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "engine/ranks/mpi_world.h"

enum { TICK_NS = 50000000, START_TICKS = 1200 };

/* What MPI's daemon for the others prints, it may print at any time, and it would take the keys: it
 * gets other standard files than this process. Its first words are kept. */
struct standard {
	int said, saved[3];
};

static void divert(struct standard *s)
{
	int from = open("/dev/null", O_RDWR | O_CLOEXEC);

	s->said = memfd_create("cutaway-mpi", MFD_CLOEXEC);
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		s->saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
		dup2(i && s->said >= 0 ? s->said : from, i);
	}
	if (from >= 0)
		close(from);
}

static void restore(struct standard *s, char *words, size_t size)
{
	ssize_t n = s->said < 0 ? 0 : pread(s->said, words, size - 1, 0);
	char *to = words;

	for (int i = 0; i < 3; i++) {
		dup2(s->saved[i], i);
		close(s->saved[i]);
	}
	if (s->said >= 0)
		close(s->said);
	for (ssize_t i = 0; i < n; i++) { /* as one line, without rules */
		const char c = (unsigned char)words[i] < ' ' ? ' ' : words[i];

		if ((c != ' ' && c != '-') || (to > words && to[-1] != c))
			*to++ = c;
	}
	*to = '\0';
}

/* MPI waits without end for a process that ends before all have met, so a thread watches them: they
 * are children of the daemon, which is a child of this process. */
static struct watch {
	pthread_t thread;
	bool runs;
	int says; /* standard error */
	atomic_bool met;
} watching;

/* Calls fn for each child of a process; returns how many there are. */
static int32_t children(int64_t process, int32_t (*fn)(int64_t child), int32_t *sum)
{
	char path[64];
	long long child;
	int32_t n = 0;
	FILE *f;

	snprintf(
		path, sizeof path, "/proc/%lld/task/%lld/children", (long long)process, (long long)process);
	f = fopen(path, "re");
	while (f && fscanf(f, "%lld", &child) == 1) {
		n++;
		*sum += fn ? fn(child) : 0;
	}
	if (f)
		fclose(f);
	return n;
}

static int32_t count_children(int64_t process)
{
	int32_t ignored = 0;

	return children(process, NULL, &ignored);
}

static void give_up(const struct watch *w, const char *why)
{
	dprintf(w->says, "cutaway: MPI could not start the ranks: %s\n", why);
	_exit(ERR_DEVICE); /* the daemon ends the others */
}

static void *watch(void *arg)
{
	const struct watch *w = arg;
	int32_t most = 0;

	for (int32_t tick = 0; !atomic_load(&w->met); tick++) {
		int32_t n = 0;

		children(getpid(), count_children, &n);
		most = n > most ? n : most;
		if (n < most && !atomic_load(&w->met))
			give_up(w, "one of them has ended");
		if (tick == START_TICKS)
			give_up(w, "it took more than a minute");
		nanosleep(&(struct timespec){ .tv_nsec = TICK_NS }, NULL);
	}
	return NULL;
}

static void watch_begin(void)
{
	struct watch *w = &watching;
	sigset_t before;

	w->says = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	atomic_store(&w->met, false);
	signals_block(&before);
	w->runs = !pthread_create(&w->thread, NULL, watch, w);
	signals_restore(&before);
}

void mpi_world_met(void)
{
	struct watch *w = &watching;

	if (!w->runs)
		return;
	atomic_store(&w->met, true);
	pthread_join(w->thread, NULL);
	if (w->says >= 0)
		close(w->says);
	w->runs = false;
}

int mpi_world_spawn(int32_t n, struct err *e)
{
	char program[PATH_MAX], folder[PATH_MAX], why[MPI_WHY] = "", words[320];
	const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	struct standard files;
	int failed;

	if (length <= 0 || !getcwd(folder, sizeof folder))
		return err_set(e, ERR_IO, "this program or its folder has no name: %s", strerror(errno));
	program[length] = '\0';
	setenv(MPI_SPAWNED, "1", 1);
	watch_begin();
	divert(&files);
	failed = mpi_world.mpi->begin(n, program, folder, why);
	restore(&files, words, sizeof words);
	unsetenv(MPI_SPAWNED);
	mpi_world.starter = true;
	return failed ? err_set(e, ERR_DEVICE, "MPI starts no %d ranks: %s%s%.300s", n, why,
						*words ? ": " : "", words)
				  : 0;
}
