"""`holdfast checkpoints history`: the curves of a training, from the segments beside its checkpoints."""
