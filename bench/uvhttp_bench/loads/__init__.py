"""One adapter per load tool."""
