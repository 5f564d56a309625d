"""A whole model's GGUF file, made like another one: its metadata with some changes, and F32 tensors."""
import os

import gguf
import numpy as np

OWN = ("GGUF.", "cutaway.quantize.")  # what the reader adds, and what trained values are no longer
# Nothing between turns: a chat is a text that goes on (engine/text/template.c).
PLAIN_TEXT = ("{# a text that goes on #}{% for message in messages %}{{ message['content'] }}"
              "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}")
LEFT_OUT = ("general.architecture", "general.file_type", "general.quantization_version")


def write(path, source, tensors, changes=None):
    """tensors: {name: f32 tensor}. The file gets its name when it is whole."""
    fields, changes = gguf.GGUFReader(source).fields, changes or {}
    out = gguf.GGUFWriter(path + ".part", fields["general.architecture"].contents())
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    for key, field in fields.items():
        if not key.startswith(OWN) and key not in LEFT_OUT:
            inner = field.types[-1] if len(field.types) > 1 else None
            out.add_key_value(key, changes.get(key, field.contents()), field.types[0], inner)
    for name, values in tensors.items():
        out.add_tensor(name, np.ascontiguousarray(values.detach().float().numpy()))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.rename(path + ".part", path)
