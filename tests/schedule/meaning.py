"""Whether a scheduled program still means what it meant."""

from fuzz.schedule.meaning import arguments_of, same_meaning

__all__ = ["arguments_of", "same_meaning"]
