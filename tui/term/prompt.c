/* See prompt.h. The only file that uses readline. */
#include "tui/term/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

enum { HISTORY_LINES = 2000, MATCHES_MAX = 256, LINES_WAITING = 64 };

static struct {
	struct prompt_options options;
	char *history;
	FILE *nowhere;
	const char *fed; /* bytes readline has not taken yet */
	size_t n_fed;
	char *done[LINES_WAITING]; /* finished lines, oldest first */
	int n_done;
	bool eof;
	char *match[MATCHES_MAX];
	int n_matches;
	char **found; /* completions to be passed to readline */
} prompt;

/* --- readline's ways in and out --- */

static int read_fed(FILE *unused)
{
	(void)unused;
	if (!prompt.n_fed)
		return EOF;
	prompt.n_fed--;
	return (unsigned char)*prompt.fed++;
}

static int fed_waits(void)
{
	return prompt.n_fed > 0;
}

static void redisplay_nothing(void)
{
}

static void forget_matches(void)
{
	for (int i = 0; i < prompt.n_matches; i++)
		free(prompt.match[i]);
	prompt.n_matches = 0;
}

/* matches[0] is their common prefix. */
static void keep_matches(char **matches, int n, int longest)
{
	(void)longest;
	forget_matches();
	for (int i = 1; i <= n && prompt.n_matches < MATCHES_MAX; i++) {
		char *copy = strdup(matches[i]);

		if (copy)
			prompt.match[prompt.n_matches++] = copy;
	}
}

static void remember(const char *line)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!*line || (last && !strcmp(last->line, line)))
		return;
	add_history(line);
	if (prompt.history)
		append_history(1, prompt.history);
}

static void line_done(char *line)
{
	if (!line) {
		prompt.eof = true;
		return;
	}
	remember(line);
	if (prompt.n_done < LINES_WAITING)
		prompt.done[prompt.n_done++] = line;
	else
		free(line);
}

static char *next_found(const char *text, int state)
{
	static int at;

	(void)text;
	if (state == 0)
		at = 0;
	return prompt.found && prompt.found[at] ? strdup(prompt.found[at++]) : NULL;
}

/* The next file of the name that follows an @. A folder may go on. */
static char *next_attached(const char *text, int state)
{
	char *name = rl_filename_completion_function(text + 1, state), *word = NULL;
	struct stat s;
	bool folder = name && !stat(name, &s) && S_ISDIR(s.st_mode);

	if (name && asprintf(&word, "@%s%s", name, folder ? "/" : "") < 0)
		word = NULL;
	free(name);
	if (folder)
		rl_completion_suppress_append = 1;
	return word;
}

static char **complete(const char *text, int start, int end)
{
	bool files = false;
	char **matches;

	rl_attempted_completion_over = 1;
	if (!prompt.options.complete)
		return NULL;
	prompt.found = prompt.options.complete(prompt.options.arg, rl_line_buffer, start, end, &files);
	if (files && *text == '@') {
		matches = rl_completion_matches(text, next_attached);
	} else if (files) {
		rl_filename_completion_desired = 1;
		matches = rl_completion_matches(text, rl_filename_completion_function);
	} else {
		matches = rl_completion_matches(text, next_found);
	}
	for (int i = 0; prompt.found && prompt.found[i]; i++)
		free(prompt.found[i]);
	free(prompt.found);
	prompt.found = NULL;
	return matches;
}

static int insert_newline(int count, int key)
{
	(void)count, (void)key;
	rl_insert_text("\n");
	return 0;
}

/* --- opening --- */

static void make_parents(const char *path)
{
	char copy[4096];

	if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
		return;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0700);
		*slash = '/';
	}
}

static void open_history(const char *path)
{
	int fd;

	using_history();
	stifle_history(HISTORY_LINES);
	/* With time stamps between them, entries of several lines stay whole. */
	history_comment_char = '#';
	history_write_timestamps = 1;
	if (!path)
		return;
	make_parents(path);
	fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	close(fd);
	if (read_history(path) == 0)
		prompt.history = strdup(path);
}

static void bind_ours(void)
{
	rl_variable_bind("bell-style", "none"); /* a bell would be written to the terminal */
	/* Input is UTF-8, whatever readline derives from the locale (LC_ALL=C) or the inputrc. */
	rl_variable_bind("convert-meta", "off");
	rl_variable_bind("input-meta", "on");
	/* Ctrl-X begins keys of several bytes. When one comes within an incremental search readline 8.2
	 * loses its place and then reads through a null pointer; so there it ends the search, as Esc
	 * does. */
	rl_variable_bind("isearch-terminators", "\\e\\C-j\\C-x");
	rl_bind_keyseq_in_map("\\e\\C-m", insert_newline, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\e\\C-j", insert_newline, emacs_standard_keymap);
	/* The search that is not incremental frees the undo list of a history line twice
	 * (readline 8.2); Ctrl-R finds the same. */
	rl_bind_keyseq_in_map("\\ep", NULL, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\en", NULL, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\C-x\\C-r", NULL, emacs_standard_keymap); /* it prints its errors */
	/* Turning a search round reads beyond the line that it stood at (readline 8.2), so Ctrl-R finds
	 * backwards alone; Ctrl-S stops a terminal's output anyway. */
	rl_bind_keyseq_in_map("\\C-s", NULL, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\C-s", NULL, vi_insertion_keymap);
	/* No numeric arguments: Esc and digits typed by accident would repeat the next key a million
	 * times. */
	for (char key[] = "\\e0"; key[2] <= '9'; key[2]++)
		rl_bind_keyseq_in_map(key, NULL, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\e-", NULL, emacs_standard_keymap);
	rl_bind_keyseq_in_map("\\C-l", NULL, emacs_standard_keymap);
	rl_bind_keyseq_if_unbound("\\e[3~", rl_delete);
	rl_bind_keyseq_if_unbound("\\e[1;5D", rl_backward_word);
	rl_bind_keyseq_if_unbound("\\e[1;5C", rl_forward_word);
}

int prompt_open(const struct prompt_options *o, struct err *e)
{
	prompt.options = *o;
	prompt.nowhere = fopen("/dev/null", "r+");
	if (!prompt.nowhere)
		return err_set(e, ERR_IO, "/dev/null: %s", strerror(errno));
	rl_readline_name = "cutaway";
	rl_instream = rl_outstream = prompt.nowhere;
	rl_catch_signals = 0;
	rl_catch_sigwinch = 0;
	rl_change_environment = 0;
	rl_prep_term_function = NULL;
	rl_deprep_term_function = NULL;
	rl_redisplay_function = redisplay_nothing;
	rl_getc_function = read_fed;
	rl_input_available_hook = fed_waits;
	rl_attempted_completion_function = complete;
	rl_completion_display_matches_hook = keep_matches;
	rl_completer_word_break_characters = " \t\n";
	rl_basic_word_break_characters = " \t\n";
	rl_completer_quote_characters = "\"'";
	rl_variable_bind("show-all-if-ambiguous", "on"); /* inputrc may say otherwise */
	open_history(o->history);
	rl_callback_handler_install("", line_done);
	bind_ours();
	return 0;
}

void prompt_close(void)
{
	if (!prompt.nowhere)
		return;
	rl_callback_handler_remove();
	if (prompt.history)
		history_truncate_file(prompt.history, HISTORY_LINES);
	clear_history();
	forget_matches();
	for (int i = 0; i < prompt.n_done; i++)
		free(prompt.done[i]);
	free(prompt.history);
	rl_instream = rl_outstream = NULL;
	fclose(prompt.nowhere);
	memset(&prompt, 0, sizeof prompt);
}

/* --- keys --- */

void prompt_feed(const char *bytes, size_t n)
{
	if (!n)
		return;
	forget_matches();
	prompt.fed = bytes;
	prompt.n_fed = n;
	while (prompt.n_fed && !prompt.eof)
		rl_callback_read_char();
	prompt.n_fed = 0;
}

void prompt_sequence(const char *seq)
{
	int type = ISKMAP; /* an incomplete key sequence: its rest would never come */

	if (rl_function_of_keyseq(seq, rl_get_keymap(), &type) && type != ISKMAP)
		prompt_feed(seq, strlen(seq));
}

void prompt_paste(const char *text, size_t size)
{
	char *copy = malloc(size + 1);
	size_t n = 0;

	forget_matches();
	if (!copy)
		return;
	for (size_t i = 0; i < size; i++)
		if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n')
			continue;
		else if (text[i])
			copy[n++] = text[i] == '\r' ? '\n' : text[i];
	copy[n] = '\0';
	rl_insert_text(copy);
	free(copy);
}

char *prompt_take(void)
{
	char *line = prompt.n_done ? prompt.done[0] : NULL;

	if (line)
		memmove(prompt.done, prompt.done + 1, (size_t)--prompt.n_done * sizeof *prompt.done);
	return line;
}

bool prompt_take_eof(void)
{
	bool was = prompt.eof;

	prompt.eof = false;
	return was;
}

const char *prompt_text(void)
{
	return rl_line_buffer ? rl_line_buffer : "";
}

void prompt_set(const char *text)
{
	forget_matches();
	rl_replace_line(text, 1);
	rl_point = rl_end;
}

bool prompt_busy(void)
{
	return RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_MOREINPUT | RL_STATE_METANEXT |
					  RL_STATE_MULTIKEY | RL_STATE_VIMOTION | RL_STATE_NUMERICARG |
					  RL_STATE_CHARSEARCH) != 0;
}

bool prompt_wants_escape(void)
{
	return rl_editing_mode == 0 || prompt_busy(); /* 0: vi */
}

int prompt_n_matches(void)
{
	return prompt.n_matches;
}

const char *prompt_match(int i)
{
	return prompt.match[i];
}

/* --- drawing --- */

/* A search replaces the label by its own. */
static const char *label_now(const char *label)
{
	return rl_display_prompt && *rl_display_prompt ? rl_display_prompt : label;
}

/* Where the text breaks: calls the pen (if there is one) for each grapheme, and finds the
 * cursor. */
struct walk {
	int w, indent, x, y;
	int cursor_x, cursor_y;
};

static void walk_text(struct walk *k, struct pen *p, int scroll, bool ascii)
{
	const char *text = prompt_text();
	size_t size = strlen(text), at = 0;

	k->x = k->indent;
	k->y = 0;
	for (;;) {
		struct glyph_run g = text_next(text + at, size - at, ascii);
		int width = g.newline ? 0 : g.tab || g.width < 1 ? 1 : g.width;

		if (k->x + width > k->w - (g.used && !g.newline ? 0 : 1)) {
			k->x = k->indent;
			k->y++;
		}
		if (at <= (size_t)rl_point && ((size_t)rl_point < at + g.used || !g.used)) {
			k->cursor_x = k->x;
			k->cursor_y = k->y;
		}
		if (!g.used)
			return;
		if (p && !g.newline)
			pen_text(p, k->x, k->y - scroll, text + at, (long)g.used);
		k->x += width;
		at += g.used;
		if (g.newline) {
			k->x = k->indent;
			k->y++;
		}
	}
}

static struct walk walk_begin(int w, const char *label, bool ascii)
{
	int indent = text_width(label, strlen(label), ascii) + 1;

	return (struct walk){ .w = w, .indent = indent < w - 4 ? indent : 0 };
}

int prompt_lines(int w, const char *label, bool ascii)
{
	struct walk k = walk_begin(w, label_now(label), ascii);

	walk_text(&k, NULL, 0, ascii);
	return k.y + 1;
}

void prompt_draw(struct pen *p, const char *label, const char *empty, bool awake)
{
	const char *head = label_now(label);
	struct walk k = walk_begin(p->r.w, head, p->c->ascii);
	struct pen in = *p;
	int scroll = 0;

	walk_text(&k, NULL, 0, p->c->ascii);
	if (k.cursor_y >= p->r.h)
		scroll = k.cursor_y - p->r.h + 1;
	in.ink = awake ? INK_BRIGHT : INK_DIM;
	in.attr = awake ? ATTR_BOLD : 0;
	if (k.indent && !scroll)
		pen_text(&in, 0, 0, head, -1);
	in.attr = 0;
	in.ink = awake ? INK_TEXT : INK_DIM;
	if (*prompt_text()) {
		walk_text(&k, &in, scroll, p->c->ascii);
	} else if (empty) {
		in.ink = INK_DIM;
		pen_clip(&in, k.indent, 0, p->r.w - k.indent, empty, -1);
	}
	p->c->cursor_x = awake ? p->r.x + k.cursor_x : -1;
	p->c->cursor_y = awake ? p->r.y + k.cursor_y - scroll : -1;
}
