"""What type checkers are told of programs, whose functions are parsed and never run.

``A: T.Buffer((16, "n"), "float32")`` is a call in an annotation, ``cls`` a module, and a loop's
variable an expression: Python's typing rules have no place for them. To a checker the decorators
are therefore ``typing.no_type_check``, under which it reads neither the annotations nor the body.
mypy knows that function by its name in ``typing``; pyright knows it in any stub that is called
``typing_extensions``, where it may say what a decorated function is: a ``PrimFunc``, not a function
of Python's. Each folder here holds such a stub. ``loomir.checkers.mypy`` is a plugin.
"""
