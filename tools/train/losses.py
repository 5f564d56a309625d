"""What a model learns from. A drafter: the target's distribution at the places of answers, at each guessed depth. A student
(repair.py): all of its teacher's distribution, or the text."""
import torch
import torch.nn.functional as F

from target import rms

KEEP = 16  # of the target's distribution at a place, the likeliest


def trimmed(rows, size, eos, vocab):
    """Ids for the drafter's head, ascending: the most frequent of the texts, and then, since a vocabulary of merges
    is ordered by the frequency of a much larger text, the lowest."""
    counts = [0] * vocab
    for row in rows:
        for i in row["ids"]:
            counts[i] += 1
    counts[eos] = 1 << 60
    return sorted(sorted(range(vocab), key=lambda i: (-counts[i], i))[:size])


def covered(ids, rows):
    """The share of answers' tokens that are among ids."""
    ids, tokens = set(ids), [i for row in rows for i in row["ids"][row["start"]:]]
    return sum(i in ids for i in tokens) / max(1, len(tokens))


def add_goals(rows, target, head, temperature):
    """row["goal"] of those that have none yet: by place, the likeliest rows of the head and their probabilities."""
    rows = [r for r in rows if "goal" not in r]
    if not rows:
        return
    h = torch.cat([r["h"][r["start"]:-1, -target.c.dim:].float() for r in rows])
    logits = F.linear(rms(h, target.norm, target.c.eps).to(head.dtype), head)
    value, index = logits.topk(KEEP, -1)
    p, at = torch.softmax(value.float() / temperature, -1), 0
    for row in rows:
        n = len(row["ids"]) - 1 - row["start"]
        row["goal"] = index[at:at + n].short(), p[at:at + n].half()
        at += n


class Goals:
    """The goals of a batch [batch, width, KEEP] over a part of the head: every row that is somebody's goal, and `more`
    others by chance, each of which stands for its share of all others, so that the sum over the head is right on
    average (importance sampling; Bengio & Senécal 2008)."""

    def __init__(self, rows, width, head, more):
        shape = len(rows), width, KEEP
        index, self.p = torch.zeros(shape, dtype=torch.long), torch.zeros(shape)
        for k, row in enumerate(rows):
            one, p = row["goal"]
            index[k, :len(one)], self.p[k, :len(p)] = one.long(), p.float()
        wanted = torch.zeros(len(head), dtype=torch.bool)
        wanted[index[self.p > 1e-3]] = True
        rest = (~wanted).nonzero()[:, 0]
        some = rest[torch.randperm(len(rest))[:more]]
        self.rows = torch.cat([wanted.nonzero()[:, 0], some])
        self.head = head[self.rows]
        self.more = torch.zeros(len(self.rows))
        if len(some):
            self.more[-len(some):] = (torch.tensor(len(rest) / len(some))).log()
        where = torch.full((len(head),), -1)
        where[self.rows] = torch.arange(len(self.rows))
        self.index = where[index]
        self.p = torch.where(self.index < 0, 0, self.p)
        self.p /= self.p.sum(-1, keepdim=True).clamp(min=1e-9)
        self.index.clamp_(min=0)


class CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of softmax(head · y + more) with the distributions p over index. Its gradient is made on the
    way, since the logits are what takes the time and the memory."""

    @staticmethod
    def forward(ctx, y, head, more, index, p):
        logits = F.linear(y.to(head.dtype), head).float()
        right = (p * logits.gather(-1, index)).sum(-1)
        logits += more
        log_sum = logits.logsumexp(-1, keepdim=True)
        d = logits.sub_(log_sum).exp_().scatter_add_(-1, index, -p).mul_(1 / len(p)).to(head.dtype)
        ctx.save_for_backward(d @ head)
        return (log_sum.squeeze(-1) - right).mean()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0].float() * grad, None, None, None, None


def loss_of(drafter, target, head, rows, batch, args, depth):
    """Of a batch: the loss to learn from, and the cross-entropy at each depth."""
    with torch.no_grad():
        add_goals(rows, target, head, args.temperature)
        goals = Goals(rows, batch.width, head, args.others)
    total, losses = 0, []
    for j, y in enumerate(batch.unroll(drafter, depth)):
        real = batch.real.clone()
        real[:, :j] = False
        normed = rms(y[real].float(), drafter.norm_of(j), drafter.c.eps)
        one = CrossEntropy.apply(normed, goals.head, goals.more, goals.index[real], goals.p[real])
        losses.append(one.item())
        total = total + one * args.later ** j
        if args.feature_weight:
            ahead = torch.cat([row["h"][row["start"] + j:-1, -drafter.c.dim:].float() for row in rows])
            goal = rms(ahead, target.norm, drafter.c.eps)
            total = total + F.smooth_l1_loss(normed, goal) * (args.feature_weight * args.later ** j)
    return total, losses


def divergence(p, q):
    """Mean over places of the Kullback-Leibler divergence of the softmax of logits p from that of q, nats."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def student_loss(student, teacher, labels, temperature=1.0, hard=0.0, reverse=False):
    """Hinton et al. 2015 over logits [places, vocab]: `hard` of the cross-entropy with the labels, the rest of the divergence
    of the softened distributions, times T², since its gradient shrinks as 1/T². reverse: from the student to the teacher."""
    loss = 0.0
    if hard > 0:
        loss = hard * F.cross_entropy(student, labels)
    if hard < 1:
        t, s = teacher / temperature, student / temperature
        loss = loss + (1 - hard) * temperature ** 2 * (divergence(s, t) if reverse else divergence(t, s))
    return loss
