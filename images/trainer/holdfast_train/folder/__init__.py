"""Programs that know nothing of Holdfast: the folder into which they write is committed, and put back, as it was.

A process of its own, beside the program and without torch, looks at the folder (`looking`, `look`). When nothing says
that the program is in the middle of a save (`moment`, `formats`, `unfinished`), it commits all files of that moment
(`snapshot`, `commit`): an `index`, and chunks that are named by their content. Before the program starts, it puts the
newest good commit back (`beginning`, `put_back`). Names only say which save is the newest one (`newest`, `saves`).
`writer` is the process; the launcher starts it. The program is never stopped, and nothing here imports torch.
"""
