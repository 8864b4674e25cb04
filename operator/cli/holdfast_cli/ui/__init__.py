"""`holdfast ui`: live pages in a browser, from a server on this machine, with the rights of its user.

Belongs here: the server and what protects it, the lists that stay current, the stream of changes, the actions.
Does not belong here: how a page looks (pages), how a request to a job is made (jobs.asked).
"""
