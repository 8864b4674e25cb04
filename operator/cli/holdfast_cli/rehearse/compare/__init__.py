"""What an interruption changed: the files and figures of three runs are compared, and one verdict is given.

Files are known by their content, never by their name. No content is executed: a pickle is read by a machine that only
builds inert nodes. All reads, depths and numbers of values are limited, because the files come from a program that
nobody here knows. What the two undisturbed runs do not agree on is the program's own noise.
"""
