"""Parts written as one word."""

import pytest

from fedswe.errors import FedsweError
from fedswe.registry import instance, short_form, split, toml_value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("fedswe", ("fedswe", [])),
        ("fedswe:k=10:lr=2", ("fedswe", ["k=10", "lr=2"])),
        ("./mine.py:Half:share=0.1", ("./mine.py:Half", ["share=0.1"])),
        ("package.module:Half", ("package.module:Half", [])),
        ("mine:Half:0.1", ("mine:Half", ["0.1"])),
        ("fedsve:5", ("fedsve", ["5"])),
    ],
)
def test_a_name_and_its_parameters(text, parts):
    assert split("algorithm", text) == parts


@pytest.mark.parametrize(
    ("kind", "text", "table"),
    [
        ("transform", "clip:5", {"name": "clip", "norm": 5}),
        ("transform", "adam:eps=0.1", {"name": "adam", "eps": 0.1}),
        ("output", "server", {"name": "server"}),
    ],
)
def test_a_value_alone_is_of_the_first_parameter(kind, text, table):
    assert short_form(kind, text, "chain") == table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clip:5:6", "chain: clip takes no value '6': write key=value"),
        ("adam:eps=1:eps=2", "chain: adam names eps twice"),
        ("adam:epsilon=1", "unknown key chain.epsilon of adam"),
    ],
)
def test_what_is_wrong_with_a_short_form(text, message):
    with pytest.raises(FedsweError) as caught:
        instance("transform", text, "chain")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("0.5", 0.5), ("true", True), ("word", "word"), ("[a, 1]", ["a", 1]), ("'1'", "1")]
)
def test_a_word_without_quotes_is_a_text(text, value):
    assert toml_value(text) == value
