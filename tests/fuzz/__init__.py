"""Random programs against NumPy, differences and JAX: see programs.py."""
