"""Small helpers behind the book's chapters: one module a topic, pure functions of arrays.

Importing this package imports nothing heavy: neither torch nor matplotlib is loaded until a
module that needs it is. So ``from book_utils import attention`` is what a chapter writes.
"""

__version__ = "0.1.0"
