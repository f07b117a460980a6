"""Random loop programs: generated, transformed, ill-typed, and the engines that run them."""
