"""Files: saved executables, the cache of compiled objects, and signatures."""
