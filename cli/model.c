/* Finds the model file. Thread: main's. */
#include "cli/model.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/models.h"
#include "sessions/verify/verify.h"

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

int model_find_recorded(
	const struct cli *c, const struct history *h, const char *given, char **path, struct err *e)
{
	char *fallback = NULL;
	int rc;

	if (model_find(c, &fallback, NULL))
		fallback = NULL;
	rc = verify_model(h, given, fallback, path, e);
	free(fallback);
	return rc;
}
