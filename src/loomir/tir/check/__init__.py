"""The rules of well-formed programs that no constructor can see."""
