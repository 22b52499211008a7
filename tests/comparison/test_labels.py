"""Labels of algorithms."""

import pytest

from fedswe import FedsweError
from fedswe.algorithms import FedAvg, FedSWE
from fedswe.comparison.labels import file_name, in_sweep, label_of, number_text, parse_label, run_name, split_labels
from fedswe.core.transforms import Clip, Momentum


def test_labels_are_split_outside_brackets():
    text = "fedswe:k=10, ./mine.py:Mine:damp=0.5,pkg.mod:Cls,fedavg:chain=[clip:5,momentum:0.9],mine:Mine,"
    labels = split_labels(text)
    assert labels == [
        "fedswe:k=10", "./mine.py:Mine:damp=0.5", "pkg.mod:Cls", "fedavg:chain=[clip:5,momentum:0.9]", "mine:Mine",
    ]  # fmt: skip
    assert [parse_label(label) for label in labels] == [
        ("fedswe", ["k=10"]),
        ("./mine.py:Mine", ["damp=0.5"]),
        ("pkg.mod:Cls", []),
        ("fedavg", ["chain=[clip:5,momentum:0.9]"]),
        ("mine:Mine", []),
    ]
    names = [file_name(label) for label in labels]
    assert names[:3] == ["fedswe_k10", "mine.Mine_damp0.5", "pkg.mod.Cls"]
    assert not any(set(name) & set(":/[],= ") for name in names)
    assert len(set(names)) == len(names)


def test_a_parameter_without_value_is_one_line():
    with pytest.raises(FedsweError, match="cannot read 'clip' in fedswe:k=1:clip: write key=value"):
        parse_label("fedswe:k=1:clip")


@pytest.mark.parametrize(
    ("algorithm", "label"),
    [
        (FedSWE(), "fedswe"),
        (FedSWE(k=2.5, lr=0.5), "fedswe:lr=0.5:k=2.5"),
        (FedSWE(k=1.00000001), "fedswe:k=1.00000001"),
        (FedAvg(chain=(Clip(5.0), Momentum(0.8))), "fedavg:chain=[clip:norm=5,momentum:beta=0.8]"),
    ],
)
def test_the_label_of_an_instance_names_what_is_not_default(algorithm, label):
    assert label_of("algorithm", algorithm) == label
    name, parameters = parse_label(label)
    assert (name, ":".join([name, *parameters])) == (label.partition(":")[0], label)


def test_in_a_sweep_the_default_is_named():
    labels = ["fedswe", "fedswe:k=0", "fedswe:k=10"]
    assert [in_sweep(label, FedSWE(k=7.0), labels) for label in labels] == ["fedswe:k=7", *labels[1:]]
    for others in (["fedswe:k=7"], ["fedswe:k=0:lr=2"], ["fedavg:lr=2"], ["fedswe:chain=[clip:5]"]):
        assert in_sweep("fedswe", FedSWE(k=7.0), ["fedswe", *others]) == "fedswe"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1.0, "1"), (3, "3"), (1e-05, "1e-05"), (2e6, "2e+06"), (0.1 + 0.2, "0.30000000000000004")],
)
def test_a_number_is_written_as_short_as_it_can_be_read_back(value, text):
    assert number_text(value) == text
    assert run_name("fedswe:k=10", value, 3) == f"fedswe_k10-lr{text}-seed3"
