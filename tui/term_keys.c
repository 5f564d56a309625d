/* The keys of the terminal: see term.h. ncurses knows which bytes a key sends. */
#include <stdlib.h>
#include <string.h>

#include "tui/term_impl.h"

enum { PASTE_BEGIN = 0x3001, PASTE_END, PASTE_MAX = 1 << 20, ESC_DELAY_MS = 25 };

void term_keys_open(struct terminal *t)
{
	set_escdelay(ESC_DELAY_MS);
	t->keys = newpad(1, 1);
	keypad(t->keys, TRUE);
	nodelay(t->keys, TRUE);
	/* On the console ncurses loads libgpm, which prints its complaints and takes signals for itself. */
	if (strncmp(getenv("TERM"), "linux", 5))
		mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	define_key("\033[200~", PASTE_BEGIN);
	define_key("\033[201~", PASTE_END);
}


static const struct {
	int curses, key;
	const char *seq;
} key_table[] = {
	{ KEY_UP, KEY_UP_, "\033[A" },           { KEY_DOWN, KEY_DOWN_, "\033[B" },
	{ KEY_RIGHT, KEY_RIGHT_, "\033[C" },     { KEY_LEFT, KEY_LEFT_, "\033[D" },
	{ KEY_HOME, KEY_HOME_, "\033[H" },       { KEY_END, KEY_END_, "\033[F" },
	{ KEY_PPAGE, KEY_PAGE_UP, "\033[5~" },   { KEY_NPAGE, KEY_PAGE_DOWN, "\033[6~" },
	{ KEY_DC, KEY_DELETE_, "\033[3~" },      { KEY_IC, KEY_INSERT_, "\033[2~" },
	{ KEY_BACKSPACE, KEY_BACKSPACE_, "\177" }, { KEY_BTAB, KEY_BACKTAB, "\033[Z" },
	{ KEY_ENTER, KEY_ENTER_, "\r" },
};

static int read_byte(struct terminal *t)
{
	return wgetch(t->keys);
}

static bool mouse_take(struct term_key *k)
{
	MEVENT m;

	if (getmouse(&m) != OK)
		return false;
	k->code = KEY_MOUSE_;
	k->x = m.x;
	k->y = m.y;
	k->button = m.bstate & BUTTON4_PRESSED	 ? MOUSE_WHEEL_UP
				: m.bstate & BUTTON5_PRESSED ? MOUSE_WHEEL_DOWN
											 : MOUSE_CLICK;
	return true;
}

/* Gathers a paste until its end, over several calls if need be. What is too long is dropped. */
static bool key_paste(struct terminal *t, struct term_key *k)
{
	int c;

	if (!t->paste)
		t->paste = malloc(PASTE_MAX);
	while ((c = read_byte(t)) != ERR) {
		if (c == PASTE_END) {
			t->pasting = false;
			k->code = KEY_PASTE_;
			k->text = t->paste;
			k->size = t->paste_size;
			return t->paste != NULL;
		}
		if (c < 256 && t->paste && t->paste_size < PASTE_MAX)
			t->paste[t->paste_size++] = (char)c;
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
	/* A key that is not ours (Ctrl-Left …): readline may know the bytes it sent. */
	k->code = KEY_INSERT_;
	bound = keybound(c, 0);
	snprintf(other, sizeof other, "%s", bound ? bound : "");
	free(bound);
	k->seq = other;
}

bool term_key(struct terminal *t, struct term_key *k)
{
	static char byte[2];
	int c;

	memset(k, 0, sizeof *k);
	k->seq = "";
	if (t->pasting)
		return key_paste(t, k);
	while ((c = read_byte(t)) != ERR) {
		if (c == PASTE_BEGIN) {
			t->pasting = true;
			t->paste_size = 0;
			return key_paste(t, k);
		}
		if (c == KEY_MOUSE && mouse_take(k))
			return true;
		if (c == KEY_MOUSE || c == KEY_RESIZE || c == PASTE_END)
			continue;
		if (c < 256) {
			k->code = c;
			byte[0] = (char)c;
			k->seq = byte;
		} else {
			key_special(c, k);
		}
		return true;
	}
	return false;
}
