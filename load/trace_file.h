/* A trace of requests: a CSV file in the form of the Azure LLM inference traces (Patel et al. 2024,
 * "Splitwise"; github.com/Azure/AzurePublicDataset), whose head names the columns TIMESTAMP,
 * ContextTokens and GeneratedTokens; others may stand between. A time is "2023-11-16
 * 18:17:03.9799600", with an offset of hours ("+00:00") or without, or a number of seconds; times
 * do not go back. Read line by line: a file may be of any length. Thread: one at a time. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct trace_file {
	const char *path; /* the caller's */
	FILE *in;
	int64_t line;  /* the newest, from 1 */
	int column[3]; /* of the three */
	double start_s, newest_s;
};
struct trace_row {
	double at_s;                /* from the first row on */
	int32_t n_prompt, n_output; /* at least 1: a 0 of the file counts as 1 */
};

/* Reads the head. */
int trace_file_open(struct trace_file *t, const char *path, struct err *e);
/* 1; 0: the file ends; -1: ERR_INPUT, with file and line. */
int trace_file_next(struct trace_file *t, struct trace_row *out, struct err *e);
void trace_file_close(struct trace_file *t);
