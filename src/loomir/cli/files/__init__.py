"""The user's file: its programs, their names and sizes, and its settings for commands."""
