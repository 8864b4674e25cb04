"""Data and a tokenizer for torchtune, which takes them by their path; run as a program: make the first weights."""

from typing import Any

import torch
from torch.utils.data import Dataset


class Padding:
    """All that a recipe asks of a tokenizer whose data are numbers already."""

    pad_id = 0


def tokenizer() -> Padding:
    """The tokenizer."""
    return Padding()


class Words(Dataset):
    """Sequences of which each number follows from the one before."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        row = [(index * 7 + place * (1 + index % 5)) % 250 + 1 for place in range(96)]
        return {"tokens": row, "labels": row}


def words(tokenizer: Any) -> Words:
    """The data."""
    return Words()


if __name__ == "__main__":
    from torchtune.models.llama3 import llama3

    torch.manual_seed(1)
    sizes = {"num_layers": 4, "num_heads": 4, "num_kv_heads": 4, "embed_dim": 256, "intermediate_dim": 512}
    torch.save(llama3(vocab_size=256, max_seq_len=128, **sizes).state_dict(), "model/model.pt")
