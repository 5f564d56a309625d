/* The servers that are known, and how their answers are read. See attach_impl.h. */
#include "base/text.h"
#include "sessions/attach/attach_impl.h"

/* The last speaks the OpenAI interface and nothing else. */
static const struct attach_server *const servers[] = { &attach_llama_server, &attach_vllm,
	&attach_sglang, &attach_cutaway, &attach_openai };
enum { N_SERVERS = sizeof servers / sizeof *servers };

static bool tells(const char *metrics, const char *begins)
{
	const char *at = strstr(metrics, begins);

	return at && (at == metrics || at[-1] == '\n');
}

const struct attach_server *attach_which(const char *owner, const char *metrics)
{
	for (int i = 0; i < N_SERVERS - 1; i++)
		if (!strcmp(servers[i]->owner, owner))
			return servers[i];
	for (int i = 0; metrics && i < N_SERVERS - 1; i++)
		if (tells(metrics, servers[i]->metrics))
			return servers[i];
	return servers[N_SERVERS - 1];
}

static int64_t whole(double v)
{
	return v >= 0 && v < 1e15 && floor(v) == v ? (int64_t)v : EV_NULL_I;
}

int64_t attach_int(const cJSON *o, const char *key)
{
	const cJSON *v = foreign_member(o, key);

	return cJSON_IsNumber(v) ? whole(v->valuedouble) : EV_NULL_I;
}

void attach_word(const cJSON *o, const char *key, char *out, size_t cap)
{
	const char *text = cJSON_GetStringValue(foreign_member(o, key));

	text_cleaned(out, cap, text ? text : "", text ? strlen(text) : 0);
}

/* ---- metrics ---- */

static const char *next_line(const char *at)
{
	at += strcspn(at, "\n");
	return *at ? at + 1 : NULL;
}

/* After the name and its labels, if the line is of this metric; *labels is "" or between braces. */
static const char *value_of(const char *line, const char *name, const char **labels, size_t *size)
{
	size_t n = strlen(name);

	if (strncmp(line, name, n) != 0)
		return NULL;
	line += n;
	*labels = line;
	*size = 0;
	if (*line == '{') {
		*labels = ++line;
		*size = strcspn(line, "}\n"); /* no server here has a brace in a label that is read */
		line += *size;
		if (*line++ != '}')
			return NULL;
	}
	return *line == ' ' ? line + 1 : NULL;
}

static bool label_is(const char *labels, size_t size, const char *label, const char *value)
{
	char whole_label[64];
	const char *at;
	size_t n;

	n = (size_t)snprintf(whole_label, sizeof whole_label, "%s=\"", label);
	at = memmem(labels, size, whole_label, n);
	if (!at)
		return true; /* it has no such label */
	n = strlen(value);
	at += strlen(whole_label);
	return (size_t)(labels + size - at) > n && !memcmp(at, value, n) && at[n] == '"';
}

double attach_metric(const char *text, const char *name, bool largest)
{
	double all = (double)NAN;
	const char *labels, *value;
	size_t size;

	for (const char *line = text; line; line = next_line(line)) {
		double v;

		value = value_of(line, name, &labels, &size);
		if (!value || !label_is(labels, size, "tp_rank", "0") ||
			!label_is(labels, size, "pp_rank", "0") || !label_is(labels, size, "priority", ""))
			continue;
		v = strtod(value, NULL);
		if (isfinite(v) && v >= 0)
			all = isnan(all) ? v : largest ? fmax(all, v) : all + v;
	}
	return all;
}

int64_t attach_count(const char *text, const char *name)
{
	const double v = attach_metric(text, name, false);

	return isnan(v) ? EV_NULL_I : whole(v);
}

int64_t attach_label(const char *text, const char *name, const char *label)
{
	char key[64];
	const char *labels, *at;
	size_t size, n = (size_t)snprintf(key, sizeof key, "%s=\"", label);

	for (const char *line = text; line; line = next_line(line))
		if (value_of(line, name, &labels, &size) && (at = memmem(labels, size, key, n)))
			return whole(strtod(at + n, NULL));
	return EV_NULL_I;
}
