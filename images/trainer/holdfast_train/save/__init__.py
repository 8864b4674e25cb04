"""Saving: when a save is due, the copy of the state into an arena, its upload and its commit by a writer process.

Belongs here: what the trainer and the writer process do for a save, and the schedule of saves.
Does not belong here: reading checkpoints (restore), the end of a run (run).
"""
