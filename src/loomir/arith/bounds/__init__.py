"""What values an expression may take: intervals, symbolic intervals and residue classes."""
