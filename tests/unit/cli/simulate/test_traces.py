"""Trace files: what is read, and the errors for files that cannot be read."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.errors import HoldfastError
from holdfast_cli.simulate import traces
from holdfast_cli.simulate.errors import TraceError
from holdfast_cli.simulate.traces import Trace, read_trace, read_traces

SAMPLES = st.lists(st.integers(0, 1), max_size=60).map(bytes)


def written(tmp_path, text, name="zone.json"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def published(gap=600, data=(1, 0, 0, 1)):
    return json.dumps({"metadata": {"gap_seconds": gap}, "data": list(data)})


def test_the_published_format(tmp_path):
    assert read_trace(written(tmp_path, published())) == Trace("zone", 600, b"\1\0\0\1")
    assert read_trace(written(tmp_path, published(gap=60.0))).gap == 60


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("{", "line 1 column 2", "is not JSON"),
        ('{"data":\n [1,]}', "line 2", "is not JSON"),
        ("[1, 0]", "metadata.gap_seconds", "got None"),
        (published(gap=0), "metadata.gap_seconds", "from 1 to 86400; got 0"),
        (published(gap=True), "metadata.gap_seconds", "got True"),
        (published(gap=600.5), "metadata.gap_seconds", "got 600.5"),
        ('{"metadata": {"gap_seconds": NaN}}', "metadata.gap_seconds", "got nan"),
        (published(data=()), "data", "not empty"),
        (published(data=(1, 0, 2)), "data[2]", "must be 0 or 1; got 2"),
        (published(data=(1, True)), "data[1]", "got True"),
        (published(data=(1, "x" * 500)), "data[1]", "…"),
        ("[" * 100_000, "", "is not JSON"),
        ("9" * 5000, "", "is not JSON"),
        (b"\xff{}", "byte 0", "UTF-8"),
    ],
)
def test_bad_json_is_named_by_its_place(tmp_path, text, place, problem):
    path = written(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert caught.value.place.startswith(place)
    assert problem in caught.value.problem
    assert str(caught.value).startswith(str(path))
    assert isinstance(caught.value, HoldfastError)
    assert len(str(caught.value)) < len(str(path)) + 300


def test_intervals_in_seconds(tmp_path):
    text = "start,end\n# a comment\n1000,1600\n\n1600,1700\n1900, 2500\n2800,2900\n"
    # by hundreds from 1000: up to 1700, out to 1900, up to 2500, out to 2800, up
    assert read_trace(written(tmp_path, text, "a.CSV"), gap=100).up == bytes(
        [1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1]
    )


def test_a_step_is_up_only_if_all_of_it_is(tmp_path):
    assert read_trace(written(tmp_path, "0,150\n190,300\n", "a.csv"), gap=100).up == bytes([1, 0, 1])
    assert read_trace(written(tmp_path, "0,150\n150,300\n", "a.csv"), gap=100).up == bytes([1, 1, 1])


def test_intervals_as_times(tmp_path):
    start = datetime(2022, 10, 26, tzinfo=UTC)
    later = (start + timedelta(hours=1)).isoformat()
    text = f"{start.isoformat()},{later}\n2022-10-26T01:10:00Z,2022-10-26T03:20:00+01:00\n"
    assert read_trace(written(tmp_path, text, "a.csv")).up == b"\1" * 6 + b"\0" + b"\1" * 7


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "", "at least one line"),
        ("start,end\n", "", "at least one line"),
        ("1,2,3\n", "line 1", "got 3 values"),
        ("0,100\nstart,end\n", "line 2", 'got "start"'),
        ("0,100\n200,2022-10-26T00:00:00\n", "line 2", "such as 2022-10-26T00:00:00Z"),  # no offset
        ("0,nan\n", "line 1", "must be seconds"),
        ("0,inf\n", "line 1", "must be seconds"),
        ("5,5\n", "line 1", "start must be before end"),
        ("0,100\n\n50,200\n", "line 3", "before the end of line 1"),
        ("0,10\n", "", "it spans 0"),
        ("0,10\n900000000000,900000000100\n", "", "steps of 100 s"),
        ('0,"1\n', "line 1", "is not CSV"),
    ],
)
def test_bad_csv_is_named_by_its_line(tmp_path, text, place, problem):
    with pytest.raises(TraceError) as caught:
        read_trace(written(tmp_path, text, "zone.csv"), gap=100)
    assert (caught.value.place, problem in caught.value.problem) == (place, True), str(caught.value)


def test_files_that_are_not_traces(tmp_path, monkeypatch):
    with pytest.raises(TraceError, match=r"\.json or \.csv"):
        read_trace(tmp_path / "zone.txt")
    with pytest.raises(TraceError, match="No such file"):
        read_trace(tmp_path / "zone.json")
    monkeypatch.setattr(traces, "MAX_BYTES", 60)
    with pytest.raises(TraceError, match="60 bytes"):
        read_trace(written(tmp_path, published(data=[1] * 100)))
    monkeypatch.setattr(traces, "MAX_BYTES", 1000)
    monkeypatch.setattr(traces, "MAX_STEPS", 99)
    with pytest.raises(TraceError, match="99 samples at most; got 100"):
        read_trace(written(tmp_path, published(data=[1] * 100)))


@pytest.mark.parametrize(("gap", "up"), [(0, b"\1"), (90_000, b"\1"), (600, b"\2"), (600, b"\1\2\1")])
def test_a_trace_is_checked(gap, up):
    with pytest.raises(ValueError, match="must be"):
        Trace("zone", gap, up)


@given(SAMPLES)
def test_changes(up):
    trace = Trace("zone", 600, up)
    for step in range(len(up)):
        after = next((later for later in range(step, len(up)) if up[later] != up[step]), len(up))
        assert trace.next_change(step) == after
    assert not trace.is_up(len(up))
    assert not trace.is_up(-1)


def test_folders_are_read_in_the_order_of_names(tmp_path):
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text('{"metadata": {"gap_seconds": 600}, "data": [1, 0]}')
    (tmp_path / "c.CSV").write_text("0,1200\n")
    (tmp_path / "README.md").write_text("not a trace")
    assert [trace.name for trace in read_traces([tmp_path, tmp_path / "b.json"])] == ["a", "b", "c", "b"]


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"there is no \.json or \.csv in this folder"):
        read_traces([tmp_path])
