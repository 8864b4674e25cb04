"""Programs of libraries for text that are older than language models."""

import json
from pathlib import Path

from tests.zoo.program import Program

SPACY = (
    "--paths.raw_text raw.jsonl --pretraining.max_epochs 8 --pretraining.n_save_epoch 1 --pretraining.batcher.size 600 "
    "--training.seed 1"
)


def spacy(work: Path) -> None:
    """Texts."""
    words = [f"{a}{b}" for a in ("ba", "ki", "lo", "mu") for b in ("d", "f", "k", "l")]
    lines = (" ".join(words[(row * 3 + at * 7) % 16] for at in range(30)) for row in range(1000))
    (work / "raw.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))


PROGRAMS = (
    Program(
        name="spacy-pretrain",
        group="torch",
        package="spacy",
        command=(
            'if [ -n "$HOLDFAST_NEWEST_CHECKPOINT" ]; then last="${HOLDFAST_NEWEST_CHECKPOINT##*/model}"; '
            'set -- --resume-path "$newest" --epoch-resume $((${last%.bin} + 1)); fi; '
            f'exec spacy pretrain config.cfg $folder --skip-last {SPACY} "$@"'
        ),
        prepare=spacy,
        prepare_command="spacy init config config.cfg --lang en --pipeline ner --pretraining",
        saves=("model*.bin",),
        takes_newest=True,
        resumed="starting at epoch [1-9]",
        steps=8,
        promise="resumes",
        why="A save has the weights alone: the optimizer begins again (documentation of `spacy pretrain`).",
        cause="a save of `spacy pretrain` has the weights alone, so the optimizer begins again",
    ),
)
