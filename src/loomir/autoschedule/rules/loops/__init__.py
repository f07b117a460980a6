"""Loops that cannot be lifted: parallelise or vectorise them if that is proved to be legal."""
