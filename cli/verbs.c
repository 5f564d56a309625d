/* The list of verbs and that of exit statuses. */
#include "cli/cli.h"

const struct verb *const verbs[] = {
#define X(name) &verb_##name,
	VERBS(X)
#undef X
	NULL,
};

const struct exit_code exit_codes[] = {
	{0, "all is well"},
	{ERR_DIFFERS, "a check ran and found a difference"},
	{ERR_USAGE, "the command line or a setting is wrong"},
	{ERR_INPUT, "a file is damaged or not supported"},
	{ERR_IO, "the system refused: missing file, full disk, permissions"},
	{ERR_MEMORY, "out of memory"},
	{ERR_DEVICE, "this machine cannot compute as it must"},
	{ERR_INTERRUPTED, "stopped by Ctrl-C"},
	{0, NULL},
};
