"""holdfast-run: PID 1 of a training container.

It starts the user's command. It passes the first SIGTERM on as "save and leave", and a second one as "leave now". It
reaps orphans, and writes one JSON line to the termination log that says why the program ended. Exit codes alone cannot
say that: torchrun always ends with 1.

The init container copies these modules and `holdfast_protocol`, as one file (`launcher_file`), into images that do not
contain Holdfast. So they use the standard library only and run on Python 3.9 and later (annotations are never
evaluated, and there is no `match`). They import each other relatively, because the folder has another name there.
"""
