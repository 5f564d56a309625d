/* See mpi_world.h. Open MPI says little of processes that ended, so each process of this machine is
 * watched by a descriptor of its own; those of others MPI's daemons watch: they end all. */
#include "engine/ranks/mpi_world.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/version.h"
#include "kernels/kernels.h"

struct mpi_world mpi_world;

/* ---- the module ---- */

static const char what_to_do[] =
	"ranks that are processes need MPI: `make mpi` installs it and builds cutaway-mpi.so "
	"(Debian: openmpi-bin libopenmpi-dev; elsewhere an MPI with mpicc), which lies beside the "
	"program or is named by CUTAWAY_MPI; without it: --tensor-parallel alone, with threads";

/* Where it may be: named, beside the program, or where `make install` puts it. */
static bool module_path(int i, char path[static PATH_MAX])
{
	char program[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

	program[n > 0 ? n : 0] = '\0';
	return snprintf(path, PATH_MAX, i ? "%s/../lib/cutaway/cutaway-mpi.so" : "%s/cutaway-mpi.so",
			   dirname(program)) < PATH_MAX;
}

static int open_module(const char *path, struct err *e)
{
	/* MPI opens parts of its own, which look for its names among all that are loaded */
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	const struct mpi_module *m = library ? dlsym(library, "cutaway_mpi") : NULL;

	if (!library)
		return err_set(e, ERR_USAGE, "%s; %s", dlerror(), what_to_do);
	if (!m || m->version != MPI_MODULE_VERSION)
		return err_set(e, ERR_USAGE, "%s is not of this version of cutaway: `make mpi`", path);
	mpi_world.mpi = m;
	return 0;
}

static int find_module(struct err *e)
{
	const char *named = getenv("CUTAWAY_MPI");
	char path[PATH_MAX];

	if (named && *named)
		return open_module(named, e);
	for (int i = 0; i < 2; i++)
		if (module_path(i, path) && !access(path, R_OK))
			return open_module(path, e);
	return err_set(e, ERR_USAGE, "%s", what_to_do);
}

/* ---- who there is ---- */

/* The same in all versions, since it tells them apart. */
struct hello {
	char version[32], host[64], boot[40];
	int64_t arithmetic, process, space; /* the space that process numbers are of */
};

static void read_boot(char boot[static 40])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, boot, 36) != 36)
		boot[0] = '\0';
	if (fd >= 0)
		close(fd);
}

static struct hello own_hello(void)
{
	struct hello h = {
		.version = CUTAWAY_VERSION, .arithmetic = K_ARITH_VERSION, .process = getpid()
	};
	struct stat st;

	if (gethostname(h.host, sizeof h.host - 1))
		h.host[0] = '\0';
	read_boot(h.boot);
	h.space = stat("/proc/self/ns/pid", &st) ? 0 : (int64_t)st.st_ino;
	return h;
}

static void meet_peer(struct mpi_peer *p, const struct hello *its, const struct hello *own)
{
	p->process = its->process;
	memcpy(p->host, its->host, sizeof p->host);
	p->fd = -1;
	if (!its->boot[0] || strcmp(its->boot, own->boot) != 0 || its->space != own->space)
		return;
	p->fd = (int)syscall(SYS_pidfd_open, (pid_t)its->process, 0);
	p->gone = p->fd < 0 && errno == ESRCH;
}

/* Rank 0 says why; it would be killed before, since mpirun ends all when one of them ends. */
static void let_first_say(void)
{
	struct pollfd first = { mpi_world.peer[0].fd, POLLIN, 0 };

	if (mpi_world.rank)
		poll(&first, 1, 2000);
}

static int meet(struct err *e)
{
	struct hello all[TRANSPORT_RANKS], own = own_hello();
	char why[MPI_WHY] = "";

	if (mpi_world.n > TRANSPORT_RANKS)
		return err_set(e, ERR_USAGE, "%d processes were started; at most %d can be ranks",
			mpi_world.n, TRANSPORT_RANKS);
	if (mpi_world.mpi->gather(&own, all, sizeof own, why))
		return err_set(e, ERR_DEVICE, "MPI: %s", why);
	for (int32_t r = 0; r < mpi_world.n; r++)
		meet_peer(&mpi_world.peer[r], &all[r], &own);
	for (int32_t r = 1; r < mpi_world.n; r++)
		if (strcmp(all[r].version, all[0].version) || all[r].arithmetic != all[0].arithmetic) {
			let_first_say();
			return err_set(e, ERR_USAGE,
				"rank %d on %s is cutaway %s (arithmetic %lld), rank 0 is %s (%lld): all have to "
				"be of one version",
				r, all[r].host, all[r].version, (long long)all[r].arithmetic, all[0].version,
				(long long)all[0].arithmetic);
		}
	return 0;
}

int32_t mpi_world_ended(void)
{
	struct pollfd p[TRANSPORT_RANKS];
	const int32_t n = mpi_world.rank ? 1 : mpi_world.n;

	for (int32_t r = 0; r < n; r++) {
		if (mpi_world.peer[r].gone)
			return r;
		p[r] = (struct pollfd){ r == mpi_world.rank ? -1 : mpi_world.peer[r].fd, POLLIN, 0 };
	}
	if (poll(p, (nfds_t)n, 0) > 0)
		for (int32_t r = 0; r < n; r++)
			if (p[r].revents)
				return r;
	return -1;
}

bool mpi_world_is_traced(int32_t rank)
{
	char path[64], text[512];
	const char *end;
	ssize_t n;
	int fd;

	if (mpi_world.peer[rank].fd < 0)
		return false;
	snprintf(path, sizeof path, "/proc/%lld/stat", (long long)mpi_world.peer[rank].process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')'); /* of the name, which may have any letters */
	return end && end[1] == ' ' && end[2] == 't';
}

const char *mpi_world_name(int32_t rank, char text[static 96])
{
	const struct mpi_peer *p = &mpi_world.peer[rank];

	snprintf(text, 96, " (process %lld on %.60s)", (long long)p->process, p->host);
	return text;
}

/* ---- beginning ---- */

bool transport_mpi_started(void)
{
	static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const char *n = getenv(sizes[i]);

		if (n && atoi(n) > 1)
			return true;
	}
	return getenv(MPI_SPAWNED) != NULL;
}

static int join(struct err *e)
{
	char why[MPI_WHY] = "";

	return mpi_world.mpi->begin(1, NULL, NULL, why) ? err_set(e, ERR_DEVICE, "MPI: %s", why) : 0;
}

int mpi_world_begin(int32_t n, struct err *e)
{
	int failed;

	if (find_module(e))
		return -1;
	if (transport_mpi_started() ? join(e) : mpi_world_spawn(n, e)) {
		mpi_world_met();
		mpi_world.mpi = NULL;
		return -1;
	}
	mpi_world.rank = mpi_world.mpi->rank();
	mpi_world.n = mpi_world.mpi->size();
	failed = meet(e);
	mpi_world_met();
	if (!failed)
		return 0;
	mpi_world.mpi->end(); /* all ranks saw what this one saw */
	mpi_world.mpi = NULL;
	return -1;
}
