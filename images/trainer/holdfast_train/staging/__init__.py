"""Data near the node: the objects of trainer.data are copied into folders of the pod before the program starts.

`process` is a process of its own, which the launcher starts and waits for; nothing here imports torch. `request` reads
what is wanted, `folder` writes files that are whole or not there, also beside another pod, `copy` decides which objects
are missing and fetches them, and `report` tells the operator how far it is.
"""
