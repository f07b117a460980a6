"""Loomir: a tensor compiler that installs as pure Python and compiles through LLVM."""

__version__ = "0.1.0"
