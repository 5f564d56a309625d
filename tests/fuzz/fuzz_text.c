/* Any bytes on the way to a terminal: no control character comes out, and nothing is lost. */
#include <string.h>

#include <utf8proc.h>

#include "base/text.h"
#include "tests/fuzz/fuzz.h"

static bool steers(utf8proc_int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c ||
		   (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
		   (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c >= 0xe0000;
}

static void check_shown(const char *text, size_t size, bool newlines)
{
	utf8proc_int32_t c;

	for (size_t at = 0; at < size;) {
		utf8proc_ssize_t n = utf8proc_iterate(
			(const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &c);

		FUZZ_CHECK(n > 0 && (!steers(c) || (newlines && c == '\n')));
		at += (size_t)n;
	}
}

static void check_runs(const char *text, size_t size, bool ascii)
{
	int width = 0;
	size_t at = 0;

	while (at < size) {
		struct glyph_run g = text_next(text + at, size - at, ascii);

		FUZZ_CHECK(g.used >= 1 && g.used <= size - at && g.width >= 1 && g.width <= 2);
		check_shown(g.text, strnlen(g.text, sizeof g.text + 1), false);
		for (const char *p = g.text; ascii && *p; p++)
			FUZZ_CHECK(*p > 0x1f && *p < 0x7f);
		width += g.width;
		at += g.used;
	}
	FUZZ_CHECK(text_width(text, size, ascii) == width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	size_t n = 0;
	char *s;

	check_runs(text, size, false);
	check_runs(text, size, true);
	for (int keep = 0; keep < 2; keep++) {
		s = text_clean(text, size, keep, &n);
		FUZZ_CHECK(s && strlen(s) == n);
		check_shown(s, n, keep);
		free(s);
	}
	s = text_json(text, size);
	FUZZ_CHECK(s && s[0] == '"' && s[strlen(s) - 1] == '"');
	check_shown(s, strlen(s), false);
	free(s);
	return 0;
}
