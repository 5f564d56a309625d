/* See lesson.h. md4c reads the Markdown; this makes parts of what it finds. */
#include "sessions/lesson/lesson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <md4c.h>

#include "base/array.h"

enum { PARTS = 2000, LISTS = 8, PAST_THE_END = 8 };

struct reader {
	struct lesson *l;
	const char *src;
	size_t size;
	struct lesson_part *at; /* NULL: outside of every part */
	size_t n_text, cap_text;
	char info[128];    /* of a fenced block: "predict", "look pages" */
	int number[LISTS]; /* of the next item by depth; 0: bullets */
	int depth;
	bool failed; /* no memory, or too long */
};

/* ---- text ---- */

static void add(struct reader *r, const char *text, size_t n)
{
	if (r->at && !r->failed)
		r->failed = !array_text(&r->at->text, &r->n_text, &r->cap_text, text, n);
}

static void add_style(struct reader *r, int style)
{
	const char byte = (char)style;

	add(r, &byte, 1);
}

/* Control characters would be taken for styles. */
static void add_clean(struct reader *r, const char *text, size_t n, bool lines)
{
	for (size_t i = 0; i < n; i++) {
		char c = text[i] == '\n' && !lines ? ' ' : text[i] == '\t' ? ' ' : text[i];

		if ((unsigned char)c >= ' ' || c == '\n')
			add(r, &c, 1);
	}
}

static int line_of(const struct reader *r, const char *at)
{
	int line = 1;

	if (at < r->src || at > r->src + r->size)
		return 0;
	for (const char *p = r->src; p < at; p++)
		line += *p == '\n';
	return line;
}

/* ---- parts ---- */

static void begin(struct reader *r, enum lesson_kind kind, int level)
{
	struct lesson *l = r->l;

	r->at = NULL;
	if (l->n == PARTS || !ARRAY_ROOM(l->part, l->cap, l->n + 1)) {
		r->failed = true;
		return;
	}
	r->at = &l->part[l->n++];
	*r->at = (struct lesson_part){ .kind = kind, .level = level };
	r->n_text = r->cap_text = 0;
}

static enum lesson_kind kind_of(const char *info)
{
	static const struct {
		const char *word;
		enum lesson_kind kind;
	} kinds[] = { { "do", LESSON_DO }, { "look", LESSON_LOOK }, { "predict", LESSON_PREDICT },
		{ "check", LESSON_CHECK }, { "model", LESSON_MODEL }, { "start", LESSON_START } };
	size_t n = strcspn(info, " ");

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strlen(kinds[i].word) == n && !strncmp(info, kinds[i].word, n))
			return kinds[i].kind;
	return LESSON_CODE;
}

static void begin_item(struct reader *r)
{
	int depth = r->depth > LISTS ? LISTS - 1 : r->depth - 1, n = depth < 0 ? 0 : r->number[depth];

	begin(r, LESSON_ITEM, depth < 0 ? 0 : depth);
	if (r->at)
		r->at->number = n;
	if (n)
		r->number[depth]++;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct reader *r = arg;

	switch (type) {
	case MD_BLOCK_H: begin(r, LESSON_HEADING, (int)((MD_BLOCK_H_DETAIL *)detail)->level); break;
	case MD_BLOCK_P:
		if (!r->at) /* that of an item is the item's */
			begin(r, LESSON_PROSE, 0);
		break;
	case MD_BLOCK_LI: begin_item(r); break;
	case MD_BLOCK_UL:
	case MD_BLOCK_OL:
		r->at = NULL;
		if (r->depth < LISTS)
			r->number[r->depth] =
				type == MD_BLOCK_OL ? (int)((MD_BLOCK_OL_DETAIL *)detail)->start : 0;
		r->depth++;
		break;
	case MD_BLOCK_CODE: {
		const MD_ATTRIBUTE *info = &((MD_BLOCK_CODE_DETAIL *)detail)->info;

		snprintf(r->info, sizeof r->info, "%.*s", (int)info->size, info->text ? info->text : "");
		begin(r, kind_of(r->info), 0);
		if (r->at)
			r->at->line = line_of(r, info->text);
		break;
	}
	case MD_BLOCK_HR: begin(r, LESSON_PAGE, 0); break;
	default: break;
	}
	return r->failed;
}

/* " VIEW" or " VIEW all" */
static bool read_look(struct lesson_part *p, const char *info)
{
	const char *view = info + strspn(info, " "), *rest = view + strcspn(view, " ");

	p->all = !strcmp(rest + strspn(rest, " "), "all");
	return (p->view = strndup(view, p->all ? (size_t)(rest - view) : strlen(view)));
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
	struct reader *r = arg;

	(void)detail;
	if (type == MD_BLOCK_UL || type == MD_BLOCK_OL)
		r->depth--;
	if (type == MD_BLOCK_CODE && r->at && r->n_text && r->at->text[r->n_text - 1] == '\n')
		r->at->text[r->n_text - 1] = '\0';
	if (type == MD_BLOCK_CODE && r->at && r->at->kind == LESSON_LOOK && !r->failed)
		r->failed = !read_look(r->at, r->info + 4);
	if (type == MD_BLOCK_H && r->at && !r->l->title && r->at->text)
		r->failed = !(r->l->title = strdup(r->at->text));
	if (type != MD_BLOCK_QUOTE)
		r->at = NULL;
	return r->failed;
}

static int style_of(MD_SPANTYPE type)
{
	return type == MD_SPAN_STRONG ? LESSON_STRONG
		   : type == MD_SPAN_CODE ? LESSON_MONO
		   : type == MD_SPAN_EM   ? LESSON_SLANTED
								  : 0;
}

/* The same byte begins and ends a style. */
static int span(MD_SPANTYPE type, void *detail, void *arg)
{
	struct reader *r = arg;

	(void)detail;
	if (style_of(type))
		add_style(r, style_of(type));
	return r->failed;
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE size, void *arg)
{
	struct reader *r = arg;

	if (r->at && !r->at->line)
		r->at->line = line_of(r, text);
	if (type == MD_TEXT_SOFTBR)
		add(r, " ", 1);
	else if (type == MD_TEXT_BR)
		add(r, "\n", 1);
	else if (type != MD_TEXT_NULLCHAR)
		add_clean(r, text, size, type == MD_TEXT_CODE && r->at && r->at->kind >= LESSON_CODE);
	return r->failed;
}

/* ---- questions ---- */

static char *copy_line(const char *from, size_t n)
{
	while (n && (*from == ' ' || *from == ','))
		from++, n--;
	while (n && (from[n - 1] == ' ' || from[n - 1] == '\r'))
		n--;
	return strndup(from, n);
}

/* "number, 10 %" or "one of yes, no" */
static int read_form(struct lesson_part *p, const char *form, size_t n, const char **why)
{
	const char *end = form + n;

	if (n >= 6 && !strncmp(form, "number", 6)) {
		const char *comma = memchr(form, ',', n);

		p->tolerance = comma ? strtod(comma + 1, NULL) / 100 : 0;
		*why = "a tolerance is a share such as 10 %";
		return isfinite(p->tolerance) && p->tolerance >= 0 ? 0 : -1;
	}
	*why = "the answer is \"= number, 10 %\" or \"= one of yes, no\"";
	if (n < 7 || strncmp(form, "one of ", 7) != 0)
		return -1;
	for (form += 6; form < end && p->n_choices < LESSON_CHOICES;) {
		size_t word = strcspn(form + 1, ",\n") + 1;

		word = word > (size_t)(end - form) ? (size_t)(end - form) : word;
		if (!(p->choice[p->n_choices] = copy_line(form, word)))
			return -1;
		p->n_choices++;
		form += word;
	}
	return p->n_choices > 1 ? 0 : -1;
}

/* Takes the lines of a question apart: "? …", "= …", then the query. */
static int read_question(struct lesson_part *p, const char **why)
{
	char *body = p->text ? p->text : strdup(""), *question = NULL;
	const char *line = body;
	bool formed = p->kind == LESSON_CHECK;
	int bad = body ? 0 : -1;

	p->text = NULL;
	for (size_t n; !bad && (*line == '?' || *line == '='); line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (*line == '?' && !question)
			question = copy_line(line + 1, n - 1);
		else if (*line == '=' && p->kind == LESSON_PREDICT)
			bad = read_form(p, line + 1 + (line[1] == ' '), n - 1 - (line[1] == ' '), why);
		formed |= *line == '=';
	}
	p->text = question;
	p->sql = bad ? NULL : copy_line(line, strlen(line));
	free(body);
	if (bad)
		return -1;
	*why = !question || !*question ? "a line \"? …\" with the question is needed"
		   : !formed               ? "a line \"= number, 10 %\" or \"= one of …\" is needed"
								   : "a query is needed";
	return question && *question && formed && p->sql && *p->sql ? 0 : -1;
}

/* The last line may name adapters by "lora NAME": see lesson_options(). */
static bool names_adapter(const char *line, size_t n)
{
	return !line[n] && n > 5 && !strncmp(line, "lora ", 5) && !strpbrk(line + 5, "/,: ");
}

/* A stranger's lesson starts no more than a few threads, and chooses no file. */
static int check_start(const char *text)
{
	static const char *const names[] = { "tensor-parallel", "pipeline-parallel",
		"sequence-parallel", "prefill-ranks", NULL };
	const char *line = text ? text : "";
	size_t n, k;

	for (; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		for (k = 0; names[k]; k++)
			if (n == strlen(names[k]) + 2 && !strncmp(line, names[k], n - 2) &&
				line[n - 2] == ' ' && line[n - 1] >= '1' && line[n - 1] <= '8')
				break;
		if (!names[k] && !names_adapter(line, n))
			return -1;
	}
	return text && *text ? 0 : -1;
}

static int check_part(struct lesson_part *p, const char **why)
{
	*why = "a line to type is needed";
	if (p->kind == LESSON_DO)
		return p->text && *p->text ? 0 : -1;
	*why = "the name of a model is needed, on one line and without a folder";
	if (p->kind == LESSON_MODEL)
		return p->text && *p->text && !strpbrk(p->text, "\n/") ? 0 : -1;
	*why = "a line as \"tensor-parallel 2\" is needed, with 1 to 8, or \"lora NAME\" as the last";
	if (p->kind == LESSON_START)
		return check_start(p->text);
	*why = "a view is needed: look pages";
	if (p->kind == LESSON_LOOK)
		return p->view && *p->view ? 0 : -1;
	return p->kind == LESSON_PREDICT || p->kind == LESSON_CHECK ? read_question(p, why) : 0;
}

/* ---- all ---- */

void lesson_free(struct lesson *l)
{
	if (!l)
		return;
	for (int32_t i = 0; i < l->n; i++) {
		struct lesson_part *p = &l->part[i];

		for (int k = 0; k < p->n_choices; k++)
			free(p->choice[k]);
		free(p->text);
		free(p->sql);
		free(p->view);
	}
	free(l->part);
	free(l->title);
	free(l);
}

static int check(struct lesson *l, const char *name, struct err *e)
{
	const char *why = "";

	for (int32_t i = 0; i < l->n; i++) {
		if (check_part(&l->part[i], &why))
			return err_set(e, ERR_INPUT, "%s, line %d: %s", name, l->part[i].line, why);
		if (l->part[i].kind == LESSON_MODEL)
			l->model = l->part[i].text;
		if (l->part[i].kind == LESSON_START)
			l->start = l->part[i].text;
	}
	return l->n ? 0 : err_set(e, ERR_INPUT, "%s: a lesson without a text", name);
}

int lesson_parse(
	struct lesson **out, const char *name, const char *text, size_t size, struct err *e)
{
	const MD_PARSER parser = { .flags = MD_FLAG_NOHTML | MD_FLAG_NOINDENTEDCODEBLOCKS,
		.enter_block = enter_block,
		.leave_block = leave_block,
		.enter_span = span,
		.leave_span = span,
		.text = on_text };
	/* md4c 0.4.8 reads beyond a text that does not end with a line's end */
	char *ended = calloc(1, size + PAST_THE_END);
	struct reader r = { .l = calloc(1, sizeof *r.l), .src = ended, .size = size };
	int bad;

	*out = NULL;
	if (!r.l || !ended) {
		free(ended);
		lesson_free(r.l);
		return err_no_memory(e, "the lesson %s", name);
	}
	memcpy(ended, text, size);
	ended[size] = '\n';
	if (size > LESSON_BYTES)
		bad = err_set(e, ERR_INPUT, "%s: a lesson has at most %d kB", name, LESSON_BYTES >> 10);
	else if (md_parse(ended, (MD_SIZE)size + 1, &parser, &r))
		bad = err_set(e, ERR_INPUT, "%s: more than %d parts, or no memory", name, PARTS);
	else
		bad = check(r.l, name, e);
	free(ended);
	if (bad) {
		lesson_free(r.l);
		return -1;
	}
	*out = r.l;
	return 0;
}

int32_t lesson_stop(const struct lesson *l, int32_t part)
{
	while (part < l->n && (l->part[part].kind < LESSON_PAGE || l->part[part].kind == LESSON_LOOK))
		part++;
	return part;
}
