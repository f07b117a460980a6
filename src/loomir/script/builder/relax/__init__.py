"""Functions of ``R``: calls, constants, frames and structural information."""
