/* See open.h. */
#include "cli/open.h"

#include <unistd.h>

#include "base/models.h"
#include "base/paths.h"
#include "cli/out.h"
#include "kernels/kernels.h"
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
	char *found = NULL;
	int rc;

	if (given && models_find(given, &found, e))
		return -1;
	if (!given && model_find(c, &found, NULL))
		found = NULL;
	rc = verify_model(h, given ? found : NULL, found, path, e);
	free(found);
	return rc;
}

static void note_fallback(const struct cli *c, const struct engine *e)
{
	const char *why = engine_info(e)->fallback;

	if (*why && (cli_given(c, "backend") || k_devices(NULL, 0, NULL) > 0))
		out_complain("computing on the CPU: %s", why);
}

/* Warns of what the recording lacks. own: the default path; NULL: --record named one, or none. */
static void note_record(const struct session *s, const char *own, const struct err *no_path)
{
	if (no_path->code || s->record_err.code)
		out_complain("not recorded: %s", no_path->code ? no_path->text : s->record_err.text);
	if (s->record_err.code && own)
		paths_drop_recording(own);
	if (s->writer && s->hash_err.code)
		out_complain("the recording does not know the model's hash: %s", s->hash_err.text);
}

static int open_recorded(
	struct session *s, const struct cli *c, struct session_options *o, struct err *e)
{
	struct err no_path = { 0 };
	char *own = NULL;
	o->record = c->no_record ? NULL : c->record;
	if (!c->no_record && !c->record && !paths_new_recording(NULL, &own, &no_path))
		o->record = own;
	o->record_or_not = own != NULL;
	int rc = session_open(s, o, e);
	if (rc && own)
		paths_drop_recording(own);
	if (!rc) {
		note_fallback(c, s->engine);
		note_record(s, own, &no_path);
	}
	free(own);
	return rc;
}

int cli_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e)
{
	struct session_options o = { .engine = c->engine, .sink = sink, .arg = arg };
	char *model = NULL;
	if (model_find(c, &model, e))
		return -1;
	o.engine.model = model;
	int rc = open_recorded(s, c, &o, e);
	free(model);
	if (rc)
		return -1;
	if (!s->writer)
		engine_observe(s->engine, false);
	return session_begin(s, NULL, NULL, e);
}

int cli_close(struct session *s, const struct cli *c, struct err *e)
{
	struct err why = { 0 };
	if (!session_close(s, &why))
		return 0;
	if (c->record)
		return err_set(e, why.code, "the recording is not whole: %s", why.text);
	out_complain("the recording is not whole: %s", why.text);
	return 0;
}
