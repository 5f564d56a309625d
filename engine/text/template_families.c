/* The families of chat templates that are known by their texts. See template_families.h. */
#include "engine/text/template_families.h"

#include <stdbool.h>
#include <string.h>

const struct chat_template template_chatml = {
	.name = "chatml",
	.doc = "<|im_start|>role … <|im_end|>: SmolLM2, Qwen2, and most of what is fine-tuned today",
	.bos = "",
	.system_before = "<|im_start|>system\n",
	.system_after = "<|im_end|>\n",
	.user_before = "<|im_start|>user\n",
	.user_after = "<|im_end|>\n",
	.answer_before = "<|im_start|>assistant\n",
	.answer_after = "\n",
	.end = "<|im_end|>",
};

static const struct chat_template llama3 = {
	.name = "llama3",
	.doc = "<|start_header_id|>role<|end_header_id|> … <|eot_id|>: Llama 3",
	.bos = "{bos}",
	.system_before = "<|start_header_id|>system<|end_header_id|>\n\n",
	.system_after = "<|eot_id|>",
	.user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
	.user_after = "<|eot_id|>",
	.answer_before = "<|start_header_id|>assistant<|end_header_id|>\n\n",
	.answer_after = "",
	.end = "<|eot_id|>",
	.trim = true,
};

static const struct chat_template llama2 = {
	.name = "llama2",
	.doc = "[INST] <<SYS>> … <</SYS>> … [/INST] …: Llama 2",
	.bos = "{bos}",
	.system_before = "[INST] <<SYS>>\n",
	.system_after = "\n<</SYS>>\n\n",
	.user_before = "[INST] ",
	.user_after = " [/INST]",
	.answer_before = "",
	.answer_after = "{bos}",
	.end = "</s>",
	.system_in_user = true,
	.trim = true,
};

static const struct chat_template mistral = {
	.name = "mistral",
	.doc = "[INST] … [/INST] …: Mistral 7B Instruct, first versions",
	.bos = "{bos}",
	.system_before = "[INST] ",
	.system_after = "\n\n",
	.user_before = "[INST] ",
	.user_after = " [/INST]",
	.answer_before = "",
	.answer_after = "",
	.end = "</s>",
	.system_in_user = true,
};

static const struct chat_template mistral_v3 = {
	.name = "mistral-v3",
	.doc = "[INST] …[/INST] …: Mistral 7B Instruct, version 3",
	.bos = "{bos}",
	.system_before = "[INST] ",
	.system_after = "\n\n",
	.user_before = "[INST] ",
	.user_after = "[/INST]",
	.answer_before = "",
	.answer_after = "",
	.end = "</s>",
	.system_in_user = true,
};

static const struct chat_template zephyr = {
	.name = "zephyr",
	.doc = "<|user|> … end of text, <|assistant|> …: Zephyr, TinyLlama, StableLM",
	.bos = "",
	.system_before = "<|system|>\n",
	.system_after = "{eos}\n",
	.user_before = "<|user|>\n",
	.user_after = "{eos}\n",
	.answer_before = "<|assistant|>\n",
	.answer_after = "\n",
	.end = "</s>",
};

static const struct chat_template gemma = {
	.name = "gemma",
	.doc = "<start_of_turn>user … <end_of_turn>: Gemma",
	.bos = "{bos}",
	.system_before = "<start_of_turn>user\n",
	.system_after = "\n\n",
	.user_before = "<start_of_turn>user\n",
	.user_after = "<end_of_turn>\n",
	.answer_before = "<start_of_turn>model\n",
	.answer_after = "\n",
	.end = "<end_of_turn>",
	.system_in_user = true,
	.trim = true,
};

static const struct chat_template phi3 = {
	.name = "phi3",
	.doc = "<|user|> … <|end|>: Phi-3",
	.bos = "",
	.system_before = "<|system|>\n",
	.system_after = "<|end|>\n",
	.user_before = "<|user|>\n",
	.user_after = "<|end|>\n",
	.answer_before = "<|assistant|>\n",
	.answer_after = "\n",
	.end = "<|end|>",
};

/* Of a model that was never taught to talk: its answer goes on with what the user wrote. */
static const struct chat_template text_goes_on = {
	.name = "text",
	.doc = "nothing between turns: a text that goes on",
	.bos = "",
	.system_before = "",
	.system_after = "",
	.user_before = "",
	.user_after = "",
	.answer_before = "",
	.answer_after = "",
	.end = "",
};

const struct chat_template template_plain = {
	.name = "plain",
	.doc = "User: … Assistant: …: the file's own template is none that is known",
	.bos = "",
	.system_before = "",
	.system_after = "\n\n",
	.user_before = "User: ",
	.user_after = "\n",
	.answer_before = "Assistant:",
	.answer_after = "\n\n",
	.end = "",
};

/* What a family's Jinja text holds, and what it must not hold. The first row that fits is taken. */
static const struct {
	const struct chat_template *c;
	const char *has[3], *lacks;
} marks[] = {
	{ &template_chatml, { "<|im_start|>", "<|im_end|>" }, "<|im_sep|>" },
	{ &llama3, { "<|start_header_id|>", "<|end_header_id|>" }, NULL },
	{ &llama2, { "[INST]", "<<SYS>>" }, NULL },
	{ &mistral, { "[INST]", " [/INST]" }, "[SYSTEM_PROMPT]" },
	{ &mistral_v3, { "[INST]", "[/INST]" }, "[SYSTEM_PROMPT]" },
	{ &gemma, { "<start_of_turn>", "<end_of_turn>" }, NULL },
	{ &phi3, { "<|user|>", "<|assistant|>", "<|end|>" }, NULL },
	{ &zephyr, { "<|user|>", "<|assistant|>", "eos_token" }, "[gMASK]" },
	{ &zephyr, { "<|user|>", "<|assistant|>", "<|endoftext|>" }, "[gMASK]" },
	{ &text_goes_on, { "{# a text that goes on #}" }, NULL },
};

static const char *holds(struct gguf_text text, const char *needle)
{
	return memmem(text.data, text.size, needle, strlen(needle));
}

const struct chat_template *template_family(struct gguf_text text)
{
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		bool fits = !marks[i].lacks || !holds(text, marks[i].lacks);

		for (int k = 0; k < 3 && fits; k++)
			fits = !marks[i].has[k] || holds(text, marks[i].has[k]);
		if (fits)
			return marks[i].c;
	}
	return &template_plain;
}
