"""Reports as one HTML file: it needs no network and no script, is light or dark as the reader's screen, and prints.

Belongs here: the frame of a page, its style, and templates of HTML and SVG, which escape every text.
Does not belong here: what a report says (census, evaluation); pages of jobs (the operator's command line, which uses
the frame, base.css and the pieces).

HTML is in templates: `x.html` beside x.py has macros, and `Template(__name__)` calls them with plain values. No
Python file contains a tag.
"""
