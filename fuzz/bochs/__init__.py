"""A CPU in software: runs code of this process for x86 machines that this one is not."""
