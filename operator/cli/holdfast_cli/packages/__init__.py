"""`holdfast package`: a job that makes a package of another job's model, and how it is waited for and fetched.

Belongs here: the manifest of that job, waiting for it, and reading the package from the storage.
Does not belong here: how a package is made and tested (holdfast_model.package), for which torch is needed.
"""
