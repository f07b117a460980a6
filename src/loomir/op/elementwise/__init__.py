"""Element-wise operators of one, two or three operands."""
