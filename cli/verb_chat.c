/* cutaway chat and cutaway replay: the terminal program. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "tui/tui.h"

static struct tui_options screen_options(const struct cli *c)
{
	if (!strcmp(c->theme, "dark"))
		unsetenv("COLORFGBG"); /* the terminal's hint that its ground is light */
	return (struct tui_options){
		.ascii = c->ascii,
		.no_color = !strcmp(c->theme, "mono"),
		.light = !strcmp(c->theme, "light"),
	};
}

int verb_chat(const struct cli *c, struct err *e)
{
	struct tui_options o = screen_options(c);
	struct err why = {0};
	char *model = NULL, *history = NULL, *record = NULL;
	char sha256[SHA256_HEX];
	if (model_find(c, &model, e))
		return -1;
	if (!c->no_record && !c->record && paths_new_recording(&record, &why))
		fprintf(stderr, "cutaway: not recorded: %s\n", why.text);
	if (paths_history(&history, &why))
		history = NULL; /* a prompt without a memory is still a prompt */
	o.engine = c->engine;
	o.engine.model = model;
	o.engine.measure = true;
	o.params = c->params;
	o.system = c->system;
	o.max_tokens = c->max_tokens;
	o.stop = c->stop[0] ? c->stop : NULL;
	o.record = c->no_record ? NULL : c->record ? c->record : record;
	o.model_sha256 = file_sha256_cached(model, sha256, NULL) ? NULL : sha256;
	o.commands = c->commands;
	o.history = history;
	o.drop_turns = !strcmp(c->full, "drop");
	tui_chat(&o, e);
	free(record);
	free(history);
	free(model);
	return e->code ? -1 : 0;
}

int verb_replay(const struct cli *c, struct err *e)
{
	struct tui_options o = screen_options(c);
	return tui_replay(c->operand[0], &o, e);
}
