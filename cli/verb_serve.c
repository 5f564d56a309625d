/* cutaway serve: the OpenAI interface over HTTP. Thread: main's. */
#include <unistd.h>

#include "base/duration.h"
#include "base/router.h"
#include "base/systemd.h"
#include "cli/chat_open.h"
#include "cli/interrupt.h"
#include "cli/serve_lines.h"

static struct serve_opts {
	const char *host, *name, *router, *record_age;
	struct setting_stops cors;
	int32_t port, queue, connections, idle, body, drain, replicas, record_size, record_keep;
	bool headless;
} opts = { .host = "127.0.0.1",
	.port = 8080,
	.queue = 64,
	.connections = 256,
	.idle = 30,
	.body = 1024,
	.drain = 30,
	.replicas = 1,
	.router = "prefix",
	.record_age = "0" };

static const struct setting serve_own[] = {
	OWN(TEXT, serve_opts, host, "host", "Server",
		"address to listen at; 0.0.0.0: all of this machine's", .arg = "ADDRESS"),
	OWN(INT, serve_opts, port, "port", "Server",
		"port to listen at; 0: a free one, which is printed", .arg = "N", .high = 65535),
	OWN(STOPS, serve_opts, cors, "cors", "Server",
		"let pages of this origin (https://HOST:PORT; *: any) ask, and read what is answered; may "
		"be repeated",
		.arg = "ORIGIN"),
	OWN(TEXT, serve_opts, name, "served-model-name", "Server",
		"what clients are told that the model is called (without it: its own name)", .arg = "NAME"),
	OWN(INT, serve_opts, queue, "queue", "Server",
		"answers that may wait for a slot; more are refused with status 429", .arg = "N", .low = 0,
		.high = 1 << 16),
	OWN(INT, serve_opts, connections, "connections", "Server", "connections at once", .arg = "N",
		.low = 1, .high = 1 << 14),
	OWN(INT, serve_opts, idle, "idle", "Server",
		"close a connection that neither sends nor takes for so long", .arg = "SECONDS", .low = 1,
		.high = 86400),
	OWN(INT, serve_opts, body, "body", "Server", "largest body of a request", .arg = "KIB",
		.low = 1, .high = 1 << 20),
	OWN(INT, serve_opts, drain, "drain", "Server",
		"on SIGTERM and SIGHUP, how long requests that run may take to end; 0: none",
		.arg = "SECONDS", .low = 0, .high = 86400),
	OWN(INT, serve_opts, replicas, "replicas", "Server",
		"engines of the model in this process, which share its weights and the processor's cores; "
		"implies --headless. With --record FILE.db replica 1 records FILE.1.db, …",
		.arg = "N", .low = 1, .high = SERVE_REPLICAS),
	OWN(CHOICE, serve_opts, router, "router", "Server",
		"which replica gets a request: see docs/simulate.md", .more = router_name),
	OWN(INT, serve_opts, record_size, "record-size", "Server",
		"with --record DIR/, begin another file when this one is so large; 0: never", .arg = "MIB",
		.high = 1 << 24),
	OWN(TEXT, serve_opts, record_age, "record-age", "Server",
		"or so old: 90s, 30m, 24h at most; 0: never", .arg = "TIME"),
	OWN(INT, serve_opts, record_keep, "record-keep", "Server",
		"then remove the oldest files that this server wrote, but for N; 0: none", .arg = "N",
		.high = 1 << 16),
	OWN(FLAG, serve_opts, headless, "headless", "Server",
		"a line a request in place of the chat's screens; so it is without a terminal"),
	{ 0 },
};

static struct serve_options options(const struct cli *c)
{
	return (struct serve_options){ .host = opts.host,
		.port = opts.port,
		.api_key = cli_api_key(c),
		.cors = &opts.cors,
		.name = opts.name,
		.queue = opts.queue,
		.connections = opts.connections,
		.idle_s = opts.idle,
		.body_kib = opts.body,
		.replicas = opts.replicas,
		.router = opts.router,
		.answer = &c->answer };
}

/* ---- the chat's screens, with clients in the batch ---- */

static int guest_begin(void *arg, struct session *session, struct tui_says *says, struct err *e)
{
	if (serve_start(arg, session, e))
		return -1;
	serve_url(arg, says->where, sizeof says->where);
	says->mark = "open: no key";
	if (serve_is_open(arg))
		snprintf(says->warning, sizeof says->warning, "%s", serve_open_words);
	return 0;
}

static void guest_end(void *arg)
{
	atomic_store(&interrupted, false); /* the next one ends the waiting */
	interrupt_catch(SIGINT, 0);
	serve_drain(arg, opts.drain, &interrupted);
}

static int serve_screens(const struct cli *c, struct serve *s, struct err *e)
{
	const struct tui_guest guest = { .sink = serve_sink,
		.sink_arg = serve_replica(s, 0),
		.begin = guest_begin,
		.end = guest_end,
		.arg = s };
	struct cli own = *c;

	own.no_record = !c->record;
	own.engine.replicas = 1;
	return chat_open(&own, &(struct chat_extra){ .guest = &guest }, e);
}

static int lines_of(const struct cli *c, bool lines, struct serve_lines *l, struct err *e)
{
	const bool ages = strcmp(opts.record_age, "0") != 0;

	*l = (struct serve_lines){ .replicas = opts.replicas,
		.drain = opts.drain,
		.record_bytes = (int64_t)opts.record_size << 20,
		.record_ns = ages ? duration_parse(opts.record_age) : 0,
		.record_keep = opts.record_keep };
	if (l->record_ns < 0)
		return err_set(e, ERR_USAGE, "--record-age %.40s: 90s, 30m or 24h, 24h at most; or 0",
			opts.record_age);
	if ((l->record_bytes || ages || l->record_keep) && (!c->new_record || !lines))
		return err_set(e, ERR_USAGE,
			"--record-size, --record-age and --record-keep are for --headless and --record DIR/");
	return 0;
}

static int serve_verb(const struct cli *c, struct err *e)
{
	const bool lines =
		opts.headless || opts.replicas > 1 || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	struct serve_lines l;
	struct serve_options o = options(c);
	struct serve *s = NULL;
	int rc;

	o.note = lines ? serve_note : NULL;
	if (lines_of(c, lines, &l, e))
		return -1;
	if (systemd_socket(&o.socket, e) || serve_open(&s, &o, e))
		return -1;
	rc = lines ? serve_lines(c, s, &l, e) : serve_screens(c, s, e);
	serve_close(s);
	return rc;
}

const struct verb verb_serve = {
	VERB(serve, "",
		"api-key|Model|Kernels|Exactness|Sampling|max-tokens|stop|adapter|overflow|system|"
		"Embedding|Scheduler|Speculation|Watching|record|ascii|theme"),
};
