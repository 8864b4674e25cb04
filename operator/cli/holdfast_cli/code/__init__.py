"""The folder of a program on this machine: which of its files are sent, what is said of that, and the upload.

The form of what is sent is in `holdfast_train.code`, which the pod reads.
"""
