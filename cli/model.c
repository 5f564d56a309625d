/* Finds the model file. Thread: main's. */
#include "cli/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"

#define MODEL_NAME "SmolLM2-135M-Instruct.Q4_1.gguf"

/* Folder of the running program; "." if it cannot be known. */
static void program_folder(char *buf, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", buf, cap - 1);
	buf[n > 0 ? n : 0] = 0;
	char *slash = strrchr(buf, '/');
	if (slash)
		*slash = 0;
	else
		snprintf(buf, cap, ".");
}

static int find_default(char **path, struct err *e)
{
	char folder[4096];
	char *data = NULL;
	program_folder(folder, sizeof folder);
	if (paths_data("models/" MODEL_NAME, &data, NULL))
		data = NULL;
	const struct {
		const char *folder, *rest;
	} place[] = {
		{ folder, "/models/" MODEL_NAME },
		{ folder, "/../share/cutaway/models/" MODEL_NAME },
		{ ".", "/models/" MODEL_NAME },
		{ data ? data : "", "" },
	};
	int status = -1;
	for (size_t i = 0; status && i < sizeof place / sizeof *place; i++) {
		char *at = NULL;
		if (asprintf(&at, "%s%s", place[i].folder, place[i].rest) < 0)
			break;
		if (!access(at, F_OK)) {
			*path = at;
			status = 0;
		} else {
			free(at);
		}
	}
	free(data);
	if (status)
		err_set(e, ERR_IO,
			"there is no model yet: `make model` fetches one (98 MB), or name a GGUF file with "
			"--model FILE");
	return status;
}

int model_find(const struct cli *c, char **path, struct err *e)
{
	if (!c->engine.model)
		return find_default(path, e);
	*path = strdup(c->engine.model);
	return *path ? 0 : err_set(e, ERR_MEMORY, "out of memory");
}
