"""``python -m loomir`` is the ``loomir`` command."""

from loomir.cli import app

app()
