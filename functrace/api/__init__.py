"""The public functions.

Layer: 8.
"""

import os as _os

from functrace.distribution import check_directory as _check_directory

# Here, not in functrace/__init__.py: that is the file that another distribution would have
# replaced.
_check_directory(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))
