"""From the API server to a key in the queue: watches, cache, work queue, resync.

Belongs here: what keeps the cache up to date and puts keys into the queue.
Does not belong here: decisions and writes. Only watch.py imports kopf.
"""
