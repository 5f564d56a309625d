/* The table of pre-tokenizers, see tokenizer_pre.h: the expressions as the models' authors publish
 * them in tokenizer.json. A family is a row; a name whose rule stands is a word in its row. A file
 * without a name has "default": such are GPT-2 and GPT-NeoX as they were first converted. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/text/tokenizer_pre.h"

#define SHORT "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES "|\\s+(?!\\S)|\\s+"
#define LINES_AND_SPACES "|\\s*[\\r\\n]+" SPACES

/* Radford et al. 2019, encoder.py. */
#define GPT2 SHORT "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" SPACES

/* tiktoken's cl100k_base, with so many digits in a word. */
#define CL100K(digits)                                                                             \
	"(?i:" SHORT ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"

#define RUNS_OF_SPACES                                                                             \
	"\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"               \
	"\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"

/* tiktoken's o200k_base: a word begins with capitals, and after the first small letter has no more.
 * but: what is taken from the letters; short_forms: contractions that belong to the word. */
#define O200K(but, short_forms, digits, after_signs)                                               \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" but                                \
	"]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" but "]+" short_forms                                          \
	"|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" but                               \
	"]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" but "]*" short_forms "|\\p{N}" digits                         \
	"| ?[^\\s\\p{L}\\p{N}]+" after_signs LINES_AND_SPACES
#define SHORT_FORMS "(?i:" SHORT ")?"

#define DEEPSEEK3_WORDS                                                                            \
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                       \
	"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define CJK "[一-龥぀-ゟ゠-ヿ]+"

/* DeepSeek: letters that have a case. */
static const char cased[] =
	"\\s?["
	"A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"
	"ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
	"Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
	"]+";

/* \p{Han} of Unicode. */
#define HAN                                                                                        \
	"\u2E80-\u2E99\u2E9B-\u2EF3\u2F00-\u2FD5\u3005\u3007\u3021-\u3029\u3038-\u303B"                \
	"\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFA6D\uFA70-\uFAD9\U00016FE2\U00016FE3\U00016FF0"           \
	"\U00016FF1\U00020000-\U0002A6DF\U0002A700-\U0002B739\U0002B740-\U0002B81D"                    \
	"\U0002B820-\U0002CEA1\U0002CEB0-\U0002EBE0\U0002F800-\U0002FA1D\U00030000-\U0003134A"         \
	"\U00031350-\U000323AF"

#define WHOLE .whole_words = true

const struct pre_rule pre_rules[] = {
	{ "gpt-2 gpt2 default phi-2 olmo mpt jais gigachat a.x-4.0 mellum exaone4 trillion "
	  "granite-docling",
		.regex = { GPT2 } },
	{ "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
		.regex = { "\\p{N}", GPT2 } },
	{ "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", WHOLE, .adds_bos = true,
		.regex = { CL100K("{1,3}") LINES_AND_SPACES } },
	{ "glm4 glm5", WHOLE, .regex = { CL100K("{1,3}") LINES_AND_SPACES } },
	{ "dbrx smaug-bpe chatglm-bpe", .regex = { CL100K("{1,3}") LINES_AND_SPACES } },
	{ "minicpm5", WHOLE, .regex = { "\\p{N}{1,3}", CL100K("+") LINES_AND_SPACES } },
	{ "jais-2", .regex = { CL100K("{1,3}") "|\\s*[\\r\\n]+|" RUNS_OF_SPACES } },
	{ "qwen2 deepseek-r1-qwen stablelm2 hunyuan solar-open grok-2 megrez kormo",
		.regex = { CL100K("") LINES_AND_SPACES } },
	{ "laguna", .regex = { "[^\\n]+|[\\n]+", CL100K("") LINES_AND_SPACES } },
	{ "qwen35", .regex = { "(?i:" SHORT ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
						   " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES_AND_SPACES } },
	{ "bailingmoe bailingmoe2 llada-moe",
		.regex = { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
				   "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]" SPACES } },
	{ "seed-coder", .regex = { "(?i:" SHORT ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
							   " ?[^\\s\\p{L}\\p{N}\\r\\n]+" LINES_AND_SPACES } },
	{ "ufakzeka", .regex = { "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
							 " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES_AND_SPACES } },
	{ "gpt-4o llama4 kanana2 talkie minimax-m2",
		.regex = { O200K("", SHORT_FORMS, "{1,3}", "[\\r\\n/]*") } },
	{ "tekken", WHOLE, .adds_bos = true, .regex = { O200K("", "", "", "[\\r\\n/]*") } },
	{ "kimi-k2",
		.regex = { "[" HAN "]+|" O200K("&&[^" HAN "]", SHORT_FORMS, "{1,3}", "[\\r\\n]*") } },
	{ "youtu", WHOLE,
		.regex = { "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" CJK,
			O200K("", SHORT_FORMS, "", "[\\r\\n/]*") } },
	{ "falcon", .regex = { "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]" } },
	{ "deepseek-llm", .regex = { "[\\r\\n]", cased, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
						  "[一-龥ࠀ-一가-퟿]+", "\\p{N}+" } },
	{ "deepseek-coder", .regex = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
							"[一-龥ࠀ-一가-퟿]+", "\\p{N}" } },
	{ "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
		.regex = { "\\p{N}{1,3}", CJK, DEEPSEEK3_WORDS "[\\r\\n]*" LINES_AND_SPACES } },
	{ "spark2_5", .regex = { "\\p{N}{1,3}", CJK, DEEPSEEK3_WORDS "|[\\r\\n]" SPACES, "\\p{N}" } },
	{ "bloom poro-chat gpt3-finnish", .regex = { " ?[^(\\s|.,!?…。，、।۔،)]+" } },
	{ "viking", .regex = { " ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}" } },
	{ "chameleon", .adds_bos = true,
		.regex = { "<sentinel:[0-9]+>|IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
			"[\\p{P}!-/:-@\\[-`{-~]", GPT2 } },
};

const size_t n_pre_rules = sizeof pre_rules / sizeof *pre_rules;

const struct pre_rule pre_lines = { "", .regex = { "[^\\n]+|[\\n]+" } };

const struct pre_rule *pre_by_name(const char *name, size_t size)
{
	for (size_t i = 0; i < n_pre_rules; i++)
		if (text_word(pre_rules[i].names, ' ', name, size) >= 0)
			return &pre_rules[i];
	return NULL;
}

const char *pre_known(char *out, size_t cap)
{
	size_t used = 0;

	for (size_t i = 0; i < n_pre_rules && used < cap; i++)
		used += (size_t)snprintf(out + used, cap - used, "%s%.*s", i ? ", " : "",
			(int)strcspn(pre_rules[i].names, " "), pre_rules[i].names);
	return out;
}
