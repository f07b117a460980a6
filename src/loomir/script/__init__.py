"""TVMScript: programs as text, in Python's syntax.

``from loomir.script import ir as I, tir as T`` gives the decorators and the names that programs
use; ``from_source`` reads a program from a string. Importing this package makes ``str(node)`` print
programs.
"""

from loomir.script import ir, printer, tir
from loomir.script.builder.frame import IRBuilder
from loomir.script.parser.entry import from_source, parse
from loomir.script.parser.whole_file import parse_file

tirx = tir
"""The other name of ``tir``."""

__all__ = ["IRBuilder", "from_source", "ir", "parse", "parse_file", "printer", "tir", "tirx"]
