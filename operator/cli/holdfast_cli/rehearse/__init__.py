"""`holdfast rehearse`: a program runs undisturbed and interrupted, and the two are compared.

It knows a program by what anybody can see: its exit code, the files in its folder, and the steps and figures that it
reports. No module here knows a framework.
"""
