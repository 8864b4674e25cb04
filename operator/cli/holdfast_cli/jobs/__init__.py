"""Commands about jobs (watch, describe, checkpoint, move), and how a job is drawn on a terminal.

Belongs here: what shows or asks something of one TrainingJob or of all.
Does not belong here: why, check and checkpoints, which have rooms of their own.
"""
