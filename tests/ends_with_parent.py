"""For programs that tests start, to be imported by them: they end with the process that holds their standard input.

A test that hangs ends its process without a farewell, and what it had started would go on for ever.
"""

import os
import sys
import threading


def watch():
    sys.stdin.buffer.read()
    os._exit(1)


threading.Thread(target=watch, daemon=True).start()
