#!/usr/bin/env python3
"""Writes the trained members as GGUF files, and some of the stories held out: export.py DATA FOLDER

They are plain Llamas, DeepSeek's form for latent attention, LLaDA's for diffusion, and `cutaway-mixed`,
whose file says of each layer what mixes its positions (engine/arch/mixed.c). DATA is where text.py, member.py and recall.py wrote.
mend and mend-small are T5s.
Into FOLDER: NAME.gguf, recall-NAME.gguf, delay-NAME.gguf, many-NAME.gguf, held_out/NNN.txt."""
import copy
import os
import shutil
import sys

import gguf
import numpy as np
import torch

import t5
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../claims"))
from family import LETTERS  # noqa: E402
from model import BYTES, EPS, EXPERTS, FEW, FILLS, Family, HEAD, LADDER, MEMBERS, RANK, RECALL, RECALL_MANY, S4D, TAPS, TEXT, THETA, USED  # noqa: E402
from text import MASK  # noqa: E402
from model_file import PLAIN_TEXT  # noqa: E402 (text.py has put its folder into the path)

CONTEXT, HELD_OUT = 16384, 32
ARCH = {"latent": "deepseek2", "diffusion": "llada"}
PLAIN = ("multi-head", "grouped", "single", "experts")
CHANNELS = "pole", "read"  # of S4D: a row is a channel's own
NEWEST = "{{ messages[-1]['content'] }}"  # an encoder reads the newest turn alone


def copied_tokenizer(out, source):
    """That of the model which wrote the texts, cut to its first ids, as ../stories.py has it."""
    for key, field in gguf.GGUFReader(source).fields.items():
        if key.startswith("tokenizer.") and key != "tokenizer.chat_template":
            inner = field.types[-1] if len(field.types) > 1 else None
            out.add_key_value(key, field.contents(), field.types[0], inner)


def byte_tokenizer(out, letters):
    """A token a byte, in GPT-2's order; in place of the last one a merge, since readers want one. letters: two that are a token."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([chr(b) for b in own] + [chr(256 + i) for i in range(len(rest) - 1)] + ["~~"] + letters)
    out.add_token_types([gguf.TokenType.NORMAL] * (BYTES + len(letters)))
    out.add_token_merges(["~ ~"] + [" ".join(two) for two in letters])
    out.add_add_bos_token(False)


def numbers(out, name, m):
    s = m.s
    out.add_block_count(s.layers)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(s.dim)
    out.add_feed_forward_length(m.width)
    out.add_head_count(s.heads)
    out.add_vocab_size(s.vocab)
    out.add_layer_norm_rms_eps(EPS)
    out.add_rope_freq_base(THETA)
    if name == "latent":
        latent(out, s)
    else:
        out.add_head_count_kv(m.kv_heads)
        out.add_key_length(HEAD)
        out.add_value_length(HEAD)
        out.add_rope_dimension_count(HEAD)
    if m.experts:
        out.add_expert_count(EXPERTS)
        out.add_expert_used_count(USED)
    if name == "diffusion":
        out.add_causal_attention(False)
        out.add_uint32("tokenizer.ggml.mask_token_id", MASK)
    if out.arch == "cutaway-mixed":
        mixed(out, m)
    if m.act:
        out.add_string("cutaway-mixed.feed_forward.activation", m.act)


def latent(out, s):
    out.add_head_count_kv(1)
    out.add_key_length(s.rank + s.turned)
    out.add_value_length(s.rank)
    out.add_rope_dimension_count(s.turned)
    out.add_kv_lora_rank(s.rank)
    out.add_key_length_mla(HEAD + s.turned)
    out.add_value_length_mla(HEAD)


def mixed(out, m):
    out.add_array("cutaway-mixed.mixers", m.mixers)
    out.add_array("cutaway-mixed.attention.window", m.window)
    out.add_array("cutaway-mixed.attention.kv_from", m.kv_from)
    if "linear" in m.mixers:
        out.add_uint32("cutaway-mixed.linear.feature_length", m.s.features)
    if {"s4d", "mamba", "mamba2"} & set(m.mixers):
        out.add_ssm_inner_size(m.s.dim)
    if "s4d" in m.mixers:
        out.add_uint32("cutaway-mixed.s4d.pole_count", m.s.states // 2)
    if {"mamba", "mamba2"} & set(m.mixers):
        first = "mamba" in m.mixers  # a file has but one of both forms: the keys are the same
        out.add_ssm_state_size(FEW if first else m.s.states)
        out.add_ssm_conv_kernel(TAPS)
        out.add_ssm_time_step_rank(m.s.dim // RANK if first else m.s.heads)
        out.add_ssm_group_count(1)


def named(key, value):
    """A parameter of model.py as (name in the file, numbers)."""
    if not key.startswith("layers."):
        return key + ".weight", value
    i, word = key.split(".")[1], key.split(".")[-1]
    if word in CHANNELS:
        return f"blk.{i}.ssm_{word}", value
    if word == "log_a" and value.dim() == 2:
        return f"blk.{i}.ssm_a", -value.exp()
    if word == "log_a":
        return f"blk.{i}.ssm_a", -value.exp()[:, None]
    if word == "ssm_skip":
        return f"blk.{i}.ssm_d", value
    if word == "ssm_d":
        return f"blk.{i}.ssm_d", value[:, None]
    if word.endswith("_b") and word.startswith("ssm"):
        return f"blk.{i}.{word[:-2]}.bias", value
    if word == "ssm_norm":
        return f"blk.{i}.ssm_norm.weight", value[None]
    return f"blk.{i}.{word}.weight", value


def parameters(m):
    """Those of model.py by name; S4D's made discrete, so that a file has nothing else than what a step needs."""
    held = m.state_dict()
    for i, layer in enumerate(m.layers):
        if isinstance(layer.mixer, S4D):
            pole, read = copy.deepcopy(layer.mixer).double().discrete()
            held[f"layers.{i}.mixer.pole"], held[f"layers.{i}.mixer.read"] = numbers_of(pole), numbers_of(read.conj().resolve_conj())
            del held[f"layers.{i}.mixer.log_dt"]
    return held


def numbers_of(z):
    """[channels, 2 n] of complex [channels, n]."""
    return torch.view_as_real(z).flatten(1)


def write(path, name, m, source=None, kind=gguf.GGMLQuantizationType.Q8_0):
    """m: a Family; source: a file whose tokenizer it has, or None: a token a byte. Matrices become `kind`, vectors stay F32."""
    out = gguf.GGUFWriter(path + ".part", ARCH.get(name, "llama" if name in PLAIN else "cutaway-mixed"))
    out.add_name(f"family {name}")
    numbers(out, name, m)
    copied_tokenizer(out, source) if source else byte_tokenizer(out, LETTERS[:m.s.vocab - BYTES])
    out.add_chat_template(PLAIN_TEXT)
    save(out, path, (named(key, p.detach().float()) for key, p in parameters(m).items()), kind)


def write_t5(path, name, m, source, kind=gguf.GGMLQuantizationType.Q8_0):
    """m: a T5 of t5.py."""
    out, s = gguf.GGUFWriter(path + ".part", "t5"), m.s
    out.add_name(f"family {name}")
    out.add_block_count(s.encoder)
    out.add_decoder_block_count(s.decoder)
    out.add_context_length(t5.CONTEXT)
    out.add_embedding_length(s.dim)
    out.add_feed_forward_length(s.ffn)
    out.add_head_count(s.heads)
    out.add_key_length(HEAD)
    out.add_value_length(HEAD)
    out.add_vocab_size(s.vocab)
    out.add_layer_norm_rms_eps(EPS)
    out.add_relative_attn_buckets_count(t5.BUCKETS)
    out.add_decoder_start_token_id(t5.START)
    copied_tokenizer(out, source) if source else byte_tokenizer(out, [])
    out.add_add_eos_token(True)
    out.add_chat_template(NEWEST)
    divided = lambda key, p: p * HEAD ** -0.5 if key.endswith("attn_q") else p
    save(out, path, ((key + ".weight", divided(key, p.detach().float())) for key, p in m.state_dict().items()), kind)


def save(out, path, tensors, kind):
    """Those of (name, numbers), and the file."""
    for tensor, values in tensors:
        values = np.ascontiguousarray(values.numpy())
        wide = values.ndim > 1 and values.shape[-1] % 32 == 0 and tensor.split("ssm_")[-1] not in ("norm.weight", *CHANNELS)
        if wide:
            out.add_tensor(tensor, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            out.add_tensor(tensor, values)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.rename(path + ".part", path)


def main():
    data, folder = sys.argv[1:]
    os.makedirs(os.path.join(folder, "held_out"), exist_ok=True)
    begin = os.path.join(data, "begin.gguf")
    for file, shape, source in (("{}-1", TEXT, begin), ("{}-%s-1" % FILLS, LADDER[FILLS], begin), ("recall-{}", RECALL, None),
                                ("delay-{}", RECALL, None), ("many-{}", RECALL_MANY, None)):
        for name in MEMBERS if shape is not LADDER[FILLS] else ("diffusion",):
            path = os.path.join(data, file.format(name) + ".pt")
            if os.path.exists(path):
                model = Family(shape, name, 1)
                model.load_state_dict(torch.load(path))
                write(os.path.join(folder, file.removesuffix("-1").removesuffix("-" + FILLS).format(name) + ".gguf"), name, model, source)
    for name, shape in t5.SIZES.items():
        path = os.path.join(data, f"{name}-1.pt")
        if os.path.exists(path):
            model = t5.T5(shape, 1)
            model.load_state_dict(torch.load(path))
            write_t5(os.path.join(folder, name + ".gguf"), name, model, begin)
    for text in sorted(os.listdir(os.path.join(data, "held_out")))[:HELD_OUT]:
        shutil.copy(os.path.join(data, "held_out", text), os.path.join(folder, "held_out", text))


if __name__ == "__main__":
    sys.exit(main())
