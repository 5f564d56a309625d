/* See charset.h. */
#include "tui/term/charset.h"

#include <iconv.h>
#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "base/array.h"
#include "base/text.h"

#define NONE ((iconv_t)-1)

static struct {
	bool utf8;
	iconv_t in, out; /* NONE: the input is UTF-8 */
} charset = { true, NONE, NONE };

/* --- which it is --- */

static const char *locale_name(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_N(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return value;
	}
	return NULL;
}

/* Without any locale in the environment the encoding is UTF-8. A locale that is not installed here,
 * as over ssh, still has the encoding in its name. */
static void find_encoding(char *out, size_t cap)
{
	const char *name = locale_name(), *dot = name ? strchr(name, '.') : NULL;
	locale_t there = name ? newlocale(LC_CTYPE_MASK, name, (locale_t)0) : (locale_t)0;

	if (there)
		snprintf(out, cap, "%s", nl_langinfo_l(CODESET, there));
	else if (dot)
		snprintf(out, cap, "%.*s", (int)strcspn(dot + 1, "@"), dot + 1);
	else
		snprintf(out, cap, "%s", name ? "ASCII" : "UTF-8");
	if (there)
		freelocale(there);
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strcasecmp(name, *list))
			return true;
	return false;
}

/* Sets a locale of the thread: readline sets the process's from the environment again with each
 * line. C.UTF-8 first, so that case mapping is the same everywhere. */
static void use_utf8(void)
{
	static const char *const names[] = { "C.UTF-8", "C.utf8", "", "en_US.UTF-8" };

	for (size_t i = 0; i < ARRAY_N(names); i++) {
		locale_t l = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);

		if (l && !strcmp(nl_langinfo_l(CODESET, l), "UTF-8")) {
			uselocale(l);
			return;
		}
		if (l)
			freelocale(l);
	}
}

/* Bytes of one character in the terminal's encoding; 0 if it has none. */
static size_t encode_one(const char *utf8, size_t size, char out[8])
{
	char *from = (char *)(uintptr_t)utf8, *to = out;
	size_t left = 8;

	iconv(charset.out, NULL, NULL, NULL, NULL);
	return iconv(charset.out, &from, &size, &to, &left) == (size_t)-1 ? 0 : 8 - left;
}

/* Registers the characters that base/text.h may show. East Asian terminals give two columns to
 * two-byte characters that have one in Unicode (Greek, Cyrillic), so only characters with the same
 * width in both are registered. */
static void report_repertoire(void)
{
	for (utf8proc_int32_t c = 0xa0; c < TEXT_SHOW_MAX; c++) {
		char utf8[8], out[8];
		utf8proc_ssize_t n = utf8proc_encode_char(c, (utf8proc_uint8_t *)utf8);

		if (n > 0 && encode_one(utf8, (size_t)n, out) == (size_t)utf8proc_charwidth(c))
			text_show_also(c);
	}
}

void charset_open(void)
{
	static const char *const utf8[] = { "UTF-8", "UTF8", NULL };
	static const char *const ascii[] = { "ANSI_X3.4-1968", "US-ASCII", "ASCII", "646", NULL };
	char name[64];

	find_encoding(name, sizeof name);
	use_utf8();
	charset.utf8 = is_one_of(name, utf8);
	if (charset.utf8 || is_one_of(name, ascii))
		return;
	charset.in = iconv_open("UTF-8", name);
	charset.out = charset.in != NONE ? iconv_open(name, "UTF-8") : NONE;
	if (charset.out != NONE)
		report_repertoire();
}

bool charset_is_utf8(void)
{
	return charset.utf8;
}

/* --- what is typed --- */

void charset_add(struct charset_bytes *b, unsigned char byte)
{
	if (b->n < sizeof b->byte)
		b->byte[b->n++] = (char)byte;
}

/* Length of the UTF-8 sequence with this first byte; 1 if it begins none. */
static size_t utf8_size(unsigned char first)
{
	return first >= 0xc2 && first < 0xe0   ? 2
		   : (first & 0xf0) == 0xe0        ? 3
		   : first >= 0xf0 && first < 0xf5 ? 4
										   : 1;
}

static size_t take_utf8(const struct charset_bytes *b, char out[8], size_t *used)
{
	size_t size = utf8_size((unsigned char)b->byte[0]);

	for (size_t i = 1; i < size && i < b->n; i++)
		if ((b->byte[i] & 0xc0) != 0x80)
			size = 1;
	if (b->n < size)
		return 0;
	memcpy(out, b->byte, size);
	return *used = size;
}

static size_t take_other(const struct charset_bytes *b, char out[8], size_t *used)
{
	for (size_t n = 1; n <= b->n; n++) { /* the shortest that is a character */
		char *from = (char *)(uintptr_t)b->byte, *to = out;
		size_t size = n, left = 8;

		iconv(charset.in, NULL, NULL, NULL, NULL);
		if (iconv(charset.in, &from, &size, &to, &left) != (size_t)-1 && left < 8) {
			*used = n;
			return 8 - left;
		}
	}
	if (b->n < 4) /* no terminal encoding is longer */
		return 0;
	*used = 1;
	memcpy(out, "\xef\xbf\xbd", 3);
	return 3;
}

size_t charset_take(struct charset_bytes *b, char out[8])
{
	size_t used = 0, n;

	if (!b->n)
		return 0;
	n = charset.in == NONE ? take_utf8(b, out, &used) : take_other(b, out, &used);
	memmove(b->byte, b->byte + used, b->n - used);
	b->n -= used;
	return n;
}

/* --- what is shown --- */

size_t charset_encode(char *text, size_t size)
{
	size_t n = 0;

	if (charset.out == NONE)
		return size;
	for (size_t at = 0; at < size;) {
		size_t one = utf8_size((unsigned char)text[at]);
		char out[8] = "?";
		size_t most = one < size - at ? one : size - at;
		size_t got = one == 1 ? 0 : encode_one(text + at, most, out);

		if (one == 1)
			text[n++] = text[at];
		else if (got > 0 && got <= most)
			memcpy(text + n, out, got), n += got;
		else
			text[n++] = '?';
		at += most;
	}
	return n;
}
