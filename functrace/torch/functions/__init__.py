"""The operations of ``torch``, one row each: name, derivative, saved fields, signature.

Layer: 9.
"""
