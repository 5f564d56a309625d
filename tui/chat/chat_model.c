/* /model: the conversation goes on with another model.
 *
 * A recording is of one model, so the new one has a recording of its own, which continues the old
 * one as `chat --continue` does: replay, verify and the next --continue read it like any other. The
 * new model is opened beside the old one, on a thread of its own; only when it is there, with the
 * settings that it takes and the conversation in its own tokens, the old session is closed. Until
 * then anything that fails leaves the old one as it was. Turns and commands wait meanwhile. Thread:
 * the UI's, but for prepare(). */
#include <fcntl.h>

#include "base/models.h"
#include "base/paths.h"
#include "tui/chat/chat.h"
#include "tui/state/lens.h"

struct carried { /* a turn: its texts, then in the new model's tokens */
	char *text, *answer;
	size_t size;  /* of the answer */
	int32_t *ids; /* prompt and answer */
	int32_t n_prompt, n;
};

struct chat_model {
	struct live live; /* being opened; then struct chat's */
	struct tui_options options;
	char *path, *record, *old; /* old: the recording before, or NULL */
	struct err not_recorded;
	char *value[N_ENGINE_SETTINGS]; /* to be set again; NULL: as opened */
	char refused[160];              /* names of those that were not taken */
	struct carried *turn;
	int n_turns, cap_turns;
};

static void change_free(struct chat_model *m)
{
	for (int i = 0; m && i < m->n_turns; i++) {
		free(m->turn[i].text);
		free(m->turn[i].answer);
		free(m->turn[i].ids);
	}
	for (int i = 0; m && i < N_ENGINE_SETTINGS; i++)
		free(m->value[i]);
	if (!m)
		return;
	free(m->turn);
	free(m->path);
	free(m->record);
	free(m->old);
	free(m);
}

/* Before the session began: nothing is left of it. */
static void drop(struct chat_model *m)
{
	live_close(&m->live, NULL);
	if (m->options.record)
		unlink(m->options.record);
	change_free(m);
}

void chat_model_end(struct chat *c)
{
	if (c->model)
		drop(c->model);
	change_free(c->model_now);
}

/* ---- on the thread that opens it ---- */

static void refuse(struct chat_model *m, const char *name)
{
	const size_t n = strlen(m->refused);

	snprintf(m->refused + n, sizeof m->refused - n, "%s%s", n ? ", " : "", name);
}

static void take_settings(struct chat_model *m, struct engine *engine)
{
	struct sample_bias *bias = &m->options.answer.params.logit_bias;
	struct err ignored = { 0 };
	char now[512];

	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		if (m->value[i] &&
			(engine_get(engine, engine_settings[i].name, now, sizeof now) ||
				strcmp(now, m->value[i]) != 0) &&
			engine_set(engine, engine_settings[i].name, m->value[i], &ignored))
			refuse(m, engine_settings[i].name);
	if (bias->n) /* ids of another vocabulary */
		refuse(m, "logit-bias");
	bias->n = 0;
}

/* As if the turn ran: the conversation goes on after it. */
static void report(struct conversation *c, const struct carried *t)
{
	struct event ev;

	conversation_expect(c, 1);
	ev_init(&ev, EV_request);
	ev.u.request.request = 1;
	ev.u.request.kind = EV_REQUEST_KIND_chat;
	conversation_sink(c, &ev);
	for (int32_t i = t->n_prompt; i < t->n; i++) {
		ev_init(&ev, EV_token);
		ev.u.token.request = 1;
		ev.u.token.id = t->ids[i];
		conversation_sink(c, &ev);
	}
}

static int to_tokens(struct chat_model *m, struct conversation *c, struct carried *t,
	const struct tokenizer *of, struct err *e)
{
	const bool drops = answer_drops(&m->options.answer);
	struct conversation_prompt p;
	size_t n, cap;

	if (conversation_ask(c, t->text, strlen(t->text), 0, drops, &p, e))
		return -1;
	n = cap = (size_t)p.n_ids;
	t->ids = malloc(n * sizeof *t->ids);
	if (!t->ids)
		return err_no_memory(e, "the conversation's tokens");
	memcpy(t->ids, p.ids, n * sizeof *t->ids);
	t->n_prompt = p.n_ids;
	if (tokenizer_encode(of, t->answer, t->size, false, &t->ids, &n, &cap, e))
		return -1;
	t->n = (int32_t)n;
	report(c, t);
	return 0;
}

/* The conversation in the new model's template and tokens. */
static int take_turns(struct chat_model *m, struct live *s, struct err *e)
{
	const struct engine_info *info = engine_info(s->session.engine);
	const struct tokenizer *t = engine_tokenizer(s->session.engine);
	const struct chat_input chat = engine_chat(s->session.engine);
	struct conversation *c;
	struct err why = { 0 };
	int rc;

	rc = conversation_open(
		&c, &chat, info->ctx, answer_system(&m->options.answer, info->default_system), e);
	for (int i = 0; i < m->n_turns && !rc; i++) {
		rc = to_tokens(m, c, &m->turn[i], t, &why);
		if (!rc && m->turn[i].n >= info->ctx)
			rc = err_set(&why, ERR_USAGE, "%d tokens are needed, its context holds %d",
				m->turn[i].n, info->ctx);
		if (rc)
			err_set(e, why.code, "the conversation does not fit %s: %s; /new forgets it",
				info->name, why.text);
	}
	conversation_close(c);
	return rc;
}

static int prepare(void *arg, struct live *s, struct err *e)
{
	take_settings(arg, s->session.engine);
	return take_turns(arg, s, e);
}

/* ---- beginning ---- */

/* What stays with a model, and what follows the machine or the model. */
static bool is_carried(int i)
{
	const struct setting *s = &engine_settings[i];

	return s->when >= SETTING_IDLE && strcmp(s->group, "Kernels") &&
		   strcmp(s->group, "Measuring") && i != ENGINE_AT_attention_every &&
		   i != ENGINE_AT_observe_layer && i != ENGINE_AT_observe_head;
}

static int keep_settings(struct chat_model *m, const struct app *a, struct err *e)
{
	const struct engine_options initial = ENGINE_DEFAULTS;

	for (int i = 0; i < N_ENGINE_SETTINGS; i++) {
		const char *value =
			is_carried(i) ? timeline_setting(&a->timeline, engine_settings[i].name) : NULL;

		if (!value)
			continue;
		m->value[i] = strdup(value);
		if (!m->value[i])
			return err_no_memory(e, "the settings");
		setting_copy(&engine_settings[i], &m->options.engine, &initial);
	}
	return 0;
}

static int keep_turns(struct chat_model *m, struct conversation *c, struct err *e)
{
	struct carried t = { 0 };
	int got = 1;

	for (int i = 0; (got = conversation_turn(c, i, &t.text, &t.answer, &t.size)) > 0; i++) {
		if (t.size && ARRAY_ROOM(m->turn, m->cap_turns, m->n_turns + 1)) {
			m->turn[m->n_turns++] = t;
			continue;
		}
		free(t.text);
		free(t.answer);
		if (t.size) /* a turn that was never answered is left out */
			return err_no_memory(e, "the conversation");
	}
	return got ? err_no_memory(e, "the conversation") : 0;
}

/* Beside the recording that the user named: NAME-2.db and so on. */
static int next_name(const char *path, char **out, struct err *e)
{
	const size_t n = strlen(path), stem = n > 3 && !strcmp(path + n - 3, ".db") ? n - 3 : n;

	for (int i = 2; i < 1000; i++) {
		int fd;

		if (asprintf(out, "%.*s-%d%s", (int)stem, path, i, path + stem) < 0)
			break;
		fd = open(*out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0) {
			close(fd);
			return 0;
		}
		free(*out);
	}
	*out = NULL;
	return err_set(e, ERR_IO, "no recording can be made beside %s", path);
}

static void name_recording(struct chat_model *m, const struct tui_options *o)
{
	const char *first = o->first_record ? o->first_record : o->record;

	m->options.record = m->options.not_recorded = NULL;
	if (!o->record)
		return;
	m->options.first_record = first;
	m->old = strdup(o->record);
	if (o->record_named ? next_name(first, &m->record, &m->not_recorded)
						: paths_new_recording(NULL, &m->record, &m->not_recorded))
		m->options.not_recorded = m->not_recorded.text;
	m->options.record = m->record;
}

static int may_change(struct app *a, struct err *e)
{
	const struct chat *c = a->chat;

	if (c->options->guest)
		return err_set(e, ERR_USAGE, "a server keeps its model: end it, and serve the other one");
	if (c->model)
		return err_set(e, ERR_USAGE, "%s is being opened: ^C stops that", c->model->path);
	if (c->lesson.l)
		return err_set(
			e, ERR_USAGE, "not in a lesson, which goes by this session's log: /lesson off first");
	for (int32_t i = 0; i < a->timeline.n_requests; i++)
		if (a->timeline.request[i].state != TL_FINISHED)
			return err_set(e, ERR_USAGE, "not while requests run: /cancel stops them");
	return chat_busy(a) ? err_set(e, ERR_USAGE, "not during an answer: ^C stops it") : 0;
}

int chat_model(struct app *a, const char *what, struct err *e)
{
	struct chat *c = a->chat;
	struct chat_model *m;

	if (!*what && !models_name(0))
		return err_set(e, ERR_USAGE,
			"model: there is none where models are looked for; name a GGUF file, or `make model` "
			"fetches one");
	if (!*what) {
		app_palette(a, "models", PALETTE_MODELS, "");
		return 0;
	}
	if (may_change(a, e))
		return -1;
	chat_past_leave(a);
	m = calloc(1, sizeof *m);
	if (!m)
		return err_no_memory(e, "another model");
	m->live.fd = -1;
	m->options = *c->options;
	m->options.answer = c->settings;
	m->options.resumed = NULL;
	conversation_choose(
		c->live.conversation, a->state.request ? a->state.request : a->state.branch);
	if (models_find(what, &m->path, e) || keep_settings(m, a, e) ||
		keep_turns(m, c->live.conversation, e)) {
		change_free(m);
		return -1;
	}
	m->options.engine.model = m->path;
	name_recording(m, c->options);
	if (live_open_later(&m->live, &m->options, a->breaks, prepare, m, e)) {
		drop(m);
		return -1;
	}
	c->model = m;
	app_say(a, SAY_INFO, "opening %s beside %s", m->path, a->timeline.model_name);
	return 0;
}

bool chat_model_stop(struct app *a)
{
	if (!a->chat->model)
		return false;
	drop(a->chat->model);
	a->chat->model = NULL;
	app_say(a, SAY_INFO, "stopped: %s stays", a->timeline.model_name);
	return true;
}

/* ---- the change ---- */

static int recall(struct chat *c, const struct carried *t, struct err *e)
{
	const struct conversation_prompt p = { .ids = t->ids, .n_ids = t->n_prompt, .text = t->text };
	struct engine_request q = chat_request(c, EV_REQUEST_KIND_chat, &p, 0);
	const int32_t n = t->n - t->n_prompt;
	struct ev_token *token = malloc((size_t)n * sizeof *token);
	struct event ev;
	int rc;

	ev_init(&ev, EV_token);
	ev.u.token.source = EV_SOURCE_carried;
	for (int32_t i = 0; token && i < n; i++) {
		ev.u.token.id = t->ids[t->n_prompt + i];
		token[i] = ev.u.token;
	}
	q.max_tokens = 0;
	rc = token ? chat_recall(c, &q, token, n, EV_FINISH_end, e)
			   : err_no_memory(e, "the conversation");
	free(token);
	return rc;
}

static int recall_all(struct app *a, const struct chat_model *m, struct err *e)
{
	if (m->old)
		chat_note(a, "continues", m->old);
	for (int i = 0; i < m->n_turns; i++)
		if (recall(a->chat, &m->turn[i], e))
			return -1;
	return 0;
}

/* The screens begin anew: they are of the new session. */
static void forget_screens(struct app *a)
{
	struct chat *c = a->chat;

	lens_close(a->lens);
	a->lens = NULL;
	a->state.lens = NULL;
	timeline_free(&a->timeline);
	timeline_init(&a->timeline);
	a->state.request = a->state.branch = a->state.anew = 0;
	a->state.token = -1;
	a->state.page = a->state.layer = a->state.head = -1;
	memset(a->state.scroll, 0, sizeof a->state.scroll);
	memset(a->state.cursor, 0, sizeof a->state.cursor);
	c->n_left = 0;
	c->reported_layer = c->reported_head = 0;
	c->standing = c->record_failed = c->stop_reported = false;
}

static void say_changed(struct app *a, const struct chat_model *m, const struct err *old)
{
	const struct engine_info *info = engine_info(a->chat->live.session.engine);
	const int n = m->n_turns ? m->turn[m->n_turns - 1].n : 0;
	char kept[120] = "";

	if (m->n_turns)
		snprintf(kept, sizeof kept, "; its %d turn%s again as %d tokens of this model", m->n_turns,
			plural(m->n_turns), n);
	app_say(a, old->code || !info->chat_known ? SAY_ERROR : SAY_INFO,
		"the conversation goes on with %s%s%s%s%s%s%s", info->name, kept,
		*m->refused ? "; not taken: " : "", m->refused,
		info->chat_known ? "" : "; its chat template is not known, so plain text is used",
		old->code ? "; the recording before is not whole: " : "", old->text);
}

static void note_recording(struct tui_end *end, const struct chat_model *m)
{
	char *record = m->record ? strdup(m->record) : NULL;

	if (record && ARRAY_ROOM(end->more, end->cap_more, end->n_more + 1))
		end->more[end->n_more++] = record;
	else
		free(record);
}

static int change(struct app *a, struct err *e)
{
	struct chat *c = a->chat;
	struct chat_model *m = c->model;
	struct err old = { 0 };

	c->settings.params.logit_bias.n = 0;
	if (m->record && !m->live.session.record_err.code)
		chat_note(a, "continued", m->record);
	forget_screens(a); /* a deep look asks the actor */
	live_close(&c->live, &old);
	c->live = m->live;
	c->options = c->live.options = &m->options;
	a->own = m->options.record;
	note_recording(c->end, m);
	m->live = (struct live){ .fd = -1 };
	if (live_begin(&c->live, e) || recall_all(a, m, e))
		return -1;
	a->host.vocab = engine_info(c->live.session.engine)->vocab;
	if (c->settings.system)
		chat_note(a, "system", c->settings.system);
	say_changed(a, m, &old);
	chat_observe(a);
	change_free(c->model_now);
	c->model_now = m;
	c->model = NULL;
	return 0;
}

void chat_model_work(struct app *a)
{
	struct chat_model *m = a->chat->model;

	if (!m)
		return;
	a->dirty = true;
	if (live_ready(&m->live)) {
		a->quit |= change(a, &a->fatal) != 0;
	} else if (m->live.open_err.code && !m->live.thread_started) {
		app_say(a, SAY_ERROR, "%s; %s stays", m->live.open_err.text, a->timeline.model_name);
		drop(m);
		a->chat->model = NULL;
	}
}
