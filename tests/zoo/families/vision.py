"""Programs that learn to see."""

from tests.zoo.program import DRIVERS, Program

YOLO = (
    "data=images/data.yaml epochs=8 batch=16 imgsz=224 workers=0 device=cpu seed=1 deterministic=True "
    "project=$folder name=run exist_ok=True plots=False amp=False val=False"
)
CLIP = (
    "--model local-dir:model --train-data train.csv --dataset-type csv --csv-separator , --csv-img-key filepath "
    "--csv-caption-key title --batch-size 16 --epochs 8 --workers 0 --precision fp32 --device cpu --seed 1 --warmup 2 "
    "--lr 1e-3 --log-every-n-steps 1 --logs $folder --name run --resume latest"
)

PROGRAMS = (
    Program(
        name="ultralytics-detect",
        group="torch",
        package="ultralytics",
        command=(
            'if [ -n "$HOLDFAST_NEWEST_CHECKPOINT" ]; then exec yolo train resume model="$newest"; fi; '
            f"exec yolo detect train model=yolov8n.yaml pretrained=False {YOLO}"
        ),
        prepare_command="python $data/images.py images",
        saves=("run/weights/last.pt",),
        takes_newest=True,
        resumed="Resuming training .*from epoch [2-9]",
        patterns=("{epoch_from_1}/{epochs}*: *%* {epoch_step}/{epoch_steps}",),
        steps=24,
        promise="resumes",
        why="It keeps weights, their average and the optimizer as halves, and no random generators for its images.",
    ),
    Program(
        name="open-clip",
        group="torch",
        package="open-clip-torch",
        command=f"exec python -m open_clip_train.main {CLIP}",
        prepare_command="python $data/images.py images && python $data/for_open_clip.py model",
        saves=("run/checkpoints/epoch_*.pt",),
        resumed="=> resuming checkpoint",
        patterns=("Train Epoch: {epoch} [ {epoch_step}/{epoch_steps} (*Contrastive_loss: {loss} (",),
        steps=1536,
        promise="resumes",
        why="It keeps weights, optimizer and epoch; the images are drawn by a generator that begins again.",
        cause=(
            "the images are drawn by a generator that begins again. Another rehearsal failed after a crash in a save: "
            "`--resume latest` takes the save with the newest name, also one that is cut"
        ),
    ),
    Program(
        name="nnunet",
        group="torch",
        package="nnunetv2",
        command="exec nnUNetv2_train 1 2d all -tr ShortTrainer -device cpu --c",
        prepare_command=(
            "python $data/segments.py raw && "
            "nnUNetv2_plan_and_preprocess -d 1 -c 2d -np 1 -npfp 1 --verify_dataset_integrity"
        ),
        environment={
            "nnUNet_raw": "raw",
            "nnUNet_preprocessed": "preprocessed",
            "nnUNet_results": "out",
            "nnUNet_extTrainer": str(DRIVERS / "nnunet_trainers"),
            "nnUNet_compile": "false",
            "nnUNet_n_proc_DA": "1",
        },
        saves=("*/*/fold_all/checkpoint_latest.pth",),
        resumed=r"(?s)\A(?!.*Epoch 0).*Epoch [1-9]",
        patterns=("train_loss {loss}", "Epoch {step} "),
        steps=8,
        promise="resumes",
        why="It keeps weights, optimizer and epoch; images are drawn and augmented by generators without a seed.",
    ),
)
