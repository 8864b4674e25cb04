"""Export of checkpoints to, and import from, safetensors, torch.distributed.checkpoint and torch.save.

Formats differ in the values that they can contain besides tensors. So an exported file has a description of the state,
a tree as in manifests: an import of the file restores every number, key and tuple.

Belongs here: the command holdfast-train and the other formats.
Does not belong here: the format of Holdfast's own checkpoints (format), restoring a run (restore).
"""
