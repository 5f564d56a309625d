"""A drafter's GGUF file, written and read: the layout is in docs/training.md."""
import gguf
import numpy as np
import torch

from drafters import KINDS
from target import read_gguf

TYPES = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_1": gguf.GGMLQuantizationType.Q4_1}


def round_trip(matrix, kind):
    """A matrix as a file of this type gives it back: gguf's own rounding, at the speed of torch."""
    blocks = matrix.detach().view(-1, 32)
    if kind == "q8_0":
        d = blocks.abs().amax(-1, keepdim=True) / 127
        q = (blocks / d.clamp(min=1e-30)).round_()
        return (q * d.half().float()).view_as(matrix)
    low, high = blocks.aminmax(dim=-1, keepdim=True)
    d = (high - low) / 15
    q = ((blocks - low) / d.clamp(min=1e-30)).add_(0.5).floor_().clamp_(0, 15)
    return (q * d.half().float() + low.half().float()).view_as(matrix)


def write(path, drafter, target, name, quantised):
    out = gguf.GGUFWriter(path, "cutaway-draft")
    out.add_name(f"{target.c.name} {drafter.kind} drafter")
    out.add_license("apache-2.0")
    out.add_string("cutaway.draft.kind", drafter.kind)
    out.add_string("cutaway.draft.target", name)
    out.add_uint32("cutaway.draft.vocab", target.c.vocab)
    out.add_uint32("cutaway.draft.dim", target.c.dim)
    out.add_string("cutaway.draft.vocab_hash", target.c.vocab_hash)
    out.add_array("cutaway.draft.ids", [int(i) for i in drafter.ids])
    if drafter.kind == "model":
        out.add_uint32("cutaway.draft.layers", len(drafter.made_of))
        out.add_key_value("cutaway.draft.from", [int(i) for i in drafter.made_of], gguf.GGUFValueType.ARRAY,
                          gguf.GGUFValueType.UINT32)
    if drafter.lower:
        out.add_key_value("cutaway.draft.lower", list(drafter.lower), gguf.GGUFValueType.ARRAY,
                          gguf.GGUFValueType.UINT32)
    if drafter.kind == "medusa":
        out.add_uint32("cutaway.draft.heads", len(drafter.norms))
    for tensor, p in drafter.tensors().items():
        values = p.detach().float().numpy()
        if values.ndim == 1:
            out.add_tensor(tensor, np.ascontiguousarray(values))
        else:
            out.add_tensor(tensor, gguf.quants.quantize(values, quantised), raw_dtype=quantised)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read(path, target, ids=None, lower=None):
    """The drafter of a file; with other ids, if there are some: its weights know nothing of them. lower: of an EAGLE
    the lower layers that it is to read; what is not in the file begins anew."""
    meta, tensors = read_gguf(path)
    kind = meta["cutaway.draft.kind"]
    shape = {"model": lambda: {"layers": meta["cutaway.draft.from"]}, "eagle": lambda: {"lower": meta.get("cutaway.draft.lower", []) if lower is None else lower},
             "medusa": lambda: {"heads": meta["cutaway.draft.heads"], "ffn": len(tensors["medusa.0.gate.weight"])}}
    drafter = KINDS[kind](target, torch.tensor(meta["cutaway.draft.ids"]) if ids is None else ids, **shape[kind]())
    with torch.no_grad():
        for name, p in drafter.tensors().items():
            if name in tensors or not lower:
                p.copy_(tensors.pop(name))
    assert not tensors, sorted(tensors)
    return drafter


def read_checkpoint(path, target):
    saved = torch.load(path)
    drafter = KINDS[saved["kind"]](target, saved["ids"], **saved["shape"])
    drafter.load_state_dict(saved["drafter"])
    return drafter
