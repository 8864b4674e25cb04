"""The lines in which the library of Weights & Biases prints the address of a run, as version 0.31.0 prints them."""

import pytest

from holdfast_train.pod.launcher.progress.wandb_lines import run_url

URL = "https://wandb.ai/the-team/faces/runs/6f1c-u"


@pytest.mark.parametrize(
    "line",
    [
        f"wandb: 🚀 View run at {URL}",
        f"wandb: 🚀 View run vit at 3 km at: {URL}",
        f"wandb: View run vit at: {URL}",
        f"[rank0]: wandb: 🚀 View run at {URL}?apiKey=secret  ",
        f"wandb: 🚀 View run at {URL.replace('//', '//me:secret@')}",
    ],
)
def test_the_address_is_read_without_what_may_be_secret(line: str) -> None:
    assert run_url(line) == URL


# Breaks if the page of the project, or what a program prints of its own, is shown as the run of the job.
@pytest.mark.parametrize(
    "line",
    [
        "wandb: ⭐️ View project at https://wandb.ai/the-team/faces",
        "wandb: 🧹 View sweep at https://wandb.ai/the-team/faces/sweeps/1",
        "wandb: View this run in the terminal with `wandb leet`",
        "wandb: 🚀 View run at javascript:alert(1)",
        "wandb: 🚀 View run at",
        "at https://wandb.ai",
        f"View run at {URL}",
        f"wandb: 🚀 View run at {URL} now",
        "wandb: 🚀 View run at https://wandb.ai/" + "x" * 5000,
        "",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert run_url(line) is None
