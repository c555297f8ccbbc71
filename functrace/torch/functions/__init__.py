"""The operations of ``torch``, a row each: name, derivative, saved fields, signature.

Layer: 9.
"""
