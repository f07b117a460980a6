"""Random programs of loops: generated, changed, ill-typed, and the engines that run them."""
