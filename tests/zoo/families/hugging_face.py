"""Programs with the Trainer of transformers, and others that rest on Hugging Face's libraries."""

from tests.zoo.program import Program

TRAINER = (
    "The Trainer restores weights, optimizer, schedule, generators and the place in the data "
    "(documentation of Trainer, Checkpoints); tests/e2e/test_programs_as_they_are.py holds it to that."
)
COUNTS = (
    "`SFTTrainer` counts `num_tokens` from 0 at each start (`_total_train_tokens` is in no save). Losses and weights "
    "are equal"
)
MODEL = "python $data/language_model.py model data"
LOSS = "'loss': '{loss}'"
OPTIONS = (
    "--output_dir $folder --max_steps 64 --save_steps 8 --save_total_limit 3 --logging_steps 1 --use_cpu true "
    "--per_device_train_batch_size 16 --seed 1 --bf16 false --report_to none --gradient_checkpointing false "
    '${newest:+--resume_from_checkpoint "$newest"}'
)

RESUMED = r"(?s)\A(?!.*\| 1/64 \[).*'loss'"  # the bar does not begin at the first step

PROGRAMS = (
    Program(
        name="accelerate-trainer",
        group="torch",
        package="transformers",
        command="accelerate launch --cpu --num_processes 1 $drivers/hugging_face_trainer.py $folder",
        saves=("checkpoint-*",),
        resumed=r"resumes from .*checkpoint-\d+",
        final="final/*.safetensors",
        patterns=(LOSS,),
        steps=64,
        pause=0.2,
        promise="exact",
        why=TRAINER,
    ),
    Program(
        name="accelerate-trainer-jit",
        group="torch",
        package="transformers",
        command="accelerate launch --cpu --num_processes 1 $drivers/hugging_face_trainer.py $folder --jit",
        saves=("checkpoint-*",),
        resumed=r"resumes from .*checkpoint-\d+",
        final="final/*.safetensors",
        patterns=(LOSS,),
        steps=64,
        pause=0.2,
        promise="resumes",
        why=TRAINER,
        saves_on_sigterm=True,
        cause=(
            "`enable_jit_checkpoint` saves in the middle of a step, when dropout has drawn its random numbers already: "
            "the step that is trained again has others"
        ),
    ),
    Program(
        name="torchrun-trainer",
        group="torch",
        package="transformers",
        command="exec torchrun --standalone --nproc-per-node 2 $drivers/hugging_face_trainer.py $folder",
        saves=("checkpoint-*",),
        resumed=r"resumes from .*checkpoint-\d+",
        final="final/*.safetensors",
        patterns=(LOSS,),
        steps=64,
        pause=0.2,
        promise="exact",
        why=TRAINER,
        nodes=(1, 2),
    ),
    Program(
        name="trl-sft",
        group="torch",
        package="trl",
        command=f"exec trl sft --model_name_or_path model --dataset_name data/sft {OPTIONS}",
        prepare_command=f"{MODEL} && mkdir data/sft && mv data/train.jsonl data/sft",
        saves=("checkpoint-*",),
        takes_newest=True,
        resumed=RESUMED,
        final="model.safetensors",
        patterns=(LOSS,),
        steps=64,
        promise="resumes",
        why=TRAINER,
        cause=COUNTS,
    ),
    Program(
        name="trl-sft-peft",
        group="torch",
        package="trl",
        command=f"exec trl sft --model_name_or_path model --dataset_name data/sft --use_peft --lora_r 8 {OPTIONS}",
        prepare_command=f"{MODEL} && mkdir data/sft && mv data/train.jsonl data/sft",
        saves=("checkpoint-*",),
        takes_newest=True,
        resumed=RESUMED,
        final="adapter_model.safetensors",
        patterns=(LOSS,),
        steps=64,
        promise="resumes",
        why=TRAINER,
        cause=COUNTS,
    ),
)
