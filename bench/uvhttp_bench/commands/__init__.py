"""One module per verb: add_parser() and run(); cli.py finds them here."""
