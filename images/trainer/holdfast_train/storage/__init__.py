"""Where bytes are stored: one interface to S3 and folders, and a wrapper that repeats failed calls.

Belongs here: reading, writing, listing and deleting keys, checksums of chunks, rate limits.
Does not belong here: anything that knows what a checkpoint, a manifest or the commit log is.
"""
