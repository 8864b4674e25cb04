"""Files become values by their place: each format has a reader, chosen by the first bytes of the content.

Nothing in a file is executed, and nothing here compares.
"""
