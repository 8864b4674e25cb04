"""The folder of a program: one archive, addressed by the hash of what is in it.

`tree` says what a folder contains and hashes it, `archive` packs and unpacks it, and `store` keeps it beside the
checkpoints of a job. `holdfast run` packs; the init container unpacks.
"""
