"""Functions of ``T``: blocks, loops, buffers and expressions."""
