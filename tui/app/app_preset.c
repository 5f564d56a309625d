/* /preset: the settings that differ from their defaults, kept under a name. See app.h. */
#include <errno.h>
#include <unistd.h>

#include "base/preset.h"
#include "base/whole_file.h"
#include "tui/app/app.h"

static int save(struct app *a, const char *name, struct err *e)
{
	struct whole_file f;
	char *path, value[SAMPLE_BIAS_TEXT];
	int n = 0, rc = preset_path(name, &path, e);

	if (rc)
		return rc;
	if (!access(path, F_OK))
		rc = err_set(
			e, ERR_USAGE, "there is a preset %s: /preset delete %s, or another name", name, name);
	rc = rc ? rc : whole_file_open(&f, path, e);
	if (!rc) {
		for (const struct command *c = commands; c->s; c++)
			if (app_is_changed(a, c) && commands_value(&a->host, c, value, sizeof value)) {
				preset_put(f.out, c->s->name, value);
				n++;
			}
		rc = whole_file_close(&f, 0, e);
	}
	if (!rc)
		app_say(a, SAY_INFO, "preset %s has %d setting%s; cutaway --preset %s begins with it", name,
			n, plural(n), name);
	free(path);
	return rc;
}

static int delete (struct app *a, const char *name, struct err *e)
{
	char *path;
	int rc = preset_path(name, &path, e);

	if (rc)
		return rc;
	if (unlink(path))
		rc = err_set(e, ERR_IO, "preset %s: %s", name, strerror(errno));
	else
		app_say(a, SAY_INFO, "preset %s is deleted", name);
	free(path);
	return rc;
}

static int set(void *arg, const char *name, const char *value, struct err *e)
{
	struct app *a = arg;
	char *line;
	int rc;

	if (asprintf(&line, "/set %s %s", name, value) < 0)
		return err_no_memory(e, "a setting");
	rc = commands_run(&a->host, line, e);
	free(line);
	return rc < 0 ? -1 : 0;
}

/* "temp 0.3, top-k 40" */
static int tell(void *arg, const char *name, const char *value, struct err *e)
{
	FILE *out = arg;

	(void)e;
	fprintf(out, "%s%s %.40s", ftell(out) ? ", " : "", name, value);
	return 0;
}

static void list(struct app *a)
{
	char *name;

	palette_begin(&a->palette, "presets", "");
	for (int i = 0; (name = preset_name(i)); i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		struct err ignored = { 0 };

		if (out && (preset_read(name, tell, out, &ignored), !fclose(out)))
			palette_add(&a->palette, &(struct palette_item){ .group = "",
										 .name = name,
										 .text = text,
										 .line = view_form("/preset %s", name).text });
		free(text);
		free(name);
	}
	palette_add(&a->palette, &(struct palette_item){ .group = "",
								 .name = "save",
								 .text = "the settings that differ from their defaults",
								 .line = "/preset save " });
	palette_show(&a->palette);
	a->dirty = true;
}

int app_preset(struct app *a, const char *text, struct err *e)
{
	if (!*text)
		list(a);
	else if (!strncmp(text, "save ", 5))
		return save(a, text + 5, e);
	else if (!strncmp(text, "delete ", 7))
		return delete (a, text + 7, e);
	else if (preset_read(text, set, a, e))
		return -1;
	else
		app_say(a, SAY_INFO, "preset %s is set; /settings shows what differs", text);
	return 0;
}
