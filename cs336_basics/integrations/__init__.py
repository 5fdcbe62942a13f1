"""Public names for other engines: Ray and datatrove. No other folder imports them."""
