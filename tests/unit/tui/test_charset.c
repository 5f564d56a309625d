/* tui/term/charset.h: what is typed in any encoding becomes UTF-8 and nothing of it is lost. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/text.h"
#include "tui/term/charset.h"

/* The encoding is found out once a process: a test of another one has a process of its own. */
static void in_locale(const char *name, int (*test)(void))
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (!child) {
		setenv("LC_ALL", name, 1);
		charset_open();
		_exit(test());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("%s: line %d", name, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

#define NEED(is)                                                                                   \
	do {                                                                                           \
		if (!(is))                                                                                 \
			return __LINE__ & 0xff ? __LINE__ & 0xff : 1;                                          \
	} while (0)

/* Types the bytes one by one; out: what became of them, NUL-terminated. Returns its size, -1 if it
 * does not fit. */
static int type(const char *bytes, size_t size, char *out, size_t cap)
{
	struct charset_bytes b = { .n = 0 };
	size_t used = 0;

	for (size_t i = 0; i < size; i++) {
		char character[8];
		size_t n;

		charset_add(&b, (unsigned char)bytes[i]);
		while ((n = charset_take(&b, character))) {
			if (used + n >= cap)
				return -1;
			memcpy(out + used, character, n);
			used += n;
		}
	}
	out[used] = '\0';
	return (int)used;
}

static uint32_t next(uint64_t *r)
{
	*r = *r * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*r >> 33);
}

/* With an end that no sequence has in it, all that was typed comes out, byte for byte. */
static int utf8(void)
{
	static const char likely[] = "\xc3\xa9\xe6\x9c\x88\xf0\x9f\x91\x8d\xff\x80z\xed\xa0\x1b";
	uint64_t r = 1;
	char in[40], out[64];

	NEED(charset_is_utf8() || getenv("LC_ALL")[1] == '\0');
	NEED(type("z\xc3\xa9", 3, out, sizeof out) == 3 && type("\xe6\x9c", 2, out, sizeof out) == 0);
	for (int i = 0; i < 100000; i++) {
		size_t size = next(&r) % 30, had = 0;
		struct charset_bytes b = { .n = 0 };
		char character[8];

		for (size_t k = 0; k < size; k++)
			in[k] = next(&r) & 1 ? likely[next(&r) % (sizeof likely - 1)] : (char)next(&r);
		in[size] = '.';
		NEED(type(in, size + 1, out, sizeof out) == (int)size + 1 && !memcmp(in, out, size + 1));
		for (size_t k = 0; k <= size; k++) { /* and what is UTF-8 comes in one piece */
			size_t n;

			charset_add(&b, (unsigned char)in[k]);
			while ((n = charset_take(&b, character))) {
				utf8proc_int32_t c;

				NEED(n == 1 || (n <= 4 && had + n <= size + 1));
				if (utf8proc_iterate((const utf8proc_uint8_t *)in + had,
						(utf8proc_ssize_t)(size + 1 - had), &c) > 0)
					NEED((size_t)utf8proc_iterate((const utf8proc_uint8_t *)in + had,
							 (utf8proc_ssize_t)(size + 1 - had), &c) == n);
				had += n;
			}
			NEED(b.n < 4);
		}
	}
	memcpy(in, "\x1b[1m\xc3\xa9", 6);
	NEED(charset_encode(in, 6) == 6 && !memcmp(in, "\x1b[1m\xc3\xa9", 6));
	return 0;
}

static int latin(void)
{
	char out[64], text[] = "\x1b[1m\xc3\xa9\xe6\x9c\x88\xf0\x9f\x91\x8dz\xc3";

	NEED(!charset_is_utf8());
	NEED(type("z\xe9\xff", 3, out, sizeof out) == 5 && !strcmp(out, "z\xc3\xa9\xc3\xbf"));
	NEED(charset_encode(text, sizeof text - 1) == 9 && !memcmp(text, "\x1b[1m\xe9??z?", 9));
	NEED(text_next("\xc3\xa9", 2, true).text[0] == '\xc3' &&
		 text_next("\xe6\x9c\x88", 3, true).text[0] == '?');
	return 0;
}

/* Two bytes, two columns; Cyrillic has two there, and one by Unicode: it is not shown. */
static int east(void)
{
	char out[64], text[] = "\xe6\x9c\x88z";
	uint64_t r = 7;

	NEED(!charset_is_utf8());
	NEED(type("\xb7\xeez", 3, out, sizeof out) == 4 && !strcmp(out, "\xe6\x9c\x88z"));
	NEED(charset_encode(text, 4) == 3 && !memcmp(text, "\xb7\xeez", 3));
	NEED(text_next("\xe6\x9c\x88", 3, true).width == 2 &&
		 text_next("\xd0\xbf", 2, true).text[0] == '?');
	for (int i = 0; i < 20000; i++) { /* whatever is typed is UTF-8 then, and ends */
		char in[16], many[128];

		for (size_t k = 0; k < sizeof in; k++)
			in[k] = (char)next(&r);
		NEED(type(in, sizeof in, many, sizeof many) >= 0);
		for (const char *s = many; *s;) {
			utf8proc_int32_t c;
			utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);

			NEED(n > 0);
			s += n;
		}
	}
	return 0;
}

static int numbers(void)
{
	char *end;

	NEED(strtod("0.5", &end) > 0.4 && !*end);
	NEED(!strcmp(setlocale(LC_NUMERIC, NULL), "C"));
	return 0;
}

static void utf8_is_kept(void **state)
{
	(void)state;
	in_locale("C.UTF-8", utf8);
	in_locale("xx_XX.utf8", utf8);
	in_locale("C", utf8);
}

static void others_are_converted(void **state)
{
	(void)state;
	in_locale("xx_XX.ISO-8859-1", latin);
	in_locale("xx_XX.iso88591@euro", latin);
	in_locale("xx_XX.EUC-JP", east);
}

static void numbers_have_points(void **state)
{
	(void)state;
	in_locale("de_DE.UTF-8", numbers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_is_kept),
		cmocka_unit_test(others_are_converted),
		cmocka_unit_test(numbers_have_points),
	};

	return cmocka_run_group_tests_name("charset", tests, NULL, NULL);
}
