"""Training libraries of other people through `Run`: each has a module here that is called like the library.

Belongs here: what makes the loop of a library stop between two steps, and resume at the exact batch.
Does not belong here: how a save works. A library is imported only by the module of its name; none is a dependency.
"""
