/* Help, manual page and completion, all written from the list of verbs, their texts in help/ and
 * the tables of options. Thread: main's. */
#include "base/embed.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/cli.h"

enum { OPTION_DOC = 27, VERB_DOC = 32 };
static const char help_group[] = "Help";

/* Exit statuses, in order of their numbers. */
static const struct exit_code {
	int code;
	const char *doc;
} exit_codes[] = {
	{ 0, "all is well" },
	{ ERR_DIFFERS, "a check ran and found a difference" },
	{ ERR_USAGE, "the command line or a setting is wrong" },
	{ ERR_INPUT, "a file is damaged or not supported" },
	{ ERR_IO, "the system refused: missing file, full disk, permissions" },
	{ ERR_MEMORY, "out of memory" },
	{ ERR_DEVICE, "this machine cannot compute as it must" },
	{ ERR_INTERRUPTED, "stopped by Ctrl-C" },
	{ 0, NULL },
};

/* doc stands from column `at` on, where left leaves room for it. */
static void print_row(const char *before, const char *left, int at, const char *doc)
{
	const int begin = (int)strlen(before),
			  room = at - 2 - begin - text_width(left, strlen(left), false);

	printf("%s", before);
	if (room < 0)
		text_wrapped(stdout, left, begin + 2);
	printf("%s%*s", room < 0 ? "" : left, room < 0 ? at : room + 2, "");
	text_wrapped(stdout, doc, at);
}

/* "top-k K", or with another name "greedy". Returns buf. */
static const char *option_words(
	const char *name, const struct setting *s, const char *value, char *buf, size_t cap)
{
	char arg[128];

	setting_arg(s, arg, sizeof arg);
	snprintf(buf, cap, "%s%s%s", name, *arg && !value ? " " : "", value ? "" : arg);
	return buf;
}

static void print_option(const struct option *o)
{
	char left[160], doc[512];

	print_row("  --", option_words(o->s->name, o->s, NULL, left, sizeof left), OPTION_DOC,
		setting_doc(o->s, o->base, doc, sizeof doc));
	for (const struct option_alias *a = option_aliases; a->name; a++) {
		if (strcmp(a->setting, o->s->name) != 0)
			continue;
		snprintf(doc, sizeof doc, "the same as --%s%s%s", a->setting, a->value ? " " : "",
			a->value ? a->value : "");
		print_row(
			"  --", option_words(a->name, o->s, a->value, left, sizeof left), OPTION_DOC, doc);
	}
}

static bool is_taken(const struct option *o, const struct verb *v)
{
	if (v)
		return option_taken(o, v);
	for (int i = 0; verbs[i]; i++)
		if (option_taken(o, verbs[i]))
			return true;
	return false;
}

/* Calls `visit` for each option of a group that v takes. */
static void visit_group(const struct verb *v, const char *group, int from,
	void (*visit)(const struct option *o, bool first))
{
	struct option o;
	struct cli c;
	bool first = true;

	cli_init(&c);
	for (int i = from; option_at(&c, i, &o); i++)
		if (o.s->group && !strcmp(o.s->group, group) && is_taken(&o, v)) {
			visit(&o, first);
			first = false;
		}
}

/* Calls `visit` for each option that v takes (NULL: any verb), group by group, in the order in
 * which the groups first occur, but Help last. */
static void each_option(const struct verb *v, void (*visit)(const struct option *o, bool first))
{
	struct option o, p;
	struct cli c;

	cli_init(&c);
	for (int i = 0; option_at(&c, i, &o); i++) {
		bool seen = !o.s->group || !strcmp(o.s->group, help_group);

		for (int j = 0; j < i && !seen && option_at(&c, j, &p); j++)
			seen = p.s->group && !strcmp(p.s->group, o.s->group);
		if (!seen)
			visit_group(v, o.s->group, i, visit);
	}
	visit_group(v, help_group, 0, visit);
}

static void print_grouped(const struct option *o, bool first)
{
	if (first)
		printf("\n%s\n", o->s->group);
	print_option(o);
}

enum part { SUMMARY, DOC, EXAMPLE };

/* A part of a verb's help; valid until another is asked for. */
static const char *part_of(const struct verb *v, enum part part)
{
	static char text[4096];
	const char *at = v->help, *end;

	for (int i = 0; i < (int)part; i++)
		at = strstr(at, "\n\n") + 2;
	end = strstr(at, "\n\n");
	snprintf(text, sizeof text, "%.*s", end ? (int)(end - at) : (int)strcspn(at, "\n"), at);
	return text;
}

static void print_program(void)
{
	char left[160];

	printf("cutaway: chat with a language model and watch its insides.\n\nUsage\n");
	for (int i = 0; verbs[i]; i++) {
		snprintf(left, sizeof left, "%s %s", verbs[i]->name, verbs[i]->operands);
		print_row("  cutaway ", left, VERB_DOC, part_of(verbs[i], SUMMARY));
	}
	printf("\n");
	text_wrapped(stdout,
		"Options may stand before or after operands. `cutaway VERB --help` lists those of a verb, "
		"`man cutaway` has it all.",
		0);
	printf("\nExamples\n");
	for (int i = 0; verbs[i]; i++)
		printf("  %s\n", part_of(verbs[i], EXAMPLE));
	printf("\nExit status\n");
	for (const struct exit_code *x = exit_codes; x->doc; x++)
		printf("  %3d  %s\n", x->code, x->doc);
}

void help_print(const struct verb *v)
{
	char usage[160];

	if (!v) {
		print_program();
		return;
	}
	snprintf(usage, sizeof usage, "Usage: cutaway %s [OPTION]...%s%s", v->name,
		*v->operands ? " " : "", v->operands);
	text_wrapped(stdout, usage, 4);
	printf("\n%s\n", part_of(v, DOC));
	printf("\nExample\n  %s\n", part_of(v, EXAMPLE));
	each_option(v, print_grouped);
}

/* Text for troff: a dot or quote that begins a line would be a request, a backslash and a dash mean
 * something. */
static void man_text(const char *text)
{
	for (bool begins = true; *text; begins = *text++ == '\n') {
		if (begins && (*text == '.' || *text == '\''))
			printf("\\&");
		if (*text == '\\')
			printf("\\e");
		else if (*text == '-')
			printf("\\-");
		else if (!strncmp(text, "…", 3)) {
			printf("...");
			text += 2;
		} else
			putchar(*text);
	}
}

static void man_verbs(void)
{
	printf(".SH COMMANDS\n");
	for (int i = 0; verbs[i]; i++) {
		printf(".TP\n.B %s", verbs[i]->name);
		if (*verbs[i]->operands)
			printf(" \\fI%s\\fR", verbs[i]->operands);
		printf("\n");
		man_text(part_of(verbs[i], DOC));
		printf("\n.IP\nExample:\n.RS\n.IP\n.EX\n");
		man_text(part_of(verbs[i], EXAMPLE));
		printf("\n.EE\n.RE\n");
	}
}

/* When it may change, and its range. */
static void man_facts(const struct setting *s)
{
	const char *unit = s->unit ? s->unit : "";

	if (s->type == SETTING_INT || s->type == SETTING_FLOAT)
		printf(" From %.10g to %.10g%s%s.", s->low, s->high, *unit ? " " : "", unit);
	if (s->when != SETTING_OPEN)
		printf(" In a chat it may change %s, with /%s%s.",
			s->when == SETTING_ANY ? "at any time" : "while nothing runs",
			s->when == SETTING_BY_SET ? "set " : "", s->name);
}

static void man_option(const struct option *o, bool first)
{
	char words[160], doc[512];

	if (first)
		printf(".SS %s\n", o->s->group);
	printf(".TP\n\\fB\\-\\-");
	man_text(option_words(o->s->name, o->s, NULL, words, sizeof words));
	for (const struct option_alias *a = option_aliases; a->name; a++)
		if (!strcmp(a->setting, o->s->name)) {
			printf("\\fR, \\fB\\-\\-");
			man_text(option_words(a->name, o->s, a->value, words, sizeof words));
		}
	printf("\\fR\n");
	man_text(setting_doc(o->s, o->base, doc, sizeof doc));
	printf(".");
	man_facts(o->s);
	printf("\nCommands:");
	for (int i = 0; verbs[i]; i++)
		if (option_taken(o, verbs[i]))
			printf(" %s", verbs[i]->name);
	printf(".\n");
}

EMBED(manual_end, "cli/manual_end.man");

void help_man(void)
{
	printf(".TH CUTAWAY 1 \"\" \"cutaway %s\" \"User Commands\"\n", CUTAWAY_VERSION);
	printf(".SH NAME\ncutaway \\- chat with a language model and watch its insides\n");
	printf(".SH SYNOPSIS\n");
	for (int i = 0; verbs[i]; i++)
		printf(".B cutaway %s\n[\\fIOPTION\\fR]... %s\n.br\n", verbs[i]->name, verbs[i]->operands);
	printf(".SH DESCRIPTION\n"
		   "A terminal program that runs a real language model, shows what happens inside while it "
		   "happens, records every step in a SQLite file, and takes you back to any of them. "
		   "Without a "
		   "command it is\n.BR \"cutaway chat\" .\nOptions may stand before or after operands, as "
		   "\\fB\\-\\-name value\\fR or \\fB\\-\\-name=value\\fR; \\fB\\-\\-\\fR ends them.\n");
	man_verbs();
	printf(".SH OPTIONS\n");
	each_option(NULL, man_option);
	printf(".SH \"EXIT STATUS\"\n");
	for (const struct exit_code *x = exit_codes; x->doc; x++)
		printf(".TP\n.B %d\n%s\n", x->code, x->doc);
	fputs(manual_end, stdout);
}

static void completion_words(const struct verb *v)
{
	struct option o;
	struct cli c;

	cli_init(&c);
	for (int i = 0; option_at(&c, i, &o); i++) {
		if (!o.s->group || !option_taken(&o, v))
			continue;
		printf(" --%s", o.s->name);
		for (const struct option_alias *a = option_aliases; a->name; a++)
			if (!strcmp(a->setting, o.s->name))
				printf(" --%s", a->name);
	}
}

/* Words between blanks; NULL: names of files. */
static void complete_with(const char *words)
{
	if (words)
		printf("\t\tmapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")\n", words);
	else
		printf("\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\t\tcompopt -o filenames\n");
}

/* What may follow an option. */
static void completion_values(const struct setting *s)
{
	char words[400];
	size_t n = 0;

	printf("\t--%s", s->name);
	for (const struct option_alias *a = option_aliases; a->name; a++)
		if (!a->value && !strcmp(a->setting, s->name))
			printf(" | --%s", a->name);
	printf("%s)\n", strcmp(s->name, "out") ? "" : " | -o");
	for (int i = 0; setting_word(s, i) && n < sizeof words; i++)
		n +=
			(size_t)snprintf(words + n, sizeof words - n, "%s%s", i ? " " : "", setting_word(s, i));
	if (n || s->type == SETTING_FILE)
		complete_with(n ? words : NULL);
	printf("\t\treturn\n\t\t;;\n");
}

static void completion_options(void)
{
	struct option o;
	struct cli c;

	cli_init(&c);
	for (int i = 0; option_at(&c, i, &o); i++)
		if (o.s->group && o.s->type != SETTING_FLAG)
			completion_values(o.s);
}

void help_completion(void)
{
	printf("# Bash completion for cutaway, written by `cutaway --completion bash`.\n"
		   "_cutaway()\n{\n"
		   "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb= w\n"
		   "\tCOMPREPLY=()\n"
		   "\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $w in\n\t\t");
	for (int i = 0; verbs[i]; i++)
		printf("%s%s", !i ? "" : " | ", verbs[i]->name);
	printf(")\n\t\t\tverb=$w\n\t\t\tbreak\n\t\t\t;;\n\t\tesac\n\tdone\n\tcase $before in\n");
	completion_options();
	printf("\tesac\n\tlocal options\n\tcase $verb in\n");
	for (int i = 0; verbs[i]; i++) {
		printf("\t%s) options='", verbs[i]->name);
		completion_words(verbs[i]);
		printf("' ;;\n");
	}
	printf("\t*) options=' help");
	for (int i = 0; verbs[i]; i++)
		printf(" %s", verbs[i]->name);
	completion_words(verbs[0]);
	printf("' ;;\n\tesac\n"
		   "\tif [[ $word == -* || -z $verb ]]; then\n"
		   "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
		   "\t\treturn\n\tfi\n\tcase $verb in\n");
	for (int i = 0; verbs[i]; i++) {
		if (!verbs[i]->completes)
			continue;
		printf("\t%s)\n", verbs[i]->name);
		complete_with(
			strcmp(verbs[i]->completes, "FILE") && strcmp(verbs[i]->completes, "RECORDING")
				? verbs[i]->completes
				: NULL);
		printf("\t\t;;\n");
	}
	printf("\tesac\n}\ncomplete -F _cutaway cutaway\n");
}
