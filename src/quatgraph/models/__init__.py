"""Models, a folder for each task and a file for each method.

A file holds the module, its options, and what training has to know of it. To add a method, write
such a file and name it in ``MODELS`` of the task's folder.
"""
