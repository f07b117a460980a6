"""Debug compilations: compare programs as text and by values, and find a wrong pass."""
