"""The only place that knows rich or matplotlib."""
