/* Help, manual page and completion, all written from the tables in verbs.c and options.c. Thread:
 * main's. */
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "cli/cli.h"

enum { WIDTH = 79 };

/* Words of text from column `at` on; further lines are indented to `indent`. */
static void print_wrapped(const char *text, int at, int indent)
{
	int column = at;
	for (const char *word = text; *word;) {
		int size = (int)strcspn(word, " ");
		if (column > indent && column + size >= WIDTH) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		printf("%.*s", size, word);
		word += size;
		column += size;
		if (*word == ' ') {
			word++;
			if (*word && column + 1 + (int)strcspn(word, " ") < WIDTH) {
				putchar(' ');
				column++;
			} else if (*word) {
				printf("\n%*s", indent, "");
				column = indent;
			}
		}
	}
	putchar('\n');
}

static void print_option(const struct option *o)
{
	enum { DOC = 27 };
	char left[64], doc[256], value[64];
	int n =
		snprintf(left, sizeof left, "  --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
	option_default(o, value, sizeof value);
	snprintf(doc, sizeof doc, "%s%s%s%s", o->doc, *value ? " (" : "", value, *value ? ")" : "");
	printf("%s", left);
	if (n + 2 > DOC)
		printf("\n%*s", DOC, "");
	else
		printf("%*s", DOC - n, "");
	print_wrapped(doc, DOC, DOC);
}

static void print_options(unsigned bits)
{
	const char *group = "";
	for (const struct option *o = options; o->name; o++) {
		if (o->hidden || !(o->verbs & bits))
			continue;
		if (strcmp(group, o->group))
			printf("\n%s\n", o->group);
		group = o->group;
		print_option(o);
	}
}

static void print_program(void)
{
	printf("cutaway: chat with a language model and watch its insides.\n\nUsage\n");
	for (const struct verb *v = verbs; v->name; v++)
		printf("  cutaway %-9s %-9s  %s\n", v->name, v->operands, v->summary);
	printf("\n");
	print_wrapped(
		"Options may stand before or after operands. `cutaway VERB --help` lists those of a verb, "
		"`man cutaway` has it all.",
		0, 0);
	printf("\nExamples\n");
	for (const struct verb *v = verbs; v->name; v++)
		printf("  %s\n", v->example);
	printf("\nExit status\n");
	for (const struct exit_code *x = exit_codes; x->doc; x++)
		printf("  %3d  %s\n", x->code, x->doc);
}

void help_print(const struct verb *v)
{
	if (!v) {
		print_program();
		return;
	}
	printf("Usage: cutaway %s%s%s%s\n\n", v->name, " [OPTION]...", *v->operands ? " " : "",
		   v->operands);
	print_wrapped(v->doc, 0, 0);
	printf("\nExample\n  %s\n", v->example);
	print_options(v->bit);
}

/* Text for troff: a leading dot or quote would be a request, a backslash and a dash mean something.
 */
static void man_text(const char *text)
{
	if (*text == '.' || *text == '\'')
		printf("\\&");
	for (; *text; text++) {
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
	for (const struct verb *v = verbs; v->name; v++) {
		printf(".TP\n.B %s", v->name);
		if (*v->operands)
			printf(" \\fI%s\\fR", v->operands);
		printf("\n");
		man_text(v->doc);
		printf("\n.IP\nExample:\n.RS\n.IP\n.EX\n");
		man_text(v->example);
		printf("\n.EE\n.RE\n");
	}
}

static void man_option(const struct option *o)
{
	char value[64];
	printf(".TP\n\\fB\\-\\-");
	man_text(o->name);
	printf("\\fR");
	if (o->arg) {
		printf(" \\fI");
		man_text(o->arg);
		printf("\\fR");
	}
	printf("\n");
	man_text(o->doc);
	if (*option_default(o, value, sizeof value)) {
		printf(" (default: ");
		man_text(value);
		printf(")");
	}
	printf(".\nCommands:");
	if (o->verbs == VERB_ALL)
		printf(" all");
	for (const struct verb *v = verbs; v->name && o->verbs != VERB_ALL; v++)
		if (o->verbs & v->bit)
			printf(" %s", v->name);
	printf(".\n");
}

void help_man(void)
{
	const char *group = "";
	printf(".TH CUTAWAY 1 \"\" \"cutaway %s\" \"User Commands\"\n", CUTAWAY_VERSION);
	printf(".SH NAME\ncutaway \\- chat with a language model and watch its insides\n");
	printf(".SH SYNOPSIS\n");
	for (const struct verb *v = verbs; v->name; v++)
		printf(".B cutaway %s\n[\\fIOPTION\\fR]... %s\n.br\n", v->name, v->operands);
	printf(".SH DESCRIPTION\n"
		   "A terminal program that runs a real language model, shows what happens inside while it "
		   "happens, records every step in a SQLite file, and takes you back to any of them. "
		   "Without a "
		   "command it is\n.BR \"cutaway chat\" .\nOptions may stand before or after operands, as "
		   "\\fB\\-\\-name value\\fR or \\fB\\-\\-name=value\\fR; \\fB\\-\\-\\fR ends them.\n");
	man_verbs();
	printf(".SH OPTIONS\n");
	for (const struct option *o = options; o->name; o++) {
		if (o->hidden)
			continue;
		if (strcmp(group, o->group))
			printf(".SS %s\n", o->group);
		group = o->group;
		man_option(o);
	}
	printf(".SH \"EXIT STATUS\"\n");
	for (const struct exit_code *x = exit_codes; x->doc; x++)
		printf(".TP\n.B %d\n%s\n", x->code, x->doc);
	printf(".SH ENVIRONMENT\n"
		   ".TP\n.B LC_ALL, LC_CTYPE, LANG\nthe encoding of the terminal (none: UTF\\-8); nothing else\n"
		   ".TP\n.B ESCDELAY\nmilliseconds in which what follows Esc belongs to it (25; over ssh 100)\n"
		   ".TP\n.B CUTAWAY_ISA\nthe best instruction set that the program may use of this processor: "
		   "avx512, avx2 or scalar; the bits are the same\n"
		   ".TP\n.B NO_COLOR\nset and not empty: no colours\n"
		   ".TP\n.B XDG_DATA_HOME\nrecordings, in cutaway/ (default: ~/.local/share)\n"
		   ".TP\n.B XDG_STATE_HOME\nhistory of the prompt, in cutaway/ (default: ~/.local/state)\n"
		   ".TP\n.B XDG_CACHE_HOME\nhashes of model files, in cutaway/ (default: ~/.cache)\n");
	printf(
		".SH FILES\n.TP\n.I models/SmolLM2\\-135M\\-Instruct.Q4_1.gguf\n"
		"the model used without \\fB\\-\\-model\\fR, looked for beside the program, in the current "
		"directory and under XDG data\n");
	printf(
		".SH LICENSE\nMIT. A program linked with libreadline as a whole falls under the GNU GPL, "
		"version 3 or later.\n");
}

static void completion_words(unsigned bits)
{
	for (const struct option *o = options; o->name; o++)
		if (!o->hidden && (o->verbs & bits))
			printf(" --%s", o->name);
}

/* Words between blanks or bars; NULL: names of files. */
static void complete_with(const char *words)
{
	if (!words) {
		printf("\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\t\tcompopt -o filenames\n");
		return;
	}
	printf("\t\tmapfile -t COMPREPLY < <(compgen -W '");
	for (; *words; words++)
		putchar(*words == '|' ? ' ' : *words);
	printf("' -- \"$word\")\n");
}

void help_completion(void)
{
	printf("# Bash completion for cutaway, written by `cutaway --completion bash`.\n"
		   "_cutaway()\n{\n"
		   "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb= w\n"
		   "\tCOMPREPLY=()\n"
		   "\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $w in\n\t\t");
	for (const struct verb *v = verbs; v->name; v++)
		printf("%s%s", v == verbs ? "" : " | ", v->name);
	printf(")\n\t\t\tverb=$w\n\t\t\tbreak\n\t\t\t;;\n\t\tesac\n\tdone\n\tcase $before in\n");
	for (const struct option *o = options; o->name; o++) {
		if (!o->arg || o->hidden)
			continue;
		printf("\t--%s%s)\n", o->name, strcmp(o->name, "out") ? "" : " | -o");
		if (o->type == OPTION_FILE)
			complete_with(NULL);
		if (o->type == OPTION_CHOICE)
			complete_with(o->arg);
		printf("\t\treturn\n\t\t;;\n");
	}
	printf("\tesac\n\tlocal options\n\tcase $verb in\n");
	for (const struct verb *v = verbs; v->name; v++) {
		printf("\t%s) options='", v->name);
		completion_words(v->bit);
		printf("' ;;\n");
	}
	printf("\t*) options='");
	for (const struct verb *v = verbs; v->name; v++)
		printf(" %s", v->name);
	completion_words(verbs[0].bit);
	printf("' ;;\n\tesac\n"
		   "\tif [[ $word == -* || -z $verb ]]; then\n"
		   "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
		   "\t\treturn\n\tfi\n\tcase $verb in\n");
	for (const struct verb *v = verbs; v->name; v++) {
		if (!v->completes)
			continue;
		printf("\t%s)\n", v->name);
		complete_with(strcmp(v->completes, "FILE") ? v->completes : NULL);
		printf("\t\t;;\n");
	}
	printf("\tesac\n}\ncomplete -F _cutaway cutaway\n");
}
