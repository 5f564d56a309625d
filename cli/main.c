/* The program: reads the command line, runs the verb, and is the only place that prints an error
 * and decides the exit status.
 *
 * No locale is set here: numbers are read and written with a decimal point, text is UTF-8, and no
 * byte of a multi-byte character counts as a space. The screens find out the terminal's encoding
 * themselves (tui/term/term.c). */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "engine/ranks/transport.h"
#include "kernels/kernels.h"

static void print_version(void)
{
	printf("cutaway %s (arithmetic %d)\nbuilt by %s\n", CUTAWAY_VERSION, K_ARITH_VERSION,
		CUTAWAY_BUILD);
	if (*k_cuda_build())
		printf("CUDA kernels for %s\n", k_cuda_build());
	else
		printf("no CUDA kernels: built without nvcc\n");
	printf("Sources: MIT licence. This program is linked with GNU readline and as a whole falls "
		   "under the\n"
		   "GNU GPL, version 3 or later. There is no warranty.\n");
}

/* A program may be started with some of descriptors 0 to 2 closed. The next file opened, a
 * recording, would get that number, and output would overwrite it. The placeholders are opened in
 * the wrong direction, so that using them still fails. */
static void open_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return; /* nothing can be opened, so no recording either */
}

/* A page of a mapped file is gone, for example because a recording's -shm was truncated. All that
 * was committed is in the recording, as after any kill. */
static void on_bus_error(int signal)
{
	static const char text[] =
		"cutaway: a file was cut short while it was in use (a recording's -shm?), and the program "
		"cannot go on; what was recorded is whole up to here\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(ERR_IO);
	_exit(ERR_IO);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	struct cli c;
	open_standard_files();
	signal(SIGBUS, on_bus_error);
	/* a closed pipe and a file at its limit are errors like others: the recording is closed
	 * properly */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (ranks_follow(&e))
		return (int)e.code;
	cli_init(&c);
	if (e.code || out_begin(&e) || cli_parse(&c, argc, argv, &e) || ranks_begin(&c, &e))
		;
	else if (c.help)
		help_print(c.verb);
	else if (c.version)
		print_version();
	else if (c.man)
		help_man();
	else if (c.completion)
		help_completion();
	else
		c.verb->run(&c, &e);
	cli_free(&c);
	out_flush(&e);
	if (e.text[0])
		out_complain("%s", e.text);
	transport_mpi_end((int)e.code); /* other ranks end, too */
	return (int)e.code;
}
