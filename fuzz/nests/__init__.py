"""Random plain loops, as people write them."""
