"""Packages from the package index, unmodified: one file each, a table of rows."""
