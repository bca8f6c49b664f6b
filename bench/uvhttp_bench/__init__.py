"""The performance testing standard of uvhttp as a program."""
