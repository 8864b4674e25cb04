"""Where bytes live: one interface over S3 and folders, and the wrapper that tries again.

Belongs here: reading, writing, listing and deleting keys, checksums of chunks, rate limits.
Does not belong here: anything that knows what a checkpoint, a manifest or the commit log is.
Layers: imports the errors, the environment and nothing else of holdfast_train.
"""
