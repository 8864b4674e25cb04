"""Checkpoints of programs that know nothing of Holdfast: what they write into a folder is committed from there.

A process of its own, beside the program and without torch, looks at the folder (`look`), recognises checkpoints that
are complete (`layouts`), and commits the newest one (`commit`). Before the program starts, it puts the newest good
checkpoint back (`put_back`). `writer` is the process; the launcher starts it. The program is never stopped, and nothing
here imports torch.
"""
