/* See engine_impl.h. Messages from rank 0: a head, then its bytes. After a step each follower
 * answers with what it did. */
#include <limits.h>
#include <unistd.h>

#include "base/array.h"
#include "base/text.h"
#include "engine/core/engine_ranks_impl.h"

/* ---- messages ---- */

/* Nothing goes to the others, or comes from them, any more. */
static int lose(struct engine_ranks *r)
{
	r->lost = true;
	return -1;
}

struct wire *engine_ranks_begin(struct engine_ranks *r)
{
	r->wire.n = 0;
	r->wire.reads = r->wire.failed = false;
	return &r->wire;
}

int engine_ranks_tell(struct engine_ranks *r, struct head head, struct err *err)
{
	struct transport *t = r->k.transport;

	if (r->wire.failed)
		return err_no_memory(err, "the message to the other ranks");
	head.copies = (uint32_t)r->k.n_copies;
	head.bytes = r->wire.n;
	if (transport_broadcast(t, &head, sizeof head, false, err) ||
		(head.copies &&
			transport_broadcast(t, r->k.copy, head.copies * sizeof *r->k.copy, false, err)) ||
		(head.bytes && transport_broadcast(t, r->wire.data, head.bytes, false, err)))
		return lose(r);
	r->k.n_copies = 0;
	return 0;
}

int engine_ranks_hear(struct engine_ranks *r, struct head *head, struct err *err)
{
	struct transport *t = r->k.transport;

	if (transport_broadcast(t, head, sizeof *head, true, err))
		return -1;
	if (!ARRAY_ROOM(r->wire.data, r->wire.cap, head->bytes + 1) ||
		!ARRAY_ROOM(r->k.copy, r->k.cap_copies, head->copies + 1))
		return err_no_memory(err, "a message of rank 0");
	r->k.n_copies = (int32_t)head->copies;
	if ((head->copies &&
			transport_broadcast(t, r->k.copy, head->copies * sizeof *r->k.copy, false, err)) ||
		(head->bytes && transport_broadcast(t, r->wire.data, head->bytes, false, err)))
		return -1;
	r->wire.data[head->bytes] = '\0';
	r->wire.n = head->bytes;
	r->wire.at = 0;
	r->wire.reads = true;
	return 0;
}

static size_t reply_bytes(bool lane)
{
	return lane ? sizeof(struct reply) : offsetof(struct reply, count.lane);
}

int engine_ranks_replies(struct engine_ranks *r, bool lane, struct err *err)
{
	struct message m[TRANSPORT_RANKS];
	int32_t n = 0;

	for (int32_t i = 1; i < r->k.transport->n; i++)
		m[n++] = (struct message){ i, &r->reply[i], reply_bytes(lane) };
	if (transport_control(r->k.transport, NULL, 0, m, n, false, err))
		return lose(r);
	for (int32_t i = 1; i < r->k.transport->n; i++)
		if (r->reply[i].code) {
			err_set(err, r->reply[i].code, "rank %d: %s", i, r->reply[i].text);
			return lose(r);
		}
	return 0;
}

int engine_ranks_answer(struct engine_ranks *r, struct reply *reply, bool lane, struct err *err)
{
	return transport_control(
		r->k.transport, &(struct message){ 0, reply, reply_bytes(lane) }, 1, NULL, 0, false, err);
}

/* ---- rank 0 ---- */

static int begin_step(void *arg, struct forward *f, struct err *err)
{
	struct engine *e = arg;
	struct engine_ranks *r = e->ranks;

	if (r->lost)
		return err_set(err, ERR_DEVICE, "a rank is lost");
	ranks_wire_step(engine_ranks_begin(r), f, e->memory.spec.n);
	return engine_ranks_tell(r, (struct head){ .kind = MESSAGE_STEP }, err);
}

static void split(void *arg, struct forward *f)
{
	ranks_split(&((struct engine *)arg)->ranks->k, f);
}

static int run(void *arg, struct forward *f, struct err *err)
{
	struct engine_ranks *r = ((struct engine *)arg)->ranks;

	return ranks_run(&r->k, f, err) ? lose(r) : 0;
}

static int end_step(void *arg, struct forward *f, struct err *err)
{
	struct engine_ranks *r = ((struct engine *)arg)->ranks;

	if (ranks_gather_observed(&r->k, f, err) || engine_ranks_replies(r, f->n_observed > 0, err))
		return lose(r);
	for (int32_t i = 1; i < r->k.transport->n; i++)
		if (r->reply[i].nan_row)
			atomic_store(f->nan_row, r->reply[i].nan_row);
	return 0;
}

/* Of what the others compute; drafters, screens and logs are rank 0's alone. */
bool engine_ranks_share(const struct setting *s)
{
	static const char own[] = "ranks|spec|shadow|twin|outliers|importance|roof|attention-every|"
							  "observe-layer|observe-head|watch-layers|policy|prefix-cache|"
							  "prefill-least";

	return text_word(own, '|', s->name, strlen(s->name)) < 0;
}

/* Name and value, each with its 0. */
static void put_setting(struct wire *w, const char *name, const char *value)
{
	wire_bytes(w, (void *)(uintptr_t)name, strlen(name) + 1);
	wire_bytes(w, (void *)(uintptr_t)value, strlen(value) + 1);
}

int engine_ranks_tell_options(
	struct engine_ranks *r, const struct engine_options *o, struct err *err)
{
	struct wire *w = engine_ranks_begin(r);
	char value[PATH_MAX];

	for (const struct setting *s = engine_settings; s->name; s++) {
		setting_text(s, o, value, sizeof value);
		if (engine_ranks_share(s) && *value)
			put_setting(w, s->name, value);
	}
	return engine_ranks_tell(r,
		(struct head){ MESSAGE_OPEN, .replicas = (uint32_t)o->replicas, .goes_on = o->goes_on },
		err);
}

static int32_t n_asked(const struct engine_options *o)
{
	return o->tensor_parallel * o->pipeline_parallel * o->sequence_parallel;
}

int engine_ranks_share_cpus(struct engine_options *o, int32_t n, const char *what, struct err *err)
{
	const int32_t cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);

	if (!strcmp(o->backend, "auto"))
		o->backend = "cpu";
	if (strcmp(o->backend, "cpu") != 0 && strcmp(o->backend, "ref") != 0)
		return err_set(err, ERR_USAGE, "%s with backend %s: ranks compute on CPUs (--backend cpu)",
			what, o->backend);
	if (!o->threads)
		o->threads = cores > n ? cores / n : 1;
	return 0;
}

static int start(struct engine_ranks *r, struct engine_options *o, struct err *err)
{
	const int32_t n = n_asked(o);
	char what[32];

	snprintf(what, sizeof what, "%d ranks", n);
	if (engine_ranks_share_cpus(o, n, what, err))
		return -1;
	if (o->sequence_parallel > 1 && n > o->sequence_parallel)
		return err_set(err, ERR_USAGE,
			"sequence-parallel %d: its ranks have the whole model; not with tensor-parallel or "
			"pipeline-parallel",
			o->sequence_parallel);
	if (n > TRANSPORT_RANKS)
		return err_set(err, ERR_USAGE, "%d ranks: %d are the most", n, TRANSPORT_RANKS);
	if (o->ranks > 1 && n != o->ranks)
		return err_set(
			err, ERR_USAGE, "%d processes for %d ranks: as many are needed", o->ranks, n);
	if (o->ranks > 1 ? transport_mpi(&r->k.transport, n, err)
					 : engine_ranks_start_threads(r, n, err))
		return -1;
	r->k.transport->abandon = o->abandon;
	return engine_ranks_tell_options(r, o, err);
}

/* ---- both ---- */

static enum ranks_form form_of(const struct engine_options *o)
{
	return (enum ranks_form)setting_choice(&engine_settings[ENGINE_AT_exchange], o);
}

int engine_apply_exchange(struct engine *e, struct engine_options *to, struct err *err)
{
	const enum ranks_form form = form_of(to);

	if (form == RANKS_f16 && to->tensor_parallel < 2)
		return err_set(err, ERR_USAGE,
			"exchange f16: no layer is split, so nothing is rounded; see --tensor-parallel");
	if (e->ranks && e->ranks->k.form != form) {
		if (form == RANKS_f16 || e->ranks->k.form == RANKS_f16)
			engine_clear_prefix(e); /* as after other lossy settings */
		e->ranks->k.form = form;
		forward_rewrite(&e->forward);
	}
	return 0;
}

/* All ranks have such a link. */
int engine_apply_link(struct engine *e, struct engine_options *to, struct err *err)
{
	struct engine_ranks *r = e->ranks;
	struct link_speed link = { 0 };

	if (!to->link || !*to->link || !strcmp(to->link, "off") || !strcmp(to->link, "-")) {
		to->link = NULL;
	} else if (!r) {
		return err_set(err, ERR_USAGE,
			"link %.40s: there is one rank, which exchanges nothing; see --tensor-parallel",
			to->link);
	} else {
		if (link_parse(&link, to->link, err))
			return -1;
		snprintf(r->link, sizeof r->link, "%s", to->link);
		to->link = r->link;
	}
	if (r)
		r->k.transport->link = link;
	return 0;
}

int engine_ranks_open(struct engine *e, struct engine_options *o, struct err *err)
{
	struct engine_ranks *r;

	if (o->ranks > 1 && n_asked(o) == 1 && !o->prefill_ranks)
		o->tensor_parallel = o->ranks;
	if (o->given || (n_asked(o) < 2 && !o->follows))
		return 0;
	e->ranks = r = calloc(1, sizeof *r);
	if (!r)
		return err_no_memory(err, "ranks");
	r->k.form = form_of(o);
	r->remote = (struct forward_remote){ .arg = e, .split = split, .run = run };
	if (o->follows) {
		r->k.transport = o->follows;
	} else {
		r->remote.begin = begin_step;
		r->remote.end = end_step;
		if (start(r, o, err))
			return -1;
	}
	r->k.n = o->tensor_parallel;
	r->k.by_expert = o->expert_parallel;
	r->k.n_stages = o->pipeline_parallel;
	r->k.micro_batches = o->micro_batches;
	r->k.rank = r->k.transport->rank % r->k.n;
	r->k.n_sequence = o->sequence_parallel;
	r->k.stage = r->k.n_sequence > 1 ? 0 : r->k.transport->rank / r->k.n;
	return 0;
}

int engine_ranks_plan(void *arg, struct model *m, struct err *err)
{
	struct engine *e = arg;

	if (ranks_plan(&e->ranks->k, m, err))
		return -1;
	m->weights.wants = ranks_wants;
	m->weights.wants_arg = &e->ranks->k;
	return 0;
}

int engine_ranks_attach(struct engine *e, struct err *err)
{
	if (!e->ranks)
		return 0;
	if (ranks_attach(&e->ranks->k, &e->forward, err))
		return -1;
	e->forward.remote = &e->ranks->remote;
	return 0;
}

static void note_copy(void *arg, int32_t group, int32_t to, int32_t from)
{
	struct engine_ranks *r = arg;

	if (ARRAY_ROOM(r->k.copy, r->k.cap_copies, r->k.n_copies + 1))
		r->k.copy[r->k.n_copies++] = (struct ranks_copy){ group, to, from };
	else
		r->lost = true;
}

void engine_ranks_listen(struct engine *e)
{
	for (int32_t g = 0; e->ranks && !e->ranks->k.transport->rank && g < e->memory.spec.n; g++) {
		e->memory.pages[g].on_copy = note_copy;
		e->memory.pages[g].copy_arg = e->ranks;
	}
}

/* Where the machine chooses how many pages there are, a rank chooses by its own heads. */
static int share_pages(struct engine *e, struct err *err)
{
	const struct reply own = engine_ranks_reply(e);
	char n[16];
	bool same = true;

	for (int32_t i = 1; i < e->ranks->k.transport->n; i++)
		same = same && !memcmp(e->ranks->reply[i].n_pages, own.n_pages, sizeof own.n_pages);
	snprintf(n, sizeof n, "%d", own.n_pages[e->memory.primary]);
	return same ? 0 : engine_ranks_set(e, &engine_settings[ENGINE_AT_pages], n, err);
}

int engine_ranks_set(struct engine *e, const struct setting *s, const char *value, struct err *err)
{
	struct engine_ranks *r = e->ranks;

	if (!r || r->k.transport->rank || !r->opened || !engine_ranks_share(s))
		return 0;
	put_setting(engine_ranks_begin(r), s->name, value);
	if (engine_ranks_tell(r, (struct head){ .kind = MESSAGE_SET }, err) ||
		engine_ranks_replies(r, false, err))
		return -1;
	return s == &engine_settings[ENGINE_AT_pages] ? 0 : share_pages(e, err);
}

int engine_ranks_meet(struct engine *e, struct err *err)
{
	if (!e->ranks || e->ranks->k.transport->rank)
		return 0;
	if (engine_ranks_replies(e->ranks, false, err))
		return -1;
	e->ranks->k.transport->abandon = NULL;
	e->ranks->opened = true;
	return share_pages(e, err);
}

int engine_ranks_ready(struct engine *e, struct err *err)
{
	struct engine_ranks *r = e->ranks;

	if (!r)
		return 0;
	engine_ranks_look(e);
	if (r->k.transport->rank)
		return 0;
	if (share_pages(e, err))
		return -1;
	r->reply[0] = engine_ranks_reply(e);
	for (int32_t i = 1; i < r->k.transport->n; i++) {
		if (r->reply[i].model != r->reply[0].model)
			return err_set(
				err, ERR_INPUT, "rank %d has another file of that name: %s", i, e->model_path);
		if (memcmp(r->reply[i].n_pages, r->reply[0].n_pages, sizeof r->reply[0].n_pages) != 0)
			return err_set(err, ERR_DEVICE,
				"rank %d has room for %d pages, rank 0 for %d; say how many with --pages", i,
				r->reply[i].n_pages[0], r->reply[0].n_pages[0]);
	}
	return 0;
}

void engine_ranks_close(struct engine *e)
{
	struct engine_ranks *r = e->ranks;
	struct err ignored = { 0 };

	if (!r)
		return;
	engine_ranks_begin(r);
	if (r->k.transport && !r->k.transport->rank && !r->lost)
		engine_ranks_tell(r, (struct head){ .kind = MESSAGE_QUIT }, &ignored);
	if (r->k.transport && !e->set.follows) {
		r->k.transport->ops->close(r->k.transport);
		for (int32_t i = 1; i <= r->n_threads; i++)
			pthread_join(r->thread[i], NULL);
	}
	r->k.transport = NULL;
	ranks_free(&r->k);
	free(r->wire.data);
	free(r);
	e->ranks = NULL;
}

void engine_abandon(struct engine *e)
{
	if (e->ranks)
		atomic_store(&e->ranks->k.transport->unwanted, true);
}
