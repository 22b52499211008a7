"""Packets come back as they were sent; anything else is one clear error, and cheap."""

import json
import resource
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedswe.core.records import Model
from fedswe.deploy.packet import Packet, arrays_digest, decode, encode
from fedswe.errors import FedsweError

HEADERS = st.dictionaries(
    st.text(max_size=12),
    st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    max_size=6,
)
VECTORS = st.lists(st.floats(width=32), max_size=8)


@given(kind=st.text(max_size=10), header=HEADERS, values=VECTORS, wide=st.booleans())
def test_round_trip(kind, header, values, wide):
    x = torch.tensor(values, dtype=torch.float64 if wide else torch.float32)
    back = Packet.from_bytes(Packet(kind, header, {"a.x": x, "b.x": x}).to_bytes())
    assert (back.kind, back.header) == (kind, header)
    assert back.arrays.keys() == {"a.x", "b.x"}
    for value in back.arrays.values():
        assert value.dtype == x.dtype
        assert value.numpy().tobytes() == x.numpy().tobytes()  # NaN payloads and signed zeros too


def test_a_packet_without_arrays():
    assert Packet.from_bytes(Packet("ack", {"round": 3}).to_bytes()).header == {"round": 3}


def example():
    return Packet("report", {"round": 7, "run": "ab"}, {"report.x": torch.arange(5.0)}).to_bytes()


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    with pytest.raises(FedsweError, match="not a packet"):
        Packet.from_bytes(data)


@given(st.integers(0, len(example()) - 1))
def test_truncated_packets_are_refused(size):
    with pytest.raises(FedsweError, match="not a packet"):
        Packet.from_bytes(example()[:size])


@given(st.integers(0, len(example()) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_stays_a_packet(place, change):
    data = bytearray(example())
    data[place] ^= change
    try:
        packet = Packet.from_bytes(bytes(data))
    except FedsweError:
        packet = None  # and no other error
    assert packet is None or sum(value.numel() for value in packet.arrays.values()) == 5


def forged(index, body=b""):
    text = json.dumps(index).encode() if not isinstance(index, bytes) else index
    return struct.pack("<Q", len(text)) + text + body


NOTE = {"packet": json.dumps({"kind": "job", "header": {}})}


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9),
        forged({"__metadata__": NOTE, "x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        forged({"__metadata__": NOTE, "x": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 0]}}),
        forged({"__metadata__": NOTE, "x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, bytes(16)),
        forged({"__metadata__": NOTE, "x": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}}, bytes(16)),
        forged({"__metadata__": NOTE, "x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
        forged({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        forged(b"[" * 60_000),
        forged(b'{"__metadata__":' + b"[" * 60_000),
        forged({"__metadata__": {"packet": "[" * 20_000}}),
        forged({"__metadata__": {"packet": json.dumps({"kind": 3, "header": {}})}}),
        forged({"__metadata__": {"packet": json.dumps({"kind": "job", "header": {"round": [1]}})}}),
        forged({"__metadata__": {"packet": json.dumps({"kind": "job", "header": {"round": True}})}}),
        forged({"__metadata__": {"packet": '{"kind": "job", "header": {"round": NaN}}'}}),
        forged({"__metadata__": {"packet": '{"kind": "job", "header": {"round": 1' + "0" * 5000 + "}}"}}),
        forged({"__metadata__": NOTE, "filler": "x" * 70_000}),
        b"\x80\x04\x95" + bytes(50),  # a pickle
    ],
)
def test_forged_packets_are_refused_without_taking_memory(data):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FedsweError, match="not a packet"):
        Packet.from_bytes(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_records_keep_their_fields_shapes_and_dtypes():
    like = Model(torch.zeros(3))
    arrays = encode("reply", Model(torch.tensor([1.0, 2.0, 3.0])))
    assert decode("reply", arrays, like).x.tolist() == [1, 2, 3]
    for wrong, complaint in (
        ({"reply.y": torch.zeros(3)}, "fields"),
        ({**arrays, "reply.y": torch.zeros(3)}, "fields"),
        ({}, "fields"),
        ({"reply.x": torch.zeros(4)}, "shape"),
        ({"reply.x": torch.zeros(1)}, "shape"),
        ({"reply.x": torch.zeros(3, dtype=torch.float64)}, "float64"),
    ):
        with pytest.raises(FedsweError, match=complaint):
            decode("reply", wrong, like)


def test_a_digest_names_content():
    x = torch.tensor([1.0, 2.0])
    names = {
        arrays_digest({"x": x}),
        arrays_digest({"y": x}),
        arrays_digest({"x": x.double()}),
        arrays_digest({"x": -x}),
        arrays_digest({}),
    }
    assert len(names) == 5
    assert arrays_digest({"x": x}) == arrays_digest({"x": torch.tensor([0.0, 1.0, 2.0])[1:]})
