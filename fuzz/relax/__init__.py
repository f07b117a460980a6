"""Random graphs: generated, changed, ill-formed, and the engines that run them."""
