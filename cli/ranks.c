/* The ranks of the program: see cli.h. Thread: main's. */
#include "cli/cli.h"

#include <signal.h>
#include <unistd.h>

#include "cli/out.h"
#include "engine/core/engine_follow.h"

static int32_t n_started = 1; /* processes that were started with this one */

/* Where there is no MPI to ask, what mpirun leaves in the environment: one of them complains. */
static bool is_first(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	if (!rank)
		rank = getenv("PMI_RANK");
	return !rank || !strcmp(rank, "0");
}

bool ranks_follow(struct err *e)
{
	int32_t rank = is_first() ? 0 : 1;

	if (!transport_mpi_started())
		return false;
	if (transport_mpi_begin(1, &rank, &n_started, e) || !rank)
		return rank != 0;
	/* mpirun sends them to all ranks, and the others end when rank 0 has ended */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	engine_follow_all(e);
	transport_mpi_end((int)e->code);
	return true;
}

static bool takes_ranks(struct cli *c)
{
	struct option o;

	for (int i = 0; option_at(c, i, &o); i++)
		if (!strcmp(o.s->name, "ranks"))
			return c->verb && option_taken(&o, c->verb);
	return false;
}

int ranks_begin(struct cli *c, struct err *e)
{
	int32_t rank, size;

	if (!takes_ranks(c))
		return 0;
	if (n_started > 1 && cli_given(c, "ranks") && c->engine.ranks != n_started)
		return err_set(e, ERR_USAGE, "--ranks %d, but mpirun started %d processes", c->engine.ranks,
			n_started);
	if (n_started > 1 && !strcmp(c->verb->name, "chat") && !isatty(STDIN_FILENO))
		return err_set(e, ERR_USAGE,
			"mpirun leaves rank 0 no terminal: `cutaway chat --ranks %d` starts the others by "
			"itself; over several machines, `mpirun … cutaway serve`, and `cutaway attach` to it",
			n_started);
	if (n_started > 1)
		c->engine.ranks = n_started;
	transport_note = out_complain;
	return c->engine.ranks > 1 ? transport_mpi_begin(c->engine.ranks, &rank, &size, e) : 0;
}
