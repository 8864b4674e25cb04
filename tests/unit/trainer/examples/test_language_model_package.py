"""The language model under the names of Hugging Face: transformers opens the files and computes the same."""

from pathlib import Path

import pytest
import torch

from holdfast_model.package import Problem
from holdfast_model.package.build import build
from holdfast_model.package.record import Origin
from holdfast_train.examples.language_model import LanguageModel, Shape
from holdfast_train.examples.language_model_package import problem

SIZE = ("--dim", "32", "--layers", "2", "--heads", "2", "--context", "16")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    text = tmp_path_factory.mktemp("text") / "text.py"
    text.write_text("def more(words):\n    return sorted(words)\n" * 200)
    return problem(*SIZE, "--data", str(text))


# Breaks if a part of a joined matrix gets another name, or if the configuration says another model.
def test_transformers_opens_the_package(small: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    ours = LanguageModel(Shape(32, 2, 2, 16)).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    built = build(small, ours, Origin("uid", 7, "file:///m.json", "00"), tmp_path / "lm", variants=["safetensors"])
    assert built.failed == {}
    theirs, said = AutoModelForCausalLM.from_pretrained(tmp_path / "lm" / "safetensors", output_loading_info=True)
    assert not said["missing_keys"]
    assert not said["unexpected_keys"]
    tokens = torch.randint(0, 256, (3, 16), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted, found = ours(tokens), theirs.eval()(tokens).logits
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-4 * wanted.abs().max().item())


# Breaks if more is not better: a package would admit an int8 variant that is worse.
def test_the_score_is_higher_for_a_better_model(small: Problem) -> None:
    assert small.score is not None
    shape = (8, 16, 256)

    def sure_of(byte: int) -> float:
        logits = torch.zeros(shape)
        logits[..., byte] = 2.0
        return small.score.measure(lambda _: {"logits": logits.numpy()}) if small.score else 0.0

    assert sure_of(ord(" ")) > sure_of(0)
