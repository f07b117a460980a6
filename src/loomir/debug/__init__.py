"""Debug compilations: how programs differ, in text and in values, and which pass is wrong."""
