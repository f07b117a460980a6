"""Where the time of a call goes, kernel by kernel, beside what the machine could do."""
