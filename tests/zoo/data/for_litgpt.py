"""Make a small model for LitGPT, and bring texts into the form that it trains with: for_litgpt.py MODEL TEXTS."""

import json
import sys
from pathlib import Path

import torch
from litgpt import GPT, Config
from litgpt.data import TextFiles
from litgpt.tokenizer import Tokenizer as LitTokenizer
from litgpt.utils import save_config
from tokenizers import Tokenizer, models, pre_tokenizers


def main(folder: Path, texts: Path) -> None:
    """Make both."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"{a}{b}" for a in ("ba", "ki", "lo", "mu") for b in ("d", "f", "k", "l")]
    vocabulary = {word: number for number, word in enumerate(["<s>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "LlamaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 1}))
    sizes = {"block_size": 128, "n_layer": 4, "n_head": 4, "n_embd": 256, "vocab_size": 256, "padded_vocab_size": 256}
    config = Config(name="tiny", **sizes)
    torch.manual_seed(1)
    torch.save(GPT(config).state_dict(), folder / "lit_model.pth")
    save_config(config, folder)
    asked = [{"instruction": words[row % 16], "input": "", "output": " ".join(words * 4)} for row in range(800)]
    Path("asked.json").write_text(json.dumps(asked))
    data = TextFiles(texts, num_workers=1)
    data.connect(LitTokenizer(folder), batch_size=8, max_seq_length=96)
    data.prepare_data()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
