"""`holdfast run`: from a folder with a program to a training.

`wanted` is what a person may say of a run, `sources` reads it from files, the command line and the profile, `manifest`
makes the TrainingJob of it, `again` decides what happens to a job of the same name, and `submit` does it. What of the
folder is sent, and how, is in `holdfast_cli.code`.
"""
