"""Schedules by rule: from what a kernel computes and what the machine has to loops, no search."""
