"""The origin of NaN, and digits lost."""
