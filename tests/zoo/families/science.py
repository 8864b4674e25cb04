"""Programs of sciences."""

from tests.zoo.program import Program

MACE = (
    "--name=run --train_file=train.xyz --valid_file=valid.xyz --E0s=isolated --energy_key=REF_energy "
    "--forces_key=REF_forces --model=MACE --num_channels=32 --max_L=0 --correlation=2 --r_max=5.0 --batch_size=10 "
    "--valid_batch_size=10 --max_num_epochs=8 --eval_interval=1 --device=cpu --default_dtype=float64 --seed=1 "
    "--work_dir=$folder --restart_latest --save_all_checkpoints --plot=False --num_workers=0"
)
PROGRAMS = (
    Program(
        name="mace",
        group="torch",
        package="mace-torch",
        command=f"exec mace_run_train {MACE}",
        prepare_command="python $data/molecules.py",
        saves=("checkpoints/*.pt",),
        resumed=r"(?s)Loading checkpoint: .*epoch-[1-9]\d*\.pt.*Started training",
        patterns=("Epoch {step}: head: Default, loss={loss},",),
        steps=8,
        promise="resumes",
        why="Its documentation says that `--restart_latest` goes on; the data are shuffled by an unsaved generator.",
        cause=(
            "`--restart_latest` loads the save with the newest name. If a crash has cut that, `run_train.py` catches "
            "the error, and begins at epoch 0 without a word"
        ),
    ),
)
