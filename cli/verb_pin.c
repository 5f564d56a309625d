/* cutaway pin: declares a text stable at a server that runs, so that its pages are kept. Thread:
 * main's. */
#include "base/duration.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "sessions/client/pins.h"

enum { WAIT_S = 3600 }; /* a long text takes its time, in which no byte comes */

static struct pin_opts {
	const char *url, *ttl, *role;
	int32_t remove, replica;
	bool list;
} opts = { .url = "http://127.0.0.1:8080", .ttl = "5m", .role = "user" };

static const struct setting pin_own[] = {
	OWN(TEXT, pin_opts, ttl, "ttl", "Pin",
		"how long its pages are kept, from 1s to 24h: 90s, 5m, 1h", .arg = "TIME"),
	OWN(CHOICE, pin_opts, role, "role", "Pin",
		"FILE is the beginning of the first turn, the system text, or a text without a chat",
		SETTING_WORDS("user", "system", "text")),
	OWN(FLAG, pin_opts, list, "list", "Pin", "lists what is pinned"),
	OWN(INT, pin_opts, remove, "remove", "Pin", "ends pin N", .arg = "N", .low = 1,
		.high = INT32_MAX),
	OWN(INT, pin_opts, replica, "replica", "Pin",
		"with --remove: pin N of this replica, where --list tells replicas", .arg = "R",
		.high = INT32_MAX),
	OWN(TEXT, pin_opts, url, "url", "Pin", "the server: what cutaway serve printed", .arg = "URL"),
	{ 0 },
};

/* The body of POST /pin; NULL with the error. */
static char *body_of(const char *file, struct err *e)
{
	struct json j = { 0 };
	size_t size;
	char *text, *body;

	if (in_read(file, &text, &size, e))
		return NULL;
	json_object(&j, NULL);
	if (!strcmp(opts.role, "text")) {
		json_bytes(&j, "prompt", text, size);
	} else {
		json_put(&j, "'messages': [{'role': %s", opts.role);
		json_bytes(&j, "content", text, size);
		json_end(&j);
		json_end(&j);
	}
	json_text(&j, "ttl", opts.ttl);
	body = json_take(&j, &size);
	free(text);
	if (!body)
		err_no_memory(e, "the text");
	return body;
}

static int pin_verb(const struct cli *c, struct err *e)
{
	const struct client_options o = {
		.url = opts.url, .api_key = cli_api_key(c), .idle_s = WAIT_S
	};
	char path[32] = "/pins", *body = NULL, *reported;

	if (duration_parse(opts.ttl) < 0)
		return err_set(
			e, ERR_USAGE, "--ttl %.40s: a time from 1s to 24h is needed: 90s, 5m, 1h", opts.ttl);
	if (c->n_operands != !(opts.list || opts.remove) || (opts.list && opts.remove))
		return err_set(e, ERR_USAGE, "one of FILE, --list and --remove N is needed");
	if (opts.remove && cli_given(c, "replica"))
		snprintf(path, sizeof path, "/pins/%d/%d", opts.replica, opts.remove);
	else if (opts.remove)
		snprintf(path, sizeof path, "/pins/%d", opts.remove);
	else if (!opts.list && !(body = body_of(c->operand[0], e)))
		return -1;
	reported = pins_ask(&o,
		opts.remove ? "DELETE"
		: body      ? "POST"
					: "GET",
		body ? "/pin" : path, body, c->json, e);
	free(body);
	if (reported)
		fputs(reported, stdout);
	free(reported);
	return e->code ? -1 : 0;
}

const struct verb verb_pin = {
	VERB(pin, "[FILE]", "api-key|json"),
	OPERANDS(0, 1, "FILE"),
};
