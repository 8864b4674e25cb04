"""Make a small language model, its tokenizer and data from nothing: language_model.py MODEL DATA."""

import json
import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

model, data = map(Path, sys.argv[1:3])
choose = random.Random(1)
words = [f"{a}{b}" for a in ("ba", "ki", "lo", "mu", "ne", "po", "ra", "su") for b in ("d", "f", "k", "l", "m", "n")]
vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.decoder = decoders.WordPiece()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
fast.chat_template = "{% for m in messages %}{{ m['content'] }} {{ eos_token }} {% endfor %}"
fast.save_pretrained(model)
torch.manual_seed(1)
sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
config = LlamaConfig(
    vocab_size=64, num_key_value_heads=4, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    tie_word_embeddings=False, **sizes,
)  # fmt: skip
LlamaForCausalLM(config).save_pretrained(model)
data.mkdir(parents=True, exist_ok=True)


def sentence(length: int) -> str:
    """Words of which each follows from the one before, but for some."""
    at, found = choose.randrange(len(words)), []
    for _ in range(length):
        at = choose.randrange(len(words)) if choose.random() < 0.2 else (at * 7 + 3) % len(words)
        found.append(words[at])
    return " ".join(found)


with (data / "train.jsonl").open("w") as lines:
    for _ in range(2000):
        lines.write(json.dumps({"text": sentence(100)}) + "\n")
asked = [
    {"instruction": sentence(20), "input": "", "output": sentence(70), "prompt": sentence(20), "chosen": sentence(40),
     "rejected": sentence(40)} for _ in range(1000)
]  # fmt: skip
(data / "instructions.json").write_text(json.dumps(asked))
