#!/usr/bin/env python3
"""words.jsonl anew: texts, and where each pre-tokenizer cuts them, by Hugging Face's tokenizers (python3 -m pip install tokenizers)
with the expressions as the models' tokenizer.json have them. The first 60 texts are those that stand in words.jsonl."""
import json
import os
import random

from tokenizers import Regex, pre_tokenizers

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.jsonl")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
L3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
Q2 = L3.replace("{1,3}", "")
O200 = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEK = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CJK = "[一-龥぀-ゟ゠-ヿ]+"
DS3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^""" "\r\n" r"""\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[""" "\r\n" r"""]*|\s*[""" "\r\n" r"""]+|\s+(?!\S)|\s+"""
LET = "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
J = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
HN = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
HL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?" + HN + "*" + HL + "+" + SHORT + r"|[^\r\n\p{L}\p{N}]?" + HN + "+" + HL + "*" + SHORT +
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
RULES = [
    ("gpt-2", [GPT2]),
    ("smollm", [r"\p{N}", GPT2]),
    ("llama-bpe", [L3]),
    ("glm4", [L3]),
    ("dbrx", [L3]),
    ("minicpm5", [r"\p{N}{1,3}", L3.replace("{1,3}", "+")]),
    ("jais-2", [J]),
    ("qwen2", [Q2]),
    ("laguna", [r"[^\n]+|[\n]+", Q2]),
    ("qwen35", [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    ("bailingmoe", [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"]),
    ("seed-coder", ["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]),
    ("ufakzeka", [r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    ("gpt-4o", [O200]),
    ("tekken", [TEK]),
    ("kimi-k2", [KIMI]),
    ("youtu", ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", O200.replace("{1,3}", "")]),
    ("falcon", [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    ("deepseek-llm", ["[\r\n]", r"\s?" + LET, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"]),
    ("deepseek-coder", ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"]),
    ("deepseek-v3", [r"\p{N}{1,3}", CJK, DS3]),
("spark2_5", [r"\p{N}{1,3}", CJK, DS3.replace("]+[\r\n]*|\\s*[\r\n]+", "]+|[\r\n]"), r"\p{N}"]),
    ("bloom", [BLOOM]),
    ("viking", [BLOOM, r"\p{N}"]),
    ("chameleon", ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2]),
]

PARTS = ["'s", "'T", "'ll", "'RE", "'ſ", "'V", ' ', '  ', '   ', '\n', '\r\n', '\t', '\n\n', ' \n', 'a', 'B', 'Hello', 'WORLD',
 'camelCase', 'XMLHttp', "don't", '1', '12', '345', '½', 'Ⅷ', '٣', '日本語', '中', 'ひら', 'カナ', '한국', 'é', 'é', '́', 'Ä', 'ß', '!',
 '?', '...', '//', '->', '_', '$', '€', '+', '=', "'", '\u3000', '\xa0', '\u2028', '\x85', '\x0b', '🚀', '👩\u200d👩', '\u200b', 'ǅ',
 'ʰ', 'ก', 'हि', 'न्दी', '।', '…', '，', '。', '、', '،', '<sentinel:12>', 'IMGIMGABZ', '{', '}', '[', ']', '\\', '/', '\n/', 'ı',
 'K', 'ſ', " 's", '|', '^', '~', '`', '“', '—', '〇', '々', '豈', '𠀀', '㈠', 'ㄅ', 'ㄱ', 'ᄀ']

random.seed(7)
with open(PATH, encoding="utf-8") as file:
    texts = [json.loads(line)["text"] for line in file][:60]
texts += ["".join(random.choice(PARTS) for _ in range(random.randrange(4, 24))) for _ in range(60)]
split = {name: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r), "isolated") for r in regexes]) for name, regexes in RULES}
with open(PATH, "w", encoding="utf-8") as file:
    for text in texts:
        words = {name: [len(word.encode()) for word, _ in s.pre_tokenize_str(text)] for name, s in split.items()}
        file.write(json.dumps({"text": text, **words}, separators=(",", ":")) + "\n")
