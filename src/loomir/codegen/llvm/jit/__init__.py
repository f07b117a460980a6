"""From the text of a module to loaded machine code."""
