"""The reference vision transformer: its data, a short training, and its problem."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from holdfast_model.package import Arrays
from holdfast_train.examples import vision_transformer as vit
from holdfast_train.examples.images import Folder, Gratings, open_images

SMALL = ("--dim=32", "--layers=1", "--image=16", "--patch=8")


# Breaks if a picture depends on anything but its number: ranks and attempts would see other data.
def test_a_picture_depends_on_its_number_alone() -> None:
    first, second = Gratings(10, size=16), Gratings(5, size=16, begin=3)
    assert torch.equal(first[4][0], second[1][0])
    assert first[4][1] == second[1][1]
    assert first[4][0].shape == (3, 16, 16)
    assert {first[number][1] for number in range(10)} <= set(range(10))


def test_pictures_of_a_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for part, name, colour in (("train", "b", 255), ("train", "a", 0), ("test", "b", 255)):
        (tmp_path / part / name).mkdir(parents=True)
        image.new("L", (9, 5), colour).save(tmp_path / part / name / "one.png")
    train, test, classes = open_images(str(tmp_path), 4)
    assert classes == ("a", "b")
    assert (train[0][1], train[0][0].unique().tolist()) == (0, [-1.0])
    assert (test[0][1], test[0][0].shape) == (1, (3, 4, 4))
    (tmp_path / "test" / "c").mkdir()
    with pytest.raises(ValueError, match="the class 'c', which the training data lacks"):
        open_images(str(tmp_path), 4)
    with pytest.raises(ValueError, match="has no pictures; expected a folder for each class"):
        Folder(tmp_path / "nothing")


@pytest.mark.thorough
def test_the_model_can_learn_one_batch() -> None:
    torch.manual_seed(0)
    data = Gratings(16, size=16, noise=0.0)
    images, labels = (torch.stack([data[n][0] for n in range(16)]), torch.tensor([data[n][1] for n in range(16)]))
    model = vit.VisionTransformer(vit.shape_of(vit.parse(SMALL), 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    assert loss < 0.2
    assert vit.accuracy(model, data, torch.device("cpu")) == 1.0


def test_the_program_trains_and_says_its_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    assert vit.main([*SMALL, "--steps", "2", "--batch", "4", "--evaluate-every", "2"]) == 0
    assert "step      2/2  loss" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [("--patch=5", "--image 32 must be a multiple of --patch 5"), ("--heads=5", "--dim 96 must be a multiple")],
)
def test_sizes_that_do_not_fit_are_refused(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vit.parse([option])
    assert said in capsys.readouterr().err


def test_its_problem_has_the_score_of_a_model() -> None:
    problem = vit.problem(*SMALL)
    assert problem.inputs["images"].shape == ("batch", 3, 16, 16)
    assert problem.score is not None

    def always_first(inputs: Arrays) -> Arrays:
        return {"logits": np.eye(10, dtype=np.float32)[np.zeros(len(inputs["images"]), int)]}

    assert problem.score.measure(always_first) == pytest.approx(0.1, abs=0.05)
