/* See prompt.h. */
#include "cli/prompt.h"

#include "engine/text/held.h"

int prompt_encode(const struct tokenizer *t, const char *text, size_t size, int32_t **ids,
	size_t *n, struct err *e)
{
	size_t cap = 0;

	*n = 0;
	*ids = NULL;
	return tokenizer_encode_prompt(t, text, size, NULL, ids, n, &cap, e);
}

void prompt_note_template(const struct cli *c, const struct engine *engine)
{
	const struct engine_info *i = engine_info(engine);
	const char *odd = tokenizer_note(engine_tokenizer(engine));

	if (odd)
		fprintf(stderr, "cutaway: warning: the file's %s\n", odd);
	if (!c->raw && !i->chat_known)
		fprintf(stderr, "cutaway: the file's chat template is not known; a plain one is used%s%s\n",
			i->chat->note ? ": " : "", i->chat->note ? i->chat->note : "");
	else if (!c->raw && i->chat->note)
		fprintf(stderr, "cutaway: chat template %s: %s\n", i->chat->name, i->chat->note);
}

int prompt_ids(const struct cli *c, const struct engine *engine, const char *text, size_t size,
	int32_t **ids, size_t *n, struct err *e)
{
	const struct engine_info *info = engine_info(engine);
	const struct tokenizer *t = engine_tokenizer(engine);
	const char *system = answer_system(&c->answer, info->default_system);
	size_t cap = 0;
	*ids = NULL;
	*n = 0;
	if (c->raw) {
		if (prompt_encode(t, text, size, ids, n, e))
			return -1;
		return *n ? 0
				  : err_set(e, ERR_USAGE,
						"the prompt is empty: with --raw a token is needed to go on from");
	}
	struct chat_input chat = engine_chat(engine);

	if (c->answer.thinking && strcmp(c->answer.thinking, "auto") != 0 &&
		!template_can_think(chat.c))
		return err_set(e, ERR_USAGE, "--thinking %s: this model's template has no word for it",
			c->answer.thinking);
	template_think(&chat, c->answer.thinking);
	return template_first(&chat, system, text, size, ids, n, &cap, e);
}

char *prompt_answer(
	const struct cli *c, const struct tokenizer *t, const int32_t *ids, size_t n, size_t *size)
{
	size_t cap = 1, used = 0;
	for (size_t i = 0; i < n; i++)
		cap += tokenizer_bytes(t, ids[i]).size;
	char *text = malloc(cap);
	for (size_t i = 0; text && i < n; i++) {
		struct gguf_text b =
			i || c->raw ? tokenizer_bytes(t, ids[i]) : tokenizer_first_bytes(t, ids[i]);
		if (tokenizer_is_special(t, ids[i]) || tokenizer_is_end(t, ids[i]))
			continue;
		memcpy(text + used, b.data, b.size);
		used += b.size;
	}
	*size = text ? held_find_stop(setting_stops(&c->answer.stop), text, used) : 0;
	return text;
}
