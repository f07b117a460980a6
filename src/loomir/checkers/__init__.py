"""Support for type checkers, which cannot analyse programs that are parsed and never run.

``A: T.Buffer((16, "n"), "float32")`` is a call in an annotation, ``cls`` a module, and a loop's
variable an expression: Python's typing rules do not cover them. To a checker, the decorators are
therefore ``typing.no_type_check``, which makes it skip annotations and bodies. mypy knows that
function by its name in ``typing``. pyright knows it in any stub called ``typing_extensions``, which
may also declare what a decorated function is: a ``PrimFunc``, not a Python function. Each folder
here contains such a stub. ``loomir.checkers.mypy`` is a plugin.
"""
