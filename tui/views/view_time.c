/* The time view: where a step's time goes, by kernel stage, and how near it comes to the limit.
 *
 * A mean over the last steps of one kind, so that nothing jumps: steps with prompt rows are another
 * kind of work and have a mean of their own. Times are measured; bytes and operations are counted
 * from shapes, and what is computed from both is named after both. Thread: the UI's. */

#include "kernels/kernels.h"
#include "tui/views/view_util.h"

enum { DRAFTERS = 7, REST, N_PARTS };
enum kind { KIND_NEWEST, KIND_DECODE, KIND_PREFILL }; /* what cursor[VIEW_TIME] holds */

static const struct {
	const char *label, *ascii, *doc;
} stages[K_N_STAGES] = {
#define X(name, label, doc) { label, #name, doc },
	K_STAGES(X)
#undef X
};

/* The parts of the bar: these stages, the drafters where they did something, and the rest: every
 * other stage, and what is neither kernel nor drafter. */
static const struct {
	enum k_stage stage;
	enum ink ink;
	const char *brief;
} parts[N_PARTS] = {
	{ K_STAGE_qkv, INK_PART_0, "qkv" },
	{ K_STAGE_attention, INK_PART_0 + 1, "attn" },
	{ K_STAGE_scan, INK_PART_0 + 8, "scan" },
	{ K_STAGE_out, INK_PART_0 + 2, "out" },
	{ K_STAGE_gate_up, INK_PART_0 + 3, "up" },
	{ K_STAGE_down, INK_PART_0 + 4, "down" },
	{ K_STAGE_head, INK_PART_0 + 5, "head" },
	[DRAFTERS] = { K_N_STAGES, INK_PART_0 + 6, "spec" },
	[REST] = { K_N_STAGES, INK_PART_0 + 7, "rest" },
};

static struct tl_sample sample_take(const struct timeline *t, const struct view_state *s)
{
	const unsigned prompts = TL_PREFILL | TL_MIXED;
	struct tl_sample m =
		timeline_sample(t, s->cursor[VIEW_TIME] == KIND_PREFILL ? prompts : TL_DECODE);

	if (!m.n && s->cursor[VIEW_TIME] == KIND_NEWEST)
		m = timeline_sample(t, prompts);
	return m;
}

static double part_ns(const struct tl_sample *m, int part)
{
	double rest = m->wall - m->drafters;

	if (part < DRAFTERS)
		return m->stage[parts[part].stage].ns;
	if (part == DRAFTERS)
		return m->drafters;
	for (int i = 0; i < DRAFTERS; i++)
		rest -= m->stage[parts[i].stage].ns;
	return fmax(rest, 0);
}

static bool part_is_shown(const struct tl_sample *m, int part)
{
	return part == REST || part_ns(m, part) > 0;
}

/* What goes into a mixer without attention is no query, key or value. */
static const char *stage_label(const struct tl_sample *m, int stage, bool ascii)
{
	if (stage == K_STAGE_qkv && m->stage[K_STAGE_scan].ops > 0 &&
		!(m->stage[K_STAGE_attention].ops > 0))
		return ascii ? "in" : "in proj";
	return ascii ? stages[stage].ascii : stages[stage].label;
}

static const char *part_label(const struct tl_sample *m, int part, bool ascii, bool brief)
{
	return !brief && part == DRAFTERS ? "drafters"
		   : brief || part == REST    ? parts[part].brief
									  : stage_label(m, parts[part].stage, ascii);
}

/* The first letter of a part tells it from its neighbours where there are no greys. */
static void draw_bar(struct pen *p, int y, const struct tl_sample *m)
{
	double upto = 0;
	int x = 0;

	for (int part = 0; part < N_PARTS; part++) {
		int end;

		upto += part_ns(m, part);
		end = m->wall > 0 ? (int)(upto / m->wall * p->r.w + 0.5) : 0;
		for (; x < end; x++)
			view_put(p, x, y, parts[part].ink, "%.*s", p->c->ascii ? 1 : 3,
				p->c->ascii ? part_label(m, part, true, false) : "█");
	}
}

static double part_share(const struct tl_sample *m, int part)
{
	return m->wall > 0 ? 100 * part_ns(m, part) / m->wall : 0;
}

/* Columns of one item of the legend with the blank after it; words give way where it is narrow. */
static int legend_item_w(const struct tl_sample *m, int part, bool ascii, bool brief)
{
	const char *label = part_label(m, part, ascii, brief);
	int whole = part_share(m, part) >= 99.5;

	return text_width(label, strlen(label), ascii) + (brief ? 5 : 6) + whole;
}

/* The legend from line y on, drawn or only measured. Returns the line after it. */
static int lay_legend(struct pen *p, int y, const struct tl_sample *m, bool brief, bool drawn)
{
	int x = 0;

	for (int part = 0; part < N_PARTS; part++) {
		const int w = legend_item_w(m, part, p->c->ascii, brief);

		if (!part_is_shown(m, part))
			continue;
		if (x && x + w - 1 > p->r.w) {
			if (drawn && y + 1 == p->r.h) /* of what is cut */
				view_put(
					p, x < p->r.w ? x : p->r.w - 1, y, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
			x = 0;
			y++;
		}
		if (drawn && y < p->r.h) {
			view_put(p, x, y, parts[part].ink, "%s", glyph(p->c, GLYPH_BLOCK));
			view_put(
				p, x + (brief ? 1 : 2), y, INK_DIM, "%s", part_label(m, part, p->c->ascii, brief));
			view_put_right(p, x + w - 1, y, INK_TEXT, "%.0f", part_share(m, part));
		}
		x += w;
	}
	return y + 1;
}

static int draw_legend(struct pen *p, int y, const struct tl_sample *m)
{
	return lay_legend(p, y, m, lay_legend(p, y, m, false, false) > p->r.h, true);
}

/* Bandwidth for steps that read weights for few rows; operations for those that use each weight
 * often. */
static void draw_head(
	struct pen *p, const struct timeline *t, const struct tl_sample *m, bool brief)
{
	double reached = fmax(timeline_bandwidth(m), 0);
	double most = timeline_peak_bandwidth(t);
	const struct view_text ns = view_ns(m->wall);

	if (m->prefill)
		view_head(p, view_time.name, "%s a prompt step · %.1f Gop/s", ns.text,
			m->wall > 0 ? m->kernels.ops / m->wall : 0);
	else if (most > 0 && reached <= most)
		view_head(p, view_time.name, brief ? "%s · MBU %s" : "%s a step · MBU %s of %s", ns.text,
			view_percent(reached / most).text, view_rate(most).text);
	else if (most > 0)
		view_head(p, view_time.name, brief ? "%s · %s" : "%s a step · %s: the roof of %s was wrong",
			ns.text, view_rate(reached).text, view_rate(most).text);
	else
		view_head(p, view_time.name, "%s a step · %s", ns.text, view_rate(reached).text);
}

/* The table. A bar stands before the column MB, where there is room for all. */
enum { C_STAGE, C_MS, C_SHARE, C_MB, C_MOP, C_INTENSITY, C_RATE, C_REACHED, N_COLUMNS };
static const struct column columns[N_COLUMNS] = {
	[C_STAGE] = { "stage", -12, 2 },
	[C_MS] = { "ms", 9, 0 },
	[C_SHARE] = { "share", 8, 0 },
	[C_MB] = { "MB", 10, 0 },
	[C_MOP] = { "Mop", 10, 0 },
	[C_INTENSITY] = { "FLOP/byte", 11, 0 },
	[C_RATE] = { "GB/s", 8, 0 },
	[C_REACHED] = { "MBU", 9, 0 },
};

/* What it says of a cost. */
static struct view_text column_text(int col, const struct tl_cost *c, double wall, double most)
{
	double rate = c->ns > 0 && c->bytes > 0 ? c->bytes / c->ns : (double)NAN;
	double v[N_COLUMNS] = {
		[C_MS] = c->ns / 1e6,
		[C_SHARE] = wall > 0 ? 100 * c->ns / wall : (double)NAN,
		[C_MB] = c->bytes > 0 ? c->bytes / 1e6 : (double)NAN,
		[C_MOP] = c->ops > 0 ? c->ops / 1e6 : (double)NAN,
		[C_INTENSITY] = c->bytes > 0 && c->ops > 0 ? c->ops / c->bytes : (double)NAN,
		[C_RATE] = rate,
		[C_REACHED] = most > 0 ? 100 * rate / (most / 1e9) : (double)NAN,
	};
	bool percent = col == C_SHARE || col == C_REACHED;

	/* a cache, or a roof that was read while the machine was busy */
	if (col == C_REACHED && v[col] > 100)
		return view_form("> roof");
	if (isnan(v[col]) || !(v[col] < 1e9))
		return (struct view_text){ "" };
	return view_form("%.*f%s",
		percent || v[col] >= 100 ? 0
		: col == C_MS            ? 3
								 : 2,
		v[col], percent ? " %" : "");
}

/* full: ns that fill the bar; 0: none is drawn. */
static void draw_row(struct table *t, enum ink mark, const char *label, const struct tl_cost *c,
	double full, double wall, double most)
{
	const struct rect mb = table_rect(t, C_MB);
	const int bar_w = t->column[C_MB].gap - 2;

	t->y++;
	view_put(t->p, 0, t->y, mark, "%s", glyph(t->p->c, GLYPH_BLOCK));
	table_put(t, C_STAGE, INK_TEXT, "%s", label);
	for (int col = C_MS; col < N_COLUMNS; col++)
		table_put(
			t, col, col < C_MB ? INK_BRIGHT : INK_TEXT, "%s", column_text(col, c, wall, most).text);
	if (full > 0 && bar_w > 0)
		view_bar(t->p, mb.x - bar_w, t->y, bar_w, mark, c->ns / full);
}

static int stage_part(int stage)
{
	for (int i = 0; i < DRAFTERS; i++)
		if ((int)parts[i].stage == stage)
			return i;
	return REST;
}

static int bar_room(int w)
{
	for (int col = 0; col < N_COLUMNS; col++)
		w -= abs(columns[col].w) + columns[col].gap;
	return w < 6 ? 0 : at_most(w - 2, 40);
}

static int draw_table(struct pen *p, int y, const struct tl_sample *m, double most)
{
	const int bar_w = bar_room(p->r.w);
	const struct tl_cost drafters = { .ns = m->drafters };
	const struct tl_cost outside = { .ns = m->wall - m->kernels.ns - m->drafters };
	const struct tl_cost all = { m->wall, m->kernels.bytes, m->kernels.ops };
	double longest = fmax(outside.ns, drafters.ns);
	struct column own[N_COLUMNS];
	struct table t = TABLE(p, own, y);

	memcpy(own, columns, sizeof own);
	own[C_MB].gap = bar_w ? bar_w + 2 : 0;
	for (int i = 0; i < K_N_STAGES; i++)
		longest = fmax(longest, m->stage[i].ns);
	table_heads(&t);
	for (int i = 0; i < K_N_STAGES; i++)
		if (m->stage[i].ops > 0) /* the model has it */
			draw_row(&t, parts[stage_part(i)].ink, stage_label(m, i, p->c->ascii), &m->stage[i],
				longest, m->wall, most);
	if (part_is_shown(m, DRAFTERS))
		draw_row(&t, parts[DRAFTERS].ink, "drafters", &drafters, longest, m->wall, most);
	draw_row(&t, parts[REST].ink, "no kernel", &outside, longest, m->wall, most);
	pen_hline(p, 0, ++t.y, p->r.w);
	draw_row(&t, INK_BRIGHT, "step", &all, 0, m->wall, most);
	return t.y + 1;
}

/* What the numbers mean, and where each comes from. */
static void draw_notes(struct pen *p, int y, const struct timeline *t, const struct tl_sample *m)
{
	double weights = (double)t->session.weight_bytes, most = timeline_peak_bandwidth(t);
	const char *reported = timeline_setting(t, "roof");

	if (!m->prefill && most > 0 && timeline_bandwidth(m) > most)
		view_put(p, 0, y++, INK_TEXT,
			"faster than the roof (%s): that is wrong, for the machine was busy then, or weights "
			"stay in caches",
			view_rate(most).text);
	else if (!m->prefill && weights > 0 && most > 0)
		view_put(p, 0, y++, INK_TEXT,
			"reading all %s of weights once at %s takes %s: no step that needs them all is faster",
			view_bytes(weights).text, view_rate(most).text, view_ns(weights / most * 1e9).text);
	if (!m->prefill && t->session.pair_bytes > 0)
		view_put(p, 0, y++, INK_TEXT,
			"2:4: %s of these weights are matrices of which two of each four are kept",
			view_bytes((double)t->session.pair_bytes).text);
	view_put(p, 0, y++, INK_DIM, "measured: ms (mean of %d %s step%s)%s", m->n,
		m->prefill ? "prompt" : "decode", plural(m->n),
		most > 0 ? ", and the roof, the bandwidth of plain reads" : "");
	if (most > 0)
		view_put(p, 0, y++, INK_DIM, "roof: %s",
			reported && strtod(reported, NULL) > 0 ? reported : "one reading at the start");
	view_put(p, 0, y++, INK_DIM,
		"counted from shapes: MB read and written, Mop (a multiply-add is two)");
	view_put(p, 0, y++, INK_DIM, "from both: GB/s = counted MB / measured ms%s",
		most > 0 ? "; MBU (model bandwidth utilisation) = GB/s of the roof" : "");
	if (part_is_shown(m, DRAFTERS))
		view_put(p, 0, y++, INK_DIM,
			"drafters: guessing, and taking in what was computed; what they read is not counted");
	else if (m->draft_time_unknown)
		view_put(p, 0, y++, INK_DIM,
			"no kernel: drafters are in it; this recording is of before they were timed");
	if (m->twin > 0)
		view_put(p, 0, y++, INK_DIM,
			"the exact twin's kernels take %s more, which are left out here (/view price)",
			view_ns(m->twin).text);
	view_put(p, 0, y, INK_DIM, "left, right: decode steps or prompt steps");
}

static void time_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct tl_sample m = sample_take(t, s);
	int y, air;

	if (!m.n) {
		view_empty(p, view_time.name,
			t->n_steps ? "no step of this kind was timed" : "nothing yet: no step was run");
		return;
	}
	draw_head(p, t, &m, p->r.w < 44);
	air = s->zoomed && p->r.h >= 22;
	draw_bar(p, 1 + air, &m);
	y = draw_legend(p, 2 + air, &m) + air;
	if (!s->zoomed)
		return;
	y = draw_table(p, y, &m, timeline_peak_bandwidth(t)) + 1;
	draw_notes(p, y, t, &m);
}

static bool time_key(int key, const struct timeline *t, struct view_state *s)
{
	(void)t;
	if (key != KEY_LEFT_ && key != KEY_RIGHT_)
		return false;
	s->cursor[VIEW_TIME] = s->cursor[VIEW_TIME] == KIND_PREFILL ? KIND_DECODE : KIND_PREFILL;
	return true;
}

const struct view view_time = {
	VIEW(TIME, time, "time", 24, 2, 3),
	.draw = time_draw,
	.key = time_key,
};
