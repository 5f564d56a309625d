/* See settings.h. */
#include "engine/settings/settings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "base/models.h"

const struct setting *setting_find(const struct setting *table, const char *name)
{
	for (const struct setting *s = table; s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}

/* ---- words ---- */

const char *setting_word(const struct setting *s, int i)
{
	static const char *const on_off[] = { "on", "off", NULL };
	const char *const *words = s->type == SETTING_SWITCH ? on_off : s->words;
	int n = 0;

	for (; words && words[n]; n++)
		if (n == i)
			return words[n];
	return s->more ? s->more(i - n) : NULL;
}

static bool is_model(const char *name, size_t n)
{
	char word[128], *path;
	bool is;

	if (n >= sizeof word)
		return false;
	snprintf(word, sizeof word, "%.*s", (int)n, name);
	path = models_own(word);
	is = path;
	free(path);
	return is;
}

/* One of the words, up to a colon, with nothing but a model and numbers behind it. */
static bool is_word(const struct setting *s, const char *value, size_t n)
{
	const size_t head = strcspn(value, ":") < n ? strcspn(value, ":") : n;
	size_t from = head < n ? head + 1 : n;
	const char *word;

	if (isalpha((unsigned char)value[from])) {
		const size_t name = strcspn(value + from, ",+");

		if (!is_model(value + from, name))
			return false;
		from += name;
	}
	if (from < n && strspn(value + from, ":,.0123456789") < n - from)
		return false;
	for (int i = 0; (word = setting_word(s, i)); i++)
		if (strcspn(word, ":") == head && !strncasecmp(word, value, head))
			return true;
	return false;
}

bool setting_names_file(const struct setting *s, const char *value)
{
	if (s->type == SETTING_SPEC)
		return !setting_is_spec(s, value);
	if (s->type != SETTING_FILE && !s->file)
		return false;
	while (*value) {
		const size_t n = strcspn(value, "+");

		if (!is_word(s, value, n) && !is_model(value, n))
			return true;
		value += n + (value[n] == '+');
	}
	return false;
}

int setting_choice(const struct setting *s, const void *base)
{
	const char *value = *(const char *const *)(const void *)((const char *)base + s->at);
	int i = 0;

	while (value && s->words[i] && strcmp(s->words[i], value) != 0)
		i++;
	return value && s->words[i] ? i : 0;
}

static void words_text(const struct setting *s, const char *between, char *buf, size_t cap)
{
	*buf = '\0';
	for (int i = 0; setting_word(s, i); i++)
		text_append(buf, cap, between, "%s", setting_word(s, i));
}

const char *setting_arg(const struct setting *s, char *buf, size_t cap)
{
	if (s->arg)
		snprintf(buf, cap, "%s", s->arg);
	else if (s->type == SETTING_CHOICE || s->type == SETTING_SWITCH)
		words_text(s, "|", buf, cap);
	else
		*buf = '\0';
	return buf;
}

/* ---- values ---- */

/* "temp 101: a number from 0 to 100 is needed" */
static int not_in_range(const struct setting *s, const char *value, struct err *e)
{
	const char *unit = s->unit ? s->unit : "", *of = s->unit ? " of " : "";
	char words[400], step[40] = "";

	if (s->step > 1)
		snprintf(step, sizeof step, ", a multiple of %d,", s->step);
	switch (s->type) {
	case SETTING_INT:
		return err_set(e, ERR_USAGE, "%s %.40s: a whole number%s%s from %.0f to %.0f%s is needed",
			s->name, value, of, unit, s->low, s->high, step);
	case SETTING_U64:
		return err_set(e, ERR_USAGE, "%s %.40s: a whole number from -2^63 to 2^64-1 is needed",
			s->name, value);
	case SETTING_FLOAT:
	case SETTING_NUMBER:
		return err_set(e, ERR_USAGE, "%s %.40s: a %snumber%s%s from %.10g to %.10g is needed",
			s->name, value, s->step ? "whole " : "", of, unit, s->low, s->high);
	default:
		words_text(s, "|", words, sizeof words);
		return err_set(e, ERR_USAGE, "%s %.40s: one of %s is needed", s->name, value, words);
	}
}

static bool read_int(const struct setting *s, const char *value, int32_t *out)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (end == value || *end || errno || (double)n < s->low || (double)n > s->high ||
		(s->step && n % s->step))
		return false;
	*out = (int32_t)n;
	return true;
}

/* A negative one is that of the same 64 bits. */
static bool read_u64(const char *value, uint64_t *out)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = *value == '-' ? (unsigned long long)strtoll(value, &end, 0) : strtoull(value, &end, 0);
	value += *value == '-';
	if (end == value || *end || errno || *value < '0' || *value > '9')
		return false;
	*out = n;
	return true;
}

static bool read_number(const struct setting *s, const char *value, void *out)
{
	char *end;
	double x = strtod(value, &end);

	if (end == value || *end || !(x >= s->low && x <= s->high) || (s->step && x != floor(x)))
		return false;
	if (s->type == SETTING_FLOAT)
		*(float *)out = (float)x;
	else
		*(double *)out = x;
	return true;
}

static bool read_word(const struct setting *s, const char *value, void *out)
{
	int i = 0;

	while (setting_word(s, i) && strcmp(setting_word(s, i), value))
		i++;
	if (!setting_word(s, i))
		return false;
	if (s->type == SETTING_SWITCH)
		*(bool *)out = i == 0;
	else
		*(const char **)out = setting_word(s, i);
	return true;
}

static int add_stop(
	const struct setting *s, struct setting_stops *stops, const char *value, struct err *e)
{
	int n = 0;

	if (!strcmp(value, "off")) {
		setting_stops_free(stops);
		return 0;
	}
	while (stops->text[n])
		n++;
	if (!*value)
		return err_set(e, ERR_USAGE, "%s: a text is needed, and this one is empty", s->name);
	if (n == SETTING_STOPS_MAX)
		return err_set(
			e, ERR_USAGE, "%s: there are %d texts already, the most; off forgets them", s->name, n);
	stops->text[n] = strdup(value);
	if (!stops->text[n])
		return err_no_memory(e, "a stop text");
	stops->text[n][text_unescape(stops->text[n], strlen(value))] = '\0';
	return 0;
}

int setting_put(const struct setting *s, void *base, const char *value, struct err *e)
{
	void *at = (char *)base + s->at;

	switch (s->type) {
	case SETTING_FLAG: *(bool *)at = true; return 0;
	case SETTING_INT: return read_int(s, value, at) ? 0 : not_in_range(s, value, e);
	case SETTING_U64: return read_u64(value, at) ? 0 : not_in_range(s, value, e);
	case SETTING_FLOAT:
	case SETTING_NUMBER: return read_number(s, value, at) ? 0 : not_in_range(s, value, e);
	case SETTING_SWITCH:
	case SETTING_CHOICE: return read_word(s, value, at) ? 0 : not_in_range(s, value, e);
	case SETTING_STOPS: return add_stop(s, at, value, e);
	case SETTING_BIAS: return sample_bias_read(value, at, e);
	case SETTING_SPEC: return setting_spec_read(s, value, at, e);
	case SETTING_FILE:
		if (!*value && !s->bare)
			return err_set(e, ERR_USAGE, "%s: a file must be named", s->name);
		/* fall through */
	default:
		*(const char **)at = s->kept ? setting_keep("", value, strlen(value)) : value;
		return !value || *(const char **)at ? 0 : err_no_memory(e, "a setting");
	}
}

void setting_copy(const struct setting *s, void *to, const void *from)
{
	memcpy((char *)to + s->at, (const char *)from + s->at, s->size);
}

int setting_check(const struct setting *s, const char *value, struct err *e)
{
	union {
		struct setting_stops stops;
		struct sample_bias bias;
	} scratch = { .stops = { { NULL } } }; /* the largest of all fields */
	struct setting at_once = *s;
	int rc;

	at_once.at = 0;
	rc = setting_put(&at_once, &scratch, value, e);
	if (s->type == SETTING_STOPS)
		setting_stops_free(&scratch.stops);
	return rc;
}

static const char *spec_at(const struct setting *s, const void *base)
{
	const char *const *at = (const void *)((const char *)base + s->at);

	return *at ? *at : "";
}

bool setting_same(const struct setting *s, const void *a, const void *b)
{
	char x[64], y[64];

	if (s->type == SETTING_SPEC)
		return !strcmp(spec_at(s, a), spec_at(s, b));
	if (s->type == SETTING_BIAS)
		return sample_bias_same(
			(const void *)((const char *)a + s->at), (const void *)((const char *)b + s->at));
	setting_text(s, a, x, sizeof x);
	setting_text(s, b, y, sizeof y);
	return !strcmp(x, y);
}

static void stops_text(const struct setting_stops *stops, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", stops->text[0] ? "" : "off");
	for (int i = 0; stops->text[i]; i++)
		text_append(buf, cap, " ", "'%s'", stops->text[i]);
}

void setting_text(const struct setting *s, const void *base, char *buf, size_t cap)
{
	const void *at = (const char *)base + s->at;

	switch (s->type) {
	case SETTING_INT: snprintf(buf, cap, "%d", *(const int32_t *)at); break;
	case SETTING_U64: snprintf(buf, cap, "%llu", (unsigned long long)*(const uint64_t *)at); break;
	case SETTING_FLOAT: snprintf(buf, cap, "%g", (double)*(const float *)at); break;
	case SETTING_SWITCH: snprintf(buf, cap, "%s", *(const bool *)at ? "on" : "off"); break;
	case SETTING_STOPS: stops_text(at, buf, cap); break;
	case SETTING_BIAS: sample_bias_text(at, buf, cap); break;
	case SETTING_CHOICE:
	case SETTING_TEXT:
	case SETTING_FILE:
	case SETTING_SPEC:
		snprintf(buf, cap, "%s", *(const char *const *)at ? *(const char *const *)at : "");
		break;
	default: *buf = '\0';
	}
}

/* ---- help ---- */

/* What listed() has; else "; NAME: ngram, jacobi": what more() offers, each up to a colon, once. */
static void add_more(const struct setting *s, char *buf, size_t cap)
{
	const char *(*next)(int) = s->listed ? s->listed : s->arg ? s->more : NULL;
	const char *word, *last = "";
	size_t size = 0;

	for (int i = 0; next && (word = next(i)); i++) {
		if (!strncmp(word, last, size) && size == strcspn(word, ":"))
			continue;
		size = strcspn(word, ":");
		text_append(buf, cap, *last ? ", " : s->listed ? "" : "; NAME: ", "%.*s", (int)size, word);
		last = word;
	}
}

const char *setting_doc(const struct setting *s, const void *base, char *buf, size_t cap)
{
	char value[64] = "";

	snprintf(buf, cap, "%s", s->doc);
	add_more(s, buf, cap);
	if (base)
		setting_text(s, base, value, sizeof value);
	if (*value)
		text_append(buf, cap, "", " (%s%s)", value,
			s->effect == SETTING_LOSSY ? "; lossy if it is another" : "");
	return buf;
}

/* ---- stop texts ---- */

const char *const *setting_stops(const struct setting_stops *stops)
{
	return (const char *const *)stops->text;
}

void setting_stops_free(struct setting_stops *stops)
{
	for (int i = 0; i <= SETTING_STOPS_MAX; i++) {
		free(stops->text[i]);
		stops->text[i] = NULL;
	}
}

bool setting_stops_take(struct setting_stops *to, const char *const *from)
{
	*to = (struct setting_stops){ { NULL } };
	for (int i = 0; i < SETTING_STOPS_MAX && from[i]; i++)
		if (!(to->text[i] = strdup(from[i])))
			return false;
	return true;
}

int setting_stops_copy(struct setting_stops *to, const struct setting_stops *from, struct err *e)
{
	return setting_stops_take(to, setting_stops(from)) ? 0 : err_no_memory(e, "a stop text");
}

const char *answer_system(const struct answer_settings *a, const char *own)
{
	if (!a->system || !strcmp(a->system, "default"))
		return own;
	return strcmp(a->system, "off") ? a->system : "";
}

bool answer_drops(const struct answer_settings *a)
{
	return a->overflow && !strcmp(a->overflow, "drop");
}

int32_t answer_room(const struct answer_settings *a, int32_t ctx)
{
	const int32_t room = a->max_tokens ? a->max_tokens : 256;

	return room < ctx / 4 ? room : ctx / 4;
}

#define OF_INT(v) (int32_t)(v)
#define OF_U64(v) (uint64_t)(v)
#define OF_FLOAT(v) (float)(v)
#define OF_BIAS(v) sample_bias_of(v)
#define TELL_INT(v) (v)
#define TELL_U64(v) (int64_t)(v)
#define TELL_FLOAT(v) (double)(v)
#define TELL_BIAS(v) bias_span(&(v))

static struct ev_span bias_span(const struct sample_bias *b)
{
	return (struct ev_span){ b->n ? b->entry : NULL, (size_t)b->n * sizeof *b->entry };
}

struct sample_params sample_params_of(const struct ev_request *q)
{
	return (struct sample_params){
#define SAMPLE(type, field, ...) .field = OF_##type(q->field),
#include "engine/settings/settings.def"
	};
}

void sample_params_emit(const struct sample_params *p, struct ev_request *q)
{
#define SAMPLE(type, field, ...) q->field = TELL_##type(p->field);
#include "engine/settings/settings.def"
}

void sample_params_print(const struct sample_params *p, char *buf, size_t cap)
{
	const struct answer_settings a = { .params = *p };

	*buf = '\0';
	for (int i = 0; i <= ANSWER_AT_seed; i++) {
		char value[40];

		setting_text(&answer_settings[i], &a, value, sizeof value);
		text_append(buf, cap, ", ", "%s %s", answer_settings[i].name, value);
	}
}
