/* Keys of the form CSI number ; modifiers letter, as kitty's protocol sends them where a terminal
 * offers it (https://sw.kovidgoyal.net/kitty/keyboard-protocol): Esc is a sequence of its own
 * there, and Enter with Shift differs from Enter. See term_impl.h. */

#include <utf8proc.h>

#include "tui/term/term_impl.h"

enum { SHIFT = 1, ALT = 2, CTRL = 4, LOCKS = 64 | 128 };
/* Numbers of keys that are no characters; the number pad, whose keys are these, then pad_keys. */
enum { KEYS = 0xe000, KEYS_LAST = 0xf8ff, PAD = 57399 };
static const char pad_text[] = "0123456789./*-+\r=,";
static const char *const pad_keys[] = { "\033[D", "\033[C", "\033[A", "\033[B", "\033[5~",
	"\033[6~", "\033[H", "\033[F", "\033[2~", "\033[3~" };

struct pressed {
	long c;             /* on the layout in use, without modifiers */
	long shifted, base; /* with Shift; on a layout of Latin letters; 0: not said */
	long modifiers;
	const char *rest;
};

static struct pressed parse(const char *at)
{
	struct pressed p = { 0 };
	char *end;

	p.c = strtol(at, &end, 10);
	p.shifted = *end == ':' ? strtol(end + 1, &end, 10) : 0;
	p.base = *end == ':' ? strtol(end + 1, &end, 10) : 0;
	p.modifiers = *end == ';' ? strtol(end + 1, &end, 10) : 1;
	p.modifiers = p.modifiers < 1 ? 0 : (p.modifiers - 1) & ~LOCKS;
	p.rest = end;
	return p;
}

void kitty_begin(struct terminal *t)
{
	/* 1: keys that were ambiguous; 4: with shifted and base. Until it answers it is only asked. */
	term_send(t, t->kitty ? "\033[>5u" : "\033[?u");
}

void kitty_end(struct terminal *t)
{
	if (t->kitty)
		term_send(t, "\033[<u");
}

/* What a character is with Ctrl, as terminals always sent it; -1: it has no such. */
static long with_ctrl(const struct pressed *p)
{
	long c = p->c > 127 && p->base ? p->base : p->c;

	if (c >= 'a' && c <= 'z')
		c -= 'a' - 'A';
	return c > '@' && c <= '_' ? c & 31 : c == '/' ? 31 : c == 127 ? '\b' : -1;
}

/* The character c, after Esc if Alt is held, as if its bytes had come. */
static enum kitty type(struct terminal *t, long c, bool alt)
{
	char *to = t->character;

	if (c <= 0 || c > 0x10ffff || (c >= KEYS && c <= KEYS_LAST) ||
		!utf8proc_codepoint_valid((utf8proc_int32_t)c))
		return KITTY_UNKNOWN;
	if (alt && c < 128) {
		strcpy(t->character, "\033");
		to = t->again;
	}
	to[utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)to)] = '\0';
	return KITTY_CHARACTER;
}

/* Whether it is a key of the number pad that has a sequence; one that types becomes what it types.
 */
static bool pad_has_sequence(struct pressed *p, const char **seq)
{
	const size_t texts = strlen(pad_text), keys = ARRAY_N(pad_keys);
	const size_t at = (size_t)p->c - PAD; /* a number of the terminal's: any */

	if (at < texts)
		p->c = pad_text[at];
	if (at < texts || at >= texts + keys)
		return false;
	*seq = pad_keys[at - texts];
	return true;
}

/* A key with a number, CSI … u. */
static enum kitty take_number(struct terminal *t, struct pressed p, const char **seq)
{
	if (pad_has_sequence(&p, seq))
		return p.modifiers ? KITTY_UNKNOWN : KITTY_SEQUENCE;
	if (p.c == 27)
		return type(t, 27, false);
	if (p.c == '\r' && p.modifiers) /* a new line in what is typed, as Alt and Enter always were */
		return type(t, '\r', true);
	if (p.c == '\t' && p.modifiers == SHIFT) {
		*seq = "\033[Z";
		return KITTY_SEQUENCE;
	}
	if (p.modifiers & ~(SHIFT | ALT | CTRL))
		return KITTY_UNKNOWN;
	if (p.modifiers & CTRL)
		return type(t, with_ctrl(&p), p.modifiers & ALT);
	return type(t, p.modifiers & SHIFT && p.shifted ? p.shifted : p.c, p.modifiers & ALT);
}

/* The terminal says that it has the protocol. */
static void answered(struct terminal *t)
{
	if (t->kitty)
		return;
	t->kitty = true;
	kitty_begin(t);
	crash_add("\033[<u");
}

enum kitty kitty_take(struct terminal *t, const char **seq)
{
	static char plain[8];
	struct pressed p = parse(*seq + 2);

	if ((*seq)[2] == '?' && (*seq)[strlen(*seq) - 1] == 'u')
		answered(t);
	if (!strcmp(p.rest, "u"))
		return take_number(t, p, seq);
	if (p.modifiers || strlen(p.rest) != 1)
		return KITTY_UNKNOWN;
	/* a key that differs from itself by Num Lock alone */
	if (*p.rest == '~')
		snprintf(plain, sizeof plain, "\033[%hhu~", (unsigned char)p.c);
	else
		snprintf(plain, sizeof plain, "\033[%c", *p.rest);
	*seq = plain;
	return KITTY_SEQUENCE;
}
