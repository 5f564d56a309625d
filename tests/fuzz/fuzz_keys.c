/* Fuzz target: keys and pastes into the prompt, finished lines into the / commands, completion and
 * drawing at sizes that change. What must hold: no crash, and nothing in the canvas that a terminal
 * could obey. */
#include <assert.h>
#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/app/commands.h"
#include "tui/term/prompt.h"
#include "tui/term/term_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Readline 8.2 forgets a few bytes of its own when invalid UTF-8 is typed. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libreadline";
}

static struct answer_settings settings;

static int host_set(void *arg, const char *name, const char *value, struct err *e)
{
	(void)arg, (void)name, (void)value, (void)e;
	return 0;
}
static int host_get(void *arg, const char *name, char *buf, size_t cap)
{
	(void)arg;
	return snprintf(buf, cap, "%s", name) < 0;
}
static void host_note(void *arg, const char *name, const char *value)
{
	(void)arg, (void)name, (void)value;
}
static void host_say(void *arg, const char *text)
{
	(void)arg, (void)text;
}
static int host_act(void *arg, enum command_act act, const char *text, double number, struct err *e)
{
	(void)arg, (void)act, (void)text, (void)number, (void)e;
	return 0;
}

static const struct view *const no_views[] = { NULL };
static struct command_host host = { .settings = &settings,
	.views = no_views,
	.engine_set = host_set,
	.engine_get = host_get,
	.note = host_note,
	.say = host_say,
	.act = host_act };

/* File names are not completed: what is in the folder must not decide what is found. */
static char **complete(void *arg, const char *line, int start, int end, bool *files)
{
	char **list = commands_complete(arg, line, start, end, files);

	*files = false;
	return list;
}

static void check(const struct canvas *c)
{
	for (int i = 0; i < c->w * c->h; i++)
		for (const unsigned char *s = (const unsigned char *)c->cell[i].text; *s; s++)
			assert(*s >= ' ' && *s != 0x7f && !(s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0));
}

static void draw(unsigned shape)
{
	static struct canvas c;
	char hint[512];
	struct pen p;

	c.ascii = shape & 1;
	if (canvas_resize(&c, 1 + (int)(shape % 97), 1 + (int)(shape % 7), NULL) < 0)
		return;
	p = pen_of(&c, (struct rect){ 0, 0, c.w, c.h });
	prompt_draw(&p, "you ›", "empty", true);
	assert(c.cursor_x < c.w + 2 && c.cursor_y < c.h);
	assert(prompt_lines(c.w, "you ›", c.ascii) >= 1);
	commands_hint(&host, prompt_text(), hint, sizeof hint);
	pen_text(&p, 0, 0, hint, -1);
	check(&c);
}

/* As the terminal's keys are read: those of kitty's protocol by their numbers. */
static void key_sequence(const uint8_t *data, size_t n)
{
	static struct terminal t = { .kitty = true };
	char seq[40] = "\033[";
	const char *key = seq;

	memcpy(seq + 2, data, n);
	if (kitty_take(&t, &key) == KITTY_CHARACTER)
		key = t.character;
	assert(memchr(t.character, 0, sizeof t.character) && memchr(t.again, 0, sizeof t.again));
	prompt_sequence(key);
}

static void take_lines(void)
{
	char *line;

	while ((line = prompt_take())) {
		struct err e = { 0 };

		if (commands_run(&host, line, &e) < 0)
			assert(e.code && *e.text);
		free(line);
	}
	prompt_take_eof();
}

static void start(void)
{
	struct prompt_options o = { .complete = complete, .arg = &host };

	setlocale(LC_CTYPE, "C.UTF-8");
	setenv("INPUTRC", "/dev/null", 1);
	setenv("TERM", "xterm", 1);
	settings = ANSWER_DEFAULTS;
	if (prompt_open(&o, NULL) < 0)
		abort();
}

/* Input: pieces of up to 32 bytes behind a byte that says how they come and how long they are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started;

	if (!started)
		start();
	started = true;
	host.replay = size & 1;
	while (size > 1) {
		size_t n = 1 + (data[0] & 31), how = data[0] >> 5;

		data++, size--;
		n = n < size ? n : size;
		if (how == 0)
			prompt_paste((const char *)data, n);
		else if (how == 2)
			key_sequence(data, n);
		else
			prompt_feed((const char *)data, n);
		if (how == 1)
			draw(data[0] + 256u * data[n - 1]);
		take_lines();
		data += n, size -= n;
	}
	prompt_feed("\033\003\007\r", 4); /* out of any mode, for the next input */
	take_lines();
	prompt_set("");
	setting_stops_free(&settings.stop);
	return 0;
}
