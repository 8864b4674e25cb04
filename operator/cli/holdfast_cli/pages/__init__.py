"""Pages of HTML: pure functions from what is known of jobs to text. `report` writes them, `ui` serves them live.

Belongs here: templates, charts, tables and pictures as HTML and SVG, and the files that a page needs.
Does not belong here: anything that reads a cluster or a storage, or that listens.

Rules that every page keeps:
- HTML is in templates: `jobs_page.html` beside jobs_page.py, which gives plain values. No Python file has a tag.
- No `style` attribute and no inline script: a page that `ui` serves forbids both by its Content-Security-Policy.
  Colours and sizes are classes of page.css, or attributes of SVG.
- No address outside of the page: it can be read without a network.
"""
