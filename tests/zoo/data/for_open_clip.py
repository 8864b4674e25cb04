"""Make a small CLIP, and images with captions in a table: for_open_clip.py MODEL."""

import json
import sys
from pathlib import Path

import torch
from open_clip.model import CLIP
from safetensors.torch import save_file

folder = Path(sys.argv[1])
folder.mkdir()
config = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "layers": 6, "width": 256, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}
torch.manual_seed(1)
save_file(CLIP(**config).state_dict(), folder / "open_clip_model.safetensors")
preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
(folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}))
images = sorted(Path("images/images/train").glob("*.png"), key=lambda path: int(path.stem)) * 4
rows = [f"{path},a {('red', 'green')[int(path.stem) % 2]} box" for path in images]
Path("train.csv").write_text("\n".join(["filepath,title", *rows]))
