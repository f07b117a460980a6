"""From operators to kernels: legalisation, decomposition and specialisation."""
