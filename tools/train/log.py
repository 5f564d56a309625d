"""What a training tells `cutaway record`: the trainers' --record FILE. `cutaway replay --follow FILE` shows it while it goes on."""
import json
import math
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def add_option(parser):
    parser.add_argument("--record", help="a recording of the training; cutaway replay --follow FILE shows it")


def size(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def memory(trained, optimizers):
    """Bytes after a step, as they are in memory: of the numbers that are trained, of their gradients, and of what the optimizers
    keep of them."""
    kept = [t for o in optimizers for state in o.state.values() for t in state.values() if hasattr(t, "numel")]
    return {"params": sum(p.numel() for p in trained), "weight_bytes": size(trained),
            "gradient_bytes": size([p.grad for p in trained if p.grad is not None]), "optimizer_bytes": size(kept)}


class Log:
    """Without a path it tells nobody. What is trained is told with the first step, when gradients and optimizers are there."""

    def __init__(self, path, trained, optimizers, **training):
        self.trained, self.optimizers, self.training, self.to = trained, optimizers, training, None
        if path:
            self.to = subprocess.Popen([os.environ.get("CUTAWAY", os.path.join(ROOT, "cutaway")), "record", path],
                                       stdin=subprocess.PIPE, text=True)

    def __bool__(self):
        return self.to is not None

    def tell(self, **values):
        finite = {k: v if isinstance(v, (int, str)) or v is not None and math.isfinite(v) else None for k, v in values.items()}
        self.to.stdin.write(json.dumps(finite) + "\n")
        self.to.stdin.flush()

    def step(self, step, **values):
        if not self.to:
            return
        if self.training:
            self.tell(**self.training, **memory(self.trained, self.optimizers))
            self.training = None
        self.tell(step=step, **values)

    def close(self):
        if self.to:
            self.to.stdin.close()
            if self.to.wait():
                raise SystemExit("the recording of the training failed: see above")
