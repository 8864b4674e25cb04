"""The folder that `holdfast run` sends: which files of it, and how they get into the storage.

Belongs here: ignore files, what is never or not usually sent, secrets, the upload with its bar.
Does not belong here: the archive and its hash (holdfast_train.code), jobs.
"""
