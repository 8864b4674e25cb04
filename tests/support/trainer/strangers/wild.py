"""How libraries and their users lay out checkpoints: the order in which they write, and how they find the newest one.

The libraries themselves are not needed: only their names, their order and their renames are imitated.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.trainer.folders import archive

Stage = Callable[[Path, int], object]
BEFORE_ZIP = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


@dataclass(frozen=True)
class Wild:
    """A program: what it writes one after the other for a save at a step, and the file that its resume reads first.

    `half`: after which stages (0: the first one) something says that the save is half, however slow the program is.
    """

    stages: Sequence[Stage]
    newest: Callable[[Path], Path]
    step: int | None = 20
    half: tuple[int, ...] = ()
    pattern: str | None = None


def tensors(path: Path, content: bytes) -> None:
    """A file of safetensors with one tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(content)], "data_offsets": [0, len(content)]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def torn_tensors(path: Path, content: bytes) -> None:
    tensors(path, content)
    path.write_bytes(path.read_bytes()[:-1])


def torn(path: Path, content: bytes) -> None:
    archive(path, content)
    path.write_bytes(path.read_bytes()[:-30])


def raw(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _c(step: int) -> bytes:
    return b"step %d" % step


def _link(path: Path, to: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def _hard(path: Path, to: Path) -> None:
    path.unlink(missing_ok=True)
    os.link(to, path)


def _timm(root: Path, step: int) -> None:
    """CheckpointSaver of timm: a temporary file, renamed to the last one, and hard links; it keeps one."""
    folder = root / "train/exp"
    (folder / "tmp.pth.tar").rename(folder / "last.pth.tar")
    _hard(folder / f"checkpoint-{step}.pth.tar", folder / "last.pth.tar")
    (folder / f"checkpoint-{step - 10}.pth.tar").unlink(missing_ok=True)
    _hard(folder / "model_best.pth.tar", folder / f"checkpoint-{step}.pth.tar")


def _megatron(root: Path) -> Path:
    step = int((root / "latest_checkpointed_iteration.txt").read_text())
    return root / f"iter_{step:07d}/mp_rank_01/model_optim_rng.pt"


def _renamed(root: Path, step: int) -> None:
    (root / f"{step}.orbax-checkpoint-tmp-7").rename(root / str(step))


def _last_of(pattern: str) -> Callable[[Path], Path]:
    return lambda root: max(root.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def _deepspeed(root: Path) -> Path:
    return root / (root / "latest").read_text() / "zero_pp_rank_1_mp_rank_00_optim_states.pt"


def _replace_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


WILD: dict[str, Wild] = {
    "deepspeed": Wild(
        [
            lambda r, s: archive(r / f"global_step{s}/mp_rank_00_model_states.pt", _c(s)),
            lambda r, s: archive(r / f"global_step{s}/zero_pp_rank_0_mp_rank_00_optim_states.pt", _c(s)),
            lambda r, s: torn(r / f"global_step{s}/zero_pp_rank_1_mp_rank_00_optim_states.pt", _c(s)),
            lambda r, s: (
                archive(r / f"global_step{s}/zero_pp_rank_1_mp_rank_00_optim_states.pt", _c(s)),
                (r / "latest").write_text(f"global_step{s}"),
            ),
        ],
        _deepspeed,
        half=(2,),
    ),
    "megatron": Wild(
        [
            lambda r, s: archive(r / f"iter_{s:07d}/mp_rank_00/model_optim_rng.pt", _c(s)),
            lambda r, s: archive(r / f"iter_{s:07d}/mp_rank_01/model_optim_rng.pt", _c(s)),
            lambda r, s: (r / "latest_checkpointed_iteration.txt").write_text(str(s)),
        ],
        _megatron,
    ),
    "torch-dcp": Wild(
        [
            lambda r, s: raw(r / f"step-{s}/__0_0.distcp", _c(s)),
            lambda r, s: raw(r / f"step-{s}/__1_0.distcp", _c(s)),
            lambda r, s: raw(r / f"step-{s}/.metadata", b"m"),
        ],
        _last_of("step-*/__1_0.distcp"),
        half=(0, 1),
    ),
    "torch-dcp-of-model-and-optimizer": Wild(
        [
            lambda r, s: raw(r / f"step-{s}/model/__0_0.distcp", _c(s)),
            lambda r, s: raw(r / f"step-{s}/model/.metadata", b"m"),
            lambda r, s: raw(r / f"step-{s}/optim/__0_0.distcp", _c(s)),
            lambda r, s: raw(r / f"step-{s}/optim/.metadata", b"m"),
        ],
        _last_of("step-*/optim/__0_0.distcp"),
        half=(0, 2),
    ),
    "safetensors-in-parts": Wild(
        [
            lambda r, s: archive(r / f"step-{s}/optimizer.pt", _c(s)),
            lambda r, s: tensors(r / f"step-{s}/model-00001-of-00002.safetensors", _c(s)),
            lambda r, s: raw(
                r / f"step-{s}/model.safetensors.index.json",
                b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}',
            ),
            lambda r, s: torn_tensors(r / f"step-{s}/model-00002-of-00002.safetensors", _c(s)),
            lambda r, s: tensors(r / f"step-{s}/model-00002-of-00002.safetensors", _c(s)),
        ],
        _last_of("step-*/model-00002-of-00002.safetensors"),
        half=(2, 3),
    ),
    "safetensors-in-place": Wild(
        [
            lambda r, s: tensors(r / "model.safetensors", _c(s)),
            lambda r, s: archive(r / "optimizer.pt", _c(s)),
        ],
        lambda r: r / "model.safetensors",
        step=None,
    ),
    "timm": Wild(
        [lambda r, s: archive(r / "train/exp/tmp.pth.tar", _c(s)), _timm],
        lambda r: r / "train/exp/last.pth.tar",
        step=None,
        half=(0,),
    ),
    "lightning-last-by-a-whole-path": Wild(
        [
            lambda r, s: archive(r / f"logs/version_0/checkpoints/epoch=3-step={s}.ckpt", _c(s)),
            lambda r, s: _link(
                r / "logs/version_0/checkpoints/last.ckpt", f"{r}/logs/version_0/checkpoints/epoch=3-step={s}.ckpt"
            ),
        ],
        lambda r: r / "logs/version_0/checkpoints/last.ckpt",
    ),
    "lightning-sharded": Wild(
        [
            lambda r, s: raw(r / f"epoch=0-step={s}.ckpt/__0_0.distcp", _c(s)),
            lambda r, s: raw(r / f"epoch=0-step={s}.ckpt/.metadata", b"m"),
            lambda r, s: archive(r / f"epoch=0-step={s}.ckpt/meta.pt", _c(s)),
        ],
        _last_of("*.ckpt/__0_0.distcp"),
        half=(0,),
    ),
    "a-link-in-another-folder": Wild(
        [
            lambda r, s: archive(r / f"checkpoints/model-{s}.pt", _c(s)),
            lambda r, s: _link(r / "latest.pt", f"checkpoints/model-{s}.pt"),
        ],
        lambda r: r / "latest.pt",
        step=None,
    ),
    "ultralytics": Wild(
        [
            lambda r, s: archive(r / "runs/train/exp2/weights/last.pt", _c(s)),
            lambda r, s: archive(r / "runs/train/exp2/weights/best.pt", _c(s)),
        ],
        _last_of("**/last*.pt"),
        step=None,
    ),
    "torchvision": Wild(
        [
            lambda r, s: archive(r / f"model_{s}.pth", _c(s)),
            lambda r, s: archive(r / "checkpoint.pth", _c(s)),
        ],
        lambda r: r / "checkpoint.pth",
        step=None,
    ),
    "fairseq": Wild(
        [
            lambda r, s: archive(r / f"checkpoint_1_{s}.pt", _c(s)),
            lambda r, s: shutil.copyfile(r / f"checkpoint_1_{s}.pt", r / "checkpoint_last.pt"),
        ],
        lambda r: r / "checkpoint_last.pt",
        step=None,
    ),
    "composer": Wild(
        [
            lambda r, s: archive(r / f"ep0-ba{s}-rank0.pt", _c(s)),
            lambda r, s: _link(r / "latest-rank0.pt", f"ep0-ba{s}-rank0.pt"),
        ],
        lambda r: r / "latest-rank0.pt",
        step=None,
    ),
    "detectron2": Wild(
        [
            lambda r, s: archive(r / f"model_{s:07d}.pth", _c(s)),
            lambda r, s: (r / "last_checkpoint").write_text(f"model_{s:07d}.pth"),
        ],
        lambda r: r / (r / "last_checkpoint").read_text(),
    ),
    "orbax": Wild(
        [
            lambda r, s: raw(r / f"{s}.orbax-checkpoint-tmp-7/default/d/0", _c(s)),
            lambda r, s: raw(r / f"{s}.orbax-checkpoint-tmp-7/_CHECKPOINT_METADATA", b"{}"),
            _renamed,
        ],
        _last_of("*/default/d/0"),
        half=(0, 1),
    ),
    "keras": Wild(
        [lambda r, s: torn(r / "model.keras", _c(s)), lambda r, s: archive(r / "model.keras", _c(s))],
        lambda r: r / "model.keras",
        step=None,
        half=(0,),
    ),
    "tensorflow": Wild(
        [
            lambda r, s: raw(r / f"tf/ckpt-{s}.data-00000-of-00001", _c(s)),
            lambda r, s: raw(r / f"tf/ckpt-{s}.index", b"i"),
            lambda r, s: raw(r / "tf/checkpoint", b'model_checkpoint_path: "ckpt-%d"' % s),
        ],
        _last_of("tf/*.data-*"),
        step=None,
        pattern="tf",
    ),
    "before-zip": Wild(
        [
            lambda r, s: raw(r / "ckpt.pt", BEFORE_ZIP),
            lambda r, s: raw(r / "ckpt.pt", BEFORE_ZIP + _c(s)),
        ],
        lambda r: r / "ckpt.pt",
        step=None,
    ),
    "strange-names": Wild(
        [
            lambda r, s: (
                archive(r / f"-é\n {os.fsdecode(bytes([255]))}/--step={s}.ckpt", _c(s)),
                (r / f"-é\n {os.fsdecode(bytes([255]))}/--step={s}.ckpt").chmod(0o444),
            )
        ],
        _last_of("*/--step=*.ckpt"),
    ),
}
