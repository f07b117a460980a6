"""The language server: what editors show of programs while they are written.

``server`` speaks the protocol, by pygls; all else here knows nothing of it.
"""
