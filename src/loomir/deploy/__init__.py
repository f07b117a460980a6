"""Executables that outlive the process: saved to a file, or exported as libraries for C."""
