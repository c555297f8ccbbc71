"""Tests of log records: skipped."""

from .common_utils import TestCase as LoggingTestCase  # noqa: F401
from .decorators import skipped

make_logging_test = skipped("reads PyTorch's log records")
