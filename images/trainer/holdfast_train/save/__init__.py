"""From the training loop to a commit: capture into an arena, upload and commit in a writer process.

Belongs here: the trainer's side and the writer's side of a save, and when a save is due.
Does not belong here: reading checkpoints (restore), why a run ends (run).
Layers: imports commitlog, format and storage; never restore.
"""
