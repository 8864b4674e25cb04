"""What makes a resume exact to the sample: the order of the samples and the state of random number generators.

Belongs here: samplers, permutations, generators, single values of a training loop.
Does not belong here: storage, checkpoints, processes.
"""
