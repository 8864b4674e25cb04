"""`holdfast checkpoints`: what is stored for a job, whether it is intact, what differs, and what may be deleted.

It reads what `holdfast_train` writes, with that package's own code, and needs neither torch nor a cluster.
"""
