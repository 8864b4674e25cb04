"""What makes a resume exact to the sample: the order of data and the state of random generators.

Belongs here: samplers, permutations, generators, small values of a training loop.
Does not belong here: storage, checkpoints, processes.
Layers: imports nothing of holdfast_train but the errors and ranks.
"""
