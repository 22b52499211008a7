"""Packets as an attacker makes them: mutations of valid ones, and generated ones. Deterministic by a seed."""

import json
import struct

import torch

from fedswe.deploy import Packet


def forged(index, body=b""):
    """A packet with any index."""
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    return struct.pack("<Q", len(text)) + text + body


def noted(content, more=b"", body=b""):
    """A packet whose header is the given JSON text."""
    note = b'{"__metadata__": {"packet": ' + json.dumps(content).encode() + b"}" + more + b"}"
    return forged(note, body)


# 91 bytes: the number is infinity once it is parsed
INFINITE = forged(b'{"__metadata__":{"packet":"{\\"kind\\":\\"report\\",\\"header\\":{\\"client\\":1e999}}"}}  ')

NUMBERS = ["1e999", "-1e999", "1" * 5000, "-" + "9" * 21, "NaN", "Infinity", "1e-999", "0", "-1", "true", "null", "[1]"]
VALUES = [-(10**18), 2**63, 0, -1, 0.5, 1e308, "", "?", "\ud800", "\x1b[2J", "[/red]", "a\nb", "x" * 5000]
SHAPES = [[], [0], [-1], [1, 1], [2**62], [2**40], "3", None, [1.5], [True]]
OFFSETS = [[0, 2**50], [4, 0], [0, 0], "x", None]
DTYPES = ["F32", "F64", "I64", "BOOL", "F8_E4M3", "x", None, ["F32"]]


def mutated(rng, valid):
    """One mutation of a valid packet, or a generated one."""
    return rng.choice(_WAYS)(rng, valid)


def _bytes(rng, valid):
    return rng.randbytes(rng.randrange(300))


def _cut(rng, valid):
    return valid[: rng.randrange(len(valid))]


def _longer(rng, valid):
    return valid + rng.randbytes(rng.choice([1, 8, 100_000]))


def _flipped(rng, valid):
    data = bytearray(valid)
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(min(len(data), 600))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _spliced(rng, valid):
    i, j = sorted(rng.randrange(len(valid)) for _ in range(2))
    return valid[:i] + valid[j:]


def _header(rng, valid):
    packet = Packet.from_bytes(valid)
    key = rng.choice([*packet.header, "reason", "more"])
    header = {**packet.header, key: rng.choice(VALUES)}
    kind = rng.choice([packet.kind, packet.kind, "report", "decline", "need_state", "ack", "job", "delivery", "\x00"])
    return Packet(kind, header, packet.arrays).to_bytes()


def _number(rng, valid):
    packet = Packet.from_bytes(valid)
    header = json.dumps({**packet.header, rng.choice([*packet.header]): "@"}).replace('"@"', rng.choice(NUMBERS))
    return noted(f'{{"kind": "{packet.kind}", "header": {header}}}')


def _arrays(rng, valid):
    packet = Packet.from_bytes(valid)
    arrays = {rng.choice([name, name + "z", "\x1b]0;x", ""]): _vector(rng, x) for name, x in packet.arrays.items()}
    if rng.random() < 0.3:
        arrays["extra"] = torch.ones(rng.choice([0, 1, 1000]))
    return Packet(packet.kind, packet.header, arrays).to_bytes()


def _vector(rng, x):
    change = rng.choice(["longer", "short", "wide", "nan", "inf", "huge", "integers", "empty"])
    return {
        "longer": lambda: torch.cat([x, x]),
        "short": lambda: x[:1],
        "wide": lambda: x.double(),
        "nan": lambda: x * float("nan"),
        "inf": lambda: x / 0,
        "huge": lambda: x + 3e38,
        "integers": lambda: x.to(torch.int64),
        "empty": lambda: x[:0],
    }[change]()


def _claims(rng, valid):
    """An index that claims other arrays than the data hold."""
    size = int.from_bytes(valid[:8], "little")
    index = json.loads(valid[8 : 8 + size])
    for name in index:
        if name != "__metadata__":
            field, values = rng.choice([("shape", SHAPES), ("dtype", DTYPES), ("data_offsets", OFFSETS)])
            index[name][field] = rng.choice(values)
    return forged(index, valid[8 + size :])


def _nested(rng, valid):
    depth = rng.choice([10, 1000, 20_000])
    return rng.choice([forged(b"[" * depth), noted("[" * depth), noted('{"kind":' * depth), INFINITE])


_WAYS = [_bytes, _cut, _longer, _flipped, _spliced, _header, _number, _arrays, _claims, _nested]
