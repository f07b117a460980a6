"""Random programs that hold engines to the interpreter; a tool of the developers."""
