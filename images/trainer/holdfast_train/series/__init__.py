"""The history of a training: rows of measured values, in segments beside the checkpoints.

A segment is one object, `series/{first step}-a{attempt}-{nonce}.jsonl.gz`. It is created once and never changed or
deleted. `feed` is beside the training loop, `recorder` writes segments in the writer process, and `history` reads them,
also on a machine without torch.

Nothing in here may import torch, or decide what a checkpoint is.
"""
