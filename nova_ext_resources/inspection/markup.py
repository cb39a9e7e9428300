# SPDX-License-Identifier: Apache-2.0

"""Text within XML and HTML."""

import re
from xml.sax import saxutils

#: Characters that no XML may have.
_FORBIDDEN = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]')


def escape(value: str) -> str:
    """Return what shows a text, wherever it comes from, as it is."""
    return saxutils.escape(_FORBIDDEN.sub('?', value))
