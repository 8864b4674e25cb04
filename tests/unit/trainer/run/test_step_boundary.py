"""A checkpoint of step n has the state of n steps: a save that is asked for inside a step is put off to its end."""

from pathlib import Path

import pytest
import torch
from tests.support.trainer.runs import settle, verdict
from tests.support.trainer.stores import environment

from holdfast_protocol.settings import Every
from holdfast_train import Run, load
from holdfast_train.examples.stub import Counter
from holdfast_train.storage.folder import FolderStorage


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"{tmp_path}/prefix"


def test_a_save_in_the_body_of_the_loop_has_the_state_of_the_whole_step(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Breaks if it is called step 4 and has the state of five steps: the resumed training would do one twice."""
    for attempt in (1, 2):
        counter = Counter()
        with Run(counter=counter, environment=environment(f"file://{prefix}", attempt)) as run:
            for step in run.steps(10):
                if step == 4:
                    assert not run.save()
                counter.add(step)
                if step == 4:
                    assert not run.save()
                if step == 5 and attempt == 1:
                    assert run._saving.saved_step == 5  # it was waited for
                    run.left = True
                    break
    assert counter.total == 55
    assert [Path(key).name[:12] for key in FolderStorage(prefix).keys("manifests/")] == ["000000000005", "000000000010"]
    assert capsys.readouterr().err.count("run.save() was called inside a step, after 4 steps: it saves at the end") == 1


def test_in_a_loop_of_another_shape_the_optimizers_step_begins_the_step(prefix: str) -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with torch.no_grad():
        model.weight.zero_()
    with Run(model=model, optimizer=optimizer, environment=environment(f"file://{prefix}")) as run:
        for _ in range(2):
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            assert not run.save()  # the weights are those of a step that is not counted
            optimizer.zero_grad()
            run.advance()
            assert run._saving.saved_step == run.step
        assert run.save()  # between two steps
        assert load(prefix)["model"]["weight"].item() == -2.0
        run.left = True
    assert not optimizer._optimizer_step_post_hooks


def test_a_save_after_the_loop_was_left_is_made_at_once(prefix: str) -> None:
    with Run(counter=Counter(), environment=environment(f"file://{prefix}")) as run:
        for step in run.steps(10):
            if step == 3:
                break
        assert run.save()
        run.left = True


def test_a_save_that_was_put_off_is_made_once_beside_one_that_is_due(prefix: str) -> None:
    where = environment(f"file://{prefix}", every=Every(2))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(4):
            settle(run)
            if step == 1:
                assert not run.save()
        settle(run)
    assert len(FolderStorage(prefix).keys("manifests/")) == 2


def test_a_notice_beside_a_save_that_was_put_off_saves_once_and_leaves(prefix: str, tmp_path: Path) -> None:
    where = environment(f"file://{prefix}", HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(10):
            if step == 2:
                assert not run.save()
                run._notice.give(20.0, "a drain order")
    assert (run.left, verdict(tmp_path)["savedStep"]) == (True, 3)
    assert len(FolderStorage(prefix).keys("manifests/")) == 1


def test_a_step_that_ends_with_break_is_counted(prefix: str) -> None:
    """Breaks if the end saves the weights of five steps as those of step 4."""
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with torch.no_grad():
        model.weight.zero_()
    with Run(model=model, optimizer=optimizer, environment=environment(f"file://{prefix}")) as run:
        for step in run.steps(10):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            if step == 4:
                break
    assert run.step == 5
    assert FolderStorage(prefix).keys("manifests/")[-1].startswith("manifests/000000000005-")
    assert load(prefix)["model"]["weight"].item() == -5.0
