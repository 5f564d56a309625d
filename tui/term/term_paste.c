/* What is pasted, and what is put on the clipboard: see term_impl.h, term.h. Terminals that know
 * brackets put them around it. Those that do not (the Linux console, screen, vt100) send it like
 * keys, so there a line end between characters that came at once is part of the text: no line of it
 * is sent, and none is a command. */

#include <nettle/base64.h>

#include "base/clock.h"
#include "tui/term/term_impl.h"

enum { BURST = 256 }; /* so many characters at once are pasted, not typed */

#define AFTER_NS 50000000 /* a line end so soon after pasted lines is one of theirs */

static bool is_line_end(const char *character)
{
	return *character == '\r' || *character == '\n';
}

static bool is_text(const char *character)
{
	return (unsigned char)*character >= ' ' && *character != 127;
}

/* What was read last, as c or a character, is read again. */
static void read_again(struct terminal *t, int c)
{
	if (c)
		ungetch(c);
	else
		memcpy(t->again, t->character, sizeof t->again);
}

/* Reads the next character, to be read again: is it text? */
static bool text_waits(struct terminal *t)
{
	char now[sizeof t->character];
	int c;
	bool text;

	memcpy(now, t->character, sizeof now);
	c = term_read(t);
	text = !c && (is_text(t->character) || is_line_end(t->character));
	if (c != ERR)
		read_again(t, c);
	memcpy(t->character, now, sizeof now);
	return text;
}

bool paste_begins(struct terminal *t)
{
	if (!is_line_end(t->character))
		return t->burst >= BURST && is_text(t->character);
	return !t->brackets && (now_ns() - t->lines_ns < AFTER_NS || (t->burst && text_waits(t)));
}

/* Whether c, or the character, belongs to what is pasted. */
static bool belongs(const struct terminal *t, int c)
{
	if (t->pasting)
		return c != PASTE_END;
	return !c && (is_text(t->character) || (is_line_end(t->character) && !t->brackets));
}

static bool add(struct terminal *t)
{
	const size_t n = strlen(t->character);

	if (t->paste_size + n > sizeof t->paste)
		return false;
	memcpy(t->paste + t->paste_size, t->character, n);
	t->paste_size += n;
	if (is_line_end(t->character) && !t->pasting)
		t->lines_ns = now_ns();
	return true;
}

bool paste_take(struct terminal *t, int c, struct term_key *k)
{
	for (; c != ERR && belongs(t, c); c = term_read(t))
		if (!c && !add(t))
			break;
	if (c == ERR && t->pasting)
		return false;
	if (c == PASTE_END)
		t->pasting = false;
	else if (c != ERR)
		read_again(t, c);
	k->code = KEY_PASTE_;
	k->text = t->paste;
	k->size = t->paste_size;
	t->paste_size = 0;
	return k->size > 0;
}

void term_copy(struct terminal *t, const char *text, size_t n)
{
	char *coded = malloc(BASE64_ENCODE_RAW_LENGTH(n) + 1);

	if (!coded)
		return;
	base64_encode_raw(coded, n, (const uint8_t *)text);
	coded[BASE64_ENCODE_RAW_LENGTH(n)] = '\0';
	term_send(t, "\033]52;c;");
	term_send(t, coded);
	term_send(t, "\007");
	free(coded);
}
