"""The fused kernels against autograd in float64: run as a script, it prints one line of JSON with the worst errors.

A process of its own, because Triton decides at import whether it interprets its kernels (on a CPU) or compiles them.
"""

import json
import math
import sys

import torch
from torch.nn import functional as F

from fedswe.engine.solvers.fused_cnn.cnn import FusedCnn
from fedswe.tasks.network import Network
from fedswe.tasks.networks import paper_cnn


def shifted(image, dy, dx, flip, border):
    padded = border.view(3, 1, 1).expand(3, 48, 48).clone()
    padded[:, 8:40, 8:40] = image
    window = padded[:, 8 + dy : 40 + dy, 8 + dx : 40 + dx]
    return window.flip(2) if flip else window


def reference(images, start, phase, network, drift, clip, border):
    """Client by client, step by step, in float64."""
    ends = []
    for c, x in enumerate(start.double()):
        for s in range(len(phase.index)):
            x = x.detach().requires_grad_()
            batch = torch.stack(
                [
                    shifted(
                        images[i].double(),
                        *map(int, (phase.shift_y[s, c, b], phase.shift_x[s, c, b], phase.flip[s, c, b])),
                        border.double(),
                    )
                    for b, i in enumerate(phase.index[s, c])
                ]
            )
            logits = network.training_logits(x, batch, phase.dropout[s, c] if network.drops else None)
            losses = F.cross_entropy(logits, phase.labels[s, c].long(), reduction="none")
            gradient = torch.autograd.grad((losses * phase.weight[c].double()).sum(), x)[0]
            if clip:
                gradient = gradient * min(1.0, clip / float(gradient.norm()))
            if drift is not None:
                gradient = gradient + drift[c].double()
            x = x.detach() - float(phase.lr[c]) * gradient
        ends.append(x)
    return torch.stack(ends)


def worst_error(device, widths, dropout, clients, batch, precision, drifting, clip, seed=7):
    """The largest relative error of a parameter tensor's change over one step, clients with few samples included."""
    generator = torch.Generator().manual_seed(seed)
    modules = [paper_cnn(*widths[:-1], dropout=dropout)((3, 32, 32), widths[-1]) for _ in range(clients)]
    network = Network(modules[0])
    images = torch.randn(50, 3, 32, 32, generator=generator)
    room = clients + 2  # places that stay empty
    cnn = FusedCnn(images.to(device), widths, room, batch, 1, precision, dropout)
    for poisoned in (cnn.pooled2, cnn.grad1, cnn.partial1, cnn.partial2, cnn.small, cnn.d_hidden, cnn.x, cnn.low):
        poisoned.fill_(math.nan)
    cnn.staged[:, :, 1:-1, 1:-1] = math.nan
    border = torch.randn(3, generator=generator)
    cnn.border[:3] = border.to(device)
    phase = cnn.phase
    phase.index.copy_(torch.randint(0, 50, phase.index.shape, generator=generator))
    phase.labels.copy_(torch.randint(0, widths[-1], phase.labels.shape, generator=generator))
    phase.shift_y.copy_(torch.randint(-4, 5, phase.index.shape, generator=generator))
    phase.shift_x.copy_(torch.randint(-4, 5, phase.index.shape, generator=generator))
    phase.flip.copy_(torch.randint(0, 2, phase.index.shape, generator=generator))
    phase.dropout.copy_(torch.randint(-(2**63), 2**63 - 1, phase.dropout.shape, generator=generator))
    weight = torch.full((room, batch), 1 / batch)
    weight[0] = 0.0
    weight[0, :5] = 1 / 5  # a client with five samples
    phase.weight.copy_(weight)
    phase.lr.copy_(0.05 + 0.1 * torch.rand(room, generator=generator))
    phase.clip.fill_(clip or math.inf)
    start = torch.stack([torch.nn.utils.parameters_to_vector(m.parameters()).detach() for m in modules])
    drift = 0.01 * torch.randn(start.shape, generator=generator) if drifting else None
    on = {"device": device}
    got = cnn.run(start.to(**on), None if drift is None else drift.to(**on), bool(clip), clients, graph=device != "cpu")
    kept = type(phase)(**{name: value.cpu() for name, value in vars(phase).items()})
    want = reference(images, start, kept, network, drift, clip, border)
    change, error = want - start.double(), got.cpu().double() - want
    sizes = [p.numel() for p in modules[0].parameters()]
    parts = zip(error.split(sizes, 1), change.split(sizes, 1), strict=True)
    return max(float((e.norm(dim=1) / c.norm(dim=1)).max()) for e, c in parts)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = sys.argv[1]
    cases = json.loads(sys.argv[2])
    print(json.dumps([worst_error(device, tuple(case[0]), *case[1:]) for case in cases]))
