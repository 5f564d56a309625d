/* The keys of the terminal: see term.h. ncurses knows which bytes a key sends, charset.c which are
 * a character. */

#include "tui/term/term_impl.h"

enum { ESC_DELAY_MS = 25, ESC_DELAY_SSH_MS = 100 };

/* What terminals send for the keys that terminfo does not have for their type, or describes
 * differently. */
static const struct {
	const char *seq;
	int key;
} usual[] = {
	{ "\033OP", KEY_F(1) },
	{ "\033[11~", KEY_F(1) },
	{ "\033[P", KEY_F(1) },
	{ "\033[[A", KEY_F(1) },
	{ "\033[15~", KEY_F(5) },
	{ "\033[[E", KEY_F(5) },
	{ "\033[18~", KEY_F(7) },
	{ "\033[19~", KEY_F(8) },
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
	{ "\033[2~", KEY_IC },
	{ "\033[3~", KEY_DC },
	{ "\033[Z", KEY_BTAB },
};

/* The number pad, ESC O j … y, where terminfo lacks it (PuTTY): read as these characters. */
static const char keypad_keys[] = "*+,-./0123456789";

static void define_new(const char *seq, int key)
{
	if (key_defined(seq) == 0)
		define_key(seq, key);
}

/* Whether terminfo says how bracketed paste is switched on. */
static bool knows_brackets(void)
{
	const char *begin = tigetstr("BE");

	return begin && begin != (const char *)-1;
}

/* After an event that is masked out ncurses waits for the next key, whatever nodelay says: none is
 * but clicks, which it would make of a press and a release that come at once. */
#define EVERY(event)                                                                               \
	(BUTTON1_##event | BUTTON2_##event | BUTTON3_##event | BUTTON4_##event | BUTTON5_##event)

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
		mousemask(EVERY(PRESSED) | EVERY(RELEASED), NULL);
	mouseinterval(0);
	for (size_t i = 0; i < ARRAY_N(usual); i++)
		define_new(usual[i].seq, usual[i].key);
	for (int i = 0; keypad_keys[i]; i++)
		define_new((char[]){ '\033', 'O', (char)('j' + i), '\0' }, keypad_keys[i]);
	define_key("\033[200~", PASTE_BEGIN);
	define_key("\033[201~", PASTE_END);
	t->brackets = knows_brackets();
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

int term_read(struct terminal *t)
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

	do { /* several events that came at once are one key */
		if (getmouse(&m) != OK)
			return false;
	} while (!(m.bstate & (BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED)));
	k->code = KEY_MOUSE_;
	k->x = m.x;
	k->y = m.y;
	k->button = m.bstate & BUTTON4_PRESSED   ? MOUSE_WHEEL_UP
				: m.bstate & BUTTON5_PRESSED ? MOUSE_WHEEL_DOWN
											 : MOUSE_CLICK;
	return true;
}

static void key_special(int c, struct term_key *k)
{
	static char other[32];
	char *bound;

	for (size_t i = 0; i < ARRAY_N(key_table); i++)
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

/* A key that has a sequence of which ncurses knows nothing. */
static void key_unnamed(const char *seq, struct term_key *k)
{
	for (size_t i = 0; i < ARRAY_N(usual); i++)
		if (!strcmp(usual[i].seq, seq)) {
			key_special(usual[i].key, k);
			return;
		}
	k->code = KEY_INSERT_;
	k->seq = seq;
}

/* Esc was read. If [ follows at once, it is the sequence of a key that ncurses has no name for.
 * False: a character. */
static bool key_sequence(struct terminal *t, struct term_key *k)
{
	static char seq[32];
	const char *key = seq;
	enum kitty kind;
	size_t n = 1;
	int c = term_read(t);

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
	} while (n < sizeof seq - 1 && !(n > 2 && seq[n - 1] >= '@') && !term_read(t));
	seq[n] = '\0';
	kind = kitty_take(t, &key);
	if (kind == KITTY_CHARACTER)
		return false;
	key_unnamed(key, k);
	return true;
}

static void key_character(struct terminal *t, struct term_key *k)
{
	const unsigned char first = (unsigned char)t->character[0];

	k->code = first < 0x80 ? first : KEY_CHAR_;
	k->seq = t->character;
}

/* What was read as c; false: nothing that is a key. */
static bool key_take(struct terminal *t, int c, struct term_key *k)
{
	if (c == PASTE_BEGIN) {
		t->pasting = t->brackets = true;
		c = term_read(t);
	}
	if (t->pasting || (!c && paste_begins(t)))
		return paste_take(t, c, k);
	if (c == KEY_MOUSE)
		return mouse_take(k);
	if (c == KEY_RESIZE || c == PASTE_END)
		return false;
	if (c)
		key_special(c, k);
	else if (t->character[0] != '\033' || !key_sequence(t, k))
		key_character(t, k);
	return true;
}

bool term_key(struct terminal *t, struct term_key *k)
{
	int c;

	memset(k, 0, sizeof *k);
	k->seq = "";
	if (t->away)
		return false;
	for (; (c = term_read(t)) != ERR; t->burst++)
		if (key_take(t, c, k)) {
			t->burst++;
			return true;
		}
	t->burst = 0;
	return false;
}
