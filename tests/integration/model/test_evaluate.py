"""The reference vision transformer's package, evaluated on a folder of pictures; its report and that of its data."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from playwright.sync_api import Browser
from tests.support.browser import chromium, shots, tab
from torch.nn import functional as F  # noqa: N812

from holdfast_model.package.build import build
from holdfast_model.package.record import Origin
from holdfast_train.examples import vision_transformer as vit
from holdfast_train.examples.images import Folder, Gratings
from holdfast_train.exchange.command import main

CLASSES = ("0 degrees", "a class with a name that is much longer than the others", "<b>third</b>")
COUNT = 45


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, a package, and both reports."""
    root = tmp_path_factory.mktemp("evaluation")
    drawn = Gratings(3 * COUNT, size=20, classes=3)
    for split in ("train", "test"):
        for name in CLASSES:
            (root / "pictures" / split / name.replace("/", "-")).mkdir(parents=True)
        for number in range(COUNT):
            image, label = drawn[number + COUNT * (split == "test")]
            values = ((image / 6 + 0.5).clamp(0, 1) * 255).to(torch.uint8).permute(1, 2, 0).contiguous()
            file = root / "pictures" / split / CLASSES[label].replace("/", "-") / f"{number}.png"
            Image.frombytes("RGB", (20, 20), bytes(values.flatten().tolist())).save(file)
    torch.manual_seed(0)
    problem = vit.problem("--data", str(root / "pictures"), "--image=16", "--dim=16", "--layers=1", "--heads=2")
    model = problem.model()
    torch.save(model.state_dict(), root / "model.pt")
    build(problem, model, Origin("uid", 7, "file:///7", "00"), root / "vit", variants=["onnx", "onnx-fp16"])
    test = str(root / "pictures" / "test")
    assert main(["evaluate", str(root / "vit"), "--data", test, "-o", str(root / "out")]) == 0
    assert main(["data", str(root / "pictures"), "--html", str(root / "data.html")]) == 0
    return root


# Breaks if the evaluation makes other inputs of a picture than the training did.
def test_it_scores_what_the_training_would(place: Path) -> None:
    said = json.loads((place / "out" / "evaluation.json").read_text())
    test = Folder(place / "pictures" / "test", size=16)
    shape = vit.Shape(image=16, patch=4, dim=16, layers=1, heads=2, classes=3)
    model = vit.VisionTransformer(shape).eval()
    model.load_state_dict(torch.load(place / "model.pt"))
    images, labels = zip(*(test[number] for number in range(len(test))), strict=True)
    with torch.no_grad():
        logits = model(torch.stack(images))
    wanted = F.cross_entropy(logits, torch.tensor(labels)).item()
    assert {one["variant"] for one in said["results"]} == {"onnx", "onnx-fp16"}
    for one in said["results"]:
        assert one["loss"] == pytest.approx(wanted, rel=1e-5 if one["variant"] == "onnx" else 1e-2)
        assert one["accuracy"] == pytest.approx(vit.accuracy(model, test, torch.device("cpu")), abs=0.05)
        assert [row["name"] for row in one["classes"]] == list(test.classes)


# Breaks if a page asks a network, is refused its style, does not fit its window, or hides a part on paper.
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["out/evaluation.html", "data.html"])
def test_its_pages_in_a_browser(place: Path, browser: Browser, name: str, dark: bool) -> None:
    address = (place / name).as_uri()
    with tab(browser, dark=dark) as watched:
        watched.page.goto(address)
        assert watched.errors == []
        assert [url for url in watched.requests if not url.startswith("data:")] == [address]
        ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(15, 19, 24)" if dark else "rgb(245, 246, 248)")
        assert watched.page.locator("svg.bar").count() >= 3
        if folder := shots():
            file = folder / f"{Path(name).stem}-{'dark' if dark else 'light'}.png"
            watched.page.screenshot(path=file, full_page=True)
        for width in (1200, 390):
            watched.page.set_viewport_size({"width": width, "height": 800})
            assert watched.overflow() <= 0
        watched.page.emulate_media(media="print")
        for details in watched.page.locator("details table").all():
            assert details.is_visible()
