"""The server beside a command (``beside``): python -m fedswe.live SOCKET DIRECTORY."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from fedswe.live.serve import serve

serve([Path(sys.argv[2])], socket.socket(fileno=int(sys.argv[1])), until_closed=sys.stdin.fileno())
