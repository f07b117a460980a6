"""Models of ONNX that are damaged on purpose."""
