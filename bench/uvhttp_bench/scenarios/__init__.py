"""The scenarios of the contract, as data."""
