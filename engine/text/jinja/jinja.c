/* The interpreter's public functions: each is where its errors jump back to. See jinja.h. */
#include "engine/text/jinja/jinja_private.h"

int jinja_open(
	struct jinja **out, const char *text, size_t size, const struct jinja_options *o, struct err *e)
{
	struct jinja *j = calloc(1, sizeof *j);

	*out = j;
	if (!j)
		return err_no_memory(e, "a chat template");
	if (o)
		j->o = *o;
	j->o.steps = j->o.steps ? j->o.steps : 10000000;
	j->o.bytes = j->o.bytes ? j->o.bytes : (size_t)32 << 20;
	j->o.output = j->o.output ? j->o.output : (size_t)8 << 20;
	j->o.depth = j->o.depth ? j->o.depth : 256;
	j->err = e;
	if (setjmp(j->home)) {
		jinja_close(j);
		*out = NULL;
		return -1;
	}
	jinja_lex(j, text, size, false);
	j->body = jinja_parse(j);
	return 0;
}

void jinja_close(struct jinja *j)
{
	if (!j)
		return;
	jinja_release(j, NULL, 0);
	free(j->token);
	free(j->out);
	free(j);
}

/* Before each call: nothing done, nothing written. */
static void start_anew(struct jinja *j, struct err *e)
{
	j->err = e;
	j->steps = 0;
	j->n_out = 0;
	j->depth = 0;
	j->line = 1;
	j->scope = &j->globals;
}

int jinja_set(struct jinja *j, const char *name, const char *expression, size_t size, struct err *e)
{
	struct jnode *n;

	start_anew(j, e);
	if (setjmp(j->home))
		return -1;
	jinja_assign(j, jinja_intern(j, "null", 4), jv_none());
	jinja_lex(j, expression, size, true);
	n = jinja_parse_expression(j);
	jinja_assign(j, jinja_intern(j, name, strlen(name)), jinja_eval(j, n));
	return 0;
}

int jinja_render(struct jinja *j, char **out, size_t *size, struct err *e)
{
	struct jname *names[256];
	struct jchunk *chunk = j->chunk;
	size_t used = chunk ? chunk->used : 0;
	struct jscope top = { NULL, &j->globals };

	start_anew(j, e);
	memcpy(names, j->names, sizeof names);
	if (setjmp(j->home)) {
		memcpy(j->names, names, sizeof names);
		jinja_release(j, chunk, used);
		return -1;
	}
	j->scope = &top;
	jinja_run(j, j->body);
	jinja_put(j, "", 0);
	memcpy(j->names, names, sizeof names);
	jinja_release(j, chunk, used);
	j->out[j->n_out] = '\0';
	*out = j->out;
	*size = j->n_out;
	j->out = NULL;
	j->cap_out = 0;
	return 0;
}
