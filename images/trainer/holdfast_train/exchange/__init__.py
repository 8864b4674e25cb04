"""Checkpoints out of Holdfast and into it: safetensors, torch.distributed.checkpoint, torch.save.

Formats differ in what they can hold besides tensors. So what is exported carries a description of the state, a tree as
manifests have it: an import of it gives back every number, key and tuple as it was.
"""
