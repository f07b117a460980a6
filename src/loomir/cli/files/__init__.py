"""The user's file: its programs, their names and sizes, and what it defines for commands."""
