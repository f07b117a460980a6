"""An emulated CPU, which runs code of this process for x86 machines other than this one."""
