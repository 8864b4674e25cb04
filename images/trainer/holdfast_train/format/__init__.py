"""The format of stored data, without I/O: the tree of a state, the manifest, names and keys, selections.

Belongs here: encoding and decoding, shards of tensors, facts about a program, what is equal on all ranks.
Does not belong here: reading or writing a storage, the commit log, processes.
"""
