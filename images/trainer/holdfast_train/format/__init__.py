"""What is stored, without I/O: the tree of a state, the manifest, names and keys, selections.

Belongs here: encoding and decoding, how tensors are cut into shards, what a program revision is.
Does not belong here: reading or writing a storage, the commit log, processes.
Layers: imports storage (for checksums) and what stands at the root.
"""
