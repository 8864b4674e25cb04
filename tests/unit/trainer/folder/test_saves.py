"""Which files are one save, in which order, as programs and libraries lay them out."""

import pytest

from holdfast_train.folder.look import File
from holdfast_train.folder.saves import Save, saves

TRAINER = ("model.safetensors", "optimizer.pt", "trainer_state.json")
STATE = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".pkl", ".distcp", ".zip", ".h5")


def files_of(*paths: str) -> list[File]:
    """Files, each written a second after the one before. `a -> b`: a link."""
    known = [(number, *path.partition(" -> ")) for number, path in enumerate(paths, 1)]
    return [File(path, 0 if link else 100, number * 10**9, 0o644, link or None) for number, path, _, link in known]


def found(*paths: str) -> list[Save]:
    return saves(files_of(*paths), lambda file: file.path.endswith(STATE))


def inside(folder: str, *names: str) -> list[str]:
    return [f"{folder}/{name}" for name in names]


# Breaks if a save falls apart, if a run counts as one save, or if a program is told of another path than it reads.
@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        # marked by their library
        (inside("checkpoint-500", *TRAINER), ["checkpoint-500"]),
        (inside("out", "checkpoint-5/trainer_state.json", "checkpoint-9/trainer_state.json"),
         ["out/checkpoint-5", "out/checkpoint-9"]),
        (inside("checkpoint-9", "model_fsdp_0/.metadata", "model_fsdp_0/__0_0.distcp", "trainer_state.json"),
         ["checkpoint-9"]),
        (inside("checkpoint-9", "global_step9/mp_rank_00_model_states.pt", "trainer_state.json"), ["checkpoint-9"]),
        (inside("global_step40", "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00.pt"), ["global_step40"]),
        (inside("iter_0000100", "mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt"), ["iter_0000100"]),
        (inside("latest", "random_states_0.pkl", "model.safetensors"), ["latest"]),
        (["step-40/m/a.distcp", "step-40/m/.metadata", "step-40/o/a.distcp", "step-40/o/.metadata"], ["step-40"]),
        (["__0_0.distcp", ".metadata", "log.txt"], [""]),
        (["12/_CHECKPOINT_METADATA", "12/default/_CHECKPOINT_METADATA"], ["12"]),
        (["12/_CHECKPOINT_METADATA", "12/d/x", "13/_CHECKPOINT_METADATA"], ["12", "13"]),
        ([".metadata", "log.txt"], []),
        # marked by a number
        (inside("checkpoint-300", "model.safetensors", "optimizer.pt"), ["checkpoint-300"]),
        (inside("checkpoint_000003", "model.pt", "rng_state_0.pth"), ["checkpoint_000003"]),
        (inside("step-500", "model/a.pt", "0.pt", "1.pt", "train.log"), ["step-500"]),
        (["gen_1/model.pt", "gen_2/model.pt"], ["gen_1", "gen_2"]),
        (["gen_1/model.pt"], ["gen_1/model.pt"]),
        (["500/model.pt", "1000/model.pt"], ["500", "1000"]),
        (["epoch_3/model_3.pt", "epoch_3/optim_3.pt"], ["epoch_3"]),
        # runs: their own number is a setting
        (["resnet18_lr0.1_epochs_20/last.pt"], ["resnet18_lr0.1_epochs_20/last.pt"]),
        (["gpt2_bs8_steps50000/step_100.pt", "gpt2_bs8_steps50000/step_200.pt", "gpt2_bs8_steps90000/step_300.pt"],
         ["gpt2_bs8_steps50000/step_100.pt", "gpt2_bs8_steps50000/step_200.pt", "gpt2_bs8_steps90000/step_300.pt"]),
        (["epoch_3/step_100.pt", "epoch_3/step_200.pt"], ["epoch_3/step_100.pt", "epoch_3/step_200.pt"]),
        (["exp_1/step-5/model.pt", "exp_2/step-7/model.pt"], ["exp_1/step-5", "exp_2/step-7"]),
        (["fold_0/best.pt", "fold_1/best.pt"], ["fold_0/best.pt", "fold_1/best.pt"]),
        (["version_0/checkpoints/epoch=0-step=10.ckpt", "version_1/checkpoints/last.ckpt"],
         ["version_0/checkpoints/epoch=0-step=10.ckpt", "version_1/checkpoints/last.ckpt"]),
        (["api/1764054000123/optim.pt"], ["api/1764054000123/optim.pt"]),
        # files
        (["model_200.pt", "optim_200.pt", "optim_300.pt", "model_300.pt", "m.txt"], ["model_200.pt", "model_300.pt"]),
        (["optimal/b.pt"], ["optimal/b.pt"]),
        (["ema_0.9999_000500.pt", "model000500.pt", "opt000500.pt"], ["model000500.pt"]),
        (["rl_model_1000_steps.zip", "rl_model_replay_buffer_1000_steps.pkl"], ["rl_model_1000_steps.zip"]),
        (["best.pt", "last.pt"], ["last.pt"]),
        (["last.pt", "best.pt"], ["last.pt"]),
        (["last.pt", "ckpt.pt.tmp", ".last.pt.Xa3b", "tmp-step-5/a.pt", "log.txt"], ["last.pt"]),
        (["last.ckpt -> epoch=3.ckpt", "epoch=3.ckpt"], ["epoch=3.ckpt"]),
        ([], []),
        # a run beside its saves: the model at the end is a part of what a save has
        ([*inside("o/checkpoint-5", *TRAINER), "o/model.safetensors", "o/trainer_state.json"], ["o/checkpoint-5"]),
        ([*inside("checkpoint-5", *TRAINER), "model.safetensors"], ["checkpoint-5"]),
        (["step-5/model.pt", "step-5/optim.pt", "final/model.pt"], ["step-5"]),
        (["step-5/model.pt", "step-5/optim.pt", "latest/model.pt", "latest/optim.pt"],
         ["step-5", "latest/model.pt"]),
        (["step-5/ckpt.pt", "ckpt.pt"], ["step-5", "ckpt.pt"]),
        # another program's
        ([*inside("sft/checkpoint-1000", *TRAINER), "dpo/policy.pt"], ["sft/checkpoint-1000", "dpo/policy.pt"]),
        ([*inside("checkpoint-1000", *TRAINER), "policy.pt"], ["checkpoint-1000", "policy.pt"]),
    ],
)  # fmt: skip
def test_saves(paths: list[str], expected: list[str]) -> None:
    assert [save.path for save in found(*paths)] == expected


def test_all_of_a_folder_and_of_a_number() -> None:
    save, other = found("a/step-5/model.pt", "a/step-5/log.txt", "a/step-5/x/link -> y", "b/m_5.txt", "b/model_5.pt")
    assert [file.path for file in save.files] == ["a/step-5/model.pt", "a/step-5/log.txt", "a/step-5/x/link"]
    assert [file.path for file in other.files] == ["b/model_5.pt"]
    (save,) = found("model_5.json", "model_5.pt", "optim_5.pt", "model_6.txt")
    assert [file.path for file in save.files] == ["model_5.json", "model_5.pt", "optim_5.pt"]


# Breaks if the newest save is chosen by its number, or a link's time counts.
def test_the_youngest_is_the_last() -> None:
    assert [save.path for save in found("step-9/a.pt", "step-5/a.pt")] == ["step-9", "step-5"]
    assert [save.path for save in found("step-9/a.pt", "step-5/a.pt", "step-9/b.pt")] == ["step-5", "step-9"]
    assert [save.path for save in found("step-9/a.pt", "step-5/a.pt", "step-9/b -> a.pt")] == ["step-9", "step-5"]


@pytest.mark.parametrize(
    ("path", "step"),
    [("step-500/model.pt", 500), ("checkpoint-500/model.pt", None), ("a/iter_0000007.pt", 7), ("epoch_3.pt", None)],
)
def test_steps(path: str, step: int | None) -> None:
    assert [save.step_in_name for save in found(path)] == [step]
