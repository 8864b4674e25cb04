"""`holdfast run`: from a folder with a program to a training.

`wanted` is what a person may say of a run, `sources` reads it from files, the command line and the profile, `manifest`
makes the TrainingJob of it, `submit` gives it to the cluster, and `training` does all of it: for the command, and for
the Python client. What of the folder is sent, and how, is in `holdfast_cli.code`.
"""
