"""The functions of ``T``: blocks, loops, buffers and expressions."""
