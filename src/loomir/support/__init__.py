"""What every layer shares: dtypes, source positions, diagnostics, configuration."""
