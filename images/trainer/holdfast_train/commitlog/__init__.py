"""The log in the storage: it decides who may write, what is committed and what is kept.

Belongs here: records and their rules, the fence, retention, quarantine, orphans, Checkpoints.
Does not belong here: how state gets into the storage (save) or back into objects (restore).
"""
