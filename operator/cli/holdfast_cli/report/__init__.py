"""`holdfast report`: what is known of a training, or of several, in one HTML file.

Belongs here: reading a job and its storage for a page, and writing the file.
Does not belong here: how a page looks (pages).
"""
