"""Pure functions of numbers."""
