"""The only place that knows rich, jinja2 or SVG."""
