"""One adapter per server."""
