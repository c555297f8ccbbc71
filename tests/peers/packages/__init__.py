"""Packages from the package index, unmodified: tables of their functions, and the page that is made
of these.
"""
