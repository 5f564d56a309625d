/* Finds the model file. Thread: main's. */
#include "cli/model.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/models.h"

#define MODEL_NAME "SmolLM2-135M-Instruct.Q4_1.gguf"

int model_find(const struct cli *c, char **path, struct err *e)
{
	if (models_find(c->engine.model ? c->engine.model : MODEL_NAME, path, e))
		return -1;
	if (c->engine.model || !access(*path, F_OK))
		return 0;
	free(*path);
	*path = NULL;
	return err_set(e, ERR_IO,
		"there is no model yet: `make model` fetches one (98 MB), or name a GGUF file with "
		"--model FILE");
}
