"""What the run-time library asks of the operating system, one module for each kind of system."""
