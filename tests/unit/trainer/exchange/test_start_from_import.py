"""A Run starts from an imported checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.support.trainer.exchange import FORMATS, Net, assert_same, run, save, train
from tests.support.trainer.stores import environment

import holdfast_train
from holdfast_train import Run
from holdfast_train.data.elastic_sampler import ElasticSampler

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def resumed(prefix: Path, uri: Path, /, **objects: Any) -> Run:
    """A new job in two attempts, of which the first starts from `uri`. Each trains one step and saves."""
    other = {"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u", "resume": f"file://{uri}"}
    for attempt in (1, 2):
        with Run(**objects, environment=environment(f"file://{prefix}", attempt, **other)) as found:
            for step in found.steps(100):
                objects["model"](torch.arange(11)).square().mean().backward()
                objects["optimizer"].step()
                if step == found.resumed_from:
                    break
            found.advance()
            assert found.save()
            found.left = True
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_resumes_from_an_import(prefix: Path, tmp_path: Path, form: str) -> None:
    net, optimizer = train(prefix)
    run("export", prefix, tmp_path / "out", "--format", form)
    run("import", tmp_path / "out", "--to", tmp_path / "back", "--step", 4)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "back").rglob("*"))
    again = Net()
    its = torch.optim.AdamW(again.parameters(), lr=0.5)
    where = environment(f"file://{tmp_path}/new", 1, HOLDFAST_JOB="o", resume=f"file://{tmp_path}/back")
    with Run(model=again, optimizer=its, environment=where) as found:
        assert (found.step, found.resumed_from) == (4, 4)
        assert_same(dict(again.state_dict()), dict(net.state_dict()))
        assert_same(its.state_dict(), optimizer.state_dict())
        found.left = True
    second_attempt = resumed(tmp_path / "own", tmp_path / "back", model=again, optimizer=its)
    assert second_attempt.resumed_from == 5  # the address is used only by the first attempt
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "back").rglob("*")) == before


def test_weights_alone_are_enough_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    safetensors.torch.save_model(
        net, tmp_path / "model.safetensors"
    )  # the file has the name of the tied tensor in its metadata
    run("import", tmp_path / "model.safetensors", "--to", tmp_path / "back")
    again = Net()
    found = resumed(tmp_path / "own", tmp_path / "back", model=again, optimizer=torch.optim.AdamW(again.parameters()))
    assert found.resumed_from == 1
    said = capsys.readouterr().err
    assert "the checkpoint has no object 'optimizer': it keeps its initial state" in said
    assert "resumed from step 0" in said
    assert again.head.weight is again.embed.weight


def test_an_import_without_objects_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back", "--name", "ema")
    where = environment(f"file://{tmp_path}/own", 1, resume=f"file://{tmp_path}/back")
    with pytest.raises(SystemExit), Run(model=Net(), environment=where):
        pass
    words = "has only 'ema', and none of 'model': give Run an object of that name, or import the source again with"
    assert words in capsys.readouterr().err


def test_a_sampler_goes_on_at_the_step_of_the_weights(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(prefix, {"model": Net().state_dict(), "sampler": ElasticSampler(100, batch=10).state_dict()}, 14)
    run("export", prefix, tmp_path / "out", "--only", "model")
    run("import", tmp_path / "out", "--to", tmp_path / "back")
    seen = []
    for attempt in (1, 2):
        sampler = ElasticSampler(100, batch=10)
        early = iter(sampler)
        next(early)  # a look at a batch before the training
        other = {"HOLDFAST_JOB": "other", "resume": f"file://{tmp_path}/back"}
        with Run(
            model=Net(), sampler=sampler, environment=environment(f"file://{tmp_path}/own", attempt, **other)
        ) as found:
            with pytest.raises(holdfast_train.HoldfastTrainError, match=f"put the sampler to step {sampler.step}"):
                next(early)
            seen += [batch for _, batch in zip(found.steps(12 + 4 * attempt), sampler, strict=False)]
            assert found.save()
            found.left = True
    assert seen == [ElasticSampler(100, batch=10).indices(step) for step in range(14, 20)]
    assert "has no object 'sampler': it continues at step 14" in capsys.readouterr().err


def test_a_sampler_at_another_step_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampler = ElasticSampler(100, batch=10)
    sampler.go_to(14)
    torch.save({"model": Net().state_dict(), "sampler": sampler.state_dict()}, tmp_path / "in.pt")
    run("import", tmp_path / "in.pt", "--to", tmp_path / "back")
    words = f"{tmp_path}/in.pt does not say its step, so it is step 0; use --step to say another"
    assert words in capsys.readouterr().out
    run("import", tmp_path / "in.pt", "--to", tmp_path / "right", "--step", 14)
    assert "does not say its step" not in capsys.readouterr().out
    objects = {"model": Net(), "sampler": ElasticSampler(100, batch=10)}
    where = environment(f"file://{tmp_path}/own", 1, resume=f"file://{tmp_path}/back")
    with pytest.raises(SystemExit), Run(**objects, environment=where):
        pytest.fail("entered")
    said = capsys.readouterr().err
    assert f"'sampler' in file://{tmp_path}/back/manifests/" in said
    assert "is at step 14, but the checkpoint is of step 0: " in said
    assert "import with --step 14 to another prefix, and start from that" in said
    where = environment(f"file://{tmp_path}/new", 1, resume=f"file://{tmp_path}/right")
    with Run(**objects, environment=where) as found:
        assert found.step == 14
        found.left = True


class Samples:
    """A data set of 100 samples with a fingerprint."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return 100

    def fingerprint(self) -> str:
        return self.name


def trained_on(data: Samples, prefix: Path, batch: int = 10, **variables: Any) -> Run:
    """Train the model up to step 5 with batches of `data`, and save."""
    objects = {"model": Net(), "sampler": ElasticSampler(data, batch=batch)}
    with Run(**objects, environment=environment(f"file://{prefix}", 1, **variables)) as found:
        for _ in found.steps(5):
            pass
    return found


# Breaks if an export or an import loses what the checkpoint knows about the data.
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["faces", "dogs"])
def test_a_sampler_that_continues_after_an_import_with_other_data_is_reported(
    prefix: Path, tmp_path: Path, form: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_on(Samples("faces"), prefix)
    run("export", prefix, tmp_path / "out", "--format", form)
    run("import", tmp_path / "out", "--to", tmp_path / "back", "--step", 5)
    capsys.readouterr()
    trained_on(Samples(name), tmp_path / "own", resume=f"file://{tmp_path}/back")
    said = capsys.readouterr().err
    assert "resumed from step 5" in said
    assert ("DataChanged: sampler/data is dogs, the checkpoint's was faces" in said) == (name == "dogs")


# Breaks if an import of weights keeps the batch size, whose change is always refused, or if it forgets the data.
def test_weights_alone_keep_the_facts_about_the_data_but_not_the_batch_size(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_on(Samples("faces"), prefix)
    run("export", prefix, tmp_path / "out", "--only", "model")
    for step, warned in ((5, True), (0, False)):
        run("import", tmp_path / "out", "--to", tmp_path / f"back{step}", "--step", step)
        capsys.readouterr()
        resume = {"resume": f"file://{tmp_path}/back{step}"}
        trained_on(Samples("dogs"), tmp_path / f"own{step}", batch=20, **resume)
        said = capsys.readouterr().err
        assert f"resumed from step {step}" in said
        assert ("DataChanged" in said) == warned, "a training that begins has seen no data"
