"""Converters of factors of matrices, and of equations that are solved by them."""

from loomir.frontend.torch.converters.matrices import equations, factors, spectra

__all__ = ["equations", "factors", "spectra"]
