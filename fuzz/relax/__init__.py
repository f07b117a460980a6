"""Random graphs: generated, transformed, ill-formed, and the engines that run them."""
