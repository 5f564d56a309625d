/* The keys of the terminal: see term.h. ncurses knows which bytes a key sends, charset.c which are
 * a character. */
#include <stdlib.h>
#include <string.h>

#include "tui/term/term_impl.h"

enum {
	PASTE_BEGIN = 0x3001,
	PASTE_END,
	PASTE_MAX = 1 << 20,
	ESC_DELAY_MS = 25,
	ESC_DELAY_SSH_MS = 100
};

/* What terminals send for the keys that terminfo does not have for their type, or describes
 * differently. */
static const struct {
	const char *seq;
	int key;
} usual[] = {
	{ "\033OP", KEY_F(1) },
	{ "\033[11~", KEY_F(1) },
	{ "\033[[A", KEY_F(1) },
	{ "\033[15~", KEY_F(5) },
	{ "\033[[E", KEY_F(5) },
	{ "\033[20~", KEY_F(9) },
	{ "\033[21~", KEY_F(10) },
	{ "\033[A", KEY_UP },
	{ "\033[B", KEY_DOWN },
	{ "\033[C", KEY_RIGHT },
	{ "\033[D", KEY_LEFT },
	{ "\033OA", KEY_UP },
	{ "\033OB", KEY_DOWN },
	{ "\033OC", KEY_RIGHT },
	{ "\033OD", KEY_LEFT },
	{ "\033[H", KEY_HOME },
	{ "\033OH", KEY_HOME },
	{ "\033[1~", KEY_HOME },
	{ "\033[F", KEY_END },
	{ "\033OF", KEY_END },
	{ "\033[4~", KEY_END },
	{ "\033[5~", KEY_PPAGE },
	{ "\033[6~", KEY_NPAGE },
	{ "\033[3~", KEY_DC },
};

/* The number pad, ESC O j … y, where terminfo lacks it (PuTTY): read as these characters. */
static const char keypad_keys[] = "*+,-./0123456789";

static void define_new(const char *seq, int key)
{
	if (key_defined(seq) == 0)
		define_key(seq, key);
}

void term_keys_open(struct terminal *t)
{
	const char *delay = getenv("ESCDELAY");

	if (!delay || !*delay) /* ncurses uses this variable */
		set_escdelay(getenv("SSH_TTY") ? ESC_DELAY_SSH_MS : ESC_DELAY_MS);
	t->keys = newpad(1, 1);
	keypad(t->keys, TRUE);
	nodelay(t->keys, TRUE);
	/* ncurses checks the output for an 8-bit keyboard, and ours is not a terminal */
	meta(t->keys, TRUE);
	/* On the console ncurses loads libgpm, which prints errors and installs signal handlers. */
	if (strncmp(getenv("TERM"), "linux", 5))
		mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		define_new(usual[i].seq, usual[i].key);
	for (int i = 0; keypad_keys[i]; i++)
		define_new((char[]){ '\033', 'O', (char)('j' + i), '\0' }, keypad_keys[i]);
	define_key("\033[200~", PASTE_BEGIN);
	define_key("\033[201~", PASTE_END);
}

static const struct {
	int curses, key;
	const char *seq;
} key_table[] = {
	{ KEY_UP, KEY_UP_, "\033[A" },
	{ KEY_DOWN, KEY_DOWN_, "\033[B" },
	{ KEY_RIGHT, KEY_RIGHT_, "\033[C" },
	{ KEY_LEFT, KEY_LEFT_, "\033[D" },
	{ KEY_HOME, KEY_HOME_, "\033[H" },
	{ KEY_END, KEY_END_, "\033[F" },
	{ KEY_PPAGE, KEY_PAGE_UP, "\033[5~" },
	{ KEY_NPAGE, KEY_PAGE_DOWN, "\033[6~" },
	{ KEY_DC, KEY_DELETE_, "\033[3~" },
	{ KEY_IC, KEY_INSERT_, "\033[2~" },
	{ KEY_BACKSPACE, KEY_BACKSPACE_, "\177" },
	{ KEY_BTAB, KEY_BACKTAB, "\033[Z" },
	{ KEY_ENTER, KEY_ENTER_, "\r" },
};

/* The next key that is not a character, as ncurses numbers it (above 255); or 0 and a character, as
 * UTF-8 in t->character, however many bytes and reads it came in. ERR: there is none. */
static int read_key(struct terminal *t)
{
	int c;

	memcpy(t->character, t->again, sizeof t->character);
	memset(t->again, 0, sizeof t->again);
	if (*t->character)
		return 0;
	while (!charset_take(&t->typed, t->character)) {
		c = wgetch(t->keys);
		if (c > 255)
			t->typed.n = 0; /* drops an incomplete character */
		if (c == ERR || c > 255)
			return c;
		charset_add(&t->typed, (unsigned char)c);
	}
	return 0;
}

static bool mouse_take(struct term_key *k)
{
	MEVENT m;

	if (getmouse(&m) != OK)
		return false;
	k->code = KEY_MOUSE_;
	k->x = m.x;
	k->y = m.y;
	k->button = m.bstate & BUTTON4_PRESSED   ? MOUSE_WHEEL_UP
				: m.bstate & BUTTON5_PRESSED ? MOUSE_WHEEL_DOWN
											 : MOUSE_CLICK;
	return true;
}

/* Gathers a paste until its end, over several calls if need be. What is too long is dropped. */
static bool key_paste(struct terminal *t, struct term_key *k)
{
	size_t n;
	int c;

	if (!t->paste)
		t->paste = malloc(PASTE_MAX);
	while ((c = read_key(t)) != ERR) {
		if (c == PASTE_END) {
			t->pasting = false;
			k->code = KEY_PASTE_;
			k->text = t->paste;
			k->size = t->paste_size;
			return t->paste != NULL;
		}
		n = strlen(t->character);
		if (!c && t->paste && t->paste_size + n <= PASTE_MAX) {
			memcpy(t->paste + t->paste_size, t->character, n);
			t->paste_size += n;
		}
	}
	return false;
}

static void key_special(int c, struct term_key *k)
{
	static char other[32];
	char *bound;

	for (size_t i = 0; i < sizeof key_table / sizeof *key_table; i++)
		if (key_table[i].curses == c) {
			k->code = key_table[i].key;
			k->seq = key_table[i].seq;
			return;
		}
	if (c >= KEY_F(1) && c <= KEY_F(12)) {
		k->code = KEY_F1_ + (c - KEY_F(1));
		return;
	}
	/* A key that this program does not use (Ctrl-Left …): readline may know its bytes. */
	k->code = KEY_INSERT_;
	bound = keybound(c, 0);
	snprintf(other, sizeof other, "%s", bound ? bound : "");
	free(bound);
	if (!strncmp(other, "\033O", 2) && other[2] >= 'j' && other[2] <= 'y' && !other[3]) {
		k->code = keypad_keys[other[2] - 'j'];
		snprintf(other, sizeof other, "%c", k->code);
	}
	k->seq = other;
}

/* Esc was read. If [ follows at once, it is the sequence of a key that ncurses has no name for. */
static bool key_sequence(struct terminal *t, struct term_key *k)
{
	static char seq[32];
	size_t n = 1;
	int c = read_key(t);

	if (c > 0)
		ungetch(c);
	if (c || t->character[0] != '[') {
		memcpy(t->again, t->character, sizeof t->again);
		strcpy(t->character, "\033");
		return false;
	}
	seq[0] = '\033';
	do {
		seq[n++] = t->character[0];
	} while (n < sizeof seq - 1 && !(n > 2 && seq[n - 1] >= '@') && !read_key(t));
	seq[n] = '\0';
	k->code = KEY_INSERT_;
	k->seq = seq;
	return true;
}

bool term_key(struct terminal *t, struct term_key *k)
{
	int c;

	memset(k, 0, sizeof *k);
	k->seq = "";
	if (t->away)
		return false;
	if (t->pasting)
		return key_paste(t, k);
	while ((c = read_key(t)) != ERR) {
		if (c == PASTE_BEGIN) {
			t->pasting = true;
			t->paste_size = 0;
			return key_paste(t, k);
		}
		if (c == KEY_MOUSE && mouse_take(k))
			return true;
		if (c == KEY_MOUSE || c == KEY_RESIZE || c == PASTE_END)
			continue;
		if (c) {
			key_special(c, k);
		} else if (t->character[0] != '\033' || !key_sequence(t, k)) {
			unsigned char first = (unsigned char)t->character[0];

			k->code = first < 0x80 ? first : KEY_CHAR_;
			k->seq = t->character;
		}
		return true;
	}
	return false;
}
