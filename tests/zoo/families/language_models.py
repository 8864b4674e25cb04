"""Programs that bring their own command for language models."""

import json
from pathlib import Path

from tests.zoo.program import DRIVERS, Program

TORCHTUNE = """\
output_dir: out
model:
  _component_: torchtune.models.llama3.llama3
  vocab_size: 256
  max_seq_len: 128
  num_layers: 4
  num_heads: 4
  num_kv_heads: 4
  embed_dim: 256
  intermediate_dim: 512
tokenizer: {_component_: torchtune_parts.tokenizer}
dataset: {_component_: torchtune_parts.words}
seed: 1
shuffle: true
checkpointer:
  _component_: torchtune.training.FullModelTorchTuneCheckpointer
  checkpoint_dir: model
  checkpoint_files: [model.pt]
  output_dir: ${output_dir}
  model_type: LLAMA3
resume_from_checkpoint: false
batch_size: 8
epochs: 8
optimizer: {_component_: torch.optim.AdamW, lr: 1.0e-3}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
max_steps_per_epoch: null
gradient_accumulation_steps: 1
optimizer_in_bwd: false
clip_grad_norm: null
compile: false
device: cpu
dtype: fp32
enable_activation_checkpointing: false
enable_activation_offloading: false
metric_logger: {_component_: torchtune.training.metric_logging.StdoutLogger}
log_every_n_steps: 1
log_peak_memory_stats: false
"""
FACTORY = """\
stage: sft
do_train: true
finetuning_type: lora
model_name_or_path: model
dataset_dir: data
dataset: tiny
template: default
cutoff_len: 128
output_dir: out
max_steps: 64
save_steps: 8
save_total_limit: 3
logging_steps: 1
per_device_train_batch_size: 16
learning_rate: 1.0e-3
lora_rank: 8
seed: 1
use_cpu: true
report_to: none
"""
LITGPT = (
    "--train.save_interval 8 --train.log_interval 1 --train.global_batch_size 32 --train.micro_batch_size 32 "
    "--train.lr_warmup_steps 2 --train.max_seq_length 96 --eval.interval 1000 --eval.max_iters 2 --devices 1 "
    "--precision 32-true --logger_name csv --seed 1 --out_dir $folder --resume auto"
)
TINY = (
    "--model_config.name=tiny --model_config.block_size=128 --model_config.n_layer=4 --model_config.n_head=4 "
    "--model_config.n_embd=256 --model_config.padded_vocab_size=256 --model_config.vocab_size=256"
)


def recipe(work: Path) -> None:
    """The configuration of torchtune, and a place for the first weights."""
    (work / "config.yaml").write_text(TORCHTUNE)
    (work / "model").mkdir()


def factory(work: Path) -> None:
    """The configuration of LLaMA-Factory, and what it wants to know of the data."""
    (work / "config.yaml").write_text(FACTORY)
    (work / "data").mkdir()
    (work / "data" / "dataset_info.json").write_text(json.dumps({"tiny": {"file_name": "instructions.json"}}))


def texts(work: Path) -> None:
    """Some text files."""
    (work / "texts").mkdir()
    words = [f"{a}{b}" for a in ("ba", "ki", "lo", "mu") for b in ("d", "f", "k", "l")]
    for file in range(4):
        lines = (" ".join(words[(file + line * 3 + at * 7) % 16] for at in range(50)) for line in range(120))
        (work / "texts" / f"{file}.txt").write_text("\n".join(lines))


PROGRAMS = (
    Program(
        name="torchtune-full",
        group="torchtune",
        package="torchtune",
        command=(
            # Its state has no name of the weights that belong to it: they are the newest that are not younger.
            "cd out && if [ -e recipe_state/recipe_state.pt ]; then "
            "set -- resume_from_checkpoint=True checkpointer.checkpoint_files=[$$(find epoch_* -name '*.bin' "
            "! -newer recipe_state/recipe_state.pt | sort -V | tail -n 1)]; fi; cd ..; "
            'exec tune run full_finetune_single_device --config config.yaml "$$@"'
        ),
        prepare=recipe,
        prepare_command="python $drivers/torchtune_parts.py",
        # Its logger prints a line in pieces. Unbuffered, those of the progress bar come between them.
        environment={"PYTHONPATH": str(DRIVERS), "PYTHONUNBUFFERED": ""},
        ignore=("torchtune_config.yaml",),
        saves=("recipe_state/recipe_state.pt",),
        resumed="Loading the recipe state using",
        final="epoch_7/*.bin",
        patterns=("Step {step} | loss:{loss} ",),
        steps=96,
        promise="exact",
        why="The recipe saves weights, optimizer, seed and the place in the data at each end of an epoch.",
    ),
    Program(
        name="llamafactory-lora",
        group="llamafactory",
        package="llamafactory",
        command='exec llamafactory-cli train config.yaml ${newest:+resume_from_checkpoint="$newest"}',
        prepare=factory,
        prepare_command="python $data/language_model.py model data",
        saves=("checkpoint-*",),
        takes_newest=True,
        resumed=r"(?s)\A(?!.*\| 1/64 \[).*'loss'",
        final="adapter_model.safetensors",
        patterns=("'loss': '{loss}'",),
        steps=64,
        promise="resumes",
        why="It trains with the Trainer of transformers.",
        cause=(
            "the Trainer of transformers adds up `train_loss`, the mean of all steps at the end, from the resume on "
            "(`_total_loss_scalar` is in no save). The losses by step and the weights are equal"
        ),
    ),
    Program(
        name="litgpt-pretrain",
        group="litgpt",
        package="litgpt",
        command=(
            f"exec litgpt pretrain tiny {TINY} --data TextFiles --data.train_data_path texts --data.num_workers 1 "
            f"--tokenizer_dir model --train.max_tokens 196608 {LITGPT}"
        ),
        prepare=texts,
        prepare_command="python $data/for_litgpt.py model texts",
        environment={"TORCHDYNAMO_DISABLE": "1"},
        saves=("step-*",),
        resumed="Resuming training from",
        final="final/lit_model.pth",
        patterns=("iter*step {step}*loss train: {loss},",),
        steps=64,
        promise="resumes",
        why="It saves weights, optimizer, counts, and the place in the data (litdata's StreamingDataLoader).",
        cause=(
            "a crash after `lit_model.pth` and before the other files of a save: LitGPT goes on from that save, and "
            "never writes the others. Losses and weights are equal"
        ),
    ),
    Program(
        name="litgpt-finetune",
        group="litgpt",
        package="litgpt",
        command=(
            "exec litgpt finetune_full model --data JSON --data.json_path asked.json --data.val_split_fraction 0.1 "
            f"--data.num_workers 0 --train.max_steps 64 {LITGPT}"
        ),
        prepare=texts,
        prepare_command="python $data/for_litgpt.py model texts",
        environment={"TORCHDYNAMO_DISABLE": "1"},
        saves=("step-*",),
        resumed="Resuming training from",
        final="final/lit_model.pth",
        patterns=("iter*step {step}*loss train: {loss},",),
        steps=64,
        promise="resumes",
        why="It saves weights, optimizer, schedule and counts, and goes through the data to its place.",
        cause=(
            "a crash after `lit_model.pth` and before the other files of a save: LitGPT goes on from that save, and "
            "never writes the others. Losses and weights are equal"
        ),
    ),
)
