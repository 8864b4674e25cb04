"""The name of a run without a name."""

import pytest
from tests.support.manifests.observed_jobs import raw_job

from holdfast.api.objects import TrainingJob
from holdfast.api.review import review
from holdfast_cli.run.plan import default_name


# Breaks if a program has a name of which no job can be made, or two runs of it have one name.
@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (("python3", "train.py"), "train-"),
        (("torchrun", "--nproc-per-node=8", "src/Train_It.py", "--data=x.py"), "train-it-"),
        (("python3", "-m", "pkg.train"), "python3-"),
        (("./9lives.sh",), "run-9lives-"),
        (("___.py",), "run-"),
        (("x" * 80 + ".py",), "x" * 34 + "-"),
        (("a-" * 40 + ".py",), "a-" * 17),
        (("1-" * 40 + ".py",), "run-1-1-"),
    ],
)
def test_a_name_for_each_program(command: tuple[str, ...], begins: str) -> None:
    raw = raw_job()
    raw["metadata"]["name"] = name = default_name(command)
    assert review(raw) == ()
    assert TrainingJob.parse(raw).metadata.name.startswith(begins)
    assert default_name(command) != name
