"""The Python packages that a folder of a program names: locked and unpacked on this machine for the image, and sent.

Belongs here: the files in which dependencies are written, uv, and what is taken from the image instead.
Does not belong here: the folder of the program (`holdfast_cli.code`); the storage (holdfast_train.code).
"""
