"""Deterministic tests: one thread, keyed randomness, hypothesis without its clock."""

import hypothesis
import torch

torch.set_num_threads(1)  # tiny models; threads only add noise
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")
