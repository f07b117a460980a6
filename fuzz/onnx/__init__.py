"""Fuzzing of the ONNX importer with corrupted models."""
