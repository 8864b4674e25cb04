"""Build the container images, as OCI archives. `build.build` is for programs, `python -m scripts.images` for people.

`contents` fills a folder with the files of an image, `builder` makes an image of it, `archive` reads and writes OCI
archives. Nothing runs inside an image while it is built.
"""
