"""How much memory of an accelerator a training needs, computed without an accelerator.

A step of the user's program runs twice with tensors that have shapes and no memory. What they would occupy is added
up, and the peak is told by what it consists of.

Belongs here: the tensors without memory, the steps that are run with them, and what is said about the result.
Does not belong here: what is measured while a job trains (accelerator_memory, progress).
"""
