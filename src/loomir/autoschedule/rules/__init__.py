"""Schedules by rule: each recognises one form of stages and writes its loops."""
