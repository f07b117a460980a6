"""The language server, which shows editors mistakes and meanings in programs as they are typed.

``server`` speaks the protocol, by pygls; the other modules do not depend on it.
"""
