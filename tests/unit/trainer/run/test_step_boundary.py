"""A checkpoint of step n has the state of n steps: a save that is asked for inside a step is put off to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


# Breaks if a save waits for other ranks where they may not call it: in `if rank == 0: run.save()` they do not.
def test_a_save_between_two_steps_of_several_ranks_waits_for_none(
    prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run(counter=Counter(), environment=environment(f"file://{prefix}")) as run:
        run.advance()
        with monkeypatch.context() as patch:
            patch.setattr(run._ranks, "size", 2)
            for name in ("any", "gather", "share"):
                patch.setattr(run._ranks, name, lambda *_: pytest.fail("the other rank is not here"))
            assert not run.save()
        run.advance()
        assert run._saving.saved_step == 2
        assert not FolderStorage(prefix).keys("manifests/000000000001")
        run.left = True
        assert not run.save()
    assert (
        "run.save() was called between two steps of several ranks, after 1 steps: it saves at the end of the next"
        in (capsys.readouterr().err)
    )


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


class Accumulation:
    """A weight that falls by the number of batches at each step of its optimizer, which follows every third batch."""

    def __init__(self, prefix: str, attempt: int = 1, **more: object) -> None:
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        with torch.no_grad():
            self.model.weight.zero_()
        where = environment(f"file://{prefix}", attempt, **more)
        self.run = Run(model=self.model, optimizer=self.optimizer, environment=where)

    def batch(self, step: int, *, steps: bool = True) -> None:
        settle(self.run)
        self.model(torch.ones(1, 1)).sum().backward()
        if steps and step % 3 == 2:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def saved(self, prefix: str) -> list[int]:
        settle(self.run)
        return [int(Path(key).name[:12]) for key in FolderStorage(prefix).keys("manifests/")]


# Breaks if a checkpoint lies between batches whose gradients add up: after a resume some of them would be missing.
def test_a_save_that_is_due_waits_for_the_end_of_an_accumulation(prefix: str) -> None:
    training = Accumulation(prefix, every=Every(1))
    with training.run as run:
        for step in run.steps(8):
            training.batch(step)
            if step == 3:
                assert not run.save()
            if step == 4:
                assert run._saving.saved_step == 3
        assert training.saved(prefix) == [3, 6]
        assert not run.save()
    assert training.saved(prefix) == [3, 6, 8]  # the end of the training is one in any case
    assert load(prefix)["model"]["weight"].item() == -6.0


def _graph(training: Accumulation) -> None:
    training.model(torch.ones(1, 1)).sum().backward(create_graph=True)


def _by_hand(training: Accumulation) -> None:
    weight = training.model.weight
    (new,) = torch.autograd.grad(training.model(torch.ones(1, 1)).sum(), [weight])
    weight.grad = new if weight.grad is None else weight.grad + new


# Breaks if a sum of gradients that is not made in place is taken for gradients that the program has dropped, or if an
# accumulation is not seen because the first parameters of the optimizer, or all but a few, get no gradient.
@pytest.mark.parametrize("backward", [_graph, _by_hand])
@pytest.mark.parametrize("frozen", ["none", "fixed", "cut off"])
def test_an_accumulation_is_seen_however_its_gradients_come(
    prefix: str, capsys: pytest.CaptureFixture[str], backward: Callable[[Accumulation], None], frozen: str
) -> None:
    training = Accumulation(prefix, every=Every(1))
    backbone = [torch.nn.Parameter(torch.zeros(1), requires_grad=frozen == "cut off") for _ in range(40)]
    others = [] if frozen == "none" else backbone
    training.optimizer.param_groups[0]["params"][:0] = others
    with training.run as run:
        for step in run.steps(8):
            backward(training)
            training.batch(step)
        assert training.saved(prefix) == [3, 6]
    assert load(prefix)["model"]["weight"].item() == -12.0
    assert "nothing shows" not in capsys.readouterr().err


# Breaks if an accumulation is not seen after the program has frozen the parameters at which the first ones were seen.
def test_an_accumulation_is_seen_after_a_backbone_is_frozen(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    training = Accumulation(prefix, every=Every(1))
    backbone = [torch.nn.Parameter(torch.zeros(1)) for _ in range(40)]
    training.optimizer.param_groups[0]["params"][:0] = backbone
    with training.run as run:
        for step in run.steps(8):
            if step < 3:
                torch.cat(backbone).sum().backward()
            training.batch(step)
        assert training.saved(prefix) == [3, 6]
    assert "nothing shows" not in capsys.readouterr().err


# Breaks if a save that waited is made only where an accumulation happens to end at a step at which one is due.
def test_a_save_that_waited_is_made_at_the_end_of_the_accumulation(prefix: str) -> None:
    training = Accumulation(prefix, every=Every(4))
    with training.run as run:
        for step in run.steps(14):
            training.batch(step)
            if step == 12:
                assert training.saved(prefix) == [6, 9, 12]


# Breaks if a notice saves in the middle of an accumulation, or if the program leaves before the end of one.
def test_a_notice_waits_for_the_end_of_an_accumulation(prefix: str, tmp_path: Path) -> None:
    training = Accumulation(prefix, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with training.run as run:
        for step in run.steps(20):
            training.batch(step)
            if step == 3:
                run._notice.give(20.0, "a drain order")
    assert (run.left, run.step, verdict(tmp_path)["savedStep"]) == (True, 6, 6)


# Breaks if a training that has little time is killed while it waits for the end of an accumulation.
def test_a_notice_with_little_time_leaves_without_a_save(prefix: str, tmp_path: Path) -> None:
    training = Accumulation(prefix, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with training.run as run:
        for step in run.steps(20):
            training.batch(step)
            if step == 3:
                run._notice.give(0.5, "a drain order")
    assert (run.left, run.step, verdict(tmp_path)["result"]) == (True, 4, "left")
    assert training.saved(prefix) == []


# Breaks if a step that a loss scale skips holds up a save for ever, or if the program cannot say that it was one.
def test_a_program_can_say_that_a_step_is_over(prefix: str) -> None:
    training = Accumulation(prefix, every=Every(1))
    with training.run as run:
        for step in run.steps(4):
            training.batch(step, steps=False)
            if step == 1:
                run.note_step()
        assert training.saved(prefix) == [2]


# Breaks if a program whose optimizer never steps has no checkpoint, or if gradients that were used hold up a save.
@pytest.mark.parametrize("steps", [True, False])
def test_a_save_does_not_wait_for_ever(
    prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], steps: bool
) -> None:
    monkeypatch.setattr("holdfast_train.run.accumulation.LONGEST", 5)
    training = Accumulation(prefix, every=Every(1))
    training.optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]
    saved = set()
    with training.run as run:
        for step in run.steps(20):
            settle(run)
            saved.add(run._saving.saved_step)
            if step < 3 or not steps:
                training.batch(step, steps=steps)
            if step == 10:
                break
        assert saved == {None, *range(3 if steps else 5, 11)}
        run.left = True
    assert ("5 steps has ended with gradients that 'optimizer' has not used" in capsys.readouterr().err) is not steps


class Two:
    """Two models and their optimizers, which step as the loop says. The loss of `generator` is that of `critic`."""

    def __init__(self) -> None:
        self.generator, self.critic = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        self.first = torch.optim.SGD(self.generator.parameters(), lr=0.1)
        self.second = torch.optim.SGD(self.critic.parameters(), lr=0.1)
        self.both = torch.optim.SGD([*self.generator.parameters(), *self.critic.parameters()], lr=0.1)

    def loss(self) -> Any:
        return self.critic(self.generator(torch.ones(1, 1))).sum()

    def train(self, optimizer: torch.optim.Optimizer) -> None:
        self.loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    def accumulate(self, step: int, *, graph: bool = False) -> None:
        """`first` accumulates over four steps, and `second` steps in each of them."""
        self.second.zero_grad()
        self.critic(torch.ones(1, 1)).sum().backward()
        self.second.step()
        self.second.zero_grad()
        torch.autograd.backward(self.loss(), inputs=[*self.generator.parameters()], create_graph=graph)
        if step % 4 == 3:
            self.first.step()
            self.first.zero_grad()

    def accumulate_graphs(self, step: int) -> None:
        """The same; torch adds such gradients up in new tensors."""
        self.accumulate(step, graph=True)

    def clear_before(self, _: int) -> None:
        """The loss of the generator leaves gradients in the critic, which are dropped before they are used."""
        for optimizer in (self.second, self.first):
            optimizer.zero_grad()
            self.loss().backward()
            optimizer.step()

    def clear_after(self, step: int) -> None:
        """The loss of the generator, in each third step, leaves gradients in the critic, which uses them."""
        self.train(self.second)
        self.first.zero_grad()
        if step % 3 == 2:
            self.train(self.first)

    def clear_after_each(self, _: int) -> None:
        self.clear_after(2)

    def train_one(self, _: int) -> None:
        """The first phase of two: the optimizer of the second one has not stepped."""
        self.generator.zero_grad()
        self.train(self.second)


# Breaks if one optimizer that steps hides the gradients that another one accumulates, if gradients that no step uses
# hold up saves, or if a program without a place for a save gets none.
@pytest.mark.parametrize(
    ("loop", "pair", "saved", "said"),
    [
        (Two.accumulate, ("first", "second"), [4, 8, 12], False),
        (Two.accumulate_graphs, ("first", "second"), [4, 8, 12], False),
        (Two.clear_before, ("first", "second"), [*range(1, 13)], False),
        (Two.clear_after, ("first", "second"), [1, 2, 4, 5, 7, 8, 10, 11], False),
        (Two.clear_after_each, ("first", "second"), [*range(5, 13)], True),
        (Two.train_one, ("second", "both"), [*range(2, 13)], False),
    ],
)
def test_a_save_waits_for_each_optimizer(
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    loop: Callable[[Two, int], None],
    pair: tuple[str, str],
    saved: list[int],
    said: bool,
) -> None:
    monkeypatch.setattr("holdfast_train.run.accumulation.BESIDE", 5)
    two = Two()
    optimizers = {name: getattr(two, name) for name in pair}
    where = environment(f"file://{prefix}", every=Every(1))
    found = set()
    with Run(generator=two.generator, critic=two.critic, **optimizers, environment=where) as run:
        for step in run.steps(13):
            settle(run)
            found.add(run._saving.saved_step)
            loop(two, step)
    assert found - {None} == set(saved)
    assert capsys.readouterr().err.count("has ended with gradients that 'second' has not used") == said
    assert not any(one._optimizer_step_pre_hooks or one._optimizer_step_post_hooks for one in optimizers.values())


# Breaks if a resume silently goes on without the state of an optimizer, or without what it has trained.
@pytest.mark.parametrize(
    ("given", "other", "said"),
    [
        ("model", "Adam", "(Adam) that Run was not given has trained step {}: its state will be in no checkpoint"),
        (
            "model and optimizer",
            "Adam",
            "(Adam) that Run was not given has trained step {}: its state will be in no checkpoint",
        ),
        ("model", "SGD", ""),  # it has no state
        ("model and optimizer", "of another model", "the parameters that it trains will be in no checkpoint"),
        ("model and optimizer", "of an inner loop", ""),
        ("its own object", "Adam", ""),  # which may contain it
    ],
)
def test_an_optimizer_that_run_was_not_given_is_told(
    capsys: pytest.CaptureFixture[str], given: str, other: str, said: str
) -> None:
    model, apart = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    first = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trained = model if other in ("Adam", "SGD") else apart
    second = (torch.optim.SGD if other == "SGD" else torch.optim.Adam)(trained.parameters(), lr=0.1)
    objects: dict[str, Any] = {"model": model} | ({"optimizer": first} if "optimizer" in given else {})
    with Run(**({"own": Own(model)} if given == "its own object" else objects)) as run:
        for step in run.steps(30):
            used = [first] if step < 3 and "optimizer" in objects else [second]
            for optimizer in [second, first] if other == "of an inner loop" else used:
                optimizer.zero_grad()
                (model if optimizer is first else trained)(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            run.report(loss=1.0)
    told = capsys.readouterr().err
    said = said.format(4 if "optimizer" in objects else 1)
    assert (told.count(said) == told.count("that Run was not given") == 1) if said else "was not given" not in told


# Breaks if a resume silently begins a schedule at its first step, or if a schedule that Run has is missed in a wrapper.
@pytest.mark.parametrize("form", ["forgotten", "forgotten later", "given", "chained", "accelerate", "own object"])
def test_a_schedule_that_run_was_not_given_is_told(capsys: pytest.CaptureFixture[str], form: str) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule: Any = None if form == "forgotten later" else torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    objects: dict[str, Any] = {"model": model, "optimizer": optimizer}
    if form == "accelerate":
        accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
        objects = dict(zip(("optimizer", "schedule"), accelerator.prepare(optimizer, schedule), strict=True))
    elif "forgotten" not in form:
        chained = torch.optim.lr_scheduler.ChainedScheduler([schedule])
        objects["schedule"] = {"given": schedule, "chained": chained, "own object": Own(model)}[form]
    with Run(**objects) as run:
        for step in run.steps(3):
            if schedule is None and step == 1:
                schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
    assert capsys.readouterr().err.count("(SGD) has a schedule that Run was not given") == ("forgotten" in form)


class Own:
    """An object of the program with a model in it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def state_dict(self) -> Any:
        return self.model.state_dict()

    def load_state_dict(self, state: Any) -> Any:
        return self.model.load_state_dict(state)


def test_saves_go_on_with_an_optimizer_that_run_was_not_given(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for _ in range(2)]
    prefix = f"{tmp_path}/prefix"
    with Run(model=model, optimizer=optimizers[0], environment=environment(f"file://{prefix}", every=Every(2))) as run:
        for step in run.steps(8):
            settle(run)
            optimizers[step > 2].zero_grad(set_to_none=False)
            model(torch.ones(1, 2)).sum().backward()
            optimizers[step > 2].step()
        settle(run)
        saved = [int(Path(key).name[:12]) for key in FolderStorage(prefix).keys("manifests/")]
        run.left = True
    assert saved == [2, 4, 6]
