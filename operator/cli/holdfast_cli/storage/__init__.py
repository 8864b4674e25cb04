"""How a command reaches the checkpoints of a job: a storage address, its keys, and options that several commands share.

Belongs here: finding and opening a storage, its errors as CliError.
Does not belong here: what is in the storage, and how that is shown.
"""
