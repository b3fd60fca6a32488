"""Models: one folder per task, one file per method.

A file holds the module, its options and the class attributes that training reads. To add a method,
write such a file and list it in ``MODELS`` in the task's ``__init__.py``.
"""
