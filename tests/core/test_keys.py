"""Every draw is a function of its name."""

import numpy as np
import torch

from fedswe.core import keys


def reference_bits(seed, stream, *counters):
    """The same hash in numpy's unsigned integers, where wrap-around is defined by the language."""

    def mix(z):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    with np.errstate(over="ignore"):
        h = np.uint64(keys.stream_key(seed, stream))
        for c in counters:
            h = mix(mix(h ^ np.asarray(c, dtype=np.uint64)) + np.uint64(0x9E3779B97F4A7C15))
    return h


def test_bits_equal_the_unsigned_reference():
    clients = torch.arange(1000)
    got = keys.bits(7, "batches", clients[:, None], 3, torch.arange(4)).numpy().view(np.uint64)
    want = reference_bits(7, "batches", np.arange(1000)[:, None], 3, np.arange(4))
    np.testing.assert_array_equal(got, want)


def test_torch_and_numpy_extend_a_name_alike():
    clients, steps, units = torch.arange(50), torch.arange(4), torch.arange(9)
    whole = keys.bits(7, "dropout", clients[:, None, None], 3, steps[:, None], units)
    names = keys.bits(7, "dropout", clients, 3)
    assert torch.equal(keys.extend(names[:, None, None], steps[:, None], units), whole)
    assert torch.equal(keys.grid(names, 4, 9), whole)
    assert torch.equal(keys.extend(keys.bits(7, "dropout"), 5, -2), keys.bits(7, "dropout", np.array(5), -2))
    assert keys.bits(7, "dropout", 5).shape == ()


def test_a_draw_does_not_depend_on_its_company():
    everyone = keys.uniform(3, "availability", 11, torch.arange(50))
    some = keys.uniform(3, "availability", 11, torch.tensor([4, 40]))
    assert torch.equal(everyone[[4, 40]], some)


def test_names_separate_streams():
    base = keys.uniform(3, "a", torch.arange(1000))
    others = [keys.uniform(4, "a", torch.arange(1000)), keys.uniform(3, "b", torch.arange(1000))]
    assert all(abs(float(torch.corrcoef(torch.stack([base, o]))[0, 1])) < 0.1 for o in others)
    assert not torch.equal(keys.bits(3, "a", 1, 2), keys.bits(3, "a", 2, 1))


def test_uniform_and_normal_have_their_moments():
    u = keys.uniform(1, "u", torch.arange(200_000))
    z = keys.normal(1, "z", torch.arange(200_000))
    assert 0 <= float(u.min()) < 1e-4
    assert 1 - 1e-4 < float(u.max()) < 1
    assert abs(float(u.mean()) - 0.5) < 4 * (1 / 12 / 200_000) ** 0.5
    assert abs(float(z.mean())) < 4 / 200_000**0.5
    assert abs(float(z.var()) - 1) < 4 * (2 / 200_000) ** 0.5
    counts = np.bincount((u * 64).long().numpy(), minlength=64)
    chi2 = ((counts - 200_000 / 64) ** 2 / (200_000 / 64)).sum()
    assert chi2 < 120  # 63 degrees of freedom: beyond the 1 - 1e-5 quantile something is wrong
