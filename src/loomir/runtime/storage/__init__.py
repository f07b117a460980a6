"""What is kept in files: executables, compiled objects, and the seal that they carry."""
