"""The history of a training: rows of measured values, in segments beside the checkpoints.

A segment is one object, `series/{first step}-a{attempt}-{nonce}.jsonl.gz`. It is created once and never changed or
deleted. `record` writes segments, beside a training; `history` reads them, also on a machine without torch.

Nothing in here may import torch, or decide what a checkpoint is.
"""
