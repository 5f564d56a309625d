/* cutaway serve: the OpenAI interface over HTTP. Thread: main's. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/router.h"
#include "cli/chat_open.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/open.h"
#include "cli/out.h"
#include "cli/prompt.h"
#include "serve/serve.h"

static struct serve_opts {
	const char *host, *api_key, *name, *router;
	struct setting_stops cors;
	int32_t port, queue, connections, idle, body, drain, replicas;
	bool headless;
} opts = { .host = "127.0.0.1",
	.port = 8080,
	.queue = 64,
	.connections = 256,
	.idle = 30,
	.body = 1024,
	.drain = 30,
	.replicas = 1,
	.router = "prefix" };

static const struct setting serve_own[] = {
	OWN(TEXT, serve_opts, host, .name = "host", .group = "Server", .arg = "ADDRESS",
		.doc = "address to listen at; 0.0.0.0: all of this machine's"),
	OWN(INT, serve_opts, port, .name = "port", .group = "Server", .arg = "N", .high = 65535,
		.doc = "port to listen at; 0: a free one, which is printed"),
	OWN(TEXT, serve_opts, api_key, .name = "api-key", .group = "Server", .arg = "KEY",
		.doc =
			"ask for this key; better in the variable CUTAWAY_API_KEY, since others see a command "
			"line"),
	OWN(STOPS, serve_opts, cors, .name = "cors", .group = "Server", .arg = "ORIGIN",
		.doc =
			"let pages of this origin (https://HOST:PORT; *: any) ask, and read what is answered; "
			"may be repeated"),
	OWN(TEXT, serve_opts, name, .name = "served-model-name", .group = "Server", .arg = "NAME",
		.doc = "what clients are told that the model is called (without it: its own name)"),
	OWN(INT, serve_opts, queue, .name = "queue", .group = "Server", .arg = "N", .low = 0,
		.high = 1 << 16,
		.doc = "answers that may wait for a slot; more are refused with status 429"),
	OWN(INT, serve_opts, connections, .name = "connections", .group = "Server", .arg = "N",
		.low = 1, .high = 1 << 14, .doc = "connections at once"),
	OWN(INT, serve_opts, idle, .name = "idle", .group = "Server", .arg = "SECONDS", .low = 1,
		.high = 86400, .doc = "close a connection that neither sends nor takes for so long"),
	OWN(INT, serve_opts, body, .name = "body", .group = "Server", .arg = "KIB", .low = 1,
		.high = 1 << 20, .doc = "largest body of a request"),
	OWN(INT, serve_opts, drain, .name = "drain", .group = "Server", .arg = "SECONDS", .low = 0,
		.high = 86400,
		.doc = "on SIGTERM or at the end, how long requests that run may take to end; 0: none"),
	OWN(INT, serve_opts, replicas, .name = "replicas", .group = "Server", .arg = "N", .low = 1,
		.high = SERVE_REPLICAS,
		.doc = "engines of the model in this process, which share its weights and the processor's "
			   "cores; implies --headless. With --record FILE.db replica 1 records FILE.1.db, …"),
	OWN(CHOICE, serve_opts, router, .name = "router", .group = "Server", .more = router_name,
		.doc = "which replica gets a request: see docs/simulate.md"),
	OWN(FLAG, serve_opts, headless, .name = "headless", .group = "Server",
		.doc = "a line a request in place of the chat's screens; so it is without a terminal"),
	{ 0 },
};

static atomic_bool interrupted; /* checked while the model is opened, too */
static atomic_bool stopped;     /* the engine cannot go on */

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&interrupted, true);
}

/* A line a request, without a word of its text. */
static void note(void *arg, const char *line)
{
	struct tm tm;
	char at[24];
	const time_t now = time(NULL);

	(void)arg;
	strftime(at, sizeof at, "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(stderr, "%s %s\n", at, line);
}

static struct serve_options options(const struct cli *c)
{
	const char *key = opts.api_key ? opts.api_key : getenv("CUTAWAY_API_KEY");

	return (struct serve_options){ .host = opts.host,
		.port = opts.port,
		.api_key = key && *key ? key : NULL,
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

static void wait_for_end(void)
{
	const struct timespec tick = { .tv_nsec = 50000000 };

	while (!atomic_load(&interrupted) && !atomic_load(&stopped))
		nanosleep(&tick, NULL);
}

static const char open_words[] =
	"whoever reaches this machine may use the server: it listens beyond 127.0.0.1 and asks for no "
	"key (CUTAWAY_API_KEY)";

/* The sessions of a server without screens, one a replica. */
struct served {
	struct serve *s;
	struct session *session; /* [opts.replicas] */
	struct err why;          /* the last engine cannot go on */
};

struct stopping {
	struct served *of;
	int32_t replica;
};

static void on_stop(void *arg, const struct err *err)
{
	const struct stopping *p = arg;

	if (serve_failed(p->of->s, p->replica, err))
		return;
	p->of->why = *err;
	atomic_store(&stopped, true);
}

static int run(const struct cli *c, struct served *d, struct stopping *stopping, struct err *e)
{
	char url[80];

	for (int32_t i = 0; i < opts.replicas; i++) {
		stopping[i] = (struct stopping){ d, i };
		if (session_begin(&d->session[i], on_stop, &stopping[i], e))
			return -1;
	}
	if (serve_start(d->s, d->session, e))
		return -1;
	serve_url(d->s, url, sizeof url);
	printf("serving %s\n", url);
	prompt_note_template(c, d->session->engine);
	if (serve_is_open(d->s))
		fprintf(stderr, "cutaway: warning: %s\n", open_words);
	if (out_flush(e))
		return -1;
	wait_for_end();
	serve_drain(d->s, opts.drain);
	return atomic_load(&stopped) ? err_set(e, d->why.code, "%s", d->why.text) : 0;
}

/* FILE.db of replica 0 is FILE.1.db of replica 1; malloc'd. A file that is there stops all, before
 * anything is written. */
static char *record_of(const struct cli *c, int32_t replica, struct err *e)
{
	const size_t n = strlen(c->record);
	const int stem = n > 3 && !strcmp(c->record + n - 3, ".db") ? (int)n - 3 : (int)n;
	struct stat st;
	char *path = NULL;

	if (asprintf(&path, "%.*s.%d%s", stem, c->record, replica, c->record + stem) < 0)
		path = NULL;
	if (!path)
		err_set(e, ERR_MEMORY, "no memory for a path");
	else if (!stat(path, &st) && st.st_size)
		err_set(e, ERR_IO,
			"replica %d cannot record to %s: it exists, and no file is overwritten; choose another "
			"name with --record",
			replica, path);
	return path;
}

static int name_records(const struct cli *c, char **record, struct err *e)
{
	for (int32_t i = 1; c->record && i < opts.replicas; i++)
		if (!(record[i] = record_of(c, i, e)) || e->code)
			return -1;
	return 0;
}

/* Recordings of others' requests are made only where they are asked for. */
static int open_sessions(struct served *d, const struct cli *c, char *const *record, struct err *e)
{
	const int32_t cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN),
				  parts = opts.replicas * c->engine.tensor_parallel * c->engine.pipeline_parallel;
	struct session_options o = { .engine = c->engine, .sink = serve_sink };
	char *model = NULL;
	int rc;

	rc = model_find(c, &model, e);
	o.engine.model = model;
	o.engine.replicas = opts.replicas;
	o.engine.abandon = &interrupted;
	if (!o.engine.threads && opts.replicas > 1)
		o.engine.threads = cores > parts ? cores / parts : 1;
	for (int32_t i = 0; !rc && i < opts.replicas; i++) {
		o.arg = serve_replica(d->s, i);
		o.record = i ? record[i] : c->record;
		rc = session_open(&d->session[i], &o, e);
	}
	free(model);
	return rc;
}

static int serve_lines(const struct cli *c, struct serve *s, struct err *e)
{
	const struct sigaction act = { .sa_handler = on_signal };
	struct session session[SERVE_REPLICAS] = { 0 };
	struct stopping stopping[SERVE_REPLICAS];
	char *record[SERVE_REPLICAS] = { NULL };
	struct served d = { .s = s, .session = session };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!name_records(c, record, e) && !open_sessions(&d, c, record, e))
		run(c, &d, stopping, e);
	for (int32_t i = opts.replicas - 1; i >= 0; i--) {
		cli_close(&session[i], c, e);
		free(record[i]);
	}
	return e->code ? -1 : 0;
}

/* ---- the chat's screens, with clients in the batch ---- */

static int guest_begin(void *arg, struct session *session, struct tui_says *says, struct err *e)
{
	if (serve_start(arg, session, e))
		return -1;
	serve_url(arg, says->where, sizeof says->where);
	says->mark = "open: no key";
	if (serve_is_open(arg))
		snprintf(says->warning, sizeof says->warning, "%s", open_words);
	return 0;
}

static void guest_end(void *arg)
{
	serve_drain(arg, opts.drain);
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

static int serve_verb(const struct cli *c, struct err *e)
{
	const bool lines =
		opts.headless || opts.replicas > 1 || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	struct serve_options o = options(c);
	struct serve *s = NULL;
	int rc;

	o.note = lines ? note : NULL;
	if (serve_open(&s, &o, e))
		return -1;
	rc = lines ? serve_lines(c, s, e) : serve_screens(c, s, e);
	serve_close(s);
	return rc;
}

const struct verb verb_serve = {
	VERB(serve, "", "answer requests over HTTP, as OpenAI's interface has them"),
	.doc =
		"Serves /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize, /score, "
		"/health and /metrics until Ctrl-C or SIGTERM, which lets running requests end. Any client "
		"of that interface may be pointed at it. Requests share the engine's batch; with a seed "
		"the answer is the same under any load, and each says the hash of its last row of logits. "
		"On a terminal the chat's screens show the clients' requests beside one's own; else, or "
		"with --headless, a line is printed for each request, without its text. Nothing is "
		"recorded without --record.",
	.example = "cutaway serve --port 8080",
	.takes =
		"Model|Kernels|Exactness|Sampling|max-tokens|stop|overflow|system|Scheduler|Speculation|"
		"Watching|record|ascii|theme",
	VERB_OWN(serve),
};
