"""ONNX, the format of onnxruntime."""
