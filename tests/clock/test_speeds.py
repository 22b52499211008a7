"""Speeds of clients: drawn by the seed, or from a file that is not trusted."""

import numpy as np
import pytest

from fedswe.clock.speeds import Speeds
from fedswe.errors import FedsweError


def drawn(m=4, seed=3, step=(2.0, 0.0), sigma=0.0):
    return Speeds.drawn(m, seed, step, download=100.0, upload=50.0, sigma=sigma)


def test_without_spread_all_clients_are_alike():
    for name, value in (("step_seconds", 2.0), ("download", 100.0), ("upload", 50.0)):
        assert getattr(drawn(), name).tolist() == [value] * 4


def test_the_spread_is_log_normal_by_the_seed():
    many, again, other = (drawn(20_000, seed, (2.0, 0.7), sigma=1.5) for seed in (3, 3, 4))
    np.testing.assert_array_equal(many.step_seconds, again.step_seconds)
    assert (many.step_seconds != other.step_seconds).all()
    assert np.median(many.step_seconds) == pytest.approx(2, rel=0.03)
    assert np.log(many.step_seconds).std() == pytest.approx(0.7, rel=0.03)
    assert np.median(many.download) == pytest.approx(100, rel=0.05)
    assert np.log(many.download).std() == pytest.approx(1.5, rel=0.03)
    np.testing.assert_allclose(many.download, 2 * many.upload)  # one factor for both directions
    assert abs(np.corrcoef(np.log(many.step_seconds), np.log(many.upload))[0, 1]) < 0.03


def test_clients_are_the_same_in_larger_populations():
    few, many = drawn(5, 3, (2.0, 0.7)), drawn(50, 3, (2.0, 0.7))
    np.testing.assert_array_equal(few.step_seconds, many.step_seconds[:5])


def test_a_file_replaces_the_columns_that_it_has(tmp_path):
    file = tmp_path / "speeds.csv"
    file.write_text("# measured in May\nclient;upload;place\n2;7;x\n0;5;y\n003;8;z\n1;6;x\n")
    speeds = drawn().with_file(str(file), None)
    assert speeds.upload.tolist() == [5, 6, 7, 8]
    assert speeds.download.tolist() == [100.0] * 4


def test_a_file_may_name_the_devices_of_a_log(tmp_path):
    file = tmp_path / "speeds.csv"
    file.write_text("device,step_seconds\nphone-b,2\nphone-a,1\nunused,9\n7,3\n")
    speeds = drawn().with_file(str(file), ["phone-a", "phone-b", None, 7])
    assert speeds.step_seconds.tolist() == [1, 2, 0, 3]  # the third was never online
    with pytest.raises(FedsweError, match=r"a column device, which is for availability.name=intervals"):
        drawn().with_file(str(file), None)
    with pytest.raises(FedsweError, match="lacks 2 of 4 devices, first phone-c: add a row for each"):
        drawn().with_file(str(file), ["phone-a", "phone-c", "phone-d", 7])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a header with client or device"),
        ("0,1\n1,2\n", "must have a header with client or device"),
        ("client,speed\n0,1\n", "must have a header with client or device, and any of step_seconds, download, upload"),
        ("client,device,upload\n0,0,1\n", "must have a header"),
        ("client,upload,upload\n0,1,1\n", "must have a header"),
        ("client,upload\n", "has no rows"),
        ("client,upload\n0,1\n1,2\n", "lacks 2 of 4 clients, first 2: add a row for each"),
        ("client,upload\n0,1\n0,2\n", "line 3: the client '0' has two rows"),
        ("client,upload\n0,1\n00,2\n", "line 3: the client '0' has two rows"),
        ("client,upload\n0,1,2\n", "Expected 2 fields in line 2, saw 3"),
        *[
            (f"client,upload\n0,{word}\n", f"line 2: upload must be 0 or a positive number, not '{word}'")
            for word in ("-1", "nan", "inf", "fast", "")
        ],
        ("client,upload\n0,1\n1,1\n2,1\n3,1\n4,1\n", "has a client '4', but the clients are 0 to 3"),
        ("client,upload\n-1,1\n", "has a client '-1'"),
        ("client,upload\n0,\xff1\n", "not UTF-8 text"),
        ("client,upload\n0," + "1" * 200_000 + "\n", "must be 0 or a positive number"),
    ],
)
def test_mistakes_in_a_file_are_one_line(tmp_path, text, message):
    file = tmp_path / "speeds.csv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FedsweError) as caught:
        drawn().with_file(str(file), None)
    assert message in str(caught.value)
    assert str(caught.value).startswith("clock.speed_file: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(FedsweError, match="there is no file"):
        drawn().with_file(str(tmp_path / "none.csv"), None)
