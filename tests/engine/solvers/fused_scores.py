"""A model's logits by the forward kernels against the network's own; on a CPU in Triton's interpreter.

Run as a module with a device, it prints the largest errors, and whether a NaN among the weights shows.
"""

import json
import sys

import torch

from fedswe.engine.solvers.fused_cnn.solver import Forward
from fedswe.tasks.network import Network
from fedswe.tasks.networks import paper_cnn


def main(device):
    precision, room = ("fp32", 6) if device == "cpu" else ("tf32", 512)
    torch.manual_seed(0)
    errors = []
    for widths, dropout in (((128, 10), 0.0), ((32, 16, 7), 0.2)):
        network = Network(paper_cnn(*widths[:-1], dropout=dropout)((3, 32, 32), widths[-1]))
        forward = Forward(widths, room, precision, torch.device(device))
        for images in (room, room - 3):  # full, then an odd number in front of what is left from before
            x = (network.initial() + 0.02 * torch.randn(network.initial().shape)).to(device)
            inputs = torch.randn(images, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
            want = network.logits(x, inputs)
            errors.append(float((forward.logits(x, inputs) - want).abs().max() / want.std()))
        x[5] = torch.nan
        hidden = not bool(forward.logits(x, inputs).isnan().all())
        errors.append(float(hidden))
        x[5] = 0.0
        errors.append(float((forward.logits(x, inputs) - network.logits(x, inputs)).abs().max() / want.std()))
    print(json.dumps(max(errors)))


if __name__ == "__main__":
    main(sys.argv[1])
