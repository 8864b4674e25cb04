"""Who may write, what was committed, what is kept: the log in the storage that orders everything.

Belongs here: records and their rules, the fence, retention, quarantine, orphans, Checkpoints.
Does not belong here: how state gets into the storage (save) or back into objects (restore).
Layers: imports format and storage.
"""
